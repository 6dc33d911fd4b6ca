# The kernels of GPUs: their text goes into the program, to be compiled where a GPU is found.
file(GLOB TRIREME_GPU_KERNELS CONFIGURE_DEPENDS src/device/gpu/kernels/*.c)

# Their text, and that of the headers that they include, directly or not: tri_gpu_sources of compiler.h. Names are as an
# #include says them.
file(GLOB TRIREME_GPU_TEXTS CONFIGURE_DEPENDS src/device/gpu/kernels/*.c src/device/gpu/kernels/*.h)
set(TRIREME_GPU_TO_READ ${TRIREME_GPU_TEXTS})
while(TRIREME_GPU_TO_READ)
  list(POP_FRONT TRIREME_GPU_TO_READ text)
  file(STRINGS ${text} includes REGEX "^#include \"(base|mesh|device)/")
  foreach(include ${includes})
    string(REGEX REPLACE "^#include \"([^\"]+)\".*" "${CMAKE_SOURCE_DIR}/src/\\1" header ${include})
    if(NOT header IN_LIST TRIREME_GPU_TEXTS)
      list(APPEND TRIREME_GPU_TEXTS ${header})
      list(APPEND TRIREME_GPU_TO_READ ${header})
    endif()
  endforeach()
endwhile()
trireme_embed(trireme_core gpu_sources ${CMAKE_SOURCE_DIR}/src device/gpu/compiler.h "const tri_gpu_source tri_gpu_sources[]" FALSE ${TRIREME_GPU_TEXTS})
