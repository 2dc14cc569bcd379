#include "heddle/apps/bench_kernels/raw_sides.h"
#include "heddle/apps/support/raw_descriptors_onednn.h"

namespace heddle::bench {
namespace {

using Tag = dnnl::memory::format_tag;
using Desc = dnnl::memory::desc;

dnnl::memory zeros(const Desc& desc) {
  dnnl::memory memory(desc, onednn::engine());
  std::fill_n(static_cast<char*>(memory.get_data_handle()), desc.get_size(), char{0});
  return memory;
}

RawPrimitive pool(const ImageWork& work, Direction direction, const Desc& x) {
  const bool is_max = work.op == ImageOp::kMaxPool;
  const int64_t kernel = work.op == ImageOp::kGlobalAverage ? work.size : 2;
  const int64_t size = work.size / kernel;
  const auto pds =
      pool_pds(is_max ? dnnl::algorithm::pooling_max : dnnl::algorithm::pooling_avg_include_padding,
               x, onednn::describe({work.batch, work.channels, size, size}, work.dtype, Tag::any),
               kernel, kernel);
  const auto y = random_memory(pds.forward.dst_desc(), work.dtype);
  const auto workspace = is_max ? zeros(pds.forward.workspace_desc()) : dnnl::memory();
  if (direction == Direction::kForward) {
    RawPrimitive primitive(pds.forward);
    primitive.bind(DNNL_ARG_SRC, random_memory(x, work.dtype)).bind(DNNL_ARG_DST, y);
    if (is_max) primitive.bind(DNNL_ARG_WORKSPACE, workspace);
    return primitive;
  }
  RawPrimitive primitive(pds.backward);
  primitive.bind(DNNL_ARG_DIFF_DST, y).bind(DNNL_ARG_DIFF_SRC, random_memory(x, work.dtype));
  if (is_max) primitive.bind(DNNL_ARG_WORKSPACE, workspace);
  return primitive;
}

RawPrimitive batch_norm(const ImageWork& work, Direction direction, const Desc& x) {
  const bool relu = work.op == ImageOp::kBatchNormRelu;
  const auto pds = batch_norm_pds(x, relu);
  const Desc channels = onednn::describe({work.channels}, DType::kFloat32, Tag::a);
  const auto vector = [&] { return random_memory(channels, DType::kFloat32); };
  const auto images = [&] { return random_memory(x, work.dtype); };
  const auto bind_common = [&](RawPrimitive& primitive) {
    primitive.bind(DNNL_ARG_SRC, images())
        .bind(DNNL_ARG_MEAN, vector())
        .bind(DNNL_ARG_VARIANCE, zeros(channels))
        .bind(DNNL_ARG_SCALE, vector())
        .bind(DNNL_ARG_SHIFT, vector());
    if (relu) primitive.bind(DNNL_ARG_WORKSPACE, zeros(pds.forward.workspace_desc()));
  };
  if (direction == Direction::kForward) {
    RawPrimitive primitive(pds.forward);
    bind_common(primitive);
    primitive.bind(DNNL_ARG_DST, images());
    return primitive;
  }
  RawPrimitive primitive(pds.backward);
  bind_common(primitive);
  primitive.bind(DNNL_ARG_DIFF_DST, images())
      .bind(DNNL_ARG_DIFF_SRC, images())
      .bind(DNNL_ARG_DIFF_SCALE, vector())
      .bind(DNNL_ARG_DIFF_SHIFT, vector());
  return primitive;
}

RawPrimitive make(const ImageWork& work, Direction direction, const Desc& x) {
  if (work.op == ImageOp::kBatchNorm || work.op == ImageOp::kBatchNormRelu)
    return batch_norm(work, direction, x);
  return pool(work, direction, x);
}

}  // namespace

void add_raw_sides(const ImageWork& work, Direction direction, Sides& sides) {
  if (work.op == ImageOp::kDropout) return;  // oneDNN has none
  const auto effective = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto avx512 = static_cast<unsigned>(dnnl::cpu_isa::avx512_core);
  const Tag blocked = (effective & avx512) == avx512 ? Tag::nChw16c : Tag::nChw8c;
  for (const auto& [name, tag] :
       {std::pair{"oneDNN blocked", blocked}, std::pair{"oneDNN channels-last", Tag::nhwc}})
    try {
      const Desc x =
          onednn::describe({work.batch, work.channels, work.size, work.size}, work.dtype, tag);
      const auto primitive = std::make_shared<RawPrimitive>(make(work, direction, x));
      sides.push_back({name, [primitive] { primitive->run(); }});
    } catch (const dnnl::error&) {
      continue;  // not on this processor
    }
}

}  // namespace heddle::bench
