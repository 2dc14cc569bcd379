# The tests run the built program, and look into the code that programs share.
target_link_libraries(apps_tests PRIVATE heddle_apps_support train_cifar_parts)
target_compile_definitions(apps_tests PRIVATE
  HEDDLE_TRAIN_CIFAR="$<TARGET_FILE:train_cifar>" HEDDLE_TEST_VERSION="${PROJECT_VERSION}"
  HEDDLE_BIN_FOLDER="$<TARGET_FILE_DIR:train_cifar>")
add_dependencies(apps_tests train_cifar bench_kernels bench_loader bench_step)
