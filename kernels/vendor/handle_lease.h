#pragma once

#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "heddle/core/stream.h"

namespace heddle {

/// A library's handle for the calls of one scope, from those that wait for their next use: a handle
/// serves one host thread at a time, and stays with its device and stream. Handles are never
/// destroyed: they must not outlive the driver.
template <class Handle, Handle (*Create)()>
class HandleLease {
 public:
  explicit HandleLease(StreamRef stream) : place_(stream.device().index, stream.get()) {
    {
      const std::lock_guard lock(pool().mutex);
      std::vector<Handle>& idle = pool().idle[place_];
      if (!idle.empty()) {
        handle_ = idle.back();
        idle.pop_back();
        return;
      }
    }
    handle_ = Create();
  }
  ~HandleLease() {
    const std::lock_guard lock(pool().mutex);
    pool().idle[place_].push_back(handle_);
  }
  HandleLease(const HandleLease&) = delete;
  HandleLease& operator=(const HandleLease&) = delete;

  Handle get() const { return handle_; }

 private:
  using Place = std::pair<int, const void*>;  // device and stream
  struct Pool {
    std::mutex mutex;
    std::map<Place, std::vector<Handle>> idle;
  };
  static Pool& pool() {
    static Pool& instance = *new Pool;
    return instance;
  }

  Place place_;
  Handle handle_ = nullptr;
};

}  // namespace heddle
