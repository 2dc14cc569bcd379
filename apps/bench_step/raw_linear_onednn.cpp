// Fully connected layers of RawNet.
#include <cmath>
#include <numeric>

#include "heddle/apps/bench_step/raw_layers_onednn.h"

namespace heddle::bench {
namespace {

using Desc = dnnl::memory::desc;
using Memory = dnnl::memory;

int64_t features_of(const dnnl::memory::dims& dims) {
  return std::accumulate(dims.begin() + 1, dims.end(), int64_t{1}, std::multiplies<>());
}

/// db (out) = the sum of dy's rows: matmul does not give it.
template <class T>
void sum_rows(const Memory& dy, const Memory& db, int64_t rows, int64_t out) {
  const T* from = static_cast<const T*>(dy.get_data_handle());
  std::vector<float> sums(static_cast<size_t>(out));
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t j = 0; j < out; ++j) sums[j] += static_cast<float>(from[row * out + j]);
  T* to = static_cast<T*>(db.get_data_handle());
  for (int64_t j = 0; j < out; ++j) to[j] = static_cast<T>(sums[j]);
}

/// The same memory under another description of the same bytes.
Memory seen_as(const Memory& memory, const Desc& desc) {
  Memory view(desc, onednn::engine(), memory.get_data_handle());
  return view;
}

struct Descs {
  Desc x, w, y, bias;
};

dnnl::inner_product_forward::primitive_desc forward_pd(const Descs& d, bool relu) {
  const auto attr = relu ? onednn::attributes_with_relu(0.0F) : onednn::attributes();
  return onednn::make_pd<dnnl::inner_product_forward>(attr, dnnl::prop_kind::forward_training, d.x,
                                                      d.w, d.bias, d.y);
}

}  // namespace

RawNet::Node RawNet::linear(const Memory& x, int64_t out, bool relu, Linear kind) {
  return kind == Linear::kInnerProduct ? inner_product(x, out, relu) : plain_linear(x, out, relu);
}

RawNet::Node RawNet::inner_product(const Memory& input, int64_t out, bool relu) {
  const auto x_dims = dims_of(input.get_desc());
  auto w_dims = x_dims;
  w_dims[0] = out;
  const bool is_image = x_dims.size() == 4;
  const Descs d{onednn::describe(x_dims, dtype_, Tag::any),
                onednn::describe(w_dims, dtype_, Tag::any),
                onednn::describe({x_dims[0], out}, dtype_, Tag::any),
                onednn::describe({out}, dtype_, Tag::a)};
  const auto pd = forward_pd(d, relu);
  const float scale = 1.0F / std::sqrt(static_cast<float>(features_of(x_dims)));
  const Desc plain = onednn::describe(w_dims, dtype_, is_image ? Tag::abcd : Tag::ab);
  Parameter& w = parameter(plain, pd.weights_desc(), dtype_, scale);
  Parameter& bias = parameter(d.bias, d.bias, dtype_, scale);
  const Memory x = in_layout(input, pd.src_desc()), y = zeros(pd.dst_desc());
  add_step(step_of(pd, {{DNNL_ARG_SRC, x},
                        {DNNL_ARG_WEIGHTS, w.value},
                        {DNNL_ARG_BIAS, bias.value},
                        {DNNL_ARG_DST, y}}));

  const auto backward = [this, d, relu, x, y, &w, &bias](const Memory& output_gradient) {
    const Memory dy = relu ? relu_backward(y, output_gradient) : output_gradient;
    const auto hint = forward_pd(d, false);
    const auto weight_pd =
        onednn::make_backward_pd<dnnl::inner_product_backward_weights>(hint, d.x, d.w, d.bias, d.y);
    add_weight_gradient(weight_pd, x, dy, w, &bias);
    const auto data_pd =
        onednn::make_backward_pd<dnnl::inner_product_backward_data>(hint, d.x, d.w, d.y);
    return add_data_gradient(data_pd, dy, w);
  };
  return {y, backward};
}

/// (N, features), dense, of images in channels-last order: as good as any for a layer that learns.
RawNet::Memory RawNet::flat(const Memory& x) {
  const auto dims = dims_of(x.get_desc());
  if (dims.size() == 2) return in_layout(x, onednn::describe(dims, dtype_, Tag::ab));
  const Memory ordered = in_layout(x, onednn::describe(dims, dtype_, Tag::nhwc));
  return seen_as(ordered, onednn::describe({dims[0], features_of(dims)}, dtype_, Tag::ab));
}

/// A row-major layer: in each direction the faster of inner product and matmul.
struct RawNet::PlainLinear {
  Descs d;
  Memory x, y;
  Parameter *w, *bias;
  int64_t rows, out;
  bool relu;
};

