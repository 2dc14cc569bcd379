#include "observer.h"

namespace cudasim::observer {

void on_launch_begin(const Launch&) {}
void on_launch_end(const Launch&, const LaunchResult&) {}
void on_block_begin(Block&) {}
void on_block_end(Block&) {}
void on_shared_declared(Block&, const SharedVariable&) {}
void on_block_barrier(Block&) {}
void on_warp_sync(Block&, int, unsigned) {}
void on_access(Lane&, const void*, size_t, Access, const void*) {}
void on_divergent_barrier(Block&, bool) {}

}  // namespace cudasim::observer
