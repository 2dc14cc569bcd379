#include "heddle/nn/step_graph.h"

#include "heddle/core/flavour.h"

#ifndef HEDDLE_WITH_CUDA
namespace heddle {

struct StepGraph::Entry {};

StepGraph::StepGraph(Device device, int warm_up) : device_(device), warm_up_(warm_up) {
  fail("StepGraph: {} has no graphs, and this build no CUDA", device.to_string());
}
StepGraph::~StepGraph() = default;

StepGraph::Tensors StepGraph::run(const Tensors&, const Body&, std::optional<int64_t>) {
  return {};
}

}  // namespace heddle
#endif
