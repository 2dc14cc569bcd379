#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "heddle/core/tensor.h"
#include "heddle/tests/support/device.h"

/// The harness of ops' tests. A test gives rows (shapes, options, dtypes) and an oracle in float64
/// that is written apart from the kernel; check_op derives from it:
///   - values for each dtype, for inputs that are contiguous, strided, transposed, channels-last,
///     and one element off their alignment; with each instruction set; by native and vendor;
///   - the same bits for 1, 2, 3 and 5 threads, forward and backward;
///   - gradients by central differences in float64, for dense and strided incoming gradients, and
///     the other dtypes' gradients against the float64 ones;
///   - nothing written outside of any block of memory, no element left unwritten (MemoryGuards).
/// In a program for a CUDA device (test_device(): cudasim's or a real one), instead:
///   - values there against the oracle and the CPU's, for the same dtypes and layouts;
///   - gradients against the CPU's float64 ones, incoming gradients dense, strided and unaligned;
///   - the same bits in every run; under cudasim no finding of its checks.
/// Test cases that call it are tagged [device].
///
///   check_op({.name = "add (2, 3) + (3)",
///             .inputs = {{{2, 3}}, {{3}}},
///             .op = [](const Tensors& x) { return add(x[0], x[1]); },
///             .oracle = [](const Arrays& x) { ... return Array{{2, 3}, values}; }});
namespace heddle::testing {

/// Elements in logical row-major order.
struct Array {
  Shape shape;
  std::vector<double> values;

  int64_t n() const { return static_cast<int64_t>(values.size()); }
  double& operator[](int64_t i) { return values[static_cast<size_t>(i)]; }
  double operator[](int64_t i) const { return values[static_cast<size_t>(i)]; }
};
using Arrays = std::vector<Array>;
using Tensors = std::vector<Tensor>;

Array filled_array(const Shape& shape, double value = 0.0);
Array to_array(const Tensor& x);

/// Uniform values in [low, high), with magnitude at least `min_magnitude`: for functions with a
/// kink or a pole at 0. Integers where the dtype is one.
struct OpInput {
  Shape shape;
  double low = -2.0;
  double high = 2.0;
  double min_magnitude = 0.0;
  bool differentiable = true;
  std::optional<DType> dtype = {};  ///< Default: the one that the row is run with.
  bool vary_layout = true;          ///< Whether it is also given strided, transposed, ...
};

const std::vector<DType>& floating_dtypes();  ///< float32, float64, bfloat16, float16
const std::vector<DType>& all_dtypes();

struct OpCase {
  std::string name;
  std::vector<OpInput> inputs;
  std::function<Tensor(const Tensors&)> op;
  std::function<Array(const Arrays&)> oracle;
  /// Terms that are added up for one result: sets the tolerance.
  int64_t n_accumulated = 1;
  std::vector<DType> dtypes = floating_dtypes();
  std::optional<DType> result_dtype = {};  ///< Default: the row's.
  bool gradient = true;
  double tolerance_factor = 1.0;  ///< Other than 1 needs a comment.
};

void check_op(const OpCase& row);
/// What check_op does in a program for a CUDA device.
void check_op_on_device(const OpCase& row, Device device);

/// Relative error that a result of `dtype` may have after adding up n terms: one rounding to the
/// dtype, and 4 sqrt(n) of what sums are kept in (float32 for 16-bit floats).
double tol(DType dtype, int64_t n_accumulated);

/// |got - expected| <= tolerance * max(1, |expected|, scale) for each element; NaN and infinities
/// must be the same. Reports the first that differs.
void check_close(const Array& got, const Array& expected, double tolerance, double scale = 1.0);

/// The bits are equal, element by element.
void check_same_bits(const Tensor& a, const Tensor& b);

/// Sizes round the widths of vectors, tiles and blocks: 0, 1, 31, 32, 33, 1023, 1025.
const std::vector<int64_t>& odd_sizes();

/// `run` throws heddle::Error with `text` in its message.
void check_error(const std::function<void()>& run, const std::string& text);

/// Calls body with each instruction set that this processor has, then puts the previous one back.
void for_each_isa(const std::function<void()>& body);
/// Calls body(n) with 1, 2, 3 and 5 threads, then puts the previous number back.
void for_each_thread_count(const std::function<void(int)>& body);

/// How an input lies in memory.
enum class Layout { kPlain, kStrided, kTransposed, kChannelsLast, kUnaligned };
/// A tensor with the values of x in such a layout; what lies between and around is NaN.
Tensor in_layout(const Array& x, DType dtype, Layout layout, Device device = Device::cpu());

/// Uniform values that depend on the name and number alone, as an input of `dtype` holds them.
Array random_array(const std::string& name, int number, const OpInput& input, DType dtype);

}  // namespace heddle::testing
