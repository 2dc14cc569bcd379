#include <exception>

#include "heddle/apps/support/streams.h"
#include "heddle/apps/train_cifar/session.h"
#include "heddle/core/denormals.h"
#include "heddle/core/error.h"
#include "heddle/data/mapped_file.h"

namespace {

constexpr const char* kProgram = "train_cifar";

int run(int argc, char** argv) {
  try {
    return heddle::train_cifar::run_session({argv + 1, argv + argc});
  } catch (const heddle::UsageError& error) {
    heddle::apps::print_error(kProgram, error.what());
    return 2;
  } catch (const std::exception& error) {
    heddle::apps::print_error(kProgram, error.what());
    return 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const heddle::FlushDenormals flush;  // threads made later inherit it, the vendor library's too
  heddle::apps::open_standard_streams();
  heddle::explain_bus_errors();
  return heddle::apps::finish_output(kProgram, run(argc, argv));
}
