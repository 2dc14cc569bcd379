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

if(Python3_FOUND AND NOT HEDDLE_SANITIZE)
  add_test(NAME "build: sources keep to the rules" COMMAND Python3::Interpreter
    ${PROJECT_SOURCE_DIR}/scripts/check_source.py)
  add_test(NAME "build: the docs match the code" COMMAND Python3::Interpreter
    ${PROJECT_SOURCE_DIR}/scripts/check_docs.py --compiler ${CMAKE_CXX_COMPILER}
    --include ${PROJECT_BINARY_DIR}/include)
  set_tests_properties("build: sources keep to the rules" "build: the docs match the code"
    PROPERTIES LABELS cpu)
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
