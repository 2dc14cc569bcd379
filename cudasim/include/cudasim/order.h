#pragma once

#include <cstdint>
#include <string>
#include <vector>

// What the happens-before check found. None of it exists in CUDA.
namespace cudasim {

enum class OrderFault {
  kMissingWait,     ///< two operations touch a buffer, one writes, and nothing orders them
  kFreedInUse,      ///< freed where an operation that uses it may still run
  kUseAfterFree,    ///< used behind the free
  kUseBeforeAlloc,  ///< used in a stream that does not wait for the stream-ordered allocation
};
const char* order_fault_name(OrderFault fault);

struct OrderFinding {
  OrderFault fault{};
  std::string first;  ///< "copy of 4096 bytes in stream 2 of device 0", or "the host"
  std::string second;
  std::string buffer;  ///< "bytes 0 to 4096 of allocation 12 (...)"
  int64_t count = 1;   ///< equal ones are folded into the first
};

/// One line.
std::string to_text(const OrderFinding& finding);

/// A finding is printed when it occurs, and a program that ends with some ends with this exit code
/// where it would have been 0. What an ExpectOrderFindings takes away counts for neither.
constexpr int kOrderFindingsExitCode = 66;

/// All since the last clear, the oldest first.
std::vector<OrderFinding> order_findings();
void clear_order_findings();

/// Whether order is checked: at first unless the environment's CUDASIM_ORDER is off.
void set_order_checks(bool on);
bool order_checks();

/// While it lives, findings are kept here and printed nowhere: for tests that plant a fault.
class ExpectOrderFindings {
 public:
  ExpectOrderFindings();
  ~ExpectOrderFindings();
  ExpectOrderFindings(const ExpectOrderFindings&) = delete;
  ExpectOrderFindings& operator=(const ExpectOrderFindings&) = delete;
  std::vector<OrderFinding> found() const;

 private:
  std::vector<OrderFinding> outer_;
  bool outer_quiet_;
};

}  // namespace cudasim
