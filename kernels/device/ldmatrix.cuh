#pragma once

// Four 8x8 matrices of 16-bit elements from shared memory into the layout of mma.cuh's operands,
// PTX ISA "ldmatrix". Lane l names row l % 8 of matrix l / 8: 8 elements, 16 bytes, 16-byte
// aligned. Register i of a lane then holds, of matrix i, elements (g, 2t) and (g, 2t + 1) with
// g = lane / 4, t = lane % 4; transposed, elements (2t, g) and (2t + 1, g).

#include <cstdint>

#include <cuda_runtime.h>

#include "heddle/core/dtype.h"

namespace heddle {

#ifdef __CUDASIM__

struct MatrixRow {
  uint16_t element[8];
};

/// Every lane's row, in the order of lanes.
HEDDLE_INLINE const MatrixRow* exchange_rows(const void* row) {
  MatrixRow mine;
  cudasim::report_access(row, sizeof(MatrixRow), cudasim::Access::kRead);
  cudasim::raw_copy(&mine, row, sizeof(MatrixRow));
  return static_cast<const MatrixRow*>(
      cudasim::warp_exchange(0xffffffffU, &mine, sizeof(MatrixRow)));
}

HEDDLE_INLINE void ldmatrix_x4(uint32_t (&registers)[4], const void* row) {
  const MatrixRow* rows = exchange_rows(row);
  const int lane = cudasim::lane_index();
  for (int i = 0; i < 4; ++i) {
    const uint16_t* pair = rows[i * 8 + lane / 4].element + lane % 4 * 2;
    registers[i] = pair[0] | static_cast<uint32_t>(pair[1]) << 16;
  }
}

HEDDLE_INLINE void ldmatrix_x4_transposed(uint32_t (&registers)[4], const void* row) {
  const MatrixRow* rows = exchange_rows(row);
  const int lane = cudasim::lane_index();
  for (int i = 0; i < 4; ++i) {
    const MatrixRow* pair = rows + i * 8 + lane % 4 * 2;
    registers[i] = pair[0].element[lane / 4] | static_cast<uint32_t>(pair[1].element[lane / 4])
                                                   << 16;
  }
}

#else

__device__ __forceinline__ void ldmatrix_x4(uint32_t (&registers)[4], const void* row) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
               : "r"(address)
               : "memory");
}

__device__ __forceinline__ void ldmatrix_x4_transposed(uint32_t (&registers)[4], const void* row) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
               : "r"(address)
               : "memory");
}

#endif

}  // namespace heddle
