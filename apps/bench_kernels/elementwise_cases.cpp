// Unary and binary operations, copies, casts and fills.
#include <fmt/format.h>

#include <utility>

#include "heddle/apps/bench_kernels/raw_sides.h"
#include "heddle/apps/bench_kernels/sides.h"
#include "heddle/kernels/binary.h"
#include "heddle/kernels/copy.h"
#include "heddle/kernels/dispatch.h"
#include "heddle/kernels/fill.h"
#include "heddle/kernels/random.h"
#include "heddle/kernels/unary.h"

namespace heddle::bench {
namespace {

/// What SimpleCnn's second convolution gives: rows of 64 channels.
constexpr int64_t kChannels = 64;
int64_t elements(const Scale& scale) { return scale.batch * kChannels * 32 * 32; }

View view_of(const Tensor& x, const Shape& shape, const Strides& strides) {
  return {x.raw_data(), x.dtype(), shape, strides};
}
View flat(const Tensor& x) { return view_of(x, {x.numel()}, {1}); }

Case case_of(const std::string& name, DType dtype, int64_t bytes,
             std::function<Prepared(const Setting&)> prepare) {
  Case result;
  result.name = fmt::format("{}/{}", name, dtype);
  result.dtype = dtype;
  result.bytes = static_cast<double>(bytes);
  result.prepare = std::move(prepare);
  return result;
}

Case unary_case(const char* name, UnaryOp op, bool forward, int64_t n, DType dtype) {
  const auto prepare = [=](const Setting& setting) {
    Prepared prepared;
    prepared.result = output(n, dtype, setting);
    void* const to = prepared.hold(prepared.result);
    const float low = op == UnaryOp::kLog || op == UnaryOp::kSqrt ? 0.5F : -1.0F;
    void* const from = prepared.hold(random_input(n, dtype, setting, low));
    const DType kept = setting.dtype_of(dtype);
    if (forward) {
      const UnaryArgs args{to, from, n, kept, op};
      HEDDLE_ADD_NATIVE(prepared, setting, unary_forward, args);
    } else {
      const void* const saved = prepared.hold(random_input(n, dtype, setting, low));
      const UnaryBackwardArgs args{to, from, saved, n, kept, op};
      HEDDLE_ADD_NATIVE(prepared, setting, unary_backward, args);
    }
    if (setting.beside_onednn()) add_raw_unary(op, forward, n, dtype, prepared.sides);
    return prepared;
  };
  return case_of(fmt::format("{}/{}/{}", name, forward ? "forward" : "data", n), dtype,
                 (forward ? 2 : 3) * n * size_of(dtype), prepare);
}

/// y = a + b, or a comparison; b is a row of channels where `broadcast`.
Case binary_case(const char* name, BinaryOp op, bool broadcast, int64_t n, DType dtype) {
  const int64_t rows = n / kChannels, n_b = broadcast ? kChannels : n;
  const bool compares = op == BinaryOp::kLt;
  const auto prepare = [=](const Setting& setting) {
    Prepared prepared;
    prepared.result = output(n, compares ? DType::kUInt8 : dtype, setting);
    const Tensor a = random_input(n, dtype, setting), b = random_input(n_b, dtype, setting);
    prepared.held = {a, b};
    const Shape shape{rows, kChannels};
    const Strides dense{kChannels, 1}, row{0, 1};
    const BinaryArgs args{view_of(prepared.result, shape, dense), view_of(a, shape, dense),
                          view_of(b, shape, broadcast ? row : dense), op};
    HEDDLE_ADD_NATIVE(prepared, setting, binary, args);
    if (setting.beside_onednn() && !compares)
      add_raw_binary(op, rows, kChannels, broadcast, dtype, prepared.sides);
    return prepared;
  };
  return case_of(fmt::format("{}/forward/{}x{}", name, rows, kChannels), dtype,
                 (n + n_b) * size_of(dtype) + (compares ? n : n * size_of(dtype)), prepare);
}

/// A conversion, or a transposition of (rows, channels).
Case copy_case(const char* name, bool transposed, DType from, DType to, int64_t n) {
  const int64_t rows = n / kChannels;
  const auto prepare = [=](const Setting& setting) {
    Prepared prepared;
    prepared.result = output(n, to, setting);
    const Tensor x = random_input(n, from, setting);
    prepared.held = {x};
    const Shape shape{rows, kChannels};
    const Strides dense{kChannels, 1}, turned{1, rows};
    const CopyArgs args{view_of(prepared.result, shape, transposed ? turned : dense),
                        view_of(x, shape, dense)};
    HEDDLE_ADD_NATIVE(prepared, setting, copy, args);
    if (setting.beside_onednn() && !transposed) add_raw_cast(n, from, to, prepared.sides);
    return prepared;
  };
  return case_of(fmt::format("{}/forward/{}x{}", name, rows, kChannels), from,
                 n * (size_of(from) + size_of(to)), prepare);
}

Case fill_case(DType dtype, int64_t n) {
  return case_of(fmt::format("fill/forward/{}", n), dtype, n * size_of(dtype),
                 [=](const Setting& setting) {
                   Prepared prepared;
                   prepared.result = output(n, dtype, setting);
                   const FillArgs args{flat(prepared.result), 1.0};
                   HEDDLE_ADD_NATIVE(prepared, setting, fill, args);
                   return prepared;
                 });
}

Case random_case(const char* name, Distribution distribution, int64_t n) {
  const DType dtype = DType::kFloat32;
  return case_of(fmt::format("{}/forward/{}", name, n), dtype, n * size_of(dtype),
                 [=](const Setting& setting) {
                   Prepared prepared;
                   prepared.result = output(n, dtype, setting);
                   const RandomArgs args{flat(prepared.result), Rng(1, RngPurpose::kUser),
                                         distribution, 0.0, 1.0};
                   HEDDLE_ADD_NATIVE(prepared, setting, random, args);
                   return prepared;
                 });
}

}  // namespace

std::vector<Case> elementwise_cases(const Scale& scale) {
  constexpr std::pair<const char*, UnaryOp> kUnary[] = {
      {"relu", UnaryOp::kRelu},       {"gelu", UnaryOp::kGelu}, {"neg", UnaryOp::kNeg},
      {"exp", UnaryOp::kExp},         {"sqrt", UnaryOp::kSqrt}, {"tanh", UnaryOp::kTanh},
      {"sigmoid", UnaryOp::kSigmoid}, {"log", UnaryOp::kLog}};
  const int64_t n = elements(scale);
  std::vector<Case> cases;
  for (const DType dtype : scale.dtypes) {
    for (const auto& [name, op] : kUnary)
      for (const bool forward : {true, false})
        cases.push_back(unary_case(name, op, forward, n, dtype));
    cases.push_back(binary_case("add", BinaryOp::kAdd, false, n, dtype));
    cases.push_back(binary_case("add_row", BinaryOp::kAdd, true, n, dtype));
    cases.push_back(binary_case("mul", BinaryOp::kMul, false, n, dtype));
    cases.push_back(binary_case("less", BinaryOp::kLt, false, n, dtype));
    cases.push_back(copy_case("transpose", true, dtype, dtype, n));
    cases.push_back(fill_case(dtype, n));
    if (dtype != DType::kFloat32) {
      cases.push_back(copy_case("cast_from_float32", false, DType::kFloat32, dtype, n));
      cases.push_back(copy_case("cast_to_float32", false, dtype, DType::kFloat32, n));
    }
  }
  cases.push_back(random_case("uniform", Distribution::kUniform, n));
  cases.push_back(random_case("normal", Distribution::kNormal, n));
  return cases;
}

}  // namespace heddle::bench
