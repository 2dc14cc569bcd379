#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace heddle::apps {

/// The values that a numeric flag takes, and how its messages say so.
struct Interval {
  double low;
  double high;
  bool low_open = false;   ///< The lower end itself is not allowed.
  bool high_open = false;  ///< Nor is the upper one.
  std::string to_string() const;
  bool contains(double value) const;
};

enum class ParseResult { kRun, kDone };  ///< kDone: --help or --version was answered.

/// A program's flags: CLI11's parsing and help with stricter rules. Every value is checked whole
/// (no "12abc", no NaN), a flag is given once, an unknown one is refused with the nearest known
/// name, and each message names flag, value and what is allowed. Flags are also a record: their
/// values go into a JSON object and come back from one.
class FlagSet {
 public:
  FlagSet(std::string program, const std::string& description);
  ~FlagSet();
  FlagSet(const FlagSet&) = delete;
  FlagSet& operator=(const FlagSet&) = delete;

  /// The heading in --help of the flags that follow.
  void group(std::string name) { group_ = std::move(name); }

  /// `names` is "--lr" or "--batch-size,--batch": the first is the one in messages and records.
  /// The default is what `target` holds now.
  void toggle(const std::string& names, bool* target, const std::string& help);
  void integer(const std::string& names, int64_t* target, int64_t low, int64_t high,
               const std::string& help);
  void number(const std::string& names, double* target, Interval range, const std::string& help);
  void choice(const std::string& names, std::string* target, std::vector<std::string> choices,
              const std::string& help);
  /// `check` throws UsageError for a value that is not allowed; its text follows the value.
  void text(const std::string& names, std::string* target, const std::string& value_name,
            const std::string& help, std::function<void(const std::string&)> check = {});
  /// A flag whose value may be left out; `given` says that it was there.
  void optional_text(const std::string& names, bool* given, std::string* target,
                     const std::string& value_name, const std::string& help);

  /// Errors: UsageError, one line that names the flag.
  ParseResult parse(const std::vector<std::string>& arguments, const std::string& version);
  bool given(const std::string& name) const { return given_.contains(name); }

  /// For flags that mean nothing unless `active`. Errors: UsageError naming the first that was
  /// given and `with`, what it needs.
  void only_with(std::initializer_list<const char*> names, bool active,
                 const std::string& with) const;
  /// For `action`, a flag beside which only those in `allowed` mean something; nothing where it was
  /// not given. Errors: UsageError naming the action and the first flag that was given in vain.
  void only_beside(const std::string& action, const std::set<std::string>& allowed) const;

  std::vector<std::string> names() const;

  /// Every flag's value by its name without dashes ("batch_size").
  nlohmann::ordered_json values() const;
  /// The arguments that give every flag but those in `skip` its present value; defaults are left
  /// out.
  std::vector<std::string> arguments(const std::set<std::string>& skip) const;
  /// Takes values over from a record, but for the flags in `skip` and keys that no flag has. A flag
  /// that was given stands where it is in `free`.
  /// Errors: UsageError naming both values where another flag was given and differs from the
  /// record; Error for a value that the flag does not take.
  void restore(const nlohmann::ordered_json& record, const std::set<std::string>& free,
               const std::set<std::string>& skip, std::string_view record_name);

 private:
  struct Flag;
  Flag& add(const std::string& names, const std::string& help);
  void add_valued(const std::string& names, const std::string& value_name, const std::string& help,
                  std::function<void(const std::string&)> set, std::function<nlohmann::json()> get);
  void check_tokens(const std::vector<std::string>& arguments);
  const Flag* find(const std::string& spelling) const;
  std::string nearest(const std::string& spelling) const;

  std::string program_;
  std::unique_ptr<CLI::App> app_;
  std::vector<std::unique_ptr<Flag>> flags_;
  std::set<std::string> given_;
  std::string group_ = "Options";
};

/// The number of single-character changes (insert, delete, replace, swap of neighbours) between two
/// words.
int edit_distance(std::string_view a, std::string_view b);

}  // namespace heddle::apps
