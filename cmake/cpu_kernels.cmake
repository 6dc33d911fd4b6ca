# The CPU kernels are one set of sources, written with the compiler's vector types and compiled once for each vector
# unit; device/cpu/cpu.c picks a table at run time. TRI_ISA names the variant and TRI_VECTOR_BYTES its register width.
file(GLOB TRIREME_CPU_HOST CONFIGURE_DEPENDS src/device/cpu/*.c)
file(GLOB TRIREME_CPU_KERNELS CONFIGURE_DEPENDS src/device/cpu/kernels/*.c)
target_sources(trireme_core PRIVATE ${TRIREME_CPU_HOST})

function(trireme_cpu_variant name vector_bytes)
  add_library(trireme_kernels_${name} OBJECT ${TRIREME_CPU_KERNELS})
  target_include_directories(trireme_kernels_${name} PRIVATE src)
  target_link_libraries(trireme_kernels_${name} PRIVATE trireme_options trireme_dependencies)
  target_compile_definitions(trireme_kernels_${name} PRIVATE TRI_ISA=${name} TRI_VECTOR_BYTES=${vector_bytes})
  target_compile_options(trireme_kernels_${name} PRIVATE -O3 -fno-trapping-math -ffp-contract=fast -Wno-psabi ${ARGN})
  target_sources(trireme_core PRIVATE $<TARGET_OBJECTS:trireme_kernels_${name}>)
  target_compile_definitions(trireme_core PRIVATE TRI_HAVE_KERNELS_${name}=1)
endfunction()

if(TRIREME_CPU_KERNELS)
  trireme_cpu_variant(baseline 16)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    trireme_cpu_variant(avx2 32 -mavx2 -mfma -mf16c -mbmi2)
    trireme_cpu_variant(avx512 64 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mbmi2 -mprefer-vector-width=512)
    trireme_cpu_variant(avx512bf16 64 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512bf16 -mfma -mbmi2
                        -mprefer-vector-width=512)
  endif()
endif()
