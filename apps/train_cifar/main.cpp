#include <fmt/format.h>

#include <cstdio>
#include <exception>

#include "heddle/apps/train_cifar/session.h"
#include "heddle/core/denormals.h"
#include "heddle/core/error.h"
#include "heddle/data/mapped_file.h"

int main(int argc, char** argv) {
  const heddle::FlushDenormals flush;  // threads made later inherit it, the vendor library's too
  heddle::explain_bus_errors();
  try {
    return heddle::train_cifar::run_session({argv + 1, argv + argc});
  } catch (const heddle::UsageError& error) {
    fmt::print(stderr, "train_cifar: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "train_cifar: {}\n", error.what());
    return 1;
  }
}
