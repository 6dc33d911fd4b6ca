# The kernels of GPUs: their text goes into the program, to be compiled where a GPU is found.
file(GLOB TRIREME_GPU_KERNELS CONFIGURE_DEPENDS src/device/gpu/kernels/*.c)

# Their text, and that of the headers that they include: tri_gpu_sources of compiler.h. Names are as an #include says them.
file(GLOB TRIREME_GPU_TEXTS CONFIGURE_DEPENDS src/device/gpu/kernels/*.c src/device/gpu/kernels/*.h)
foreach(shared base/dynamic_map.h base/exact_terms.h base/host_and_gpu.h base/label.h base/nf4.h base/philox.h device/activation.h device/completions.h device/dropout.h device/preference.h device/step_values.h)
  list(APPEND TRIREME_GPU_TEXTS ${CMAKE_SOURCE_DIR}/src/${shared})
endforeach()
trireme_embed(trireme_core gpu_sources ${CMAKE_SOURCE_DIR}/src device/gpu/compiler.h "const tri_gpu_source tri_gpu_sources[]" FALSE ${TRIREME_GPU_TEXTS})
