#include "pool.h"

#include <algorithm>

#include "cudasim/runtime_api.h"
#include "error.h"

namespace cudasim {
namespace {

constexpr uint64_t kReserveGranularity = uint64_t{2} << 20;

uint64_t rounded_up(uint64_t bytes, uint64_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

uint64_t counted(size_t bytes) { return rounded_up(std::max<size_t>(bytes, 1), 512); }

void trim(CUmemPoolHandle_st& pool, uint64_t keep) {
  const uint64_t kept = std::max(pool.used, std::min(keep, pool.reserved));
  pool.reserved = std::min(pool.reserved, rounded_up(kept, kReserveGranularity));
}

/// The frame of calls that take a pool.
template <class Body>
cudaError_t with_pool(cudaMemPool_t pool, Body&& body) {
  return api([&](Lock&) {
    return runtime().handles.contains(pool) ? body(*pool) : cudaErrorInvalidValue;
  });
}

bool is_reuse(cudaMemPoolAttr attribute) {
  return attribute >= cudaMemPoolReuseFollowEventDependencies &&
         attribute <= cudaMemPoolReuseAllowInternalDependencies;
}

cudaError_t set_attribute(CUmemPoolHandle_st& pool, cudaMemPoolAttr attribute, void* value) {
  if (is_reuse(attribute)) {
    pool.reuse[attribute] = static_cast<uint64_t>(*static_cast<int*>(value));
    return cudaSuccess;
  }
  const uint64_t wanted = *static_cast<uint64_t*>(value);
  switch (attribute) {
    case cudaMemPoolAttrReleaseThreshold:
      pool.release_threshold = wanted;
      return cudaSuccess;
    case cudaMemPoolAttrReservedMemHigh:
      if (wanted != 0) return cudaErrorInvalidValue;
      pool.reserved_high = pool.reserved;
      return cudaSuccess;
    case cudaMemPoolAttrUsedMemHigh:
      if (wanted != 0) return cudaErrorInvalidValue;
      pool.used_high = pool.used;
      return cudaSuccess;
    default:
      return cudaErrorInvalidValue;
  }
}

cudaError_t get_attribute(const CUmemPoolHandle_st& pool, cudaMemPoolAttr attribute, void* value) {
  if (is_reuse(attribute)) {
    *static_cast<int*>(value) = static_cast<int>(pool.reuse[attribute]);
    return cudaSuccess;
  }
  auto& out = *static_cast<uint64_t*>(value);
  switch (attribute) {
    case cudaMemPoolAttrReleaseThreshold:
      out = pool.release_threshold;
      return cudaSuccess;
    case cudaMemPoolAttrReservedMemCurrent:
      out = pool.reserved;
      return cudaSuccess;
    case cudaMemPoolAttrReservedMemHigh:
      out = pool.reserved_high;
      return cudaSuccess;
    case cudaMemPoolAttrUsedMemCurrent:
      out = pool.used;
      return cudaSuccess;
    case cudaMemPoolAttrUsedMemHigh:
      out = pool.used_high;
      return cudaSuccess;
    default:
      return cudaErrorInvalidValue;
  }
}

cudaError_t set_access(CUmemPoolHandle_st& pool, const cudaMemAccessDesc& description) {
  const int device = description.location.id;
  if (description.location.type != cudaMemLocationTypeDevice || !runtime().valid_device(device)) {
    return cudaErrorInvalidValue;
  }
  if (description.flags == cudaMemAccessFlagsProtRead) return cudaErrorInvalidValue;
  const bool open = description.flags == cudaMemAccessFlagsProtReadWrite;
  if (device == pool.device) return open ? cudaSuccess : cudaErrorInvalidValue;
  const Device& accessor = runtime().devices[static_cast<size_t>(device)];
  if (open && !accessor.peer_possible[static_cast<size_t>(pool.device)]) {
    return cudaErrorInvalidDevice;
  }
  pool.access[static_cast<size_t>(device)] = open;
  return cudaSuccess;
}

}  // namespace

CUmemPoolHandle_st* make_pool(Runtime& state, int device, bool is_default) {
  auto* pool = new CUmemPoolHandle_st;  // kept when destroyed: allocations point to it
  keep_alive(pool);
  pool->device = device;
  pool->is_default = is_default;
  pool->access[static_cast<size_t>(device)] = true;
  state.handles.insert(pool);
  state.devices[static_cast<size_t>(device)].pools.push_back(pool);
  return pool;
}

bool take_from_pool(CUmemPoolHandle_st& pool, size_t bytes) {
  const Device& device = runtime().devices[static_cast<size_t>(pool.device)];
  const uint64_t used = pool.used + counted(bytes);
  if (used < pool.used || (pool.max_bytes != 0 && used > pool.max_bytes)) return false;
  if (used > pool.reserved) {
    const uint64_t others = device.used_bytes() - pool.reserved;
    if (others > device.memory_limit || used > device.memory_limit - others) return false;
    pool.reserved =
        std::min<uint64_t>(rounded_up(used, kReserveGranularity), device.memory_limit - others);
    pool.reserved_high = std::max(pool.reserved_high, pool.reserved);
  }
  pool.used = used;
  pool.used_high = std::max(pool.used_high, used);
  return true;
}

void give_to_pool(CUmemPoolHandle_st& pool, size_t bytes) {
  pool.used -= counted(bytes);
  if (pool.destroyed) pool.reserved = pool.used;
}

void trim_pools() {
  Runtime& state = runtime();
  for (int i = 0; i < state.n_devices; ++i) {
    for (CUmemPoolHandle_st* pool : state.devices[static_cast<size_t>(i)].pools) {
      if (pool->reserved > pool->release_threshold) trim(*pool, pool->release_threshold);
    }
  }
}

}  // namespace cudasim

using cudasim::Lock;
using cudasim::runtime;

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  return cudasim::api([&](Lock&) {
    if (!runtime().valid_device(device)) return cudaErrorInvalidDevice;
    *pool = runtime().devices[static_cast<size_t>(device)].default_pool;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  return cudasim::api([&](Lock&) {
    if (!runtime().valid_device(device)) return cudaErrorInvalidDevice;
    *pool = runtime().devices[static_cast<size_t>(device)].current_pool;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
  return cudasim::with_pool(pool, [&](CUmemPoolHandle_st& state) {
    if (!runtime().valid_device(device)) return cudaErrorInvalidDevice;
    if (state.device != device) return cudaErrorInvalidValue;
    runtime().devices[static_cast<size_t>(device)].current_pool = &state;
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  return cudasim::api([&](Lock&) {
    if (pool == nullptr || properties == nullptr ||
        properties->allocType != cudaMemAllocationTypePinned ||
        properties->handleTypes != cudaMemHandleTypeNone ||
        properties->location.type != cudaMemLocationTypeDevice) {
      return cudaErrorInvalidValue;
    }
    if (!runtime().valid_device(properties->location.id)) return cudaErrorInvalidDevice;
    *pool = cudasim::make_pool(runtime(), properties->location.id, false);
    (*pool)->max_bytes = properties->maxSize;
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  return cudasim::with_pool(pool, [](CUmemPoolHandle_st& state) {
    if (state.is_default) return cudaErrorInvalidValue;
    cudasim::Device& device = runtime().devices[static_cast<size_t>(state.device)];
    if (device.current_pool == &state) device.current_pool = device.default_pool;
    state.destroyed = true;  // what is allocated from it stays good until it is freed
    state.reserved = state.used;
    runtime().handles.erase(&state);
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return cudasim::with_pool(pool, [&](CUmemPoolHandle_st& state) {
    return value == nullptr ? cudaErrorInvalidValue
                            : cudasim::set_attribute(state, attribute, value);
  });
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return cudasim::with_pool(pool, [&](CUmemPoolHandle_st& state) {
    return value == nullptr ? cudaErrorInvalidValue
                            : cudasim::get_attribute(state, attribute, value);
  });
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* descriptions,
                                 size_t count) {
  return cudasim::with_pool(pool, [&](CUmemPoolHandle_st& state) {
    if (descriptions == nullptr && count > 0) return cudaErrorInvalidValue;
    for (size_t i = 0; i < count; ++i) {
      if (const cudaError_t error = cudasim::set_access(state, descriptions[i])) return error;
    }
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t pool,
                                 cudaMemLocation* location) {
  return cudasim::with_pool(pool, [&](CUmemPoolHandle_st& state) {
    if (flags == nullptr || location == nullptr || !runtime().valid_device(location->id)) {
      return cudaErrorInvalidValue;
    }
    *flags = state.access[static_cast<size_t>(location->id)] ? cudaMemAccessFlagsProtReadWrite
                                                             : cudaMemAccessFlagsProtNone;
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t bytes_to_keep) {
  return cudasim::with_pool(pool, [&](CUmemPoolHandle_st& state) {
    cudasim::trim(state, bytes_to_keep);
    return cudaSuccess;
  });
}
