# tests/gpu/stand_in_*.c: libraries of the names of NVIDIA's driver and compiler in build/stand-in, for LD_LIBRARY_PATH of
# tests. They run the emulator's kernels, which are compiled once more for what a library needs.
set(TRIREME_STAND_IN ${CMAKE_BINARY_DIR}/stand-in)

foreach(type 64 32 16)
  add_library(stand_in_kernels_${type} OBJECT EXCLUDE_FROM_ALL ${TRIREME_GPU_KERNELS})
  target_compile_definitions(stand_in_kernels_${type} PRIVATE TRI_GPU_TYPE=${type} TRI_GPU_WARP=32)
  list(APPEND TRIREME_STAND_IN_OBJECTS stand_in_kernels_${type})
endforeach()
add_library(stand_in_emulator OBJECT EXCLUDE_FROM_ALL src/device/gpu/emulator.c src/device/gpu/fiber.c src/base/status.c
            src/base/memory.c src/base/random.c src/base/format.c)
list(APPEND TRIREME_STAND_IN_OBJECTS stand_in_emulator)
add_library(stand_in_cuda SHARED tests/gpu/stand_in_cuda.c tests/gpu/stand_in_work.c)
add_library(stand_in_nvrtc SHARED tests/gpu/stand_in_nvrtc.c)

foreach(name ${TRIREME_STAND_IN_OBJECTS} stand_in_cuda stand_in_nvrtc)
  target_include_directories(${name} PRIVATE src tests/gpu)
  target_link_libraries(${name} PRIVATE trireme_options)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden)
endforeach()
foreach(name ${TRIREME_STAND_IN_OBJECTS})
  target_sources(stand_in_cuda PRIVATE $<TARGET_OBJECTS:${name}>)
endforeach()
target_link_libraries(stand_in_cuda PRIVATE m Threads::Threads)
if(NOT TRIREME_SANITIZE)
  target_link_options(stand_in_cuda PRIVATE -Wl,-z,defs)
endif()
set_target_properties(stand_in_cuda PROPERTIES OUTPUT_NAME cuda SOVERSION 1 LIBRARY_OUTPUT_DIRECTORY ${TRIREME_STAND_IN})
set_target_properties(stand_in_nvrtc PROPERTIES OUTPUT_NAME nvrtc SOVERSION 13 LIBRARY_OUTPUT_DIRECTORY ${TRIREME_STAND_IN})
