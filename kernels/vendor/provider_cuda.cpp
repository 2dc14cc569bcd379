#include <map>
#include <mutex>

#include "heddle/core/cuda_check.h"
#include "heddle/core/event.h"
#include "heddle/kernels/provider.h"

namespace heddle::detail {

bool cuda_times_candidates() {
#ifdef __CUDASIM__
  return false;  // it counts, it does not time
#else
  return true;
#endif
}

double cuda_seconds(StreamRef stream, const std::function<void()>& run) {
  TimedEvent begin(stream.device()), end(stream.device());
  begin.record(stream);
  run();
  end.record(stream);
  return (end - begin).count();
}

const std::string& cuda_card_name(StreamRef stream) {
  static std::mutex mutex;
  static std::map<int, std::string>& names = *new std::map<int, std::string>;
  const std::lock_guard lock(mutex);
  const auto [entry, is_new] = names.try_emplace(stream.device().index);
  if (is_new) {
    cudaDeviceProp properties{};
    HEDDLE_CUDA_CHECK(cudaGetDeviceProperties(&properties, stream.device().index));
    entry->second = properties.name;
  }
  return entry->second;
}

}  // namespace heddle::detail
