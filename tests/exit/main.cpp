// ST-3: static objects that own device memory, pinned memory and a stream, in a program that ends
// by `return`, `exit` or an uncaught exception. They go after the CUDA runtime has, and nobody may
// notice.
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "heddle/core/buffer.h"
#include "heddle/core/event.h"
#include "heddle/core/pinned_buffer.h"
#include "heddle/data/loader.h"
#include "heddle/data/synthetic.h"
#include "heddle/nn/ops.h"

namespace {

constexpr int kSkipped = 77;

heddle::Tensor device_tensor;
heddle::Tensor pinned_tensor;
std::optional<heddle::Loader> loader;
std::optional<heddle::Stream> stream;
heddle::Buffer buffer;
heddle::PinnedBuffer pinned_buffer;
std::optional<heddle::Event> event;
heddle::Batch batch;

void fill(heddle::Device device) {
  device_tensor = heddle::full({1000}, 1.0, heddle::DType::kFloat32, device);
  pinned_tensor = heddle::pinned(heddle::zeros({100}));
  stream.emplace(device);
  event.emplace(device);
  event->record(*stream);
  buffer = heddle::Buffer(4096, *stream);
  pinned_buffer = heddle::PinnedBuffer(4096);
  pinned_buffer.record_use(*stream);
  loader.emplace(heddle::Synthetic(heddle::Split::kTrain, heddle::SyntheticOptions{.size = 16}),
                 heddle::LoaderOptions{.batch_size = 4, .workers = 1, .device = device});
  batch = *loader->begin();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view way = argc > 1 ? argv[1] : "return";
  if (heddle::Device::all().size() < 2) {
    std::puts("SKIPPED: no CUDA device");
    return std::getenv("HEDDLE_REQUIRE_CUDA") == nullptr ? kSkipped : 1;
  }
  fill({heddle::DeviceType::kCuda, 0});
  if (way == "exit") std::exit(0);
  if (way == "throw") throw std::runtime_error("the original text");
  return 0;
}
