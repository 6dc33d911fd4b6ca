# Tests of what AMD's libraries are asked for. None needs a GPU.

# Compiles all kernels; a test for each chip whose compiler can be had here, and SKIPPED elsewhere.
add_executable(compile_kernels tests/gpu/compile_kernels.c)
target_include_directories(compile_kernels PRIVATE tests/gpu)
target_link_libraries(compile_kernels PRIVATE trireme_core)
add_test(NAME gpu/compile-gfx90a COMMAND compile_kernels gfx90a)
set_tests_properties(gpu/compile-gfx90a PROPERTIES LABELS gpu TIMEOUT 1200 SKIP_RETURN_CODE 77)
