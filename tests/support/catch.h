#pragma once

// Catch2 2 (Debian 12) and 3 (Debian 13) have other headers and names; tests include this one.
#if HEDDLE_CATCH2_MAJOR >= 3
#include <catch2/catch_all.hpp>
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
#else
#include <catch2/catch.hpp>
inline auto ContainsSubstring(const std::string& text) { return Catch::Matchers::Contains(text); }
#endif
