// What the memory-bound kernels ask of memory at aligned shapes: no more than 1.05 times the
// sectors that hold their operands.
#include <cudasim/profile.h>

#include <deque>

#include "heddle/core/cuda_check.h"
#include "heddle/kernels/augment.h"
#include "heddle/kernels/binary.h"
#include "heddle/kernels/copy.h"
#include "heddle/kernels/dropout.h"
#include "heddle/kernels/fill.h"
#include "heddle/kernels/optimizer.h"
#include "heddle/kernels/random.h"
#include "heddle/kernels/reduce.h"
#include "heddle/kernels/tree_sum.h"
#include "heddle/kernels/unary.h"
#include "heddle/tests/kernels/mirror.h"
#include "heddle/tests/support/catch.h"

namespace heddle {
namespace {

using namespace testing;

constexpr double kMostExcess = 1.05;

template <class Run>
void check_sectors(const std::string& what, const Run& run) {
  CAPTURE(what);
  const cudasim::Profile profile;
  run(test_stream());
  HEDDLE_CUDA_CHECK(cudaStreamSynchronize(test_stream().get()));
  const auto kernels = profile.kernels();
  CHECK(!kernels.empty());
  for (const cudasim::KernelProfile& kernel : kernels) {
    CAPTURE(kernel.kernel);
    const int64_t asked = kernel.of(cudasim::AccessClass::kGlobalLoad).sectors +
                          kernel.of(cudasim::AccessClass::kGlobalStore).sectors;
    const int64_t least = kernel.read_sectors + kernel.written_sectors;
    CAPTURE(kernel.load_excess(), kernel.store_excess());
    CHECK(static_cast<double>(asked) <= kMostExcess * static_cast<double>(least));
  }
}

/// All global accesses of the kernels together are of `bytes` a thread, up to 5% of them.
template <class Run>
void check_width(const std::string& what, double bytes, const Run& run) {
  CAPTURE(what);
  const cudasim::Profile profile;
  run(test_stream());
  HEDDLE_CUDA_CHECK(cudaStreamSynchronize(test_stream().get()));
  for (const cudasim::KernelProfile& kernel : profile.kernels()) {
    for (const auto access :
         {cudasim::AccessClass::kGlobalLoad, cudasim::AccessClass::kGlobalStore}) {
      const cudasim::AccessCounts& counts = kernel.of(access);
      if (counts.lanes == 0) continue;
      CAPTURE(kernel.kernel, counts.bytes, counts.lanes);
      CHECK(static_cast<double>(counts.bytes) >= 0.95 * bytes * static_cast<double>(counts.lanes));
    }
  }
}

TEST_CASE("elementwise kernels move each sector once, 16 bytes at a time", "[profile]") {
  constexpr int64_t kN = 1 << 16;
  for (const DType dtype : device_floats()) {
    Mirror x(dtype, {kN}), y(dtype, {kN}), z(dtype, {kN});
    x.fill_random(1);
    y.fill_random(2);
    const std::string name(name_of(dtype));
    const auto unary = [&](StreamRef stream) {
      cuda::unary_forward({y.device_data(), x.device_data(), kN, dtype, UnaryOp::kRelu}, stream);
    };
    const auto unary_backward = [&](StreamRef stream) {
      cuda::unary_backward(
          {z.device_data(), y.device_data(), x.device_data(), kN, dtype, UnaryOp::kGelu}, stream);
    };
    const auto binary = [&](StreamRef stream) {
      cuda::binary({z.device(), y.device(), x.device(), BinaryOp::kAdd}, stream);
    };
    const auto copy = [&](StreamRef stream) { cuda::copy({z.device(), y.device()}, stream); };
    const auto fill = [&](StreamRef stream) { cuda::fill({z.device(), 1.0}, stream); };
    const auto random = [&](StreamRef stream) {
      cuda::random({z.device(), Rng(1, RngPurpose::kUser), Distribution::kUniform, 0, 1}, stream);
    };
    const std::pair<const char*, std::function<void(StreamRef)>> cases[] = {
        {"unary forward", unary}, {"unary backward", unary_backward},
        {"binary", binary},       {"copy", copy},
        {"fill", fill},           {"random", random}};
    for (const auto& [what, run] : cases) {
      check_sectors(name + " " + what, run);
      check_width(name + " " + what, 16, run);
    }
  }
}

TEST_CASE("the sum of replicas' gradients moves each sector once, 16 bytes at a time",
          "[profile]") {
  constexpr int64_t kN = 1 << 15;
  for (const int n_inputs : {2, 3, 8}) {
    std::deque<Mirror> x;
    TreeSumArgs args{{}, n_inputs, nullptr, kN};
    for (int k = 0; k < n_inputs; ++k) {
      x.emplace_back(DType::kFloat32, Shape{kN}).fill_random(static_cast<uint64_t>(k));
      args.x[k] = x.back().device_as<float>();
    }
    Mirror y(DType::kFloat32, {kN});
    args.y = y.device_as<float>();
    const auto run = [&](StreamRef stream) { cuda::tree_sum(args, stream); };
    check_sectors("tree_sum of " + std::to_string(n_inputs), run);
    check_width("tree_sum of " + std::to_string(n_inputs), 16, run);
  }
}

TEST_CASE("dropout moves each sector once", "[profile]") {
  const Rng rng(3, RngPurpose::kDropout);
  for (const DType dtype : device_floats()) {
    Mirror x(dtype, {4, 64, 8, 8}), y(dtype, {4, 64, 8, 8}), mask(DType::kUInt8, {4, 64, 8, 8});
    x.fill_random(4);
    const auto forward = [&](int64_t images, int64_t planes, int64_t pixels) {
      check_sectors("dropout", [&](StreamRef stream) {
        cuda::dropout_forward({dtype, images, planes, pixels, 0.5F, 2.0, rng, y.device_data(),
                               mask.device_as<uint8_t>(), x.device_data()},
                              stream);
      });
    };
    forward(1, 1, 4 * 64 * 64);
    forward(4, 64, 64);
    check_sectors("dropout backward", [&](StreamRef stream) {
      cuda::dropout_backward(
          {dtype, x.n(), 2.0, y.device_data(), x.device_data(), mask.device_as<uint8_t>()}, stream);
    });
  }
}

TEST_CASE("copies and casts move each sector once, turned ones too", "[profile]") {
  for (const DType from : every_dtype()) {
    for (const DType to : every_dtype()) {
      Mirror source(from, {1 << 14}), target(to, {1 << 14});
      source.fill_random(5, 0.0, 100.0);
      check_sectors(std::string(name_of(from)) + " to " + std::string(name_of(to)),
                    [&](StreamRef stream) {
                      cuda::copy({target.device(), source.device()}, stream);
                    });
    }
    Mirror source(from, {4, 64, 16, 32}), target(from, {4, 64, 16, 32}, {32768, 1, 2048, 64});
    source.fill_random(6, 0.0, 100.0);
    check_sectors(std::string(name_of(from)) + " to channels-last", [&](StreamRef stream) {
      cuda::copy({target.device(), source.device()}, stream);
    });
  }
}

TEST_CASE("reductions move each sector once, along rows and columns", "[profile]") {
  struct Case {
    Shape x, y;
  };
  const Case cases[] = {{{1 << 17}, {1}},
                        {{64, 2048}, {64, 1}},
                        {{8, 16384}, {8, 1}},
                        {{2048, 64}, {1, 64}},
                        {{512, 1024}, {1, 1024}},
                        {{4096, 16}, {4096, 1}},
                        {{16, 128, 64}, {16, 1, 64}}};
  for (const DType dtype : device_floats()) {
    for (const Case& shapes : cases) {
      Mirror x(dtype, shapes.x), y(dtype, shapes.y), index(DType::kInt64, shapes.y);
      x.fill_random(7);
      const std::string name =
          std::string(name_of(dtype)) + " " + to_string(shapes.x) + " to " + to_string(shapes.y);
      check_sectors("sum of " + name, [&](StreamRef stream) {
        cuda::reduce({y.device(), x.device(), ReduceOp::kSum}, stream);
      });
      check_sectors("argmax of " + name, [&](StreamRef stream) {
        cuda::argmax({index.device(), x.device()}, stream);
      });
    }
  }
}

TEST_CASE("optimizer steps and finite checks move each sector once", "[profile]") {
  for (const DType dtype : device_floats()) {
    constexpr int64_t kN = 1 << 15;
    Mirror p(dtype, {kN}), g(dtype, {kN}), m(DType::kFloat32, {kN}), v(DType::kFloat32, {kN});
    Mirror sum(DType::kFloat64, {1}), finite(DType::kUInt8, {1});
    g.fill_random(8);
    const ParamSlot slot{
        p.device_data(), g.device_data(), m.device_data(), v.device_data(), kN, dtype, 2};
    check_sectors("adam", [&](StreamRef stream) {
      cuda::adam_step({.slots = {&slot, 1}}, stream);
    });
    check_sectors("sgd", [&](StreamRef stream) {
      cuda::sgd_step({.slots = {&slot, 1}, .momentum = 0.9}, stream);
    });
    check_sectors("gradient norm", [&](StreamRef stream) {
      cuda::gradient_squares({{&slot, 1}, sum.device_as<double>()}, stream);
    });
    check_sectors("finite check of gradients", [&](StreamRef stream) {
      cuda::gradients_finite({{&slot, 1}, finite.device_as<bool>()}, stream);
    });
    check_sectors("finite check", [&](StreamRef stream) {
      cuda::all_finite({finite.device_as<bool>(), g.device_data(), kN, dtype}, stream);
    });
    if (dtype != DType::kFloat32) continue;
    check_width("adam", 16, [&](StreamRef stream) {
      cuda::adam_step({.slots = {&slot, 1}}, stream);
    });
  }
}

/// Of a kernel that reads the bytes of pictures: a warp's are one sector.
void check_bytes_once(const cudasim::KernelProfile& kernel) {
  cudasim::AccessCounts bytes;
  for (const cudasim::LineProfile& line : kernel.lines)
    if (line.access == cudasim::AccessClass::kGlobalLoad && line.counts.bytes == line.counts.lanes)
      bytes += line.counts;
  CHECK(bytes.requests > 0);
  CHECK(bytes.sectors == bytes.requests);
}

/// Its table is looked up byte by byte, and stays in the first-level cache: not counted here.
TEST_CASE("augmentation writes each sector and reads each byte once, out of a set too",
          "[profile]") {
  constexpr int64_t kPictures = 8;
  for (const DType dtype : device_floats()) {
    Mirror planes(DType::kUInt8, {kPictures, 3, 32, 32}), table(dtype, {3, 256});
    Mirror draws(DType::kUInt8, {kPictures * static_cast<int64_t>(sizeof(AugmentDraw))});
    Mirror out(dtype, {kPictures, 32, 32, 3});
    planes.fill_random(9, 0.0, 255.0);
    table.fill_random(10);
    for (int64_t i = 0; i < kPictures; ++i) draws.host_as<AugmentDraw>()[i] = {};
    draws.upload();
    Mirror order(DType::kInt64, {kPictures});
    order.fill([](int64_t i) { return static_cast<double>((i * 3 + 1) % kPictures); });
    CAPTURE(name_of(dtype));
    for (const bool gathered : {false, true}) {
      const cudasim::Profile profile;
      cuda::augment({out.device_data(), planes.device_as<uint8_t>(), table.device_data(),
                     draws.device_as<AugmentDraw>(), kPictures, 32, 32, 0, dtype,
                     gathered ? order.device_as<int64_t>() : nullptr},
                    test_stream());
      HEDDLE_CUDA_CHECK(cudaStreamSynchronize(test_stream().get()));
      const cudasim::KernelProfile kernel = profile.kernel("augment_pixel_per_thread");
      REQUIRE(kernel.launches == 1);
      CHECK(kernel.written_sectors > 0);
      CHECK(kernel.store_excess() <= kMostExcess);
      check_bytes_once(kernel);
    }
  }
}

}  // namespace
}  // namespace heddle
