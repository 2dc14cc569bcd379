#include "heddle/kernels/optimizer.h"

#include <memory>

#include "heddle/tests/kernels/mirror.h"
#include "heddle/tests/support/catch.h"

namespace heddle {
namespace {

using namespace testing;

/// Parameters of odd sizes, on both sides.
class Parameters {
 public:
  void add(DType dtype, int64_t n, int64_t offset, int64_t step) {
    Arrays& arrays = all_.emplace_back();
    for (auto* array : {&arrays.p, &arrays.g})
      *array = std::make_unique<Mirror>(dtype, Shape{n}, offset);
    for (auto* array : {&arrays.m, &arrays.v})
      *array = std::make_unique<Mirror>(DType::kFloat32, Shape{n}, offset);
    arrays.p->fill_random(next_seed_++);
    arrays.g->fill_random(next_seed_++);
    arrays.m->fill_random(next_seed_++);
    arrays.v->fill_random(next_seed_++, 0.1, 2.0);
    host_.push_back(slot(arrays, &Mirror::host_data, n, dtype, step));
    device_.push_back(slot(arrays, &Mirror::device_data, n, dtype, step));
  }

  std::span<const ParamSlot> host() const { return host_; }
  std::span<const ParamSlot> device() const { return device_; }
  Mirror& gradient(size_t i) { return *all_[i].g; }

  void check() const {
    for (size_t i = 0; i < all_.size(); ++i) {
      CAPTURE(i, host_[i].n, name_of(host_[i].dtype));
      CHECK_SAME(*all_[i].p, rounding_of(host_[i].dtype));
      CHECK_SAME_BITS(*all_[i].g);
      CHECK_SAME(*all_[i].m, 1e-6);
      CHECK_SAME(*all_[i].v, 1e-6);
    }
  }

 private:
  struct Arrays {
    std::unique_ptr<Mirror> p, g, m, v;
  };

  static ParamSlot slot(const Arrays& arrays, void* (Mirror::*data)() const, int64_t n, DType dtype,
                        int64_t step) {
    return {((*arrays.p).*data)(),
            ((*arrays.g).*data)(),
            ((*arrays.m).*data)(),
            ((*arrays.v).*data)(),
            n,
            dtype,
            step};
  }

  std::vector<Arrays> all_;
  std::vector<ParamSlot> host_, device_;
  uint64_t next_seed_ = 31;
};

/// More than one launch's, of all dtypes, sizes around a block's piece, some not aligned.
Parameters many_parameters(int64_t step) {
  Parameters parameters;
  for (const DType dtype : device_floats()) {
    for (const int64_t n : kernel_sizes()) parameters.add(dtype, n, 0, step);
    parameters.add(dtype, 4097, 1, step);
    parameters.add(dtype, 12288, 0, step);
  }
  for (int i = 0; i < 70; ++i) parameters.add(DType::kFloat32, 5 + i, 0, step + i);
  return parameters;
}

TEST_CASE("SGD on a device", "[optimizer]") {
  for (const int64_t step : {1, 2}) {
    for (const double momentum : {0.0, 0.9}) {
      for (const bool nesterov : {false, true}) {
        if (nesterov && momentum == 0.0) continue;
        CAPTURE(step, momentum, nesterov);
        Parameters parameters = many_parameters(step);
        SgdArgs args{.slots = parameters.host(),
                     .lr = 0.1,
                     .momentum = momentum,
                     .dampening = nesterov ? 0.0 : 0.25,
                     .weight_decay = 0.01,
                     .nesterov = nesterov,
                     .grad_scale = 0.5};
        cpu::sgd_step(args);
        args.slots = parameters.device();
        cuda::sgd_step(args, test_stream());
        parameters.check();
      }
    }
  }
}

TEST_CASE("Adam and AdamW on a device", "[optimizer]") {
  for (const int64_t step : {1, 2, 1000}) {
    for (const bool decoupled : {false, true}) {
      CAPTURE(step, decoupled);
      Parameters parameters = many_parameters(step);
      AdamArgs args{.slots = parameters.host(),
                    .lr = 0.01,
                    .weight_decay = 0.1,
                    .decoupled = decoupled,
                    .grad_scale = 0.5};
      cpu::adam_step(args);
      args.slots = parameters.device();
      cuda::adam_step(args, test_stream());
      parameters.check();
    }
  }
}

/// A StepControl in the device's memory.
class DeviceControl {
 public:
  explicit DeviceControl(const StepControl& value) : memory_(DType::kUInt8, {sizeof(value)}) {
    std::memcpy(memory_.host_data(), &value, sizeof(value));
    memory_.upload();
  }
  const StepControl* get() const { return memory_.device_as<StepControl>(); }
  StepControl* writable() const { return memory_.device_as<StepControl>(); }
  StepControl download() const {
    StepControl value;
    const auto bytes = memory_.device_bytes();
    const auto begin = memory_.host_as<std::byte>() - memory_.host_bytes().data();
    std::memcpy(&value, bytes.data() + begin, sizeof(value));
    return value;
  }

