# What tests of AMD's libraries need. None needs a GPU.

# Compiles all kernels for a chip whose compiler can be had here.
add_executable(compile_kernels tests/gpu/compile_kernels.c)
target_include_directories(compile_kernels PRIVATE tests/gpu)
target_link_libraries(compile_kernels PRIVATE trireme_for_tests)

# Headers of the vendor's, beside which tests/gpu/prototypes_hip.c is compiled.
find_path(TRIREME_HIP_INCLUDE hip/hiprtc.h HINTS ENV ROCM_PATH PATHS /opt/rocm PATH_SUFFIXES include)
