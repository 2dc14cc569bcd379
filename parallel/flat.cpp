#include "heddle/parallel/flat.h"

#include "heddle/nn/ops.h"

namespace heddle {
namespace {

constexpr int64_t kAlignment = 4;  // elements: 16 bytes, the widest access of a kernel

}  // namespace

int FlatLayout::add(const Tensor& like) {
  HEDDLE_CHECK(like.dtype() == DType::kFloat32, "DataParallel: {} is {}, expected float32",
               like.name().empty() ? "a tensor" : like.name(), like.dtype());
  places_.push_back({like.shape(), like.strides(), elements_});
  elements_ += (like.numel() + kAlignment - 1) / kAlignment * kAlignment;
  return size() - 1;
}

Tensor FlatLayout::make(Device device) const { return zeros({elements_}, DType::kFloat32, device); }

Tensor FlatLayout::view(const Tensor& flat, int place) const {
  const Place& p = places_[static_cast<size_t>(place)];
  return flat.as_strided(p.shape, p.strides, flat.offset() + p.offset);
}

Tensor TreeSum::merge_last() {
  Tensor freed = std::move(nodes_.back().sum);
  nodes_.pop_back();
  add_(nodes_.back().sum, freed);
  ++nodes_.back().level;
  return freed;
}

std::vector<Tensor> TreeSum::add(Tensor flat) {
  std::vector<Tensor> freed;
  nodes_.push_back({0, std::move(flat)});
  while (nodes_.size() >= 2 && nodes_.back().level == nodes_[nodes_.size() - 2].level)
    freed.push_back(merge_last());
  return freed;
}

std::vector<Tensor> TreeSum::finish() {
  std::vector<Tensor> freed;
  while (nodes_.size() >= 2) freed.push_back(merge_last());
  nodes_.clear();
  return freed;
}

std::vector<Tensor> TreeSum::abandon() {
  std::vector<Tensor> freed;
  for (Node& node : nodes_) freed.push_back(std::move(node.sum));
  nodes_.clear();
  return freed;
}

}  // namespace heddle
