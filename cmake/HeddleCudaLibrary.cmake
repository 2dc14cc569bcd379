# The part of `heddle` that CUDA's own compiler and headers see.

# NVIDIA's headers are not ours to warn about.
heddle_add_objects(heddle_cuda ${HEDDLE_CUDA_SOURCES} ${HEDDLE_DEVICE_SOURCES})
target_compile_definitions(heddle_cuda PRIVATE HEDDLE_WITH_CUDA
  "HEDDLE_CUDA_ARCHITECTURES=\"${HEDDLE_CUDA_ARCHITECTURES}\"")
target_include_directories(heddle_cuda SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
target_sources(heddle PRIVATE $<TARGET_OBJECTS:heddle_cuda>)
target_link_libraries(heddle PRIVATE CUDA::cudart_static)
if(HEDDLE_WITH_CUBLAS)
  target_link_libraries(heddle PRIVATE CUDA::cublas)
endif()
if(HEDDLE_WITH_CUDNN)
  target_include_directories(heddle_cuda SYSTEM PRIVATE ${CUDNN_INCLUDE_DIR})
  target_link_libraries(heddle PRIVATE cuDNN::cudnn)
endif()

# What the kernels' machine code is made of; a spill that is not listed with a reason fails.
find_package(Python3 QUIET COMPONENTS Interpreter)
if(Python3_FOUND)
  add_custom_target(kernel_report VERBATIM COMMAND_EXPAND_LISTS
    COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/kernel_report.py
    --write ${PROJECT_BINARY_DIR}/kernel_report.md $<TARGET_OBJECTS:heddle_cuda>)
  add_dependencies(kernel_report heddle_cuda)
endif()
