# What tests of NVIDIA's libraries need: the stand-ins for them. None needs a GPU.
include(cmake/stand_in.cmake)

# Headers of the vendor's, beside which tests/gpu/prototypes_cuda.c is compiled.
find_path(TRIREME_CUDA_INCLUDE nvrtc.h HINTS ENV CUDA_HOME PATHS /usr/local/cuda/include PATH_SUFFIXES include)
