#include <algorithm>

#include "capture.h"
#include "cudasim/runtime_api.h"
#include "error.h"
#include "happens_before.h"
#include "pool.h"
#include "stream.h"

namespace cudasim {
namespace {

/// Only this file changes allocations.
Allocation& change(const Allocation& allocation) { return const_cast<Allocation&>(allocation); }

void announce(const Allocation& allocation) {
  if (MemoryObserver* observer = memory_observer()) observer->on_allocate(allocation);
}

void end_allocation(const Allocation& allocation) {
  if (MemoryObserver* observer = memory_observer()) observer->on_free(allocation);
  release_allocation(change(allocation));
}

/// The live allocation that begins at `pointer`.
const Allocation* find_whole(const void* pointer) {
  const Allocation* allocation = find_allocation(pointer);
  const bool good = allocation != nullptr && allocation->base == pointer && !allocation->freed &&
                    !allocation->free_queued;
  return good ? allocation : nullptr;
}

cudaError_t allocate_device(void** pointer, size_t bytes) {
  if (const cudaError_t error = check_unsafe_call()) return error;
  Device& device = runtime().current();
  const size_t used = device.used_bytes();
  if (used > device.memory_limit || bytes > device.memory_limit - used) {
    return cudaErrorMemoryAllocation;
  }
  const Allocation* allocation =
      place_allocation(current_device, bytes, MemoryKind::kDevice, nullptr);
  if (allocation == nullptr) return cudaErrorMemoryAllocation;
  device.malloc_bytes += bytes;
  runtime().alive.insert(allocation);
  announce(*allocation);
  *pointer = allocation->base;
  return cudaSuccess;
}

cudaError_t allocate_pinned(void** pointer, size_t bytes) {
  if (const cudaError_t error = check_unsafe_call()) return error;
  const Allocation* allocation =
      place_allocation(current_device, bytes, MemoryKind::kPinned, nullptr);
  if (allocation == nullptr) return cudaErrorMemoryAllocation;
  runtime().alive.insert(allocation);
  announce(*allocation);
  *pointer = allocation->base;
  return cudaSuccess;
}

cudaError_t allocate_from(Lock& lock, CUmemPoolHandle_st& pool, void** pointer, size_t bytes,
                          CUstream_st& stream) {
  if (stream.capture != nullptr) {  // memory nodes of graphs are not in the subset
    invalidate(*stream.capture);
    return cudaErrorStreamCaptureUnsupported;
  }
  if (const cudaError_t error = check_legacy_use(stream)) return error;
  if (!take_from_pool(pool, bytes)) return cudaErrorMemoryAllocation;
  const Allocation* allocation = place_allocation(pool.device, bytes, MemoryKind::kPool, &pool);
  if (allocation == nullptr) {
    give_to_pool(pool, bytes);
    return cudaErrorMemoryAllocation;
  }
  runtime().alive.insert(allocation);
  announce(*allocation);
  const OperationPtr operation = enqueue(lock, stream, {.kind = "allocation of", .bytes = bytes});
  note_use(*operation, *allocation, 0, bytes, Use::kAllocate);
  *pointer = allocation->base;
  return cudaSuccess;
}

/// As under CUDA, memory of cudaMalloc waits for its device first; a pool's does not.
cudaError_t free_now(Lock& lock, const Allocation& allocation) {
  if (allocation.kind == MemoryKind::kDevice) {
    wait_for_device(lock, allocation.device);
    runtime().devices[static_cast<size_t>(allocation.device)].malloc_bytes -= allocation.bytes;
  } else if (allocation.kind == MemoryKind::kPool) {
    give_to_pool(*allocation.pool, allocation.bytes);
  }
  const char* call = allocation.kind == MemoryKind::kPinned ? "cudaFreeHost" : "cudaFree";
  note_host_use(allocation, 0, allocation.bytes, Use::kFree, call);
  runtime().alive.erase(&allocation);
  end_allocation(allocation);
  return cudaSuccess;
}

cudaError_t free_in_order(Lock& lock, const Allocation& allocation, CUstream_st& stream) {
  if (stream.capture != nullptr) {
    invalidate(*stream.capture);
    return cudaErrorStreamCaptureUnsupported;
  }
  if (const cudaError_t error = check_legacy_use(stream)) return error;
  if (allocation.kind == MemoryKind::kPool) {
    give_to_pool(*allocation.pool, allocation.bytes);
  } else {
    runtime().devices[static_cast<size_t>(allocation.device)].malloc_bytes -= allocation.bytes;
  }
  change(allocation).free_queued = true;
  runtime().alive.erase(&allocation);
  const auto end = [&allocation] {
    note_use(*current_operation, allocation, 0, allocation.bytes, Use::kFree);
    end_allocation(allocation);
  };
  enqueue(lock, stream, {.kind = "free of", .bytes = allocation.bytes, .run = end});
  return cudaSuccess;
}

template <class Body>
cudaError_t with_pool_and_stream(cudaMemPool_t pool, cudaStream_t handle, Body&& body) {
  return api([&](Lock& lock) {
    CUstream_st* stream = find_stream(runtime(), handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (pool == nullptr) {
      pool = runtime().devices[static_cast<size_t>(stream->device)].current_pool;
    }
    return runtime().handles.contains(pool) ? body(lock, *pool, *stream) : cudaErrorInvalidValue;
  });
}

}  // namespace
}  // namespace cudasim

using cudasim::Allocation;
using cudasim::Lock;
using cudasim::MemoryKind;
using cudasim::runtime;

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  return cudasim::api([&](Lock&) {
    if (pointer == nullptr) return cudaErrorInvalidValue;
    *pointer = nullptr;
    return bytes == 0 ? cudaSuccess : cudasim::allocate_device(pointer, bytes);
  });
}

cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned int flags) {
  return cudasim::api([&](Lock&) {
    constexpr unsigned int kAll =
        cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
    if (pointer == nullptr || (flags & ~kAll) != 0) return cudaErrorInvalidValue;
    *pointer = nullptr;
    return bytes == 0 ? cudaSuccess : cudasim::allocate_pinned(pointer, bytes);
  });
}

cudaError_t cudaMallocHost(void** pointer, size_t bytes, unsigned int flags) {
  return cudaHostAlloc(pointer, bytes, flags);
}

cudaError_t cudaMallocFromPoolAsync(void** pointer, size_t bytes, cudaMemPool_t pool,
                                    cudaStream_t stream) {
  return cudasim::with_pool_and_stream(
      pool, stream, [&](Lock& lock, CUmemPoolHandle_st& from, CUstream_st& in) {
        if (pointer == nullptr) return cudaErrorInvalidValue;
        *pointer = nullptr;
        return bytes == 0 ? cudaSuccess : cudasim::allocate_from(lock, from, pointer, bytes, in);
      });
}

cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t stream) {
  return cudaMallocFromPoolAsync(pointer, bytes, nullptr, stream);
}

cudaError_t cudaFree(void* pointer) {
  return cudasim::api([&](Lock& lock) {
    if (pointer == nullptr) return cudaSuccess;
    if (const cudaError_t error = cudasim::check_unsafe_call()) return error;
    const Allocation* allocation = cudasim::find_whole(pointer);
    if (allocation == nullptr || allocation->kind == MemoryKind::kPinned) {
      return cudaErrorInvalidValue;
    }
    return cudasim::free_now(lock, *allocation);
  });
}

cudaError_t cudaFreeHost(void* pointer) {
  return cudasim::api([&](Lock& lock) {
    if (pointer == nullptr) return cudaSuccess;
    if (const cudaError_t error = cudasim::check_unsafe_call()) return error;
    const Allocation* allocation = cudasim::find_whole(pointer);
    if (allocation == nullptr || allocation->kind != MemoryKind::kPinned) {
      return cudaErrorInvalidValue;
    }
    return cudasim::free_now(lock, *allocation);
  });
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t handle) {
  return cudasim::api([&](Lock& lock) {
    CUstream_st* stream = cudasim::find_stream(runtime(), handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (pointer == nullptr) return cudaSuccess;
    const Allocation* allocation = cudasim::find_whole(pointer);
    if (allocation == nullptr || allocation->kind == MemoryKind::kPinned) {
      return cudaErrorInvalidValue;
    }
    return cudasim::free_in_order(lock, *allocation, *stream);
  });
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return cudasim::api([&](Lock&) {
    const cudasim::Device& device = runtime().current();
    if (free != nullptr) {
      *free = device.memory_limit - std::min(device.memory_limit, device.used_bytes());
    }
    if (total != nullptr) *total = device.memory_limit;
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  return cudasim::api([&](Lock&) {
    if (attributes == nullptr) return cudaErrorInvalidValue;
    *attributes = {cudaMemoryTypeUnregistered, -2, nullptr, const_cast<void*>(pointer)};
    const Allocation* allocation = cudasim::find_allocation(pointer);
    if (allocation == nullptr || allocation->freed) return cudaSuccess;
    const bool pinned = allocation->kind == MemoryKind::kPinned;
    attributes->type = pinned ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
    attributes->device = allocation->device;
    attributes->devicePointer = const_cast<void*>(pointer);
    if (!pinned) attributes->hostPointer = nullptr;
    return cudaSuccess;
  });
}
