// ReLU, pooling and batch-norm of images: what memory bounds, beside oneDNN.
#include <fmt/format.h>

#include "heddle/apps/bench_kernels/cases.h"
#include "heddle/apps/bench_kernels/raw_sides.h"
#include "heddle/kernels/batch_norm.h"
#include "heddle/kernels/pool2d.h"
#include "heddle/kernels/unary.h"

namespace heddle::bench {
namespace {

using Buffer = std::shared_ptr<void>;

int64_t kernel_of(const ImageWork& work) {
  if (work.op == ImageOp::kGlobalAverage) return work.size;
  return work.op == ImageOp::kMaxPool || work.op == ImageOp::kAveragePool ? 2 : 1;
}

int64_t x_size(const ImageWork& work) { return work.batch * work.channels * work.size * work.size; }

int64_t y_size(const ImageWork& work) { return x_size(work) / (kernel_of(work) * kernel_of(work)); }

Side relu_side(const ImageWork& work, bool forward, const Buffer& x, const Buffer& y) {
  const int64_t n = x_size(work);
  const DType dtype = work.dtype;
  if (forward)
    return {"native", [=] { cpu::unary_forward({y.get(), x.get(), n, dtype, UnaryOp::kRelu}); }};
  const Buffer dx = random_buffer(n, dtype);
  return {"native", [=] {
            cpu::unary_backward({dx.get(), x.get(), y.get(), n, dtype, UnaryOp::kRelu});
          }};
}

Side pool_side(const ImageWork& work, bool forward, const Buffer& x, const Buffer& y) {
  Pool2dGeometry g;
  g.dtype = work.dtype;
  g.batch = work.batch;
  g.channels = work.channels;
  g.in_h = g.in_w = work.size;
  g.out_h = g.out_w = work.size / 2;
  if (work.op == ImageOp::kAveragePool) {
    if (forward) return {"native", [=] { cpu::avg_pool2d_forward({g, y.get(), x.get(), true}); }};
    return {"native", [=] { cpu::avg_pool2d_backward({g, x.get(), y.get(), true}); }};
  }
  const Buffer places = random_buffer(y_size(work), DType::kUInt8);
  const DType place = DType::kUInt8;
  if (forward)
    return {"native", [=] { cpu::max_pool2d_forward({g, y.get(), x.get(), places.get(), place}); }};
  return {"native", [=] { cpu::max_pool2d_backward({g, x.get(), y.get(), places.get(), place}); }};
}

Side global_side(const ImageWork& work, bool forward, const Buffer& x, const Buffer& y) {
  const int64_t pixels = work.size * work.size, batch = work.batch, channels = work.channels;
  const DType dtype = work.dtype;
  if (forward)
    return {"native", [=] {
              cpu::global_avg_pool_forward({dtype, batch, pixels, channels, y.get(), x.get()});
            }};
  return {"native", [=] {
            cpu::global_avg_pool_backward({dtype, batch, pixels, channels, x.get(), y.get()});
          }};
}

Side batch_norm_side(const ImageWork& work, bool forward, const Buffer& x, const Buffer& y) {
  std::vector<Buffer> v;  // weight, bias, mean, var, inv_std, dw, db
  for (int i = 0; i < 7; ++i) v.push_back(random_buffer(work.channels, DType::kFloat32));
  const BatchNormProblem problem{
      work.dtype, x_size(work) / work.channels, work.channels, v[0].get(), v[1].get(), true};
  if (forward)
    return {"native", [=] {
              cpu::batch_norm_forward(
                  {problem, 1e-5, y.get(), v[2].get(), v[3].get(), v[4].get(), x.get()});
            }};
  const Buffer dx = random_buffer(x_size(work), work.dtype);
  return {"native", [=] {
            cpu::batch_norm_backward({problem, true, dx.get(), v[5].get(), v[6].get(), y.get(),
                                      x.get(), v[2].get(), v[4].get()});
          }};
}

std::vector<Side> prepare(const ImageWork& work, Direction direction) {
  const bool forward = direction == Direction::kForward;
  const Buffer x = random_buffer(x_size(work), work.dtype);
  const Buffer y = random_buffer(y_size(work), work.dtype);
  std::vector<Side> sides;
  switch (work.op) {
    case ImageOp::kRelu:
      sides.push_back(relu_side(work, forward, x, y));
      break;
    case ImageOp::kMaxPool:
    case ImageOp::kAveragePool:
      sides.push_back(pool_side(work, forward, x, y));
      break;
    case ImageOp::kGlobalAverage:
      sides.push_back(global_side(work, forward, x, y));
      break;
    case ImageOp::kBatchNorm:
      sides.push_back(batch_norm_side(work, forward, x, y));
      break;
  }
  add_raw_sides(work, direction, sides);
  return sides;
}

/// Bytes that must be read or written at least once, caches aside.
int64_t bytes_of(const ImageWork& work, bool forward) {
  const int64_t x = x_size(work), y = y_size(work);
  int64_t elements = x + y;
  if (work.op == ImageOp::kRelu && !forward) elements = 3 * x;
  if (work.op == ImageOp::kBatchNorm) elements = forward ? 3 * x : 5 * x;  // x (and dy) twice
  return elements * size_of(work.dtype) + (work.op == ImageOp::kMaxPool ? y : 0);
}

}  // namespace

std::vector<Case> image_cases() {
  struct Layer {
    const char* name;
    ImageOp op;
    int64_t channels, size;
  };
  constexpr Layer kLayers[] = {
      {"relu", ImageOp::kRelu, 64, 32},
      {"max_pool2d", ImageOp::kMaxPool, 64, 32},
      {"avg_pool2d", ImageOp::kAveragePool, 64, 32},
      {"global_avg_pool2d", ImageOp::kGlobalAverage, 512, 4},
      {"batch_norm_relu", ImageOp::kBatchNorm, 64, 32},
  };
  std::vector<Case> cases;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16})
    for (const Layer& layer : kLayers)
      for (const Direction direction : {Direction::kForward, Direction::kData}) {
        const ImageWork work{layer.op, dtype, 64, layer.channels, layer.size};
        Case result;
        result.name = fmt::format("{}/{}/64x{}x{}x{}/{}", layer.name, name_of(direction),
                                  layer.channels, layer.size, layer.size, dtype);
        result.dtype = dtype;
        result.bytes = static_cast<double>(bytes_of(work, direction == Direction::kForward));
        result.prepare = [work, direction] { return prepare(work, direction); };
        cases.push_back(std::move(result));
      }
  return cases;
}

}  // namespace heddle::bench
