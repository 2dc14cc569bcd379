// A build without checks: nothing is observed, found or counted.
#include "observer.h"

#include "cudasim/findings.h"
#include "cudasim/profile.h"

namespace cudasim {

namespace observer {

void on_launch_begin(const Launch&) {}
void on_launch_end(const Launch&, const LaunchResult&) {}
void on_block_begin(Block&) {}
void on_block_end(Block&) {}
void on_shared_declared(Block&, const SharedVariable&) {}
void on_block_barrier(Block&) {}
void on_warp_sync(Block&, int, unsigned) {}
void on_fence(Block&) {}
void on_access(Lane&, const void*, size_t, Access, const void*) {}
void on_divergent_barrier(Block&, bool) {}

}  // namespace observer

Checks checks() { return Checks::kOff; }
void set_checks(Checks) {}
std::vector<Finding> findings() { return {}; }
std::string to_text(const Finding& finding) { return finding.kernel; }
void clear_findings() {}
int64_t finding_count() { return 0; }
ExpectFindings::ExpectFindings() : outer_quiet_(false) {}
ExpectFindings::~ExpectFindings() = default;
std::vector<Finding> ExpectFindings::found() const { return {}; }

Profile::Profile() : collector_(nullptr) {}
Profile::~Profile() = default;
std::vector<KernelProfile> Profile::kernels() const { return {}; }
KernelProfile Profile::kernel(const std::string&) const { return {}; }
std::string Profile::table() const { return "cudasim profile: built without checks\n"; }
std::string Profile::json() const { return "[]"; }
void Profile::clear() {}
double AccessCounts::sectors_per_request() const { return 0; }
double KernelProfile::load_excess() const { return 0; }
double KernelProfile::store_excess() const { return 0; }

}  // namespace cudasim
