# Installs Heddle below WORK, builds the project beside this file against it, and runs it.
# cmake -D BUILD=<Heddle's build folder> -D WORK=<scratch folder> -D COMPILER=<c++> -P run.cmake
file(REMOVE_RECURSE ${WORK})
set(prefix ${WORK}/prefix)
foreach(step
    "${CMAKE_COMMAND};--install;${BUILD};--prefix;${prefix}"
    "${CMAKE_COMMAND};-G;Ninja;-S;${CMAKE_CURRENT_LIST_DIR};-B;${WORK}/build;-DCMAKE_PREFIX_PATH=${prefix};-DCMAKE_CXX_COMPILER=${COMPILER};-DCMAKE_BUILD_TYPE=Release"
    "${CMAKE_COMMAND};--build;${WORK}/build"
    "${WORK}/build/consumer")
  execute_process(COMMAND ${step} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
