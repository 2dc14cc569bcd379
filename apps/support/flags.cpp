#include "heddle/apps/support/flags.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cmath>
#include <limits>

#include "heddle/apps/support/text.h"
#include "heddle/core/error.h"

namespace heddle::apps {
namespace {

[[noreturn]] void refuse(const std::string& flag, const std::string& value,
                         const std::string& allowed) {
  throw UsageError(fmt::format("{}: \"{}\" is not allowed, expected {}", flag, value, allowed));
}

std::string key_of(const std::string& name) {
  std::string key = name.substr(name.find_first_not_of('-'));
  std::replace(key.begin(), key.end(), '-', '_');
  return key;
}

std::string as_text(const nlohmann::json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

}  // namespace

struct FlagSet::Flag {
  std::vector<std::string> names;
  std::string help;
  enum class Value { kNone, kOptional, kNeeded } value = Value::kNone;
  std::function<void(const std::string&)> set;  // throws UsageError
  std::function<nlohmann::json()> get;
  nlohmann::json initial;
  const std::string& name() const { return names.front(); }
};

std::string Interval::to_string() const {
  const bool above = low > -std::numeric_limits<double>::infinity();
  const bool below = high < std::numeric_limits<double>::infinity();
  std::string text = "a number";
  if (above) text += fmt::format(" {} {:g}", low_open ? "greater than" : "of at least", low);
  if (above && below) text += " and";
  if (below) text += fmt::format(" {} {:g}", high_open ? "less than" : "of at most", high);
  return text;
}

bool Interval::contains(double value) const {
  return std::isfinite(value) && (low_open ? value > low : value >= low) &&
         (high_open ? value < high : value <= high);
}

int edit_distance(std::string_view a, std::string_view b) {
  const size_t rows = a.size() + 1, columns = b.size() + 1;
  std::vector<int> cost(rows * columns);
  const auto at = [&](size_t i, size_t j) -> int& { return cost[i * columns + j]; };
  for (size_t i = 0; i < rows; ++i) at(i, 0) = static_cast<int>(i);
  for (size_t j = 0; j < columns; ++j) at(0, j) = static_cast<int>(j);
  for (size_t i = 1; i < rows; ++i) {
    for (size_t j = 1; j < columns; ++j) {
      const int replaced = at(i - 1, j - 1) + (a[i - 1] != b[j - 1]);
      at(i, j) = std::min({at(i - 1, j) + 1, at(i, j - 1) + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
    }
  }
  return cost.back();
}

FlagSet::FlagSet(std::string program, const std::string& description)
    : program_(std::move(program)), app_(std::make_unique<CLI::App>(description, program_)) {
  app_->get_formatter()->column_width(34);
}

FlagSet::~FlagSet() = default;

FlagSet::Flag& FlagSet::add(const std::string& names, const std::string& help) {
  flags_.push_back(std::make_unique<Flag>());
  Flag& flag = *flags_.back();
  flag.names = split_text(names);
  flag.help = help;
  return flag;
}

void FlagSet::toggle(const std::string& names, bool* target, const std::string& help) {
  Flag& flag = add(names, help);
  flag.set = [target](const std::string& text) { *target = text == "true"; };
  flag.get = [target] { return nlohmann::json(*target); };
  flag.initial = flag.get();
  app_->add_flag_callback(
          names, [target] { *target = true; }, help)
      ->group(group_);
}

void FlagSet::add_valued(const std::string& names, const std::string& value_name,
                         const std::string& help, std::function<void(const std::string&)> set,
                         std::function<nlohmann::json()> get) {
  Flag& flag = add(names, help);
  flag.value = Flag::Value::kNeeded;
  flag.set = std::move(set);
  flag.get = std::move(get);
  CLI::Option* option = app_->add_option_function<std::string>(
      names, [&flag](const std::string& text) { flag.set(text); }, help);
  flag.initial = flag.get();
  option->group(group_)->type_name(value_name)->default_str(as_text(flag.initial));
}

void FlagSet::integer(const std::string& names, int64_t* target, int64_t low, int64_t high,
                      const std::string& help) {
  const std::string name = split_text(names).front();
  add_valued(
      names, "N", help,
      [=](const std::string& text) {
        const std::optional<int64_t> value = parse_whole<int64_t>(text);
        if (!value || *value < low || *value > high)
          refuse(name, text, fmt::format("a whole number from {} to {}", low, high));
        *target = *value;
      },
      [target] { return nlohmann::json(*target); });
}

void FlagSet::number(const std::string& names, double* target, Interval range,
                     const std::string& help) {
  const std::string name = split_text(names).front();
  add_valued(
      names, "X", help,
      [=](const std::string& text) {
        const std::optional<double> value = parse_whole<double>(text);
        if (!value || !range.contains(*value)) refuse(name, text, range.to_string());
        *target = *value;
      },
      [target] { return nlohmann::json(*target); });
}

void FlagSet::choice(const std::string& names, std::string* target,
                     std::vector<std::string> choices, const std::string& help) {
  const std::string name = split_text(names).front();
  const std::string allowed = fmt::format("{}", fmt::join(choices, "|"));
  add_valued(
      names, allowed, help,
      [=, choices = std::move(choices)](const std::string& text) {
        if (std::find(choices.begin(), choices.end(), text) == choices.end())
          refuse(name, text, fmt::format("one of {}", fmt::join(choices, ", ")));
        *target = text;
      },
      [target] { return nlohmann::json(*target); });
}

void FlagSet::text(const std::string& names, std::string* target, const std::string& value_name,
                   const std::string& help, std::function<void(const std::string&)> check) {
  const std::string name = split_text(names).front();
  add_valued(
      names, value_name, help,
      [=, check = std::move(check)](const std::string& text) {
        if (text.empty()) refuse(name, text, value_name);
        if (check) {
          try {
            check(text);
          } catch (const UsageError& error) {
            throw UsageError(fmt::format("{}: {}", name, error.what()));
          }
        }
        *target = text;
      },
      [target] { return nlohmann::json(*target); });
}

void FlagSet::optional_text(const std::string& names, bool* given, std::string* target,
                            const std::string& value_name, const std::string& help) {
  Flag& flag = add(names, help);
  flag.value = Flag::Value::kOptional;
  flag.set = [=](const std::string& text) {
    *given = true;
    *target = text;
  };
  flag.get = [target] { return nlohmann::json(*target); };
  flag.initial = flag.get();
  app_->add_option_function<std::string>(
          names, [&flag](const std::string& text) { flag.set(text); }, help)
      ->expected(0, 1)
      ->group(group_)
      ->type_name("[" + value_name + "]");
}

const FlagSet::Flag* FlagSet::find(const std::string& spelling) const {
  for (const auto& flag : flags_)
    for (const std::string& name : flag->names)
      if (name == spelling) return flag.get();
  return nullptr;
}

std::string FlagSet::nearest(const std::string& spelling) const {
  std::string best;
  int best_distance = std::max(2, static_cast<int>(spelling.size()) / 3);  // more is no typo
  const auto consider = [&](const std::string& name) {
    const int distance = edit_distance(spelling, name);
    if (distance < best_distance || (distance == best_distance && best.empty())) {
      best = name;
      best_distance = distance;
    }
  };
  for (const auto& flag : flags_)
    for (const std::string& name : flag->names) consider(name);
  consider("--help");
  consider("--version");
  return best;
}

/// What CLI11 would take or word otherwise: unknown flags, repeated ones, missing values.
void FlagSet::check_tokens(const std::vector<std::string>& arguments) {
  given_.clear();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& token = arguments[i];
    const std::string spelling = token.substr(0, token.find('='));
    if (spelling == "--help" || spelling == "-h" || spelling == "--version") continue;
    if (!spelling.starts_with('-') || spelling == "-" || spelling == "--")
      throw UsageError(
          fmt::format("\"{}\" is no flag; all settings are given as --flag value "
                      "(see --help)",
                      token));
    const Flag* flag = find(spelling);
    if (flag == nullptr) {
      const std::string guess = nearest(spelling);
      throw UsageError(fmt::format("unknown flag {}{}; see --help", spelling,
                                   guess.empty() ? "" : fmt::format(", did you mean {}?", guess)));
    }
    if (!given_.insert(flag->name()).second)
      throw UsageError(fmt::format("{} is given twice, expected once", flag->name()));
    const bool has_equals = spelling.size() < token.size();
    if (flag->value == Flag::Value::kNone && has_equals)
      throw UsageError(fmt::format("{}: \"{}\" is not allowed, expected no value", flag->name(),
                                   token.substr(spelling.size() + 1)));
    if (flag->value == Flag::Value::kNone) continue;
    const bool follows = i + 1 < arguments.size() && !arguments[i + 1].starts_with("--");
    const bool has_value = has_equals ? spelling.size() + 1 < token.size() : follows;
    const bool is_empty = has_equals ? !has_value : follows && arguments[i + 1].empty();
    if (flag->value == Flag::Value::kOptional && is_empty)
      throw UsageError(
          fmt::format("{}: \"\" is not allowed, expected a value or none", flag->name()));
    if (flag->value == Flag::Value::kNeeded && !has_value)
      throw UsageError(fmt::format("{} needs a value ({})", flag->name(), flag->help));
    if (follows && !has_equals) ++i;
  }
}

ParseResult FlagSet::parse(const std::vector<std::string>& arguments, const std::string& version) {
  const auto has = [&](std::string_view name) {
    return std::find(arguments.begin(), arguments.end(), name) != arguments.end();
  };
  if (has("--help") || has("-h")) {
    app_->add_flag_callback(
        "--version", [] {}, "Print the version and exit");
    fmt::print("{}", app_->help());
    return ParseResult::kDone;
  }
  if (has("--version")) {
    fmt::print("{} {}\n", program_, version);
    return ParseResult::kDone;
  }
  check_tokens(arguments);
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    app_->parse(reversed);
  } catch (const CLI::ParseError& error) {
    throw UsageError(fmt::format("{}; see --help", error.what()));
  }
  return ParseResult::kRun;
}

void FlagSet::only_with(std::initializer_list<const char*> names, bool active,
                        const std::string& with) const {
  for (const char* name : names)
    if (!active && given(name))
      throw UsageError(fmt::format("{} means something only with {}", name, with));
}

void FlagSet::only_beside(const std::string& action, const std::set<std::string>& allowed) const {
  if (!given(action)) return;
  for (const std::string& name : given_)
    if (name != action && !allowed.contains(name))
      throw UsageError(fmt::format("{} means nothing with {}", name, action));
}

std::vector<std::string> FlagSet::names() const {
  std::vector<std::string> result;
  for (const auto& flag : flags_)
    result.insert(result.end(), flag->names.begin(), flag->names.end());
  return result;
}

nlohmann::ordered_json FlagSet::values() const {
  nlohmann::ordered_json record;
  for (const auto& flag : flags_) record[key_of(flag->name())] = flag->get();
  return record;
}

std::vector<std::string> FlagSet::arguments(const std::set<std::string>& skip) const {
  std::vector<std::string> result;
  for (const auto& flag : flags_) {
    const nlohmann::json value = flag->get();
    if (value == flag->initial || skip.contains(flag->name())) continue;
    result.push_back(flag->name());
    if (flag->value != Flag::Value::kNone) result.push_back(as_text(value));
  }
  return result;
}

void FlagSet::restore(const nlohmann::ordered_json& record, const std::set<std::string>& free,
                      const std::set<std::string>& skip, std::string_view record_name) {
  for (const auto& flag : flags_) {
    const auto found = record.find(key_of(flag->name()));
    if (found == record.end() || skip.contains(flag->name())) continue;
    if (given(flag->name()) && free.contains(flag->name())) continue;
    const nlohmann::json recorded = *found;
    if (recorded == flag->get()) continue;
    if (given(flag->name()))
      throw UsageError(
          fmt::format("{}: \"{}\" contradicts {}, which has \"{}\"; leave the flag out",
                      flag->name(), as_text(flag->get()), record_name, as_text(recorded)));
    try {
      flag->set(as_text(recorded));
    } catch (const UsageError& error) {
      fail("{}: {}", record_name, error.what());
    }
  }
}

}  // namespace heddle::apps
