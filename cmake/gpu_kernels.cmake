# The kernels of GPUs: their text goes into the program, to be compiled where a GPU is found, and the host's compiler makes
# the emulator's kernels of the same files, once for each type of activations and for warps of 32 and of 64 threads.
file(GLOB TRIREME_GPU_KERNELS CONFIGURE_DEPENDS src/device/gpu/kernels/*.c)

foreach(type 64 32 16)
  foreach(warp 32 64)
    set(name trireme_emulated_${type}_w${warp})
    add_library(${name} OBJECT ${TRIREME_GPU_KERNELS})
    target_include_directories(${name} PRIVATE src)
    target_link_libraries(${name} PRIVATE trireme_options)
    target_compile_definitions(${name} PRIVATE TRI_GPU_TYPE=${type} TRI_GPU_WARP=${warp})
    target_sources(trireme_core PRIVATE $<TARGET_OBJECTS:${name}>)
    if(NOT name MATCHES "_64_w32|_16_w64") # clang-tidy runs once for each command of a file: two of six are enough
      set_target_properties(${name} PROPERTIES EXPORT_COMPILE_COMMANDS OFF)
    endif()
  endforeach()
endforeach()

# Their text, and that of the headers that they include: tri_gpu_sources of compiler.h. Names are as an #include says them.
file(GLOB TRIREME_GPU_TEXTS CONFIGURE_DEPENDS src/device/gpu/kernels/*.c src/device/gpu/kernels/*.h)
foreach(shared base/dynamic_map.h base/exact_terms.h base/host_and_gpu.h base/label.h base/nf4.h base/philox.h device/activation.h device/dropout.h device/step_values.h)
  list(APPEND TRIREME_GPU_TEXTS ${CMAKE_SOURCE_DIR}/src/${shared})
endforeach()
trireme_embed(trireme_core gpu_sources ${CMAKE_SOURCE_DIR}/src device/gpu/compiler.h "const tri_gpu_source tri_gpu_sources[]" FALSE ${TRIREME_GPU_TEXTS})
