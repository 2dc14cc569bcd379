# vendor_test calls the oneDNN versions of the ops by name.
if(HEDDLE_WITH_ONEDNN)
  target_compile_definitions(${folder}_tests PRIVATE HEDDLE_WITH_ONEDNN)
endif()
