#pragma once

#include <cstddef>

#include "clock.h"
#include "memory.h"
#include "operation.h"

// Whether what touches a buffer is ordered: by the order of a stream, by events, or by the host's
// waits. Found by vector clocks, so in every schedule, also where this run happened to be right.
namespace cudasim {

enum class Use : uint8_t { kRead, kWrite, kAllocate, kFree };

/// A timeline for a new stream; `ticks` is where it stands. One of a destroyed stream is given out
/// again once the host has waited for all of it.
int new_timeline(uint64_t& ticks);
void retire_timeline(int timeline, uint64_t ticks);

/// What the host knows to have happened; a new operation begins with it.
Clock host_clock();
void host_waited_for(const Clock& clock);

/// The operation touches bytes [first, last) of the allocation now.
void note_use(const Operation& operation, const Allocation& allocation, size_t first, size_t last,
              Use use);

/// The host does: a call of the API named by `what`, or a read or write that was announced. Inside
/// a host function it is that operation that does.
void note_host_use(const Allocation& allocation, size_t first, size_t last, Use use,
                   const char* what);

/// Bytes that an operation copies or sets: notes them where they are simulated memory.
void note_range(const void* address, size_t bytes, Use use);

}  // namespace cudasim
