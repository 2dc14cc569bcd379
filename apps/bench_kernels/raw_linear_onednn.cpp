#include "heddle/apps/bench_kernels/raw_sides.h"
#include "heddle/apps/support/raw_onednn.h"

namespace heddle::bench {
namespace {

using Tag = dnnl::memory::format_tag;
using Desc = dnnl::memory::desc;

struct Descriptions {
  Desc x, w, y, bias;
};

Descriptions describe(const LinearWork& work, Tag tag) {
  return {onednn::describe({work.rows, work.in}, work.dtype, tag),
          onednn::describe({work.out, work.in}, work.dtype, tag),
          onednn::describe({work.rows, work.out}, work.dtype, tag),
          onednn::describe({work.out}, work.dtype, Tag::a)};
}

dnnl::inner_product_forward::primitive_desc forward_pd(const Descriptions& d, bool relu) {
  dnnl::primitive_attr attr = onednn::attributes();
  if (relu) attr = onednn::attributes_with_relu(0.0F);
  return onednn::make_pd<dnnl::inner_product_forward>(attr, dnnl::prop_kind::forward_training, d.x,
                                                      d.w, d.bias, d.y);
}

RawPrimitive forward(const LinearWork& work, const Descriptions& d) {
  const auto pd = forward_pd(d, work.relu);
  RawPrimitive primitive(pd);
  primitive.bind(DNNL_ARG_SRC, random_memory(pd.src_desc(), work.dtype))
      .bind(DNNL_ARG_WEIGHTS, random_memory(pd.weights_desc(), work.dtype))
      .bind(DNNL_ARG_BIAS, random_memory(pd.bias_desc(), work.dtype))
      .bind(DNNL_ARG_DST, random_memory(pd.dst_desc(), work.dtype));
  return primitive;
}

RawPrimitive backward_data(const LinearWork& work, const Descriptions& d) {
  const auto pd = onednn::make_backward_pd<dnnl::inner_product_backward_data>(forward_pd(d, false),
                                                                              d.x, d.w, d.y);
  RawPrimitive primitive(pd);
  primitive.bind(DNNL_ARG_DIFF_SRC, random_memory(pd.diff_src_desc(), work.dtype))
      .bind(DNNL_ARG_WEIGHTS, random_memory(pd.weights_desc(), work.dtype))
      .bind(DNNL_ARG_DIFF_DST, random_memory(pd.diff_dst_desc(), work.dtype));
  return primitive;
}

RawPrimitive backward_weight(const LinearWork& work, const Descriptions& d) {
  const auto pd = onednn::make_backward_pd<dnnl::inner_product_backward_weights>(
      forward_pd(d, false), d.x, d.w, d.bias, d.y);
  RawPrimitive primitive(pd);
  primitive.bind(DNNL_ARG_SRC, random_memory(pd.src_desc(), work.dtype))
      .bind(DNNL_ARG_DIFF_WEIGHTS, random_memory(pd.diff_weights_desc(), work.dtype))
      .bind(DNNL_ARG_DIFF_BIAS, random_memory(pd.diff_bias_desc(), work.dtype))
      .bind(DNNL_ARG_DIFF_DST, random_memory(pd.diff_dst_desc(), work.dtype));
  return primitive;
}

RawPrimitive inner_product(const LinearWork& work, Direction direction, Tag tag) {
  const Descriptions d = describe(work, tag);
  switch (direction) {
    case Direction::kForward:
      return forward(work, d);
    case Direction::kData:
      return backward_data(work, d);
    case Direction::kWeight:
      break;
  }
  return backward_weight(work, d);
}

/// c (m, n) = a b; a and c in row-major order or, where `transposed`, a in column-major.
RawPrimitive product(const LinearWork& work, Direction direction) {
  int64_t m = work.rows, k = work.in, n = work.out;
  if (direction == Direction::kData) std::swap(k, n);
  if (direction == Direction::kWeight) m = work.out, k = work.rows, n = work.in;
  const bool forward = direction == Direction::kForward;
  const Desc a =
      onednn::describe({m, k}, work.dtype, direction == Direction::kWeight ? Tag::ba : Tag::ab);
  const Desc b = onednn::describe({k, n}, work.dtype, Tag::any);
  const Desc c = onednn::describe({m, n}, work.dtype, Tag::ab);
  const Desc bias = forward ? onednn::describe({1, n}, work.dtype, Tag::ab) : Desc();
  const auto attr =
      forward && work.relu ? onednn::attributes_with_relu(0.0F) : onednn::attributes();
  const auto pd = onednn::make_pd<dnnl::matmul>(attr, a, b, bias, c);
  RawPrimitive primitive(pd);
  primitive.bind(DNNL_ARG_SRC, random_memory(pd.src_desc(), work.dtype))
      .bind(DNNL_ARG_WEIGHTS, random_memory(pd.weights_desc(), work.dtype))
      .bind(DNNL_ARG_DST, random_memory(pd.dst_desc(), work.dtype));
  if (forward) primitive.bind(DNNL_ARG_BIAS, random_memory(pd.bias_desc(), work.dtype));
  return primitive;
}

template <class Make>
void add_side(const char* name, const Make& make, Sides& sides) try {
  const auto primitive = std::make_shared<RawPrimitive>(make());
  sides.push_back({name, [primitive] { primitive->run(); }});
} catch (const dnnl::error&) {
  return;  // not on this processor
}

}  // namespace

void add_raw_sides(const LinearWork& work, Direction direction, Sides& sides) {
  add_side(
      "oneDNN blocked", [&] { return inner_product(work, direction, Tag::any); }, sides);
  add_side(
      "oneDNN matmul", [&] { return product(work, direction); }, sides);
  add_side(
      "oneDNN dense", [&] { return inner_product(work, direction, Tag::ab); }, sides);
}

}  // namespace heddle::bench
