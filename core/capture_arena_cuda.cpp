#include <algorithm>
#include <iterator>

#include "heddle/core/capture_arena.h"
#include "heddle/core/context_cuda.h"

namespace heddle {
namespace {

constexpr int64_t kAlignment = 256;  // cudaMalloc's

thread_local CaptureArena::Set t_arenas;

/// All arenas that live: tensors may be freed long after the capture, and on any thread.
std::mutex& arenas_mutex() {
  static std::mutex& mutex = *new std::mutex;
  return mutex;
}
std::vector<CaptureArena*>& arenas() {
  static std::vector<CaptureArena*>& all = *new std::vector<CaptureArena*>;
  return all;
}

}  // namespace

CaptureArena::CaptureArena(int64_t bytes, StreamRef stream) : block_(bytes, stream) {
  free_[0] = bytes;
  const std::lock_guard lock(arenas_mutex());
  arenas().push_back(this);
}

CaptureArena::~CaptureArena() {
  const std::lock_guard lock(arenas_mutex());
  std::erase(arenas(), this);
}

void* CaptureArena::allocate(int64_t asked) {
  const int64_t bytes = (std::max<int64_t>(asked, 1) + kAlignment - 1) / kAlignment * kAlignment;
  const std::lock_guard lock(arenas_mutex());
  const auto found = std::find_if(free_.begin(), free_.end(),
                                  [&](const auto& part) { return part.second >= bytes; });
  if (found == free_.end()) {
    full_ = true;
    return nullptr;
  }
  const auto [offset, size] = *found;
  free_.erase(found);
  if (size > bytes) free_[offset + bytes] = size - bytes;
  used_[offset] = bytes;
  return block_.as<char>() + offset;
}

bool CaptureArena::holds(const void* data) const {
  const char* begin = block_.as<char>();
  return data >= begin && data < begin + block_.bytes();
}

void CaptureArena::free_part(void* data) noexcept {
  const auto used = used_.find(static_cast<char*>(data) - block_.as<char>());
  if (used == used_.end()) return;
  auto part = free_.insert(*used).first;
  used_.erase(used);
  const auto next = std::next(part);
  if (next != free_.end() && part->first + part->second == next->first) {
    part->second += next->second;
    free_.erase(next);
  }
  if (part == free_.begin()) return;
  const auto before = std::prev(part);
  if (before->first + before->second != part->first) return;
  before->second += part->second;
  free_.erase(part);
}

const CaptureArena::Set& CaptureArena::current() { return t_arenas; }

CaptureArena* CaptureArena::current(Device device) {
  for (CaptureArena* arena : t_arenas)
    if (arena->block_.device() == device) return arena;
  return nullptr;
}

bool CaptureArena::take_back(Device device, void* data) noexcept {
  const std::lock_guard lock(arenas_mutex());
  for (CaptureArena* arena : arenas()) {
    if (!arena->holds(data)) continue;
    arena->free_part(data);
    return true;
  }
  CaptureArena* own = current(device);
  if (own == nullptr) return false;
  own->deferred_.push_back(data);
  return true;
}

CaptureArena::Share::Share(Set arenas) : previous_(std::exchange(t_arenas, std::move(arenas))) {}

CaptureArena::Share::~Share() { t_arenas = std::move(previous_); }

CaptureArena::Scope::~Scope() {
  share_.reset();
  for (CaptureArena* arena : arenas_) {
    for (void* data : arena->deferred_) memory::release(arena->block_.device(), data);
    arena->deferred_.clear();
  }
}

}  // namespace heddle
