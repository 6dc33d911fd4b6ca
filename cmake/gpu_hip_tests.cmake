# Tests of what AMD's libraries are asked for. None needs a GPU.

# Compiles all kernels; a test for each chip whose compiler can be had here, and SKIPPED elsewhere.
add_executable(compile_kernels tests/gpu/compile_kernels.c)
target_include_directories(compile_kernels PRIVATE tests/gpu)
target_link_libraries(compile_kernels PRIVATE trireme_core)
add_test(NAME gpu/compile-gfx90a COMMAND compile_kernels gfx90a)
set_tests_properties(gpu/compile-gfx90a PROPERTIES LABELS gpu TIMEOUT 1200 SKIP_RETURN_CODE 77)

# This program's prototypes, numbers and offsets beside the vendor's headers: the test is whether the file compiles.
find_path(TRIREME_HIP_INCLUDE hip/hiprtc.h HINTS ENV ROCM_PATH PATHS /opt/rocm PATH_SUFFIXES include)
if(TRIREME_HIP_INCLUDE)
  add_test(NAME gpu/prototypes-hip
           COMMAND ${CMAKE_C_COMPILER} -std=gnu17 -fsyntax-only -Wall -Wextra -Werror -I ${CMAKE_SOURCE_DIR}/src -isystem
                   ${TRIREME_HIP_INCLUDE} ${CMAKE_SOURCE_DIR}/tests/gpu/prototypes_hip.c)
else()
  add_test(NAME gpu/prototypes-hip COMMAND ${CMAKE_COMMAND} -E echo
           "SKIPPED: there is no hip/hiprtc.h, so the prototypes of AMD's libraries are not compared with it; it comes with ROCm, and in Debian with libamdhip64-dev")
  set_tests_properties(gpu/prototypes-hip PROPERTIES SKIP_REGULAR_EXPRESSION "SKIPPED")
endif()
set_tests_properties(gpu/prototypes-hip PROPERTIES LABELS gpu TIMEOUT 120)
