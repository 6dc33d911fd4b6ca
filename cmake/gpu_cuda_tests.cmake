# Tests of what NVIDIA's libraries are asked for. None needs a GPU: the stand-ins, and all kernels compiled for each chip whose
# compiler can be had here (compile_kernels: gpu_hip_tests.cmake), SKIPPED elsewhere.
include(cmake/stand_in.cmake)

foreach(chip sm_80 sm_90a sm_100a)
  add_test(NAME gpu/compile-${chip} COMMAND compile_kernels ${chip})
  set_tests_properties(gpu/compile-${chip} PROPERTIES LABELS gpu TIMEOUT 1200 SKIP_RETURN_CODE 77 COST 60
    ENVIRONMENT "VIRTUAL_ENV=${CMAKE_BINARY_DIR}/venv") # scripts/python-env.sh may have put a compiler there
endforeach()

# This program's prototypes, structs and numbers beside the vendor's headers: the test is whether the file compiles.
find_path(TRIREME_CUDA_INCLUDE cuda.h HINTS ENV CUDA_HOME PATHS /usr/local/cuda/include PATH_SUFFIXES include)
if(TRIREME_CUDA_INCLUDE AND EXISTS ${TRIREME_CUDA_INCLUDE}/nvrtc.h)
  add_test(NAME gpu/prototypes-cuda
           COMMAND ${CMAKE_C_COMPILER} -std=gnu17 -fsyntax-only -Wall -Wextra -Werror -I ${CMAKE_SOURCE_DIR}/src -isystem
                   ${TRIREME_CUDA_INCLUDE} ${CMAKE_SOURCE_DIR}/tests/gpu/prototypes_cuda.c)
else()
  add_test(NAME gpu/prototypes-cuda COMMAND ${CMAKE_COMMAND} -E echo
           "SKIPPED: there is no cuda.h with nvrtc.h, so the prototypes of NVIDIA's driver are not compared with it; it comes with the CUDA toolkit")
  set_tests_properties(gpu/prototypes-cuda PROPERTIES SKIP_REGULAR_EXPRESSION "SKIPPED")
endif()
set_tests_properties(gpu/prototypes-cuda PROPERTIES LABELS gpu TIMEOUT 120)
