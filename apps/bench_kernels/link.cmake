if(HEDDLE_WITH_ONEDNN)
  target_link_libraries(${name}_uses INTERFACE DNNL::dnnl)
  target_compile_definitions(${name}_uses INTERFACE HEDDLE_WITH_ONEDNN)
endif()
