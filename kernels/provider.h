#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "heddle/core/device_span.h"
#include "heddle/core/error.h"
#include "heddle/core/stream.h"

namespace heddle {

/// Who computes an op: our kernels, the vendor's library (oneDNN on the CPU, cuBLAS and cuDNN with
/// CUDA), or whichever was faster when both were timed, once per op, shape and dtype.
enum class Provider { kAuto, kNative, kVendor };

Provider parse_provider(std::string_view text);  ///< Errors: UsageError listing the three.
std::string_view name_of(Provider provider);
void set_provider(Provider provider);  ///< For all ops from now on. Default: kAuto.
Provider provider();
/// Whether cuBLAS and cuDNN may round the factors of float32 products to TF32's 10 bits of
/// mantissa, for tensor cores; sums stay float32. Native kernels never do. Default: no.
void set_allow_tf32(bool allow);
bool allow_tf32();
bool built_with_vendor();  ///< Whether this build has oneDNN, cuBLAS or cuDNN.
bool built_with_onednn();

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
/// One call that two candidates can do: index 0 native, 1 vendor.
struct TimedChoice {
  std::string key;
  const void* context;
  void (*run)(const void* context, int index);
  /// Runs it too, and returns the seconds it took; null: by the host's clock.
  double (*seconds)(const void* context, int index) = nullptr;
  bool may_time = true;
  /// Where the choice belongs on disk, "card, library and version"; null: it is not kept.
  std::string (*section)(const void* context) = nullptr;
};

/// Times both where `may_time` and no choice is known; native where it must not.
void run_timed_choice(const TimedChoice& call);

bool cuda_times_candidates();  // false under cudasim: there `auto` is native
/// Seconds that the stream's device takes for what `run` queues. Waits.
double cuda_seconds(StreamRef stream, const std::function<void()>& run);
const std::string& cuda_card_name(StreamRef stream);
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
      {.key = args.key(), .context = &context, .run = [](const void* opaque, int index) {
         const Context& c = *static_cast<const Context*>(opaque);
         (index == 0 ? c.candidates.native : c.candidates.vendor)(c.args);
       }});
}

/// The candidates of one call on a CUDA device.
template <class Args>
struct CudaCandidates {
  void (*native)(const Args&, StreamRef);
  void (*vendor)(const Args&, StreamRef) = nullptr;
  bool (*vendor_supports)(const Args&, StreamRef) = nullptr;
  std::string (*library)() = nullptr;  // the vendor's, with its version
};

/// As run_provider, in the order of `stream`. Choices are kept by the card's name too, and on disk
/// (kernels/choice_file.h).
template <class Args>
void run_cuda_provider(const Args& args, StreamRef stream, const CudaCandidates<Args>& candidates) {
  const bool may_be_vendor = provider() == Provider::kVendor ||
                             (provider() == Provider::kAuto && detail::cuda_times_candidates());
  if (candidates.vendor == nullptr || !may_be_vendor || !candidates.vendor_supports(args, stream))
    return candidates.native(args, stream);
  if (provider() == Provider::kVendor) return candidates.vendor(args, stream);
  struct Context {
    const Args& args;
    StreamRef stream;
    const CudaCandidates<Args>& candidates;

    void run(int index) const {
      (index == 0 ? candidates.native : candidates.vendor)(args, stream);
    }
    static const Context& from(const void* opaque) { return *static_cast<const Context*>(opaque); }
  } context{args, stream, candidates};
  detail::run_timed_choice(
      {.key = detail::cuda_card_name(stream) + " " + args.key() + (allow_tf32() ? " tf32" : ""),
       .context = &context,
       .run = [](const void* opaque, int index) { Context::from(opaque).run(index); },
       .seconds =
           [](const void* opaque, int index) {
             const Context& c = Context::from(opaque);
             return detail::cuda_seconds(c.stream, [&] { c.run(index); });
           },
       .may_time = !detail::is_capturing(stream),
       .section =
           [](const void* opaque) {
             const Context& c = Context::from(opaque);
             return detail::cuda_card_name(c.stream) + ", " + c.candidates.library();
           }});
}

}  // namespace heddle
