#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "heddle/kernels/device/launch.cuh"
#include "heddle/kernels/device/vector.cuh"
#include "heddle/kernels/optimizer.h"

/// Many tensors in one launch: their places go with the kernel's arguments, and each block finds
/// its tensor among them.
namespace heddle {

inline constexpr int kSlotsPerLaunch = 64;  ///< 3.6 KiB of the 4 KiB that arguments may take
inline constexpr int kSlotThreads = 256;
inline constexpr int kSlotWidth = 4;    ///< elements at once: 16 bytes of float32 state
inline constexpr int kSlotVectors = 4;  ///< of a thread
inline constexpr int64_t kSlotPiece = kSlotThreads * kSlotWidth * kSlotVectors;  ///< of a block

/// A tensor as kernels see it. What lies behind the last vector is taken one by one.
struct DeviceSlot {
  void* p;
  const void* g;
  void* m;
  void* v;
  int64_t n_vectors;  // of kSlotWidth elements; 0 where an array is not aligned to them
  int64_t n;
  int64_t step;
};

struct SlotTable {
  DeviceSlot slots[kSlotsPerLaunch];
  unsigned first_block[kSlotsPerLaunch];
  int n_slots = 0;
};

/// The piece of a tensor that a block takes: vectors, and behind the last one single elements.
struct SlotPiece {
  DeviceSlot slot;
  int64_t vector_begin, vector_end;
  int64_t single_begin, single_end;
};

__device__ __forceinline__ SlotPiece slot_piece(const SlotTable& table, unsigned block) {
  int slot = 0;
  for (int step = kSlotsPerLaunch / 2; step > 0; step /= 2)
    if (slot + step < table.n_slots && table.first_block[slot + step] <= block) slot += step;
  SlotPiece piece;
  piece.slot = table.slots[slot];
  const int64_t begin = (block - table.first_block[slot]) * kSlotPiece;
  const int64_t end = begin + kSlotPiece < piece.slot.n ? begin + kSlotPiece : piece.slot.n;
  const int64_t n_vectors = piece.slot.n_vectors;
  piece.vector_begin = begin / kSlotWidth;
  piece.vector_end = end / kSlotWidth < n_vectors ? end / kSlotWidth : n_vectors;
  piece.single_begin = n_vectors * kSlotWidth > begin ? n_vectors * kSlotWidth : begin;
  piece.single_end = end;
  return piece;
}

/// True where vectors of T (of float state) can be loaded from the slot's arrays.
template <class T>
bool slot_is_aligned(const ParamSlot& slot) {
  return is_aligned<kSlotWidth>(static_cast<const T*>(slot.p)) &&
         is_aligned<kSlotWidth>(static_cast<const T*>(slot.g)) &&
         is_aligned<kSlotWidth>(static_cast<const float*>(slot.m)) &&
         is_aligned<kSlotWidth>(static_cast<const float*>(slot.v));
}

/// Calls run(table, blocks) for tables that hold all slots of dtype T.
template <class T, class Run>
void for_each_table(std::span<const ParamSlot> slots, const Run& run) {
  SlotTable table;
  int64_t blocks = 0;
  const auto flush = [&] {
    if (table.n_slots > 0) run(table, grid_for(blocks, 1));
    table.n_slots = 0;
    blocks = 0;
  };
  for (const ParamSlot& slot : slots) {
    if (slot.dtype != dtype_of<T> || slot.n == 0) continue;
    const int64_t own = (slot.n + kSlotPiece - 1) / kSlotPiece;
    if (table.n_slots == kSlotsPerLaunch || blocks + own > INT32_MAX) flush();
    table.first_block[table.n_slots] = static_cast<unsigned>(blocks);
    table.slots[table.n_slots++] = {
        slot.p, slot.g,   slot.m, slot.v, slot_is_aligned<T>(slot) ? slot.n / kSlotWidth : 0,
        slot.n, slot.step};
    blocks += own;
  }
  flush();
}

/// Calls body.operator()<T>() for each dtype that kernels compute in. Errors: a slot is float64.
template <class Body>
void for_each_slot_dtype(const char* op, std::span<const ParamSlot> slots, const Body& body) {
  for (const ParamSlot& slot : slots)
    if (slot.dtype == DType::kFloat64)
      fail("{}: float64 is computed on the CPU, found it on a CUDA device", op);
  body.template operator()<float>();
  body.template operator()<BFloat16>();
  body.template operator()<Float16>();
}

}  // namespace heddle
