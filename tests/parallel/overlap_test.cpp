// Gradients are exchanged while backward is still running: what a trace of one step shows.
#include <nlohmann/json.hpp>

#include "heddle/core/trace.h"
#include "heddle/nn/modules/linear.h"
#include "heddle/tests/parallel/small_training.h"
#include "heddle/tests/support/catch.h"
#include "heddle/tests/support/device.h"

namespace heddle::test {
namespace {

class FourLayers : public Module {
 public:
  Tensor forward(const Tensor& x) override { return fc4(tanh(fc3(tanh(fc2(tanh(fc1(x))))))); }
  Linear& fc1 = add("fc1", Linear(16, 16));
  Linear& fc2 = add("fc2", Linear(16, 16));
  Linear& fc3 = add("fc3", Linear(16, 16));
  Linear& fc4 = add("fc4", Linear(16, 10));
};

nlohmann::json events_of_a_step(const std::vector<Device>& devices) {
  FourLayers model;
  DataParallel parallel(model, devices, {.bucket_bytes = 256});
  const Tensor x = randn({8, 16}, Rng(2, RngPurpose::kUser));
  start_trace();
  parallel.forward_backward(x, some_labels(8), mean_loss);
  stop_trace();
  std::string text;
  write_trace("overlap", [&](std::string_view part) { text += part; });
  return nlohmann::json::parse(text)["traceEvents"];
}

struct Spans {
  int n_exchanges = 0;
  double first_exchange = 1e300;  // its begin
  double last_backward = 0.0;     // the begin of the last step of backward
};

Spans spans_of(const nlohmann::json& events, bool of_devices) {
  Spans spans;
  for (const auto& event : events) {
    if (event["ph"] != "X") continue;
    const double begin = event["ts"];
    if (event["name"] == "exchange bucket" && (event["pid"] > 1) == of_devices) {
      ++spans.n_exchanges;
      spans.first_exchange = std::min(spans.first_exchange, begin);
    }
    if (event["cat"] == "backward") spans.last_backward = std::max(spans.last_backward, begin);
  }
  return spans;
}

}  // namespace

TEST_CASE("DataParallel: the exchange begins before backward has ended", "[parallel]") {
  const Spans spans = spans_of(events_of_a_step(on_cpu(2)), false);
  CHECK(spans.n_exchanges == 4);
  CHECK(spans.first_exchange < spans.last_backward);
}

TEST_CASE("DataParallel: the exchange has rows of its own on two devices' streams",
          "[device][multi_gpu]") {
  if (!testing::on_cudasim()) return;  // where two devices are sure to be there
  const auto events = events_of_a_step({{DeviceType::kCuda, 0}, {DeviceType::kCuda, 1}});
  const Spans spans = spans_of(events, true);
  CHECK(spans.n_exchanges == 8);
  CHECK(spans.first_exchange < spans.last_backward);
  int n_rows = 0;
  for (const auto& event : events)
    n_rows += event["name"] == "thread_name" && event["args"]["name"] == "exchange" ? 1 : 0;
  CHECK(n_rows == 2);
}

}  // namespace heddle::test
