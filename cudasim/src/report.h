#pragma once

// From what a check saw to a finding: words, folding, limits.

#include <cstdint>
#include <string>
#include <vector>

#include "cudasim/findings.h"
#include "lane.h"

namespace cudasim {

/// One access as a hook saw it.
struct Touch {
  Lane* lane = nullptr;
  uintptr_t address = 0;
  size_t bytes = 0;
  Access kind = Access::kRead;
  uintptr_t return_address = 0;
};

struct EarlierAccess {
  const char* what = "";
  uint32_t block = 0;   ///< linear index
  uint32_t thread = 0;  ///< in its block
  uintptr_t return_address = 0;
};

/// Adds a finding, folds it into an equal one, or counts it past the launch's limit.
void report_touch(FindingKind kind, const Touch& touch, const EarlierAccess* earlier = nullptr);

/// Of a barrier: the thread that waits, and a thread that does not come.
void report_barrier(const Lane& waiting, const Lane& other, const std::string& note);

/// The threads have come to calls of a barrier that differ: a finding where the lines do.
void report_mixed_barrier(const Block& block);

/// A finding that has all its words: also for checks that are not of kernels' accesses.
void add_finding(Finding finding);

void begin_findings_of_launch();
void end_findings_of_launch(const Launch& launch);

/// Where an allocation was made, for the texts of findings about it.
void note_allocation(uint64_t id, std::vector<uintptr_t> stack);
std::vector<uintptr_t> allocation_stack(uint64_t id);

}  // namespace cudasim
