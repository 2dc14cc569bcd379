#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <vector>

namespace heddle::apps {

/// "a,,b" at ',' is "a", "", "b"; the empty text is one empty part.
std::vector<std::string> split_text(const std::string& text, char at = ',');

/// The whole text as a number, or nothing.
template <class T>
std::optional<T> parse_whole(const std::string& text) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

/// Threads that a --workers flag may ask for.
inline constexpr int kMostWorkers = 256;

/// A --workers value: a whole number from 0 to kMostWorkers, kAutoWorkers for "auto", or nothing.
std::optional<int> parse_workers(const std::string& text);

}  // namespace heddle::apps
