#include "graph.h"

#include <algorithm>

#include "cudasim/runtime_api.h"
#include "error.h"
#include "happens_before.h"

namespace cudasim {

cudaGraph_t make_graph(std::vector<GraphNode> nodes, int n_lanes) {
  auto* graph = new CUgraph_st{.nodes = std::move(nodes), .n_lanes = n_lanes};
  runtime().handles.insert(graph);
  return graph;
}

namespace {

/// Hidden streams, each of the device of its nodes.
std::vector<CUstream_st*> make_lanes(const CUgraph_st& graph) {
  std::vector<CUstream_st*> lanes(static_cast<size_t>(graph.n_lanes));
  for (const GraphNode& node : graph.nodes) {
    CUstream_st*& lane = lanes[static_cast<size_t>(node.lane)];
    if (lane == nullptr) lane = make_stream(node.device, cudaStreamNonBlocking, 0);
  }
  return lanes;
}

cudaError_t launch_graph(Lock& lock, CUgraphExec_st& exec, CUstream_st& stream) {
  if (stream.capture != nullptr) {  // a graph within a graph is not in the subset
    invalidate(*stream.capture);
    return cudaErrorStreamCaptureUnsupported;
  }
  if (const cudaError_t error = check_legacy_use(stream)) return error;
  const OperationPtr before = exec.last;
  const OperationPtr begin = enqueue(lock, stream, {.kind = "graph launch"}, {&before, 1});
  std::vector<OperationPtr> operations;
  for (const GraphNode& node : exec.nodes) {
    std::vector<OperationPtr> waits;
    for (const int earlier : node.waits_for) {
      waits.push_back(operations[static_cast<size_t>(earlier)]);
    }
    if (waits.empty()) waits.push_back(begin);
    CUstream_st& lane = *exec.lanes[static_cast<size_t>(node.lane)];
    lane.number = stream.number;
    operations.push_back(enqueue(lock, lane, node.work, waits));
  }
  exec.last = enqueue(lock, stream, {.kind = "graph end"}, operations);
  return cudaSuccess;
}

}  // namespace
}  // namespace cudasim

using cudasim::Lock;
using cudasim::runtime;

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* n_nodes) {
  return cudasim::api([&](Lock&) {
    if (!runtime().handles.contains(graph) || n_nodes == nullptr) return cudaErrorInvalidValue;
    if (nodes != nullptr) {
      for (size_t i = 0; i < std::min(*n_nodes, graph->nodes.size()); ++i) {
        nodes[i] = reinterpret_cast<cudaGraphNode_t>(&graph->nodes[i]);
      }
    }
    *n_nodes = graph->nodes.size();
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return cudasim::api([&](Lock&) {
    if (runtime().handles.erase(graph) == 0) return cudaErrorInvalidValue;
    delete graph;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                 unsigned long long flags) {
  return cudasim::api([&](Lock&) {
    if (exec == nullptr || flags != 0 || !runtime().handles.contains(graph)) {
      return cudaErrorInvalidValue;
    }
    *exec = new CUgraphExec_st{
        .nodes = graph->nodes, .lanes = cudasim::make_lanes(*graph), .last = nullptr};
    runtime().handles.insert(*exec);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t handle) {
  return cudasim::api([&](Lock&) {
    if (!runtime().handles.contains(exec)) return cudaErrorInvalidValue;
    return cudasim::find_stream(runtime(), handle) == nullptr ? cudaErrorInvalidResourceHandle
                                                              : cudaSuccess;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t handle) {
  return cudasim::api([&](Lock& lock) {
    if (!runtime().handles.contains(exec)) return cudaErrorInvalidValue;
    CUstream_st* stream = cudasim::find_stream(runtime(), handle);
    return stream == nullptr ? cudaErrorInvalidResourceHandle
                             : cudasim::launch_graph(lock, *exec, *stream);
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return cudasim::api([&](Lock&) {
    if (runtime().handles.erase(exec) == 0) return cudaErrorInvalidValue;
    for (const CUstream_st* lane : exec->lanes) {
      if (lane != nullptr) cudasim::retire_timeline(lane->timeline, lane->ticks);
    }
    delete exec;  // a launch in flight holds what it needs
    return cudaSuccess;
  });
}
