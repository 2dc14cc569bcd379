#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// What the checks of kernels' accesses found, for tests and tools. None of it exists in CUDA.
namespace cudasim {

/// Each level has the ones before it. At first the environment's
/// CUDASIM_CHECKS=off|memory|races|all, else all. A change holds from the next launch on.
enum class Checks {
  kOff,     ///< one branch an access
  kMemory,  ///< bounds, lifetime, device, alignment, memory never written, barriers not reached by
            ///< all
  kRaces,   ///< and races between barriers
  kAll = kRaces,
};

Checks checks();
void set_checks(Checks level);

class ChecksScope {
 public:
  explicit ChecksScope(Checks level) : outer_(checks()) { set_checks(level); }
  ~ChecksScope() { set_checks(outer_); }
  ChecksScope(const ChecksScope&) = delete;
  ChecksScope& operator=(const ChecksScope&) = delete;

 private:
  Checks outer_;
};

enum class FindingKind {
  kOutOfBounds,    ///< ends the launch
  kUseAfterFree,   ///< ends the launch
  kHostPointer,    ///< ends the launch
  kForeignDevice,  ///< ends the launch
  kMisaligned,     ///< ends the launch
  kUninitialisedRead,
  kRace,
  kDivergentBarrier,
};
const char* finding_kind_name(FindingKind kind);

/// One access of one thread.
struct FindingAccess {
  std::string what;  ///< "write of 4 bytes"
  std::array<uint32_t, 3> block{};
  std::array<uint32_t, 3> thread{};
  std::string file;  ///< as the compiler was given it; empty where it is unknown
  int line = 0;
  std::vector<std::string> frames;  ///< "file:line" of inlined functions, the innermost first
  uintptr_t return_address = 0;
};

struct Finding {
  FindingKind kind{};
  std::string kernel;
  int device = 0;
  uintptr_t address = 0;
  FindingAccess access;
  std::optional<FindingAccess> other;  ///< a race's earlier access
  std::string memory;                  ///< the allocation or shared variable and the place in it
  int64_t count = 1;  ///< equal ones (kind, kernel, lines) are folded into the first
};

/// Several lines, as printed.
std::string to_text(const Finding& finding);

/// All since the last clear_findings(), the oldest first.
std::vector<Finding> findings();
void clear_findings();
int64_t finding_count();

/// A finding is printed when it occurs, and a program that ends with findings ends with this exit
/// code where it would have been 0. What an ExpectFindings takes away counts for neither.
constexpr int kFindingsExitCode = 66;

/// While it lives, findings are kept here and printed nowhere: for tests that plant a fault.
class ExpectFindings {
 public:
  ExpectFindings();
  ~ExpectFindings();
  ExpectFindings(const ExpectFindings&) = delete;
  ExpectFindings& operator=(const ExpectFindings&) = delete;

  std::vector<Finding> found() const;

 private:
  std::vector<Finding> outer_;
  [[maybe_unused]] bool outer_quiet_;  // where there are checks
};

/// How many different findings one launch may print; the others are counted.
constexpr int kFindingsPerLaunch = 20;

}  // namespace cudasim
