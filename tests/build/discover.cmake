# Asks a Catch2 program for its test cases and writes them as ctest tests, one each; those tagged [slow]
# get the label slow as well. Unlike Catch2's own script, it takes brackets and semicolons in names, and a
# test whose name finds no case fails.
#   cmake -D PROGRAM=... -D FOLDER=core -D LABEL=cpu -D TAG=[device] -D CATCH2_MAJOR=2 -D ENVIRONMENT="A=1;B=2" -D OUT=... -P discover.cmake
if(CATCH2_MAJOR GREATER_EQUAL 3)
  set(list_flags --list-tests --verbosity quiet)
  set(run_flags "")
else()
  set(list_flags --list-test-names-only)
  set(run_flags "--warn NoTests")
endif()

set(script "")
set(properties "")
if(LABEL STREQUAL "gpu") # skipped, in sight, where there is no device (tests/support/main.cpp)
  set(properties " SKIP_RETURN_CODE 77 RESOURCE_LOCK gpu")
endif()
foreach(kind fast slow)
  set(spec "${TAG}[slow]")
  set(labels "${LABEL};slow")
  set(timeout 3600) # minutes of work, on a machine that may be busy with other work too
  if(kind STREQUAL "fast")
    set(spec "${TAG}~[slow]")
    set(labels "${LABEL}")
    set(timeout 900)
  endif()
  # A Catch2 of version 2 exits with the number of test cases.
  execute_process(COMMAND ${PROGRAM} ${list_flags} ${spec} OUTPUT_VARIABLE names ERROR_VARIABLE errors
    RESULT_VARIABLE result)
  if(NOT result MATCHES "^[0-9]+$" OR (CATCH2_MAJOR GREATER_EQUAL 3 AND NOT result EQUAL 0))
    message(FATAL_ERROR "${PROGRAM} does not list its tests: ${result} ${errors}")
  endif()
  # CMake's lists give a meaning to these.
  string(REPLACE "[" "<open>" names "${names}")
  string(REPLACE "]" "<close>" names "${names}")
  string(REPLACE ";" "<semicolon>" names "${names}")
  string(REPLACE "\n" ";" names "${names}")
  foreach(name IN LISTS names)
    string(STRIP "${name}" name)
    if(name STREQUAL "")
      continue()
    endif()
    # Catch2 gives a meaning to these.
    string(REPLACE "\\" "\\\\" filter "${name}")
    string(REPLACE "," "\\," filter "${filter}")
    foreach(text IN ITEMS name filter)
      string(REPLACE "<semicolon>" "\;" ${text} "${${text}}")
    endforeach()
    string(REPLACE "<open>" "[" name "${name}")
    string(REPLACE "<close>" "]" name "${name}")
    string(REPLACE "<open>" "\\[" filter "${filter}")
    string(REPLACE "<close>" "\\]" filter "${filter}")
    string(APPEND script "add_test([==[${FOLDER}: ${name}]==] [==[${PROGRAM}]==] [==[${filter}]==] ${run_flags})\n"
      "set_tests_properties([==[${FOLDER}: ${name}]==] PROPERTIES TIMEOUT ${timeout} LABELS [==[${labels}]==]"
      "${properties} ENVIRONMENT [==[${ENVIRONMENT}]==])\n")
  endforeach()
endforeach()
file(WRITE ${OUT} "${script}")
