if(NOT TRIREME_RUNNING)
  add_subdirectory(tests)
  return()
endif()

include(cmake/devices_for_tests.cmake)

# tests/unit/test_*.c: one cmocka program each. `ctest -R unit/NAME` runs one of them; tests/run.py runs tests of all kinds.
set(TRIREME_UNITS) # JSON members "unit/NAME": "program"
set(TRIREME_PRODUCTS)
pkg_check_modules(CMOCKA IMPORTED_TARGET cmocka)
if(CMOCKA_FOUND)
  file(GLOB TRIREME_UNIT_TESTS CONFIGURE_DEPENDS tests/unit/test_*.c)
  if(NOT TARGET trireme_api)
    list(FILTER TRIREME_UNIT_TESTS EXCLUDE REGEX "/test_api\\.c$")
  endif()
  foreach(source ${TRIREME_UNIT_TESTS})
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} ${source})
    target_include_directories(${name} PRIVATE tests/unit)
    target_compile_definitions(${name} PRIVATE TRIREME_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    target_link_libraries(${name} PRIVATE trireme_for_tests PkgConfig::CMOCKA)
    add_test(NAME unit/${name} COMMAND ${name} WORKING_DIRECTORY ${CMAKE_BINARY_DIR})
    set_tests_properties(unit/${name} PROPERTIES LABELS unit TIMEOUT 600)
    list(APPEND TRIREME_UNITS "\"unit/${name}\": \"$<TARGET_FILE:${name}>\"")
  endforeach()
  # cmake/product_tests.cmake and gpu_tests.cmake add theirs.
  add_custom_target(unit_tests)
  foreach(source ${TRIREME_UNIT_TESTS})
    get_filename_component(name ${source} NAME_WE)
    add_dependencies(unit_tests ${name})
  endforeach()
  # libtrireme's own files, which the program has not.
  if(TARGET trireme_api)
    target_link_libraries(test_api PRIVATE trireme_api)
  endif()
  # It dies at, or fails in, each of these calls.
  foreach(function open write fsync ftruncate rename unlink mkdir rmdir)
    target_link_options(test_prepare_crash PRIVATE -Wl,--wrap=${function})
  endforeach()
  # It tells in which order these are called.
  target_link_options(test_checkpoint_sync PRIVATE -Wl,--wrap=fsync -Wl,--wrap=rename)
endif()

# A family whose file forgets something does not build.
add_executable(check_families tests/families/check_families.c)
target_link_libraries(check_families PRIVATE trireme_for_tests)
add_custom_command(TARGET check_families POST_BUILD COMMAND check_families COMMENT "Checking the families of models")

include(cmake/comm_tests.cmake)
include(cmake/gpu_cuda_tests.cmake)
include(cmake/gpu_hip_tests.cmake)
include(cmake/product_tests.cmake)
include(cmake/gpu_tests.cmake)

# tests/bench/bench_*.c: programs that print measurements; nothing runs them by itself.
file(GLOB TRIREME_BENCHES CONFIGURE_DEPENDS tests/bench/bench_*.c)
foreach(source ${TRIREME_BENCHES})
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE trireme_for_tests)
endforeach()

add_subdirectory(tests)

if(TRIREME_FUZZ)
  add_custom_target(fuzzers)
  file(GLOB TRIREME_FUZZERS CONFIGURE_DEPENDS tests/fuzz/fuzz_*.c)
  foreach(source ${TRIREME_FUZZERS})
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} ${source})
    target_link_libraries(${name} PRIVATE trireme_for_tests)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    add_dependencies(fuzzers ${name})
  endforeach()
endif()
