#if HEDDLE_CATCH2_MAJOR >= 3
#include <catch2/catch_session.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif

#ifdef HEDDLE_TEST_GPU
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "heddle/core/device.h"

namespace {

constexpr int kSkipped = 77;  // what ctest shows as skipped

/// 0 where the tests can run. Where HEDDLE_REQUIRE_CUDA is set, a missing device is a failure.
int missing_device(int argc, char** argv) {
  for (int i = 1; i < argc; ++i)
    if (std::string_view(argv[i]).starts_with("--list")) return 0;
  if (heddle::Device::all().size() > 1) return 0;
  std::string reason;
  try {
    (void)heddle::Device::parse("cuda:0");
  } catch (const heddle::Error& error) {
    reason = error.what();
  }
  const char* required = std::getenv("HEDDLE_REQUIRE_CUDA");
  const bool fails = required != nullptr && std::string_view(required) == "1";
  std::printf("%s: %s\n", fails ? "FAILED, HEDDLE_REQUIRE_CUDA is set" : "SKIPPED", reason.c_str());
  return fails ? 1 : kSkipped;
}

}  // namespace
#endif

int main(int argc, char** argv) {
#ifdef HEDDLE_TEST_GPU
  if (const int status = missing_device(argc, argv); status != 0) return status;
#endif
  return Catch::Session().run(argc, argv);
}
