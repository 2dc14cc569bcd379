#include "heddle/apps/support/program.h"

#include <exception>

#include "heddle/apps/support/streams.h"
#include "heddle/core/denormals.h"
#include "heddle/core/error.h"
#include "heddle/data/mapped_file.h"

namespace heddle::apps {
namespace {

int exit_code_of(std::string_view program, const std::function<int()>& body) noexcept {
  try {
    return body();
  } catch (const UsageError& error) {
    print_error(program, error.what());
    return 2;
  } catch (const std::exception& error) {
    print_error(program, error.what());
    return 1;
  }
}

}  // namespace

int run_program(std::string_view program, const std::function<int()>& body) noexcept {
  const FlushDenormals flush;
  open_standard_streams();
  explain_bus_errors();
  return finish_output(program, exit_code_of(program, body));
}

}  // namespace heddle::apps
