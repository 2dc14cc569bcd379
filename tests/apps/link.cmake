# The tests run the built program, and look into the code that programs share.
set(app_flavour ${suffix})
if(suffix STREQUAL "_gpu")
  set(app_flavour "")
endif()
target_link_libraries(${program} PRIVATE heddle_apps_support${app_flavour}
  train_cifar_parts${app_flavour})
target_compile_definitions(${program} PRIVATE
  HEDDLE_TRAIN_CIFAR="$<TARGET_FILE:train_cifar${app_flavour}>"
  HEDDLE_TEST_VERSION="${PROJECT_VERSION}"
  HEDDLE_BIN_FOLDER="$<TARGET_FILE_DIR:train_cifar>")
add_dependencies(${program} train_cifar${app_flavour})
if("${suffix}" STREQUAL "")
  add_dependencies(${program} bench_kernels bench_loader bench_step parallel_lab example_dataset
    example_function example_module)
elseif(suffix STREQUAL "_sim")
  add_dependencies(${program} bench_kernels_sim parallel_lab_sim)
endif()
