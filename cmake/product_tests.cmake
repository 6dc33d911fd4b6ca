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

# The libraries themselves, stood in for (cmake/stand_in.cmake): products of `device: gpu` through their calls, on the
# stand-in drivers' memory and queues.
function(trireme_stand_in_lt target driver folder name version)
  add_library(${target} SHARED tests/gpu/stand_in_lt_library.c tests/gpu/stand_in_lt.c)
  trireme_stand_in_options(${target})
  target_compile_definitions(${target} PRIVATE ${ARGN})
  target_link_libraries(${target} PRIVATE ${driver})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} SOVERSION ${version} LIBRARY_OUTPUT_DIRECTORY
                                             ${TRIREME_STAND_IN}${folder})
  if(CMOCKA_FOUND)
    add_executable(test_products_${name} tests/gpu/test_gemm_choices.c)
    target_include_directories(test_products_${name} PRIVATE tests/unit)
    target_compile_definitions(test_products_${name} PRIVATE ${ARGN})
    target_link_libraries(test_products_${name} PRIVATE trireme_for_tests PkgConfig::CMOCKA)
    add_dependencies(test_products_${name} ${driver} ${target})
    add_dependencies(unit_tests test_products_${name})
    set(TRIREME_PRODUCTS ${TRIREME_PRODUCTS} "\"gpu/products-${name}\": \"$<TARGET_FILE:test_products_${name}>\"" PARENT_SCOPE)
  endif()
endfunction()
trireme_stand_in_lt(stand_in_cublaslt stand_in_cuda "" cublasLt 13)
trireme_stand_in_lt(stand_in_hipblaslt stand_in_hip -hip hipblaslt 1 STAND_IN_HIPBLASLT)
if(CMOCKA_FOUND)
  add_dependencies(test_products_cublasLt stand_in_nvrtc)
  add_dependencies(test_products_hipblaslt stand_in_hiprtc stand_in_comgr)
endif()
