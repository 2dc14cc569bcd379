// Batch-norm over the shards of all replicas. The oracle, in float64 over the whole batch, knows
// nothing of shards.
#include <cmath>
#include <numeric>

#include "heddle/core/rng.h"
#include "heddle/core/tape.h"
#include "heddle/nn/ops.h"
#include "heddle/parallel/lanes.h"
#include "heddle/parallel/shard_meeting.h"
#include "heddle/tests/support/catch.h"

namespace heddle::test {
namespace {

using Values = std::vector<double>;

constexpr double kEps = 1e-5;

/// A batch (rows, channels) with what backward is given for it.
struct Batch {
  int64_t rows, channels;
  Values x, dy, weight, bias;

  double& at(Values& values, int64_t row, int64_t c) const {
    return values[static_cast<size_t>(row * channels + c)];
  }
  double at(const Values& values, int64_t row, int64_t c) const {
    return values[static_cast<size_t>(row * channels + c)];
  }
};

struct Outcome {
  Values y, dx, dw, db, running_mean, running_var;
};

Batch some_batch(int64_t rows, int64_t channels) {
  const auto draw = [](const Shape& shape, uint64_t stream, double mean) {
    return randn(shape, Rng(7, RngPurpose::kUser, stream), mean, 1.0, DType::kFloat64)
        .to_vector<double>();
  };
  return {rows,
          channels,
          draw({rows, channels}, 1, 3.0),
          draw({rows, channels}, 2, 0.1),
          draw({channels}, 3, 1.0),
          draw({channels}, 4, 0.2)};
}

/// Running statistics begin at 0 and 1, momentum is 0.1.
Outcome oracle(const Batch& b, bool relu) {
  Outcome out{b.x, b.x, Values(b.weight.size()), Values(b.weight.size()), {}, {}};
  const auto n = static_cast<double>(b.rows);
  for (int64_t c = 0; c < b.channels; ++c) {
    const auto k = static_cast<size_t>(c);
    double mean = 0.0, var = 0.0;
    for (int64_t r = 0; r < b.rows; ++r) mean += b.at(b.x, r, c) / n;
    for (int64_t r = 0; r < b.rows; ++r) var += std::pow(b.at(b.x, r, c) - mean, 2) / n;
    const double inv = 1.0 / std::sqrt(var + kEps);
    const auto hat = [&](int64_t r) { return (b.at(b.x, r, c) - mean) * inv; };
    const auto y = [&](int64_t r) { return hat(r) * b.weight[k] + b.bias[k]; };
    const auto dy = [&](int64_t r) { return relu && y(r) <= 0.0 ? 0.0 : b.at(b.dy, r, c); };
    for (int64_t r = 0; r < b.rows; ++r) {
      b.at(out.y, r, c) = relu ? std::max(0.0, y(r)) : y(r);
      out.db[k] += dy(r);
      out.dw[k] += dy(r) * hat(r);
    }
    for (int64_t r = 0; r < b.rows; ++r)
      b.at(out.dx, r, c) = b.weight[k] * inv * (dy(r) - (out.db[k] + hat(r) * out.dw[k]) / n);
    out.running_mean.push_back(0.1 * mean);
    out.running_var.push_back(0.9 + 0.1 * var * n / (n - 1.0));
  }
  return out;
}

Tensor as(const Values& values, const Shape& shape, DType dtype) {
  return to(Tensor::from<double>(values, shape), dtype);
}

Values values_of(const Tensor& tensor) { return to(tensor, DType::kFloat64).to_vector<double>(); }

void add_to(Values& sum, const Values& more) {
  sum.resize(more.size());
  for (size_t i = 0; i < more.size(); ++i) sum[i] += more[i];
}

/// batch_norm on parts of so many rows: parts[lane][shard].
class Parts {
 public:
  explicit Parts(std::vector<std::vector<int64_t>> rows)
      : rows_(std::move(rows)),
        lanes_(std::vector<Device>(rows_.size(), Device::cpu())),
        meeting_(
            sum, [](int, int64_t) {}, [](int, int64_t) {}) {}

  Outcome run(const Batch& batch, DType dtype, bool relu) {
    std::vector<Outcome> outcomes(n_parts());
    std::vector<int64_t> shards;
    for (const auto& lane : rows_) shards.push_back(static_cast<int64_t>(lane.size()));
    meeting_.begin(shards);
    lanes_.run(shards, [&](int lane, int64_t shard) {
      meeting_.attend(lane, shard, [&] {
        const auto [index, first] = place(lane, shard);
        outcomes[index] =
            part(batch, first, rows_[static_cast<size_t>(lane)][static_cast<size_t>(shard)], dtype,
                 relu, shard == 0);
      });
    });
    return joined(outcomes);
  }

