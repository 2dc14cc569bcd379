#pragma once

#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <random>
#include <unordered_map>

#include "heddle/core/dtype.h"
#include "heddle/kernels/host/onednn.h"

/// oneDNN as its own users would call it: memory prepared in the layout that a primitive asks for,
/// scratch space included. Only *_onednn.cpp files include this.
namespace heddle::bench {

/// Memory with random numbers between -scale and scale in it, the same ones in each run.
inline dnnl::memory random_memory(const dnnl::memory::desc& desc, DType dtype, float scale = 1.0F) {
  dnnl::memory memory(desc, onednn::engine());
  std::mt19937 generator(17);
  std::uniform_real_distribution<float> draw(-scale, scale);
  const auto fill = [&]<class T>(T* values) {
    const size_t n = desc.get_size() / sizeof(T);
    for (size_t i = 0; i < n; ++i) values[i] = T(draw(generator));
  };
  if (dtype == DType::kBFloat16) {
    fill(static_cast<BFloat16*>(memory.get_data_handle()));
  } else {
    fill(static_cast<float*>(memory.get_data_handle()));
  }
  return memory;
}

/// A primitive and everything that it works on.
class RawPrimitive {
 public:
  template <class PrimitiveDesc>
  explicit RawPrimitive(const PrimitiveDesc& pd) : primitive_(pd.get()) {
    bind(DNNL_ARG_SCRATCHPAD, dnnl::memory(pd.scratchpad_desc(), onednn::engine()));
  }

  RawPrimitive& bind(int argument, const dnnl::memory& memory) {
    arguments_.emplace(argument, memory);
    return *this;
  }
  void run() const {
    primitive_.execute(onednn::stream(), arguments_);
    onednn::stream().wait();
  }

 private:
  dnnl::primitive primitive_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

}  // namespace heddle::bench