RawNet::Node RawNet::plain_linear(const Memory& input, int64_t out, bool relu) {
  const auto x_dims = dims_of(input.get_desc());
  const int64_t rows = x_dims[0], in = features_of(x_dims);
  const Descs d{
      onednn::describe({rows, in}, dtype_, Tag::ab), onednn::describe({out, in}, dtype_, Tag::ab),
      onednn::describe({rows, out}, dtype_, Tag::ab), onednn::describe({out}, dtype_, Tag::a)};
  const float scale = 1.0F / std::sqrt(static_cast<float>(in));
  Parameter& w = parameter(d.w, d.w, dtype_, scale);
  Parameter& bias = parameter(d.bias, d.bias, dtype_, scale);
  const PlainLinear layer{d, flat(input), zeros(d.y), &w, &bias, rows, out, relu};
  plain_forward(layer);

  const auto backward = [this, layer, x_dims](const Memory& output_gradient) {
    Memory dy = in_layout(output_gradient, layer.d.y);
    if (layer.relu) dy = relu_backward(layer.y, dy);
    plain_weight_gradient(layer, dy);
    const Memory dx = zeros(layer.d.x);
    plain_data_gradient(layer, dy, dx);
    return x_dims.size() == 2 ? dx : seen_as(dx, onednn::describe(x_dims, dtype_, Tag::nhwc));
  };
  return {layer.y, backward};
}

void RawNet::plain_forward(const PlainLinear& l) {
  const auto by_inner_product = [&] {
    return std::vector{step_of(forward_pd(l.d, l.relu), {{DNNL_ARG_SRC, l.x},
                                                         {DNNL_ARG_WEIGHTS, l.w->value},
                                                         {DNNL_ARG_BIAS, l.bias->value},
                                                         {DNNL_ARG_DST, l.y}})};
  };
  const auto by_matmul = [&] {
    const auto attr = l.relu ? onednn::attributes_with_relu(0.0F) : onednn::attributes();
    const Desc transposed = onednn::describe({features_of(dims_of(l.d.x)), l.out}, dtype_, Tag::ba);
    const Desc bias_row = onednn::describe({1, l.out}, dtype_, Tag::ab);
    const auto pd = onednn::make_pd<dnnl::matmul>(attr, l.d.x, transposed, bias_row, l.d.y);
    return std::vector{step_of(pd, {{DNNL_ARG_SRC, l.x},
                                    {DNNL_ARG_WEIGHTS, seen_as(l.w->value, transposed)},
                                    {DNNL_ARG_BIAS, seen_as(l.bias->value, bias_row)},
                                    {DNNL_ARG_DST, l.y}})};
  };
  add_fastest({by_inner_product, by_matmul});
}

void RawNet::plain_weight_gradient(const PlainLinear& l, const Memory& dy) {
  const auto by_inner_product = [&] {
    const auto pd = onednn::make_backward_pd<dnnl::inner_product_backward_weights>(
        forward_pd(l.d, false), l.d.x, l.d.w, l.d.bias, l.d.y);
    return std::vector{step_of(pd, {{DNNL_ARG_SRC, l.x},
                                    {DNNL_ARG_DIFF_DST, dy},
                                    {DNNL_ARG_DIFF_WEIGHTS, l.w->gradient},
                                    {DNNL_ARG_DIFF_BIAS, l.bias->gradient}})};
  };
  const auto by_matmul = [&] {
    const Desc transposed = onednn::describe({l.out, l.rows}, dtype_, Tag::ba);
    const auto pd = onednn::make_pd<dnnl::matmul>(onednn::attributes(), transposed, l.d.x, l.d.w);
    Step sum;
    sum.plain = [dy, db = l.bias->gradient, rows = l.rows, out = l.out, dtype = dtype_] {
      dtype == DType::kBFloat16 ? sum_rows<BFloat16>(dy, db, rows, out)
                                : sum_rows<float>(dy, db, rows, out);
    };
    return std::vector{step_of(pd, {{DNNL_ARG_SRC, seen_as(dy, transposed)},
                                    {DNNL_ARG_WEIGHTS, l.x},
                                    {DNNL_ARG_DST, l.w->gradient}}),
                       sum};
  };
  add_fastest({by_inner_product, by_matmul});
}

void RawNet::plain_data_gradient(const PlainLinear& l, const Memory& dy, const Memory& dx) {
  const auto by_inner_product = [&] {
    const auto pd = onednn::make_backward_pd<dnnl::inner_product_backward_data>(
        forward_pd(l.d, false), l.d.x, l.d.w, l.d.y);
    return std::vector{step_of(
        pd, {{DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_WEIGHTS, l.w->value}, {DNNL_ARG_DIFF_SRC, dx}})};
  };
  const auto by_matmul = [&] {
    const auto pd = onednn::make_pd<dnnl::matmul>(onednn::attributes(), l.d.y, l.d.w, l.d.x);
    return std::vector{
        step_of(pd, {{DNNL_ARG_SRC, dy}, {DNNL_ARG_WEIGHTS, l.w->value}, {DNNL_ARG_DST, dx}})};
  };
  add_fastest({by_inner_product, by_matmul});
}

}  // namespace heddle::bench
