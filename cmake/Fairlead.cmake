# The few build rules of this repository. A target gets the warnings and include folders of its own
# library; third-party headers come in as SYSTEM so that their warnings are not ours.
include(GoogleTest)

function(fairlead_flags target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor
                                           -Wno-missing-field-initializers -Werror)
endfunction()

# fairlead_library(name SOURCES a.cc b.cc LINK lib...)
function(fairlead_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC ${ARG_LINK})
  fairlead_flags(${name})
endfunction()

# fairlead_binary(name SOURCES main.cc LINK lib...): build/<preset>/bin/<name>
function(fairlead_binary name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINK})
  fairlead_flags(${name})
endfunction()

# fairlead_test(name SOURCES a_test.cc LINK lib... [LABELS unit] [TIMEOUT 60])
# Every case of the binary becomes one ctest test, so that ctest's count is the count of cases.
function(fairlead_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LINK;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gmock GTest::gtest_main)
  fairlead_flags(${name})
  # What runs real sockets and processes also measures real time: nothing else runs beside it.
  if("integration" IN_LIST ARG_LABELS)
    set(serial RUN_SERIAL TRUE)
  endif()
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 DISCOVERY_MODE PRE_TEST
                       PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS ${ARG_LABELS} ${serial})
endfunction()
