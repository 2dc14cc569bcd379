find_package(CLI11 REQUIRED)
target_link_libraries(${name}_uses INTERFACE CLI11::CLI11)
