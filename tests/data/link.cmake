target_sources(data_tests PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/data/loopback_server.cpp)
