# BU-1: what the CUDA options do, by configuring the project anew below WORK.
#   cmake -D SOURCE=... -D WORK=... -D CASE=no_nvcc|no_cudnn [-D NVCC=...] -P cuda_options.cmake
file(REMOVE_RECURSE ${WORK})
set(flags -DHEDDLE_CUDA=ON -DHEDDLE_SIM=OFF -DHEDDLE_BUILD_TESTS=OFF -DHEDDLE_BUILD_APPS=OFF)
if(CASE STREQUAL "no_nvcc")
  list(APPEND flags -DCMAKE_CUDA_COMPILER=no-such-nvcc)
else()
  list(APPEND flags -DCMAKE_CUDA_COMPILER=${NVCC} -DCMAKE_CUDA_ARCHITECTURES=80
    -DCMAKE_DISABLE_FIND_PACKAGE_cuDNN=ON)
endif()
execute_process(COMMAND ${CMAKE_COMMAND} -G Ninja -S ${SOURCE} -B ${WORK} ${flags}
  OUTPUT_VARIABLE output ERROR_VARIABLE errors RESULT_VARIABLE result)
string(REGEX REPLACE "[ \n]+" " " said "${output} ${errors}")
if(CASE STREQUAL "no_nvcc")
  if(result EQUAL 0 OR NOT said MATCHES "no working nvcc was found.*-DCMAKE_CUDA_COMPILER=")
    message(FATAL_ERROR "ON without nvcc: status ${result}, expected an error with a hint:\n${output}${errors}")
  endif()
elseif(NOT result EQUAL 0 OR NOT said MATCHES "cuDNN +not found")
  message(FATAL_ERROR "ON without cuDNN: status ${result}, expected success:\n${output}${errors}")
endif()
