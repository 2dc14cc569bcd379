// Tensors in memory that the stand-ins of cuDNN read and write.
#include "cudasim/bfloat16.h"
#include "cudasim/half.h"
#include "cudasim/helpers.h"
#include "cudnn_graph.h"

namespace cudasim {

size_t bytes_of(cudnnDataType_t type) {
  if (type == CUDNN_DATA_INT8) return 1;
  return type == CUDNN_DATA_FLOAT ? 4 : 2;
}

float load_element(cudnnDataType_t type, const char* place) {
  if (type == CUDNN_DATA_FLOAT) return *reinterpret_cast<const float*>(place);
  if (type == CUDNN_DATA_INT8) return *reinterpret_cast<const int8_t*>(place);
  const uint16_t bits = *reinterpret_cast<const uint16_t*>(place);
  return type == CUDNN_DATA_HALF ? half_to_float(bits) : bfloat16_to_float(bits);
}

void store_element(cudnnDataType_t type, char* place, float value) {
  if (type == CUDNN_DATA_FLOAT) {
    *reinterpret_cast<float*>(place) = value;
  } else if (type == CUDNN_DATA_INT8) {
    *reinterpret_cast<int8_t*>(place) = static_cast<int8_t>(value);
  } else {
    *reinterpret_cast<uint16_t*>(place) =
        type == CUDNN_DATA_HALF ? half_from_float(value) : bfloat16_from_float(value);
  }
}

float read_element(const StandInTensor& t, const char* place) {
  report_access(place, bytes_of(t.type), Access::kRead);
  return load_element(t.type, place);
}

void write_element(const StandInTensor& t, char* place, float value) {
  report_access(place, bytes_of(t.type), Access::kWrite);
  store_element(t.type, place, value);
}

void report_reads(const StandInTensor& t) {
  for (int64_t i = threadIdx.x; i < t.n(); i += kStandInThreads)
    report_access(t.at(t.place(i)), bytes_of(t.type), Access::kRead);
}

}  // namespace cudasim
