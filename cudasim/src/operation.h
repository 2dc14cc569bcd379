#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "clock.h"

namespace cudasim {

/// What an operation does, as given to a stream or kept in a graph: may run several times.
struct Work {
  const char* kind = "";           ///< "kernel", "copy", "memset", ...
  const void* function = nullptr;  ///< of a kernel, for its name
  size_t bytes = 0;                ///< of a copy or memset
  std::function<void()> run;       ///< null: a mark that only orders
  bool on_host = false;            ///< a host function: runs on the callbacks' thread
};

/// One operation in its place: after those that it waits for.
struct Operation : std::enable_shared_from_this<Operation> {
  enum class State : uint8_t { kPending, kRunning, kDone };

  uint64_t sequence = 0;  ///< in which operations were queued
  int device = 0;
  int stream = 0;  ///< number, for reports
  Work work;
  Clock clock;  ///< what has happened before it, and itself
  int timeline = 0;
  uint64_t tick = 0;

  // The scheduler's.
  State state = State::kPending;
  int n_waiting = 0;
  std::vector<std::shared_ptr<Operation>> waits_for;  ///< emptied when it is done
  std::vector<std::shared_ptr<Operation>> successors;
  std::chrono::steady_clock::time_point done_at{};

  bool done() const { return state == State::kDone; }
};
using OperationPtr = std::shared_ptr<Operation>;

/// "kernel relu_forward_kernel in stream 3 of device 0"
std::string describe(const Operation& operation);

/// The operation that this host thread runs now; null outside.
extern constinit thread_local Operation* current_operation;

}  // namespace cudasim
