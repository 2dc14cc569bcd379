#pragma once

#include <string>

#include "heddle/core/error.h"

namespace heddle {

/// A call of the CUDA runtime (or of cuBLAS, cuDNN) failed. The text has the call, the error's name
/// and meaning, the device and the place in the source. Some errors leave the device unusable for
/// the rest of the process: then every later call throws the same.
class CudaError : public Error {
 public:
  CudaError(const std::string& text, std::string name) : Error(text), name_(std::move(name)) {}
  const std::string& name() const { return name_; }  ///< "cudaErrorMemoryAllocation", ...

 private:
  std::string name_;
};

}  // namespace heddle
