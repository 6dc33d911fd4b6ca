# The vendors' libraries of matrix products, without their GPUs: this program's prototypes, numbers and sizes against the
# vendor's header, which compiles or does not.
find_path(TRIREME_CUBLASLT_INCLUDE cublasLt.h HINTS ENV CUDA_HOME PATHS /usr/local/cuda/include PATH_SUFFIXES include)
if(TRIREME_CUBLASLT_INCLUDE)
  add_library(prototypes_cublaslt OBJECT tests/gpu/prototypes_cublaslt.c)
  target_include_directories(prototypes_cublaslt SYSTEM PRIVATE ${TRIREME_CUBLASLT_INCLUDE})
  target_include_directories(prototypes_cublaslt PRIVATE src)
  target_link_libraries(prototypes_cublaslt PRIVATE trireme_options)
else()
  message(WARNING "SKIPPED: there is no cublasLt.h, so the prototypes of cuBLASLt are not compared with it; it comes with "
                  "the CUDA toolkit")
endif()
