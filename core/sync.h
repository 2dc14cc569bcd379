#pragma once

namespace heddle {

/// Whether HEDDLE_SYNC=1 asks to wait for each kernel, so that the one that fails is named. Read
/// once.
bool wants_sync();

}  // namespace heddle
