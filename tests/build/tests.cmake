# Tests of the project itself: what is installed, what the objects hold, what the docs say.
if(NOT HEDDLE_SANITIZE)
  add_test(NAME "build: a project finds the installed library" COMMAND ${CMAKE_COMMAND}
    -D BUILD=${PROJECT_BINARY_DIR} -D WORK=${CMAKE_CURRENT_BINARY_DIR}/consumer
    -D COMPILER=${CMAKE_CXX_COMPILER} -P ${CMAKE_CURRENT_SOURCE_DIR}/consumer/run.cmake)
  set_tests_properties("build: a project finds the installed library" PROPERTIES LABELS cpu)

  foreach(isa baseline avx2 avx512)
    if(TARGET heddle_isa_${isa})
      add_test(NAME "build: the ${isa} kernels share no symbol" COMMAND
        ${CMAKE_CURRENT_SOURCE_DIR}/build/isa_symbols.sh ${isa} $<TARGET_OBJECTS:heddle_isa_${isa}>
        COMMAND_EXPAND_LISTS)
      set_tests_properties("build: the ${isa} kernels share no symbol" PROPERTIES LABELS cpu)
    endif()
  endforeach()
endif()

if(NOT HEDDLE_SANITIZE)
  set(cases no_nvcc)
  if(HEDDLE_WITH_CUDA)
    list(APPEND cases no_cudnn)
  endif()
  foreach(case IN LISTS cases)
    add_test(NAME "build: HEDDLE_CUDA=ON, ${case}" COMMAND ${CMAKE_COMMAND}
      -D SOURCE=${PROJECT_SOURCE_DIR} -D WORK=${CMAKE_CURRENT_BINARY_DIR}/${case} -D CASE=${case}
      -D NVCC=${CMAKE_CUDA_COMPILER} -P ${CMAKE_CURRENT_SOURCE_DIR}/build/cuda_options.cmake)
    set_tests_properties("build: HEDDLE_CUDA=ON, ${case}" PROPERTIES LABELS cpu)
  endforeach()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_test(NAME "build: a compiler that is too old is refused" COMMAND
      ${CMAKE_CURRENT_SOURCE_DIR}/build/old_compiler.sh ${CMAKE_CXX_COMPILER}
      ${CMAKE_CURRENT_BINARY_DIR}/old_compiler)
    set_tests_properties("build: a compiler that is too old is refused" PROPERTIES LABELS cpu)
  endif()
  if(NOT HEDDLE_WITH_CUDA AND TARGET train_cifar)
    add_test(NAME "build: without CUDA, programs link none" COMMAND
      ${CMAKE_CURRENT_SOURCE_DIR}/build/no_cuda.sh $<TARGET_FILE:train_cifar>)
    set_tests_properties("build: without CUDA, programs link none" PROPERTIES LABELS cpu)
  endif()
endif()

# ST-3: static owners of device resources at the end of a program.
foreach(flavour gpu sim)
  if(TARGET heddle_test_support_${flavour})
    add_executable(exit_${flavour} ${CMAKE_CURRENT_SOURCE_DIR}/exit/main.cpp)
    target_link_libraries(exit_${flavour} PRIVATE heddle_options
      $<IF:$<STREQUAL:${flavour},sim>,heddle_sim,heddle>)
    add_test(NAME "${flavour} exit: static device resources at the end of a program" COMMAND
      ${CMAKE_CURRENT_SOURCE_DIR}/exit/run.sh $<TARGET_FILE:exit_${flavour}>)
    set_tests_properties("${flavour} exit: static device resources at the end of a program"
      PROPERTIES LABELS ${flavour} SKIP_RETURN_CODE 77)
  endif()
endforeach()

if(Python3_FOUND AND CUDASIM_WITH_CHECKS AND TARGET heddle_sim_device
    AND CMAKE_BUILD_TYPE STREQUAL "Release")
  add_test(NAME "build: what kernels call is theirs alone" COMMAND Python3::Interpreter
    ${CMAKE_CURRENT_SOURCE_DIR}/build/device_symbols.py --device $<TARGET_OBJECTS:heddle_sim_device>
    --host $<TARGET_OBJECTS:heddle_any> $<TARGET_OBJECTS:heddle_cuda_host>
    $<TARGET_OBJECTS:heddle_sim_cuda> COMMAND_EXPAND_LISTS)
  set_tests_properties("build: what kernels call is theirs alone" PROPERTIES LABELS sim)
endif()

if(TARGET core_sim_tests)
  add_test(NAME "sim core: with HEDDLE_SYNC=1 a kernel's fault is named at its launch"
    COMMAND core_sim_tests "[sync]")
  set_tests_properties("sim core: with HEDDLE_SYNC=1 a kernel's fault is named at its launch"
    PROPERTIES LABELS sim ENVIRONMENT "HEDDLE_SYNC=1;CUDASIM_DEVICES=2")
endif()

if(Python3_FOUND AND NOT HEDDLE_SANITIZE)
  add_test(NAME "build: sources keep to the rules" COMMAND Python3::Interpreter
    ${PROJECT_SOURCE_DIR}/scripts/check_source.py)
  add_test(NAME "build: the docs match the code" COMMAND Python3::Interpreter
    ${PROJECT_SOURCE_DIR}/scripts/check_docs.py --compiler ${CMAKE_CXX_COMPILER}
    --include ${PROJECT_BINARY_DIR}/include)
  set_tests_properties("build: sources keep to the rules" "build: the docs match the code"
    PROPERTIES LABELS cpu)
endif()

if(Python3_FOUND AND NOT HEDDLE_SANITIZE)
  add_test(NAME "build: scripts refuse wrong arguments" COMMAND
    ${CMAKE_CURRENT_SOURCE_DIR}/build/script_usage.sh)
  set_tests_properties("build: scripts refuse wrong arguments" PROPERTIES LABELS cpu)
endif()

if(Python3_FOUND AND HEDDLE_WITH_CUDA)
  add_test(NAME "build: the PTX helpers are what the manual says" COMMAND Python3::Interpreter
    ${CMAKE_CURRENT_SOURCE_DIR}/ptx/check_ptx.py ${CMAKE_CUDA_COMPILER} ${PROJECT_BINARY_DIR}/include)
  set_tests_properties("build: the PTX helpers are what the manual says" PROPERTIES LABELS cpu)
endif()

foreach(example function module dataset)
  if(TARGET example_${example})
    add_test(NAME "examples: a ${example} of one's own" COMMAND example_${example})
    set_tests_properties("examples: a ${example} of one's own" PROPERTIES LABELS cpu
      ENVIRONMENT OMP_WAIT_POLICY=passive)
  endif()
endforeach()
