#include <numeric>

#include "heddle/core/tape.h"
#include "heddle/nn/ops.h"
#include "heddle/tests/support/catch.h"
#include "heddle/tests/support/op_harness.h"

namespace heddle {
namespace {

using namespace testing;

/// y[i] = x[place(i)], where place maps an index of y to one of x, both outermost first.
template <class Place>
Array gathered(const Array& x, const Shape& shape, const Place& place) {
  Array y = filled_array(shape);
  for (int64_t i = 0; i < y.n(); ++i) {
    Dims index = Dims::filled(shape.size(), 0);
    int64_t rest = i;
    for (int d = shape.size() - 1; d >= 0; --d) {
      index[d] = rest % shape[d];
      rest /= shape[d];
    }
    const Dims from = place(index);
    int64_t at = 0;
    for (int d = 0; d < x.shape.size(); ++d) at = at * x.shape[d] + from[d];
    y[i] = x[at];
  }
  return y;
}

void check_reshape(const Shape& from, const Shape& asked, const Shape& to) {
  check_op({.name = "reshape " + to_string(from) + " to " + to_string(asked),
            .inputs = {{.shape = from}},
            .op = [=](const Tensors& x) { return reshape(x[0], asked); },
            .oracle =
                [=](const Arrays& x) {
                  return Array{to, x[0].values};
                },
            .dtypes = all_dtypes()});
}

TEST_CASE("reshape", "[device][reshape]") {
  check_reshape({2, 3}, {3, 2}, {3, 2});
  check_reshape({2, 3}, {-1}, {6});
  check_reshape({2, 3, 4, 5}, {2, -1}, {2, 60});
  check_reshape({2, 3, 4, 5}, {6, 4, 5}, {6, 4, 5});
  check_reshape({2, 3, 4, 5}, {2, 3, 2, 2, 5, 1}, {2, 3, 2, 2, 5, 1});
  check_reshape({1}, {}, {});
  check_reshape({}, {1, 1}, {1, 1});
  check_reshape({0, 3}, {3, 0}, {3, 0});
  check_reshape({0, 3}, {-1, 3}, {0, 3});
  check_reshape({1025, 3}, {-1, 1025}, {3, 1025});
}

TEST_CASE("reshape is a view where strides allow it, and a copy in logical order elsewhere",
          "[device][reshape]") {
  const Tensor x = reshape(arange(24), {2, 3, 4});
  CHECK(reshape(x, {6, 4}).storage() == x.storage());
  CHECK(reshape(narrow(x, 0, 1, 1), {12}).storage() == x.storage());
  CHECK(reshape(narrow(x, 1, 0, 2), {2, 8}).storage() == x.storage());
  CHECK(reshape(narrow(x, 1, 0, 2), {16}).storage() != x.storage());
  CHECK(reshape(narrow(x, 2, 0, 2), {2, 3, 2, 1}).storage() == x.storage());
  const Tensor image = contiguous(reshape(arange(24), {1, 2, 3, 4}), MemoryFormat::kChannelsLast);
  const Tensor flat = flatten(image, 1);
  CHECK(flat.to_vector<int64_t>() == arange(24).to_vector<int64_t>());
  CHECK(flat.storage() != image.storage());
}

TEST_CASE("flatten", "[device][flatten]") {
  const auto row = [](const Shape& from, int64_t start, int64_t end, const Shape& to) {
    check_op({.name = "flatten " + to_string(from) + std::to_string(start) + std::to_string(end),
              .inputs = {{.shape = from}},
              .op = [=](const Tensors& x) { return flatten(x[0], start, end); },
              .oracle =
                  [=](const Arrays& x) {
                    return Array{to, x[0].values};
                  }});
  };
  row({2, 3, 4, 5}, 1, -1, {2, 60});
  row({2, 3, 4, 5}, 1, 2, {2, 12, 5});
  row({2, 3, 4, 5}, 0, -1, {120});
  row({2, 3}, -1, -1, {2, 3});
  row({}, 0, -1, {1});
  row({0, 3, 4}, 1, -1, {0, 12});
}

TEST_CASE("transpose", "[device][transpose]") {
  for (const Shape& shape : {Shape{2, 3, 4}, Shape{33, 1, 31}, Shape{0, 2, 3}}) {
    for (const int a : {0, 1, -1}) {
      for (const int b : {0, 1, 2}) {
        const int from = a < 0 ? a + 3 : a;
        Shape to = shape;
        std::swap(to[from], to[b]);
        check_op({.name = "transpose " + to_string(shape) + std::to_string(a) + std::to_string(b),
                  .inputs = {{.shape = shape}},
                  .op = [=](const Tensors& x) { return transpose(x[0], a, b); },
                  .oracle =
                      [=](const Arrays& x) {
                        return gathered(x[0], to, [&](Dims i) {
                          std::swap(i[from], i[b]);
                          return i;
                        });
                      }});
      }
    }
  }
}

TEST_CASE("narrow", "[device][narrow]") {
  const auto row = [](const Shape& shape, int dim, int64_t start, int64_t length) {
    Shape to = shape;
    to[dim] = length;
    check_op({.name = "narrow " + to_string(shape) + std::to_string(dim) + std::to_string(start),
              .inputs = {{.shape = shape}},
              .op = [=](const Tensors& x) { return narrow(x[0], dim, start, length); },
              .oracle =
                  [=](const Arrays& x) {
                    return gathered(x[0], to, [&](Dims i) {
                      i[dim] += start;
                      return i;
                    });
                  }});
  };
  row({5, 3}, 0, 1, 3);
  row({5, 3}, 1, 2, 1);
  row({5, 3}, 1, 0, 3);
  row({5, 3}, 0, 5, 0);
  row({2, 3, 4, 5}, 1, 1, 2);
  row({1025}, 0, 1, 1023);
}

TEST_CASE("expand", "[device][expand]") {
  const auto row = [](const Shape& from, const Shape& to) {
    check_op({.name = "expand " + to_string(from) + " to " + to_string(to),
              .inputs = {{.shape = from}},
              .op = [=](const Tensors& x) { return expand(x[0], to); },
              .oracle =
                  [=](const Arrays& x) {
                    return gathered(x[0], to, [&](const Dims& i) {
                      Dims place;
                      for (int d = 0; d < from.size(); ++d)
                        place.push_back(from[d] == 1 ? 0 : i[to.size() - from.size() + d]);
                      return place;
                    });
                  },
              .n_accumulated = numel(to) / std::max<int64_t>(1, numel(from))});
  };
  row({1, 3}, {2, 3});
  row({3}, {4, 2, 3});
  row({2, 1, 3}, {2, 33, 3});
  row({}, {2, 2});
  row({1}, {1025});
  row({1, 3}, {0, 3});
}

TEST_CASE("views share memory and versions", "[reshape][transpose][narrow][expand]") {
  Tensor x = zeros({2, 3});
  const int64_t before = x.version();
  Tensor row = narrow(transpose(reshape(x, {3, 2}), 0, 1), 0, 1, 1);
  fill_(row, 1.0);
  CHECK(x.version() > before);
  CHECK(x.to_vector<float>() == std::vector<float>{0, 1, 0, 1, 0, 1});
}

TEST_CASE("views refuse what cannot be", "[reshape][flatten][transpose][narrow][expand]") {
  const Tensor x = ones({2, 3});
  check_error([&] { reshape(x, {4}); }, "reshape: (2, 3) has 6 elements, (4) has 4");
  check_error([&] { reshape(x, {-1, 4}); }, "reshape: (2, 3) has 6 elements, which (-1, 4) does");
  check_error([&] { reshape(x, {-1, -1}); }, "at most one -1");
  check_error([&] { reshape(x, {-2, 3}); }, "reshape: to (-2, 3)");
  check_error([&] { reshape(ones({0}), {0, -1}); }, "reshape: (0) has 0 elements");
  check_error([&] { flatten(x, 1, 0); }, "flatten: start_dim 1 comes after end_dim 0");
  check_error([&] { flatten(x, 2); }, "flatten: dimension 2 is outside [-2, 2)");
  check_error([&] { transpose(x, 0, 2); }, "transpose: dimension 2 is outside [-2, 2)");
  check_error([&] { narrow(x, 1, 2, 2); }, "narrow: start 2 and length 2 reach outside");
  check_error([&] { narrow(x, 1, -1, 2); }, "narrow: start -1");
  check_error([&] { narrow(x, 1, 0, -1); }, "narrow: start 0 and length -1");
  check_error([&] { narrow(x, 3, 0, 1); }, "narrow: dimension 3 is outside");
  check_error([&] { expand(x, {3, 3}); }, "expand: shape (2, 3) does not broadcast to (3, 3)");
  check_error([&] { expand(x, {3}); }, "expand: shape (2, 3) does not broadcast to (3)");
}

}  // namespace
}  // namespace heddle
