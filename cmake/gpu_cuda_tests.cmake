# Tests of what NVIDIA's libraries are asked for. None needs a GPU: the stand-ins, and all kernels compiled for each chip whose
# compiler can be had here (compile_kernels: gpu_hip_tests.cmake), SKIPPED elsewhere.
include(cmake/stand_in.cmake)

foreach(chip sm_80 sm_90a sm_100a)
  add_test(NAME gpu/compile-${chip} COMMAND compile_kernels ${chip})
  set_tests_properties(gpu/compile-${chip} PROPERTIES LABELS gpu TIMEOUT 1200 SKIP_RETURN_CODE 77)
endforeach()
