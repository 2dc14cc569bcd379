# Warnings, optimisation and sanitizers, as one interface target that all of Heddle's own targets use.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

if((CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
    OR (CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14))
  message(FATAL_ERROR "heddle needs g++ 12 or clang++ 14, or later ones; found "
    "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}, ${CMAKE_CXX_COMPILER}. Where another is "
    "installed, name it: CXX=g++-12")
endif()

find_program(HEDDLE_CCACHE ccache)
if(HEDDLE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${HEDDLE_CCACHE})
endif()

add_library(heddle_options INTERFACE)
set(warnings
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wswitch
  -Wno-missing-field-initializers # options are given by name: {.lr = 1e-3}
  -Wno-psabi # vectors pass between inlined functions only
  -ffp-contract=off # a fused multiply-add is written where it is meant, so that bits do not move
  -fno-math-errno)
if(HEDDLE_WERROR)
  list(APPEND warnings -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 and 14 see writes past the end of libstdc++'s own buffers where there are none.
  list(APPEND warnings -Wno-stringop-overflow -Wno-array-bounds -Wno-maybe-uninitialized
    -Wno-restrict)
  if(CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
    # Takes each function with a temporary argument that returns a reference for one that returns the argument.
    list(APPEND warnings -Wno-dangling-reference)
  endif()
endif()
target_compile_options(heddle_options INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${warnings}>")
# nvcc: the same rule for fused multiply-adds; the code that it writes for g++ is not warned about.
# Kernels call constexpr functions of the host (std::array, std::bit_cast); fmt 9 takes nvcc for a compiler
# without them.
set(cuda_warnings -fmad=false -lineinfo --expt-relaxed-constexpr -DFMT_USE_CONSTEXPR=1
  -Xcompiler=-Wall,-Wextra,-Wno-psabi,-Wno-missing-field-initializers)
if(HEDDLE_WERROR)
  list(APPEND cuda_warnings -Werror=all-warnings)
endif()
target_compile_options(heddle_options INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:${cuda_warnings}>")
if(HEDDLE_SANITIZE)
  add_compile_options(-fsanitize=${HEDDLE_SANITIZE} -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${HEDDLE_SANITIZE})
  if(HEDDLE_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
endif()
if(HEDDLE_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "HEDDLE_FUZZ needs clang++ (libFuzzer); the preset fuzz chooses it")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
