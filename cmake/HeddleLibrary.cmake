# The library: every source in core, kernels, nn, data and parallel. No list to edit. Files named
# *_onednn.cpp join where oneDNN was found; *_cuda.cpp, *_cublas.cpp, *_cudnn.cpp and *.cu belong to
# the flavours with CUDA: `heddle` where nvcc was found, and `heddle_sim` (cmake/sim).
#
# What is common to the flavours is compiled once, as object libraries:
#   heddle_any     sources that do not depend on HEDDLE_WITH_CUDA
#   heddle_host    those that do, without CUDA (where `heddle` has none)
#   heddle_cuda_host  the same with CUDA: for `heddle` where it has it, and for `heddle_sim`
file(GLOB_RECURSE HEDDLE_SOURCES CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/core/*.cpp ${PROJECT_SOURCE_DIR}/kernels/*.cpp
  ${PROJECT_SOURCE_DIR}/nn/*.cpp ${PROJECT_SOURCE_DIR}/data/*.cpp
  ${PROJECT_SOURCE_DIR}/parallel/*.cpp)
list(FILTER HEDDLE_SOURCES EXCLUDE REGEX "/kernels/host/isa/")
if(NOT HEDDLE_WITH_ONEDNN)
  list(FILTER HEDDLE_SOURCES EXCLUDE REGEX "_onednn\\.cpp$")
endif()
set(HEDDLE_CUDA_SOURCES ${HEDDLE_SOURCES})
list(FILTER HEDDLE_CUDA_SOURCES INCLUDE REGEX "_(cuda|cublas|cudnn)\\.cpp$")
list(FILTER HEDDLE_SOURCES EXCLUDE REGEX "_(cuda|cublas|cudnn)\\.cpp$")
# The vendor's libraries, and where there is no real CUDA, cudasim's stand-ins of them.
foreach(library CUBLAS CUDNN)
  string(TOLOWER ${library} suffix)
  set(HEDDLE_VENDOR_${library} ${HEDDLE_WITH_${library}})
  if(HEDDLE_WITH_SIM AND NOT HEDDLE_WITH_CUDA)
    set(HEDDLE_VENDOR_${library} ON)
  endif()
  if(NOT HEDDLE_VENDOR_${library})
    list(FILTER HEDDLE_CUDA_SOURCES EXCLUDE REGEX "_${suffix}\\.cpp$")
  endif()
endforeach()
file(GLOB HEDDLE_DEVICE_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/*.cu
  ${PROJECT_SOURCE_DIR}/data/*.cu ${PROJECT_SOURCE_DIR}/parallel/*.cu)

# Of the sources given, those that depend on the flavour: they include one of these headers
# (core/flavour.h sees to it).
function(heddle_flavour_sources variable)
  set(result "")
  foreach(source IN LISTS ARGN)
    file(STRINGS ${source} found LIMIT_COUNT 1
      REGEX "#include \"heddle/(core/flavour|kernels/dispatch)\\.h\"")
    if(found)
      list(APPEND result ${source})
    endif()
  endforeach()
  set(${variable} ${result} PARENT_SCOPE)
endfunction()
heddle_flavour_sources(HEDDLE_FLAVOUR_SOURCES ${HEDDLE_SOURCES})
set(HEDDLE_ANY_SOURCES ${HEDDLE_SOURCES})
list(REMOVE_ITEM HEDDLE_ANY_SOURCES ${HEDDLE_FLAVOUR_SOURCES})

# Nobody reads the float unit's exception flags; without them selects in loops become vector blends.
set(HEDDLE_KERNEL_SOURCES ${HEDDLE_SOURCES})
list(FILTER HEDDLE_KERNEL_SOURCES INCLUDE REGEX
  "/kernels/(batch_norm|cross_entropy|dropout|log_softmax|optimizer|pool2d|pool2d_backward)\\.cpp$")
set_source_files_properties(${HEDDLE_KERNEL_SOURCES} PROPERTIES
  COMPILE_OPTIONS "-fno-trapping-math")
set_source_files_properties(${PROJECT_SOURCE_DIR}/core/version.cpp PROPERTIES
  COMPILE_DEFINITIONS HEDDLE_VERSION="${PROJECT_VERSION}")

# How the library's sources are compiled, in all flavours.
add_library(heddle_compile INTERFACE)
target_include_directories(heddle_compile INTERFACE ${PROJECT_BINARY_DIR}/include)
target_link_libraries(heddle_compile INTERFACE heddle_options OpenMP::OpenMP_CXX fmt::fmt
  nlohmann_json::nlohmann_json Threads::Threads)
if(HEDDLE_WITH_DOWNLOAD)
  target_link_libraries(heddle_compile INTERFACE CURL::libcurl LibArchive::LibArchive OpenSSL::Crypto)
  target_compile_definitions(heddle_compile INTERFACE HEDDLE_WITH_DOWNLOAD)
endif()
if(HEDDLE_WITH_ONEDNN)
  target_link_libraries(heddle_compile INTERFACE DNNL::dnnl)
  target_compile_definitions(heddle_compile INTERFACE HEDDLE_WITH_ONEDNN)
endif()

function(heddle_add_objects name)
  add_library(${name} OBJECT ${ARGN})
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(${name} PRIVATE heddle_compile)
endfunction()

heddle_add_objects(heddle_any ${HEDDLE_ANY_SOURCES})
target_compile_definitions(heddle_any PRIVATE HEDDLE_ANY_FLAVOUR)
set(HEDDLE_COMMON_OBJECTS $<TARGET_OBJECTS:heddle_any>)

# kernels/host/isa is compiled once for each instruction set, each copy in its own namespace.
file(GLOB HEDDLE_ISA_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/host/isa/*.cpp)
function(heddle_add_isa name)
  if(NOT HEDDLE_ISA_SOURCES)
    return()
  endif()
  add_library(heddle_isa_${name} OBJECT ${HEDDLE_ISA_SOURCES})
  set_target_properties(heddle_isa_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_compile_definitions(heddle_isa_${name} PRIVATE HEDDLE_ISA_NAMESPACE=isa_${name}
    HEDDLE_ISA_${name}=1)
  target_compile_options(heddle_isa_${name} PRIVATE ${ARGN})
  target_include_directories(heddle_isa_${name} PRIVATE ${PROJECT_BINARY_DIR}/include)
  target_link_libraries(heddle_isa_${name} PRIVATE heddle_options fmt::fmt)
  list(APPEND HEDDLE_COMMON_OBJECTS $<TARGET_OBJECTS:heddle_isa_${name}>)
  set(HEDDLE_COMMON_OBJECTS ${HEDDLE_COMMON_OBJECTS} PARENT_SCOPE)
endfunction()
heddle_add_isa(baseline)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  heddle_add_isa(avx2 -mavx2 -mfma -mf16c)
  heddle_add_isa(avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mf16c
    -mprefer-vector-width=512)
endif()

if(HEDDLE_WITH_CUDA OR HEDDLE_WITH_SIM)
  heddle_add_objects(heddle_cuda_host ${HEDDLE_FLAVOUR_SOURCES})
  target_compile_definitions(heddle_cuda_host PRIVATE HEDDLE_WITH_CUDA
    $<$<BOOL:${HEDDLE_VENDOR_CUBLAS}>:HEDDLE_WITH_CUBLAS>
    $<$<BOOL:${HEDDLE_VENDOR_CUDNN}>:HEDDLE_WITH_CUDNN>)
endif()
if(HEDDLE_WITH_CUDA)
  add_library(heddle STATIC ${HEDDLE_COMMON_OBJECTS} $<TARGET_OBJECTS:heddle_cuda_host>)
  include(HeddleCudaLibrary)
else()
  heddle_add_objects(heddle_host ${HEDDLE_FLAVOUR_SOURCES})
  add_library(heddle STATIC ${HEDDLE_COMMON_OBJECTS} $<TARGET_OBJECTS:heddle_host>)
endif()

# What whoever uses the library is given, in all flavours.
function(heddle_finish_library name)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON LINKER_LANGUAGE CXX)
  target_compile_features(${name} PUBLIC cxx_std_20)
  target_include_directories(${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${name} PUBLIC fmt::fmt nlohmann_json::nlohmann_json Threads::Threads
    PRIVATE OpenMP::OpenMP_CXX)
  if(HEDDLE_WITH_DOWNLOAD)
    target_link_libraries(${name} PRIVATE CURL::libcurl LibArchive::LibArchive OpenSSL::Crypto)
  endif()
  if(HEDDLE_WITH_ONEDNN)
    target_link_libraries(${name} PRIVATE DNNL::dnnl)
  endif()
endfunction()
heddle_finish_library(heddle)
add_library(heddle::heddle ALIAS heddle)
if(HEDDLE_WITH_SIM)
  add_subdirectory(${PROJECT_SOURCE_DIR}/cudasim cudasim)
  add_subdirectory(${PROJECT_SOURCE_DIR}/cmake/sim heddle_sim)
endif()
