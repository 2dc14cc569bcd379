#include "heddle/nn/step_graph.h"

#include "heddle/core/flavour.h"

#ifndef HEDDLE_WITH_CUDA
namespace heddle {

struct StepGraph::Entry {};

StepGraph::StepGraph(Device device, int warm_up)
    : StepGraph(std::vector<Device>{device}, warm_up) {}
StepGraph::StepGraph(std::vector<Device> devices, int warm_up)
    : devices_(std::move(devices)), warm_up_(warm_up) {
  fail("StepGraph: this build has no CUDA, and so no graphs");
}
StepGraph::~StepGraph() = default;

StepGraph::Tensors StepGraph::run(const Tensors&, const Body&, std::optional<int64_t>) {
  return {};
}

}  // namespace heddle
#endif
