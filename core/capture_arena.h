#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "heddle/core/buffer.h"

namespace heddle {

/// The memory of a CUDA graph on one device: while a Scope lives, what this thread allocates on the
/// stream's device comes from one block that outlives all replays, so that captured work finds the
/// same addresses again. Freed parts serve later allocations, which the stream's order allows. What
/// was allocated outside and is freed inside is kept until the scope ends, or the free would be
/// captured. In builds with CUDA alone.
class CaptureArena {
 public:
  CaptureArena(int64_t bytes, StreamRef stream);
  ~CaptureArena();
  CaptureArena(const CaptureArena&) = delete;
  CaptureArena& operator=(const CaptureArena&) = delete;

  /// Null where no free part is large enough.
  void* allocate(int64_t bytes);
  bool is_full() const { return full_; }  ///< An allocation found no room.
  int64_t bytes() const { return block_.bytes(); }

  /// One number in memory of the device: the steps from the captured one to that which is replayed,
  /// for draws that depend on the step. Null where steps are not numbered.
  const int64_t* steps() const { return steps_; }
  void set_steps(const int64_t* steps) { steps_ = steps; }

  /// Arenas of different devices that one graph uses.
  using Set = std::vector<CaptureArena*>;

  /// While it lives, this thread uses these arenas too: for threads that help with a capture while
  /// the Scope of the thread that captures lives.
  class [[nodiscard]] Share {
   public:
    explicit Share(Set arenas);
    ~Share();
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

   private:
    Set previous_;
  };

  class [[nodiscard]] Scope {
   public:
    explicit Scope(const Set& arenas) : arenas_(arenas), share_(std::in_place, arenas) {}
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Set arenas_;
    std::optional<Share> share_;
  };

  static const Set& current();  ///< Of this thread.
  /// The arena of this thread for `device`; null where there is none.
  static CaptureArena* current(Device device);
  /// Takes back what an arena gave, or keeps what it must not free now. False: neither.
  static bool take_back(Device device, void* data) noexcept;

 private:
  bool holds(const void* data) const;
  void free_part(void* data) noexcept;

  Buffer block_;
  std::map<int64_t, int64_t> free_;  // size by offset
  std::map<int64_t, int64_t> used_;
  std::vector<void*> deferred_;
  const int64_t* steps_ = nullptr;
  bool full_ = false;
};

}  // namespace heddle
