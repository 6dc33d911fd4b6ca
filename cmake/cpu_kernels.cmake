# The CPU kernels are one set of sources, written with the compiler's vector types and compiled once for each vector
# unit; device/cpu/cpu.c picks a table at run time. TRI_ISA names the variant and TRI_VECTOR_BYTES its register width.
file(GLOB TRIREME_CPU_HOST CONFIGURE_DEPENDS src/device/cpu/*.c)
file(GLOB TRIREME_CPU_KERNELS CONFIGURE_DEPENDS src/device/cpu/kernels/*.c)
target_sources(trireme_core PRIVATE ${TRIREME_CPU_HOST})

# Under sanitizers the last of optimization doubles the time of a build and finds nothing more.
set(TRIREME_CPU_OPTIMIZATION -O3)
if(TRIREME_SANITIZE)
  set(TRIREME_CPU_OPTIMIZATION -O1)
endif()
# The stacks on which gcc's AddressSanitizer looks for uses after a return are aligned on 32 bytes (gcc's bug 110027), and
# vectors of 64 bytes are stored on them as if they were aligned on 64: kernels do without that check.
if(TRIREME_SANITIZE MATCHES "address" AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
  list(APPEND TRIREME_CPU_OPTIMIZATION "SHELL:--param asan-use-after-return=0")
endif()

# Their sums have the same bits on all devices: a product that is rounded, and then a sum.
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/device/cpu/kernels/nf4.c ${CMAKE_SOURCE_DIR}/src/device/cpu/kernels/blocks.c
                            PROPERTIES COMPILE_OPTIONS -ffp-contract=off)

# What rounds nothing to bf16 is the same in both variants of AVX-512: compiled for the first, cpu.c gives it to both.
set(TRIREME_CPU_WITHOUT_BF16 attention_floats blocks nf4 quantised router)
list(TRANSFORM TRIREME_CPU_WITHOUT_BF16 REPLACE "(.+)" "${CMAKE_SOURCE_DIR}/src/device/cpu/kernels/\\1.c")

function(trireme_cpu_variant name vector_bytes)
  set(files ${TRIREME_CPU_KERNELS})
  if(name STREQUAL "avx512bf16")
    list(REMOVE_ITEM files ${TRIREME_CPU_WITHOUT_BF16})
  else() # pairs of bf16 are multiplied there alone
    list(REMOVE_ITEM files ${CMAKE_SOURCE_DIR}/src/device/cpu/kernels/attention_pairs.c)
  endif()
  add_library(trireme_kernels_${name} OBJECT ${files})
  target_include_directories(trireme_kernels_${name} PRIVATE src)
  target_link_libraries(trireme_kernels_${name} PRIVATE trireme_options trireme_dependencies)
  target_compile_definitions(trireme_kernels_${name} PRIVATE TRI_ISA=${name} TRI_VECTOR_BYTES=${vector_bytes})
  target_compile_options(trireme_kernels_${name} PRIVATE ${TRIREME_CPU_OPTIMIZATION} -fno-trapping-math -ffp-contract=fast -Wno-psabi ${ARGN})
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
    # clang-tidy runs once for each command of a file: avx512bf16 has all of this one's lines but those that they share, which
    # avx2 has
    set_target_properties(trireme_kernels_avx512 PROPERTIES EXPORT_COMPILE_COMMANDS OFF)
  endif()
endif()
