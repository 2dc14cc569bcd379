#include "heddle/apps/support/text.h"

#include <algorithm>

#include "heddle/data/loader.h"

namespace heddle::apps {

std::vector<std::string> split_text(const std::string& text, char at) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(at, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::optional<int> parse_workers(const std::string& text) {
  if (text == "auto") return kAutoWorkers;
  const std::optional<int> workers = parse_whole<int>(text);
  if (workers && (*workers < 0 || *workers > kMostWorkers)) return std::nullopt;
  return workers;
}

}  // namespace heddle::apps
