#include "runtime.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <stdexcept>
#include <string_view>

#include "capture.h"
#include "cudasim/runtime_api.h"
#include "error.h"
#include "pool.h"
#include "stream.h"

namespace cudasim {
namespace {

/// How many devices CUDA_VISIBLE_DEVICES leaves: its entries up to the first that is none.
int visible_devices(const char* text, int n_devices) {
  std::string_view rest = text;
  std::vector<int> seen;
  while (!rest.empty()) {
    const std::string_view entry = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), entry.size() + 1));
    int device = -1;
    const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), device);
    const bool good = error == std::errc() && end == entry.data() + entry.size() && device >= 0 &&
                      device < n_devices;
    if (!good) break;
    if (std::find(seen.begin(), seen.end(), device) != seen.end()) return 0;
    seen.push_back(device);
  }
  return static_cast<int>(seen.size());
}

/// A number of devices; anything else counts as none, as a broken CUDA_VISIBLE_DEVICES does.
int parse_devices(std::string_view text) {
  int n_devices = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n_devices);
  const bool good = error == std::errc() && end == text.data() + text.size();
  return good && n_devices >= 0 && n_devices <= kMaxDevices ? n_devices : 0;
}

void parse_schedule(std::string_view text, Machine& machine) {
  if (text == "latest") machine.schedule = Schedule::kLatest;
  if (!text.starts_with("random")) return;
  machine.schedule = Schedule::kRandom;
  if (const size_t colon = text.find(':'); colon != std::string_view::npos) {
    std::from_chars(text.data() + colon + 1, text.data() + text.size(), machine.seed);
  }
}

/// CUDASIM_MEMORY and CUDASIM_FAULT, for each device that is built.
void apply_limits_of_environment(int index, Device& device) {
  if (const char* text = std::getenv("CUDASIM_MEMORY")) {
    device.memory_limit = std::strtoull(text, nullptr, 10);
  }
  device.kernels_to_fault = 0;
  const char* fault = std::getenv("CUDASIM_FAULT");
  if (fault == nullptr) return;
  char* rest = nullptr;
  if (std::strtol(fault, &rest, 10) != index || *rest != ':') return;
  const long long kernels = std::strtoll(rest + 1, &rest, 10);
  if (*rest != ':' || error_named(rest + 1) == cudaSuccess) return;
  device.fault = error_named(rest + 1);
  device.kernels_to_fault = kernels;
}

Machine machine_of_environment() {
  Machine machine;
  if (const char* text = std::getenv("CUDASIM_DEVICES")) machine.n_devices = parse_devices(text);
  if (const char* text = std::getenv("CUDA_VISIBLE_DEVICES")) {
    machine.n_devices = visible_devices(text, machine.n_devices);
  }
  if (const char* text = std::getenv("CUDASIM_CARD")) {
    if (find_card(text) == nullptr) machine.n_devices = 0;
    machine.card = text;
  }
  if (const char* text = std::getenv("CUDASIM_SCHEDULE")) parse_schedule(text, machine);
  return machine;
}

/// Frees what is left and makes all handles invalid.
void clear(Runtime& state, Lock& lock) {
  for (Capture* capture : state.captures) {
    for (CUstream_st* stream : capture->streams) stream->capture = nullptr;
    delete capture;
  }
  state.captures.clear();
  state.scheduler.drain(lock);
  for (const Allocation* allocation : state.alive) {
    if (MemoryObserver* observer = memory_observer()) observer->on_free(*allocation);
    release_allocation(const_cast<Allocation&>(*allocation));
  }
  state.alive.clear();
  state.handles.clear();
  for (auto& settings : state.functions) settings.clear();
}

Device& checked_device(int device) {
  if (!runtime().valid_device(device)) throw std::out_of_range("cudasim: no such device");
  return runtime().devices[static_cast<size_t>(device)];
}

}  // namespace

Runtime& runtime() {
  static Runtime& state = []() -> Runtime& {
    auto& made = *new Runtime;
    made.machine = machine_of_environment();
    return made;
  }();
  static const bool built = [] {
    build_devices(state, state.machine);
    return true;
  }();
  (void)built;
  return state;
}

void keep_alive(const void* object) {
  static std::mutex& mutex = *new std::mutex;
  static auto& kept = *new std::vector<const void*>;
  const std::lock_guard lock(mutex);
  kept.push_back(object);
}

void build_devices(Runtime& state, const Machine& machine) {
  state.machine = machine;
  state.n_devices = machine.n_devices;
  state.n_streams_made = 0;
  state.scheduler.set(machine.schedule, machine.seed);
  for (int i = 0; i < machine.n_devices; ++i) {
    Device& device = state.devices[static_cast<size_t>(i)];
    device.card = find_card(machine.card);
    device.memory_limit = device.card->memory_bytes;
    apply_limits_of_environment(i, device);
    device.malloc_bytes = 0;
    device.sticky = cudaSuccess;
    device.streams.clear();
    device.orphans.clear();
    device.legacy_stream = make_stream(i, cudaStreamDefault, 0);
    device.legacy_stream->legacy = true;
    device.pools.clear();
    device.default_pool = device.current_pool = make_pool(state, i, true);
    for (size_t peer = 0; peer < device.peer_possible.size(); ++peer) {
      device.peer_possible[peer] = machine.peer_access && peer != static_cast<size_t>(i);
      device.peer_enabled[peer] = false;
    }
  }
}

void reset(const Machine& machine) {
  if (machine.n_devices < 0 || machine.n_devices > kMaxDevices) {
    throw std::invalid_argument("cudasim: a machine has 0 to 16 devices");
  }
  if (find_card(machine.card) == nullptr) {
    throw std::invalid_argument("cudasim: no card " + machine.card);
  }
  Runtime& state = runtime();
  {
    Lock lock(state.mutex);
    clear(state, lock);
    build_devices(state, machine);
  }
  current_device = 0;
  cudaGetLastError();
}

Machine machine() { return runtime().machine; }

void set_schedule(Schedule schedule, uint64_t seed) {
  Runtime& state = runtime();
  Lock lock(state.mutex);
  state.machine.schedule = schedule;
  state.machine.seed = seed;
  state.scheduler.set(schedule, seed);
  if (schedule == Schedule::kEager) state.scheduler.drain(lock);
}

void set_card(int device, const std::string& card) {
  const Card* found = find_card(card);
  if (found == nullptr) throw std::invalid_argument("cudasim: no card " + card);
  const Lock lock(runtime().mutex);
  checked_device(device).card = found;
  checked_device(device).memory_limit = found->memory_bytes;
}

void set_peer_access(int device, int peer, bool possible) {
  const Lock lock(runtime().mutex);
  checked_device(peer);
  checked_device(device).peer_possible[static_cast<size_t>(peer)] = possible;
}

void set_memory_limit(int device, size_t bytes) {
  const Lock lock(runtime().mutex);
  checked_device(device).memory_limit = bytes;
}

void set_sticky_error(int device, cudaError_t error) { checked_device(device).sticky = error; }

void fail_at_kernel(int device, int64_t kernels, cudaError_t error) {
  checked_device(device).fault = error;
  checked_device(device).kernels_to_fault = kernels;
}

size_t pending_operations() {
  const Lock lock(runtime().mutex);
  return runtime().scheduler.n_pending();
}

}  // namespace cudasim