 private:
  Mirror memory_;
};

TEST_CASE("what changes from step to step comes from device memory", "[optimizer]") {
  for (const bool finite : {true, false}) {
    const StepControl control{
        .lr_scale = 0.5, .grad_scale = 0.25, .steps = 4, .found_inf = finite ? 0.0F : 1.0F};
    const DeviceControl on_device(control);
    Parameters with_adam = many_parameters(1);
    AdamArgs adam{.slots = with_adam.host(), .lr = 0.01, .control = &control};
    cpu::adam_step(adam);
    adam.slots = with_adam.device();
    adam.control = on_device.get();
    cuda::adam_step(adam, test_stream());
    with_adam.check();

    Parameters with_sgd = many_parameters(1), by_value = many_parameters(5);
    SgdArgs sgd{.slots = with_sgd.host(), .lr = 0.1, .momentum = 0.9, .control = &control};
    cpu::sgd_step(sgd);
    sgd.slots = with_sgd.device();
    sgd.control = on_device.get();
    cuda::sgd_step(sgd, test_stream());
    with_sgd.check();
    if (!finite) continue;
    cpu::sgd_step({.slots = by_value.host(), .lr = 0.05, .momentum = 0.9, .grad_scale = 0.25});
    for (size_t i = 0; i < by_value.host().size(); ++i) {
      const auto& slot = by_value.host()[i];
      CHECK(std::memcmp(slot.p, with_sgd.host()[i].p,
                        static_cast<size_t>(slot.n * size_of(slot.dtype))) == 0);
    }
  }
}

TEST_CASE("a step is decided on in the device's memory", "[optimizer]") {
  const double kInf = INFINITY;
  for (const double squares : {0.0, 4.0, 1e6, kInf, static_cast<double>(NAN)}) {
    for (const bool finite : {true, false}) {
      for (const bool clip : {true, false}) {
        CAPTURE(squares, finite, clip);
        StepControl control{.lr_scale = 0.5, .grad_scale = 0.25};
        const DeviceControl on_device(control);
        Mirror norm(DType::kFloat64, {1}), verdict(DType::kUInt8, {1});
        norm.fill([&](int64_t) { return squares; });
        verdict.fill([&](int64_t) { return finite ? 1.0 : 0.0; });
        const auto* device_squares = clip ? norm.device_as<double>() : nullptr;
        cpu::prepare_step({&control, &finite, clip ? &squares : nullptr, 2.0});
        cuda::prepare_step({on_device.writable(), verdict.device_as<bool>(), device_squares, 2.0},
                           test_stream());
        const StepControl found = on_device.download();
        CHECK(found.found_inf == control.found_inf);
        CHECK(std::memcmp(&found.grad_scale, &control.grad_scale, sizeof(double)) == 0);
        CHECK(found.lr_scale == 0.5);
        CHECK((control.found_inf > 0) == !(finite && (!clip || std::isfinite(squares))));
        if (clip && squares == 1e6) CHECK(control.grad_scale == 0.25 * (2.0 / (250.0 + 1e-6)));
        if (!clip || squares <= 4.0) CHECK(control.grad_scale == 0.25);
      }
    }
  }
}

TEST_CASE("gradient norm and finite check on a device", "[optimizer]") {
  Parameters parameters = many_parameters(1);
  Mirror sum(DType::kFloat64, {1}), again(DType::kFloat64, {1}), finite(DType::kUInt8, {1});
  const auto check_finite = [&] {
    cpu::gradients_finite({parameters.host(), finite.host_as<bool>()});
    cuda::gradients_finite({parameters.device(), finite.device_as<bool>()}, test_stream());
    CHECK_SAME_BITS(finite);
  };
  cpu::gradient_squares({parameters.host(), sum.host_as<double>()});
  cuda::gradient_squares({parameters.device(), sum.device_as<double>()}, test_stream());
  cuda::gradient_squares({parameters.device(), again.device_as<double>()}, test_stream());
  CHECK_SAME(sum, 1e-13);
  CHECK(sum.device_bytes() == again.device_bytes());
  check_finite();
  for (const size_t i : {size_t{1}, size_t{10}, size_t{25}, size_t{100}}) {
    for (const double bad : {static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
      Mirror& gradient = parameters.gradient(i);
      const int64_t last = (gradient.host_as<std::byte>() - gradient.host_bytes().data()) /
                               size_of(gradient.dtype()) +
                           gradient.n() - 1;
      gradient.fill([&](int64_t k) { return k == last ? bad : 1.0; });
      check_finite();
      gradient.fill([](int64_t) { return 1.0; });
    }
  }
  check_finite();
  cuda::gradient_squares({{}, sum.device_as<double>()}, test_stream());
  CHECK(sum.device_values()[256 / 8] == 0.0);
}

}  // namespace
}  // namespace heddle
