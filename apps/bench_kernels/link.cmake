if(HEDDLE_WITH_ONEDNN)
  target_link_libraries(${name}_parts PUBLIC DNNL::dnnl)
  target_compile_definitions(${name}_parts PUBLIC HEDDLE_WITH_ONEDNN)
endif()
