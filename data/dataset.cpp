#include "heddle/data/dataset.h"

#include <cstring>

namespace heddle {

std::string_view name_of(Split split) { return split == Split::kTrain ? "train" : "test"; }

Sample Dataset::draw(int64_t index, Rng&) const { return get(index); }

Sample ImageDataset::get(int64_t index) const {
  const ImageRecord image = record(index);
  Tensor value = Tensor::empty({kImageChannels, kImageSide, kImageSide}, DType::kUInt8);
  std::memcpy(value.raw_data(), image.planes, static_cast<size_t>(kImageBytes));
  return {value, image.label};
}

}  // namespace heddle
