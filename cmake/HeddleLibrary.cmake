# The library: every source in core, kernels, nn, data and parallel. No list to edit; files named
# *_onednn.cpp join where oneDNN was found.
file(GLOB_RECURSE HEDDLE_SOURCES CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/core/*.cpp ${PROJECT_SOURCE_DIR}/kernels/*.cpp
  ${PROJECT_SOURCE_DIR}/nn/*.cpp ${PROJECT_SOURCE_DIR}/data/*.cpp
  ${PROJECT_SOURCE_DIR}/parallel/*.cpp)
list(FILTER HEDDLE_SOURCES EXCLUDE REGEX "/kernels/host/isa/")
if(NOT HEDDLE_WITH_ONEDNN)
  list(FILTER HEDDLE_SOURCES EXCLUDE REGEX "_onednn\\.cpp$")
endif()

# Nobody reads the float unit's exception flags; without them selects in loops become vector blends.
set(HEDDLE_KERNEL_SOURCES ${HEDDLE_SOURCES})
list(FILTER HEDDLE_KERNEL_SOURCES INCLUDE REGEX
  "/kernels/(batch_norm|cross_entropy|dropout|log_softmax|optimizer|pool2d)\\.cpp$")
set_source_files_properties(${HEDDLE_KERNEL_SOURCES} PROPERTIES
  COMPILE_OPTIONS "-fno-trapping-math")

add_library(heddle STATIC ${HEDDLE_SOURCES})
add_library(heddle::heddle ALIAS heddle)
set_target_properties(heddle PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_compile_features(heddle PUBLIC cxx_std_20)
target_include_directories(heddle PUBLIC
  $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
set_source_files_properties(${PROJECT_SOURCE_DIR}/core/version.cpp PROPERTIES
  COMPILE_DEFINITIONS HEDDLE_VERSION="${PROJECT_VERSION}")
target_link_libraries(heddle PUBLIC fmt::fmt nlohmann_json::nlohmann_json Threads::Threads
  PRIVATE $<BUILD_INTERFACE:heddle_options> OpenMP::OpenMP_CXX)
if(HEDDLE_WITH_DOWNLOAD)
  target_link_libraries(heddle PRIVATE CURL::libcurl LibArchive::LibArchive OpenSSL::Crypto)
  target_compile_definitions(heddle PRIVATE HEDDLE_WITH_DOWNLOAD)
endif()
if(HEDDLE_WITH_ONEDNN)
  target_link_libraries(heddle PRIVATE DNNL::dnnl)
  target_compile_definitions(heddle PRIVATE HEDDLE_WITH_ONEDNN)
endif()

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
  target_sources(heddle PRIVATE $<TARGET_OBJECTS:heddle_isa_${name}>)
endfunction()
heddle_add_isa(baseline)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  heddle_add_isa(avx2 -mavx2 -mfma -mf16c)
  heddle_add_isa(avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mf16c
    -mprefer-vector-width=512)
endif()
