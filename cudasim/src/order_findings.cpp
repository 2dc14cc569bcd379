#include "order_findings.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace cudasim {
namespace {

std::mutex& mutex() {
  static std::mutex& the_mutex = *new std::mutex;
  return the_mutex;
}

struct Store {
  std::vector<OrderFinding> findings;
  bool quiet = false;
};

Store& store() {
  static Store& the_store = *new Store;
  return the_store;
}

bool wanted_by_environment() {
  const char* text = std::getenv("CUDASIM_ORDER");
  return text == nullptr || std::strcmp(text, "off") != 0;
}

std::atomic<bool>& checks_on() {
  static std::atomic<bool> on{wanted_by_environment()};
  return on;
}

/// As with findings of accesses: a program that would end well does not.
void end_with_findings(int status, void*) {
  const std::vector<OrderFinding> left = order_findings();
  if (left.empty()) return;
  std::fprintf(stderr, "cudasim: %zu findings about order\n", left.size());
  if (status != 0) return;
  std::fflush(nullptr);
  _exit(kOrderFindingsExitCode);
}

// Early, so that it runs after the program's own handlers.
[[maybe_unused]] const int registered = on_exit(end_with_findings, nullptr);

}  // namespace

const char* order_fault_name(OrderFault fault) {
  switch (fault) {
    case OrderFault::kMissingWait:
      return "missing wait";
    case OrderFault::kFreedInUse:
      return "freed in use";
    case OrderFault::kUseAfterFree:
      return "use after free";
    case OrderFault::kUseBeforeAlloc:
      return "use before allocation";
  }
  return "";
}

std::string to_text(const OrderFinding& finding) {
  return std::string("cudasim: ") + order_fault_name(finding.fault) + ": " + finding.first +
         " and " + finding.second + " are not ordered on " + finding.buffer;
}

void add_order_finding(OrderFinding finding) {
  const std::lock_guard lock(mutex());
  for (OrderFinding& known : store().findings) {
    if (known.fault == finding.fault && known.first == finding.first &&
        known.second == finding.second) {
      ++known.count;
      return;
    }
  }
  if (!store().quiet) std::fprintf(stderr, "%s\n", to_text(finding).c_str());
  store().findings.push_back(std::move(finding));
}

std::vector<OrderFinding> order_findings() {
  const std::lock_guard lock(mutex());
  return store().findings;
}

void clear_order_findings() {
  const std::lock_guard lock(mutex());
  store().findings.clear();
}

void set_order_checks(bool on) { checks_on() = on; }
bool order_checks() { return checks_on(); }

ExpectOrderFindings::ExpectOrderFindings() {
  const std::lock_guard lock(mutex());
  outer_.swap(store().findings);
  outer_quiet_ = store().quiet;
  store().quiet = true;
}

ExpectOrderFindings::~ExpectOrderFindings() {
  const std::lock_guard lock(mutex());
  store().findings.swap(outer_);
  store().quiet = outer_quiet_;
}

std::vector<OrderFinding> ExpectOrderFindings::found() const { return order_findings(); }

}  // namespace cudasim
