#include "heddle/data/loader.h"

#include <algorithm>
#include <optional>

#include "heddle/data/loader_pass.h"

namespace heddle {

LoaderIterator::LoaderIterator(std::unique_ptr<LoaderPass> pass) : pass_(std::move(pass)) {
  ++*this;
}
LoaderIterator::~LoaderIterator() = default;
LoaderIterator::LoaderIterator(LoaderIterator&&) noexcept = default;
LoaderIterator& LoaderIterator::operator=(LoaderIterator&&) noexcept = default;

LoaderIterator& LoaderIterator::operator++() {
  HEDDLE_CHECK(pass_ != nullptr, "loader: the epoch has ended, there is no next batch");
  batch_ = {};  // first, so that the next batch can have its memory
  try {
    std::optional<Batch> next = pass_->next();
    if (next) {
      batch_ = std::move(*next);
    } else {
      pass_.reset();
    }
  } catch (...) {
    pass_.reset();
    throw;
  }
  return *this;
}

namespace {

void check_device(Device device) {
  const std::vector<Device> devices = Device::all();
  HEDDLE_CHECK(std::find(devices.begin(), devices.end(), device) != devices.end(),
               "loader: device is {}, which this {} lacks", device.to_string(),
               built_with_cuda() ? "machine" : "build");
}

int64_t checked_samples(const Dataset* dataset, const LoaderOptions& options) {
  HEDDLE_CHECK(dataset != nullptr, "loader: no dataset");
  HEDDLE_CHECK(options.batch_size >= 1, "loader: batch size is {}, expected at least 1",
               options.batch_size);
  HEDDLE_CHECK(options.workers >= 0 || options.workers == kAutoWorkers,
               "loader: {} workers, expected 0 or more, or kAutoWorkers", options.workers);
  HEDDLE_CHECK(options.prefetch >= 0, "loader: prefetch is {}, expected 0 or more",
               options.prefetch);
  HEDDLE_CHECK(options.limit >= 0, "loader: limit is {}, expected 0 (all) or more", options.limit);
  check_device(options.device);
  for (const Device device : options.lanes) check_device(device);
  HEDDLE_CHECK(options.dtype == DType::kFloat32 || options.dtype == DType::kBFloat16,
               "loader: dtype is {}, expected float32 or bfloat16", options.dtype);
  int64_t n_samples = dataset->size();
  HEDDLE_CHECK(n_samples > 0, "loader: the dataset is empty");
  if (options.limit > 0) n_samples = std::min(n_samples, options.limit);
  HEDDLE_CHECK(!options.drop_last || n_samples >= options.batch_size,
               "loader: drop_last with {} samples and batch size {} leaves nothing", n_samples,
               options.batch_size);
  return n_samples;
}

}  // namespace

Loader::Loader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options) {
  const int64_t n_samples = checked_samples(dataset.get(), options);
  state_ = std::make_shared<State>(std::move(dataset), options, n_samples);
}

int64_t Loader::size() const { return state_->n_batches; }

int64_t Loader::n_samples() const {
  const int64_t all = state_->sampler.n_samples();
  return state_->options.drop_last ? size() * state_->options.batch_size : all;
}

const Dataset& Loader::dataset() const { return *state_->dataset; }
const LoaderOptions& Loader::options() const { return state_->options; }
LoaderSize Loader::in_use() const { return state_->size(); }

LoaderIterator Loader::begin() {
  const LoaderPosition from = next_;
  next_ = {from.epoch + 1, 0};
  return LoaderIterator(std::make_unique<LoaderPass>(state_, from));
}

void Loader::set_position(LoaderPosition position) {
  HEDDLE_CHECK(position.epoch >= 0 && position.batch >= 0 && position.batch <= size(),
               "loader: position is batch {} of epoch {}, an epoch has {} batches", position.batch,
               position.epoch, size());
  next_ = position.batch == size() ? LoaderPosition{position.epoch + 1, 0} : position;
}

}  // namespace heddle