 private:
  static void sum(std::vector<Tensor>& tables, const std::vector<int>&) {
    const NoGradGuard no_grad;
    for (size_t i = 1; i < tables.size(); ++i) add_(tables[0], tables[i]);
    for (size_t i = 1; i < tables.size(); ++i) copy_(tables[i], tables[0]);
  }
  size_t n_parts() const {
    size_t n = 0;
    for (const auto& lane : rows_) n += lane.size();
    return n;
  }
  /// A part's number, and its first row.
  std::pair<size_t, int64_t> place(int lane, int64_t shard) const {
    size_t index = 0;
    int64_t row = 0;
    for (size_t l = 0; l <= static_cast<size_t>(lane); ++l) {
      const size_t end =
          l < static_cast<size_t>(lane) ? rows_[l].size() : static_cast<size_t>(shard);
      for (size_t s = 0; s < end; ++s, ++index) row += rows_[l][s];
    }
    return {index, row};
  }
  static Outcome part(const Batch& b, int64_t first, int64_t rows, DType dtype, bool relu,
                      bool leads) {
    const auto cut = [&](const Values& all) {
      return as({all.begin() + first * b.channels, all.begin() + (first + rows) * b.channels},
                {rows, b.channels}, dtype);
    };
    Tensor x = cut(b.x), weight = as(b.weight, {b.channels}, dtype);
    Tensor bias = as(b.bias, {b.channels}, dtype);
    Tensor mean = zeros({b.channels}, dtype), var = ones({b.channels}, dtype);
    for (Tensor* leaf : {&x, &weight, &bias}) leaf->set_requires_grad();
    const Tensor y = batch_norm(x, weight, bias, mean, var, {.eps = kEps, .fuse_relu = relu});
    y.backward(cut(b.dy));
    if ((mean.version() > 0) != leads) fail("a part moved running statistics, or did not");
    return {values_of(y.detach()),
            values_of(x.grad()),
            values_of(weight.grad()),
            values_of(bias.grad()),
            leads ? values_of(mean) : Values(),
            values_of(var)};
  }
  static Outcome joined(const std::vector<Outcome>& parts) {
    Outcome all = parts[0];
    for (size_t i = 1; i < parts.size(); ++i) {
      all.y.insert(all.y.end(), parts[i].y.begin(), parts[i].y.end());
      all.dx.insert(all.dx.end(), parts[i].dx.begin(), parts[i].dx.end());
      add_to(all.dw, parts[i].dw);
      add_to(all.db, parts[i].db);
      if (parts[i].running_mean.empty()) continue;
      CHECK(parts[i].running_mean == all.running_mean);
      CHECK(parts[i].running_var == all.running_var);
    }
    return all;
  }

  std::vector<std::vector<int64_t>> rows_;
  Lanes lanes_;
  ShardMeeting meeting_;
};

void check_near(const Values& got, const Values& expected, double tolerance) {
  REQUIRE(got.size() == expected.size());
  double largest = 0.0;
  for (size_t i = 0; i < got.size(); ++i)
    largest = std::max(largest, std::abs(got[i] - expected[i]));
  CHECK(largest <= tolerance);
}

const std::vector<std::vector<std::vector<int64_t>>> kCuts{
    {{7}}, {{3, 4}}, {{4}, {3}}, {{1, 1, 1}, {2, 2}}, {{2}, {}, {1, 4}}, {{1}, {1}, {5}}};

}  // namespace

TEST_CASE("batch_norm in parts follows the oracle of the whole batch", "[parallel][sync]") {
  const Batch batch = some_batch(7, 5);
  for (const auto& cut : kCuts) {
    for (const DType dtype : {DType::kFloat64, DType::kFloat32}) {
      for (const bool relu : {false, true}) {
        INFO(cut.size() << " lanes, " << name_of(dtype) << ", relu " << relu);
        const double tolerance = dtype == DType::kFloat64 ? 1e-12 : 2e-5;
        const Outcome got = Parts(cut).run(batch, dtype, relu), expected = oracle(batch, relu);
        check_near(got.y, expected.y, tolerance);
        check_near(got.dx, expected.dx, tolerance);
        check_near(got.dw, expected.dw, tolerance);
        check_near(got.db, expected.db, tolerance);
        check_near(got.running_mean, expected.running_mean, tolerance);
        check_near(got.running_var, expected.running_var, tolerance);
      }
    }
  }
}

TEST_CASE("batch_norm in parts: the gradient by differences, in float64", "[parallel][sync]") {
  Batch batch = some_batch(7, 3);
  Parts parts({{1, 2}, {4}});
  const Outcome out = parts.run(batch, DType::kFloat64, true);
  const auto loss = [&] {
    const Outcome now = parts.run(batch, DType::kFloat64, true);
    return std::inner_product(now.y.begin(), now.y.end(), batch.dy.begin(), 0.0);
  };
  const auto check = [&](Values& values, const Values& gradient) {
    constexpr double kStep = 1e-6;
    for (size_t i = 0; i < values.size(); ++i) {
      const double before = values[i];
      values[i] = before + kStep;
      const double above = loss();
      values[i] = before - kStep;
      const double below = loss();
      values[i] = before;
      CHECK((above - below) / (2 * kStep) == Approx(gradient[i]).margin(1e-7));
    }
  };
  check(batch.x, out.dx);
  check(batch.weight, out.dw);
  check(batch.bias, out.db);
}

TEST_CASE("batch_norm in parts keeps its digits where the mean is large", "[parallel][sync]") {
  Batch batch = some_batch(64, 2);
  for (double& value : batch.x) value += 10000.0;
  const Outcome got = Parts({{16, 16}, {8, 24}}).run(batch, DType::kFloat32, false);
  check_near(got.running_var, oracle(batch, false).running_var, 1e-3);
}

}  // namespace heddle::test
