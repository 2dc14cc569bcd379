#pragma once

namespace heddle::train_cifar {

/// From now on Ctrl-C and SIGTERM are ours: until `begin_interruptible` they end the program with
/// exit code 130 at once; after it the first one only sets a flag, so that the running step can end
/// and be saved, and a second one ends the program at once. Writing past a file-size limit becomes
/// an ordinary error.
void install_signal_handlers();
void begin_interruptible();

/// Whether a signal asked to stop.
bool interrupted();

}  // namespace heddle::train_cifar
