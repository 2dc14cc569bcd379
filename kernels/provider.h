#pragma once

#include <map>
#include <string>
#include <string_view>

#include "heddle/core/error.h"

namespace heddle {

/// Who computes an op: our kernels, the vendor's library (oneDNN on the CPU), or whichever was
/// faster when both were timed, once per op, shape and dtype.
enum class Provider { kAuto, kNative, kVendor };

Provider parse_provider(std::string_view text);  ///< Errors: UsageError listing the three.
std::string_view name_of(Provider provider);
void set_provider(Provider provider);  ///< For all ops from now on. Default: kAuto.
Provider provider();
bool built_with_vendor();  ///< Whether this build has oneDNN.

/// Choices that `auto` made so far: key (op, dtype, sizes) to "native" or "vendor". They are part
/// of a run's record, and setting them first makes a resumed run choose the same.
std::map<std::string, std::string> provider_choices();
/// Errors: a value other than "native" and "vendor". A "vendor" choice in a build without one is
/// kept out, and counted in the result: last bits may differ.
int set_provider_choices(const std::map<std::string, std::string>& choices);

/// The candidates of one call. `vendor` is null in a build without the vendor's library or where
/// the op has no such version.
template <class Args>
struct Candidates {
  void (*native)(const Args&);
  void (*vendor)(const Args&) = nullptr;
  bool (*vendor_supports)(const Args&) = nullptr;
};

namespace detail {
/// Runs one candidate: index 0 native, 1 vendor.
using RunCandidate = void (*)(const void* context, int index);
void run_timed_choice(const std::string& key, RunCandidate run, const void* context);
}  // namespace detail

/// Runs the candidate that the provider setting asks for. `args.key()` names op, dtype and sizes.
/// Candidates must write their whole output and read none of it: `auto` runs them repeatedly.
template <class Args>
void run_provider(const Args& args, const Candidates<Args>& candidates) {
  if (candidates.vendor == nullptr || provider() == Provider::kNative)
    return candidates.native(args);
  if (candidates.vendor_supports != nullptr && !candidates.vendor_supports(args))
    return candidates.native(args);
  if (provider() == Provider::kVendor) return candidates.vendor(args);
  struct Context {
    const Args& args;
    const Candidates<Args>& candidates;
  } context{args, candidates};
  detail::run_timed_choice(
      args.key(),
      [](const void* opaque, int index) {
        const Context& c = *static_cast<const Context*>(opaque);
        (index == 0 ? c.candidates.native : c.candidates.vendor)(c.args);
      },
      &context);
}

}  // namespace heddle
