# The tests run the built program, and look into the code that programs share.
target_link_libraries(apps_tests PRIVATE heddle_apps_support train_cifar_parts)
target_compile_definitions(apps_tests PRIVATE
  HEDDLE_TRAIN_CIFAR="$<TARGET_FILE:train_cifar>" HEDDLE_TEST_VERSION="${PROJECT_VERSION}")
add_dependencies(apps_tests train_cifar)
