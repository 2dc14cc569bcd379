// Pooling, batch-norm and dropout of images: what memory bounds.
#include <fmt/format.h>

#include "heddle/apps/bench_kernels/raw_sides.h"
#include "heddle/apps/bench_kernels/sides.h"
#include "heddle/kernels/batch_norm.h"
#include "heddle/kernels/dispatch.h"
#include "heddle/kernels/dropout.h"
#include "heddle/kernels/pool2d.h"

namespace heddle::bench {
namespace {

bool is_pool2d(ImageOp op) { return op == ImageOp::kMaxPool || op == ImageOp::kAveragePool; }

int64_t x_size(const ImageWork& work) { return work.batch * work.channels * work.size * work.size; }

int64_t y_size(const ImageWork& work) {
  if (work.op == ImageOp::kGlobalAverage) return work.batch * work.channels;
  return is_pool2d(work.op) ? x_size(work) / 4 : x_size(work);
}

/// What the kernels read and write: x and its gradient share one array, y and its gradient another.
struct Images {
  void* x;
  void* y;
  bool forward;
};

void add_pool(const ImageWork& work, const Images& images, const Setting& setting,
              Prepared& prepared) {
  Pool2dGeometry g;
  g.dtype = setting.dtype_of(work.dtype);
  g.batch = work.batch;
  g.channels = work.channels;
  g.in_h = g.in_w = work.size;
  g.out_h = g.out_w = work.size / 2;
  if (work.op == ImageOp::kAveragePool) {
    const AvgPool2dForwardArgs forward{g, images.y, images.x, true};
    const AvgPool2dBackwardArgs backward{g, images.x, images.y, true};
    if (images.forward) HEDDLE_ADD_ALL_SIDES(prepared, setting, avg_pool2d_forward, forward, cudnn);
    if (!images.forward)
      HEDDLE_ADD_ALL_SIDES(prepared, setting, avg_pool2d_backward, backward, cudnn);
    return;
  }
  const DType place = DType::kUInt8;
  void* const places = prepared.hold(random_input(y_size(work), place, setting));
  const MaxPool2dForwardArgs forward{g, images.y, images.x, places, place};
  const MaxPool2dBackwardArgs backward{g, images.x, images.y, places, place};
  if (!images.forward) {
    HEDDLE_ADD_ALL_SIDES(prepared, setting, max_pool2d_backward, backward, cudnn);
    return;
  }
  HEDDLE_ADD_NATIVE(prepared, setting, max_pool2d_forward, forward);
  HEDDLE_ADD_CUDA_VENDOR(prepared, setting, max_pool2d_forward, forward, cudnn);
}

void add_global(const ImageWork& work, const Images& images, const Setting& setting,
                Prepared& prepared) {
  const DType dtype = setting.dtype_of(work.dtype);
  const int64_t pixels = work.size * work.size;
  const GlobalAvgPoolForwardArgs forward{dtype,         work.batch, pixels,
                                         work.channels, images.y,   images.x};
  const GlobalAvgPoolBackwardArgs backward{dtype,         work.batch, pixels,
                                           work.channels, images.x,   images.y};
  if (images.forward) HEDDLE_ADD_NATIVE(prepared, setting, global_avg_pool_forward, forward);
  if (!images.forward) HEDDLE_ADD_NATIVE(prepared, setting, global_avg_pool_backward, backward);
}

void add_batch_norm(const ImageWork& work, const Images& images, const Setting& setting,
                    Prepared& prepared) {
  void* v[7];  // weight, bias, mean, var, inv_std, dw, db
  for (void*& vector : v)
    vector = prepared.hold(random_input(work.channels, DType::kFloat32, setting, 0.5F));
  const BatchNormProblem problem{
      setting.dtype_of(work.dtype),      x_size(work) / work.channels, work.channels, v[0], v[1],
      work.op == ImageOp::kBatchNormRelu};
  if (images.forward) {
    const BatchNormForwardArgs args{problem, 1e-5, images.y, v[2], v[3], v[4], images.x};
    HEDDLE_ADD_ALL_SIDES(prepared, setting, batch_norm_forward, args, cudnn);
    return;
  }
  prepared.result = output(x_size(work), work.dtype, setting);
  const BatchNormBackwardArgs args{
      problem, true, prepared.hold(prepared.result), v[5], v[6], images.y, images.x, v[2], v[4]};
  HEDDLE_ADD_ALL_SIDES(prepared, setting, batch_norm_backward, args, cudnn);
}

void add_dropout(const ImageWork& work, const Images& images, const Setting& setting,
                 Prepared& prepared) {
  const DType dtype = setting.dtype_of(work.dtype);
  const int64_t n = x_size(work);
  auto* const mask = static_cast<uint8_t*>(prepared.hold(random_input(n, DType::kUInt8, setting)));
  if (images.forward) {
    const DropoutForwardArgs args{.dtype = dtype,
                                  .images = work.batch,
                                  .planes = work.channels,
                                  .pixels = work.size * work.size,
                                  .probability = 0.5F,
                                  .scale = 2.0,
                                  .rng = Rng(1, RngPurpose::kDropout),
                                  .y = images.y,
                                  .mask = mask,
                                  .x = images.x};
    HEDDLE_ADD_NATIVE(prepared, setting, dropout_forward, args);
    return;
  }
  const DropoutBackwardArgs args{dtype, n, 2.0, images.x, images.y, mask};
  HEDDLE_ADD_NATIVE(prepared, setting, dropout_backward, args);
}

Prepared prepare(const ImageWork& work, Direction direction, const Setting& setting) {
  Prepared prepared;
  const Tensor x = random_input(x_size(work), work.dtype, setting);
  const Tensor y = random_input(y_size(work), work.dtype, setting);
  const bool forward = direction == Direction::kForward;
  const Images images{prepared.hold(x), prepared.hold(y), forward};
  prepared.result = forward ? y : x;
  switch (work.op) {
    case ImageOp::kMaxPool:
    case ImageOp::kAveragePool:
      add_pool(work, images, setting, prepared);
      break;
    case ImageOp::kGlobalAverage:
      add_global(work, images, setting, prepared);
      break;
    case ImageOp::kBatchNorm:
    case ImageOp::kBatchNormRelu:
      add_batch_norm(work, images, setting, prepared);
      break;
    case ImageOp::kDropout:
      add_dropout(work, images, setting, prepared);
      break;
  }
  if (setting.beside_onednn()) add_raw_sides(work, direction, prepared.sides);
  return prepared;
}

/// Bytes that must be read or written at least once, caches aside.
int64_t bytes_of(const ImageWork& work, bool forward) {
  const int64_t x = x_size(work), y = y_size(work);
  int64_t elements = x + y, bytes = 0;
  if (work.op == ImageOp::kBatchNorm || work.op == ImageOp::kBatchNormRelu)
    elements = forward ? 3 * x : 5 * x;                                         // x (and dy) twice
  if (work.op == ImageOp::kMaxPool || work.op == ImageOp::kDropout) bytes = y;  // places, mask
  return elements * size_of(work.dtype) + bytes;
}

}  // namespace

std::vector<Case> image_cases(const Scale& scale) {
  struct Layer {
    const char* name;
    ImageOp op;
    int64_t channels, size;
  };
  constexpr Layer kLayers[] = {
      {"max_pool2d", ImageOp::kMaxPool, 64, 32},
      {"avg_pool2d", ImageOp::kAveragePool, 64, 32},
      {"global_avg_pool2d", ImageOp::kGlobalAverage, 512, 4},
      {"batch_norm", ImageOp::kBatchNorm, 64, 32},
      {"batch_norm_relu", ImageOp::kBatchNormRelu, 64, 32},
      {"dropout", ImageOp::kDropout, 64, 32},
  };
  std::vector<Case> cases;
  for (const DType dtype : scale.dtypes)
    for (const Layer& layer : kLayers)
      for (const Direction direction : {Direction::kForward, Direction::kData}) {
        const ImageWork work{layer.op, dtype, scale.batch, layer.channels, layer.size};
        Case result;
        result.name = fmt::format("{}/{}/{}x{}x{}x{}/{}", layer.name, name_of(direction),
                                  scale.batch, layer.channels, layer.size, layer.size, dtype);
        result.dtype = dtype;
        result.bytes = static_cast<double>(bytes_of(work, direction == Direction::kForward));
        result.prepare = [work, direction](const Setting& s) {
          return prepare(work, direction, s);
        };
        cases.push_back(std::move(result));
      }
  return cases;
}

}  // namespace heddle::bench
