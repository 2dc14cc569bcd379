#pragma once

#include <string>
#include <vector>

namespace heddle::train_cifar {

/// The whole program: what the command line asks for. Returns the exit code: 0 done, 130
/// interrupted with the run saved. Errors: UsageError (exit code 2), Error (1).
int run_session(const std::vector<std::string>& arguments);

}  // namespace heddle::train_cifar
