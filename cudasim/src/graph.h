#pragma once

#include <vector>

#include "capture.h"

struct CUgraph_st {
  std::vector<cudasim::GraphNode> nodes;
  int n_lanes = 0;
};

struct CUgraphExec_st {
  std::vector<cudasim::GraphNode> nodes;
  std::vector<CUstream_st*> lanes;  ///< hidden streams in which the nodes run
  cudasim::OperationPtr last;       ///< the end of its last launch: launches do not overlap
};

namespace cudasim {

cudaGraph_t make_graph(std::vector<GraphNode> nodes, int n_lanes);

}  // namespace cudasim
