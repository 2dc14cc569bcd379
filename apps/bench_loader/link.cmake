find_package(CLI11 REQUIRED)
target_link_libraries(${name} PRIVATE CLI11::CLI11)
