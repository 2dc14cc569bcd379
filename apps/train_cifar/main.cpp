#include "heddle/apps/support/program.h"
#include "heddle/apps/train_cifar/session.h"

int main(int argc, char** argv) {
  return heddle::apps::run_program("train_cifar", [&] {
    return heddle::train_cifar::run_session({argv + 1, argv + argc});
  });
}
