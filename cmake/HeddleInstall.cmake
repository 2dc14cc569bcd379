# cmake --install: the library, its headers under include/heddle, the programs, and what
# find_package(heddle) reads.
include(CMakePackageConfigHelpers)
set(HEDDLE_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/heddle)

install(TARGETS heddle EXPORT heddleTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT heddleTargets NAMESPACE heddle:: DESTINATION ${HEDDLE_PACKAGE_DIR})

install(FILES ${PROJECT_SOURCE_DIR}/heddle.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/heddle)
foreach(folder core kernels nn data parallel)
  if(EXISTS ${PROJECT_SOURCE_DIR}/${folder})
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder}
      DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/heddle FILES_MATCHING PATTERN "*.h")
  endif()
endforeach()

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/heddleConfig.cmake.in
  ${PROJECT_BINARY_DIR}/heddleConfig.cmake INSTALL_DESTINATION ${HEDDLE_PACKAGE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/heddleConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/heddleConfig.cmake
  ${PROJECT_BINARY_DIR}/heddleConfigVersion.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindoneDNN.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindcuDNN.cmake DESTINATION ${HEDDLE_PACKAGE_DIR})
