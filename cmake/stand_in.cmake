# tests/gpu/stand_in_*.c: libraries of the names of vendors' drivers and compilers, for LD_LIBRARY_PATH of tests: NVIDIA's in
# build/stand-in, AMD's of ROCm 7 in build/stand-in-hip and of ROCm 5 in build/stand-in-hip-5. They run the emulator's
# kernels (devices_for_tests.cmake): with warps of 32 for the one and of 64 for the other.
set(TRIREME_STAND_IN ${CMAKE_BINARY_DIR}/stand-in)

function(trireme_stand_in_options name)
  target_include_directories(${name} PRIVATE src tests/gpu)
  target_link_libraries(${name} PRIVATE trireme_options)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden)
endfunction()

add_library(stand_in_emulator OBJECT EXCLUDE_FROM_ALL src/device/emulated/emulator.c src/device/emulated/fiber.c src/base/status.c
            src/base/memory.c src/base/random.c src/base/format.c)
trireme_stand_in_options(stand_in_emulator)

# A driver, as FOLDER/libNAME.so.VERSION.
function(trireme_stand_in target warp folder name version)
  add_library(${target} SHARED tests/gpu/stand_in_cuda.c tests/gpu/stand_in_work.c ${ARGN})
  foreach(object stand_in_emulator trireme_emulated_64_w${warp} trireme_emulated_32_w${warp} trireme_emulated_16_w${warp})
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${object}>)
  endforeach()
  trireme_stand_in_options(${target})
  target_compile_definitions(${target} PRIVATE STAND_IN_WARP=${warp})
  target_link_libraries(${target} PRIVATE m Threads::Threads)
  if(NOT TRIREME_SANITIZE)
    target_link_options(${target} PRIVATE -Wl,-z,defs)
  endif()
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} SOVERSION ${version} LIBRARY_OUTPUT_DIRECTORY
                                             ${TRIREME_STAND_IN}${folder})
endfunction()

# A compiler, or a part of one.
function(trireme_stand_in_compiler target folder name version source)
  add_library(${target} SHARED ${source})
  trireme_stand_in_options(${target})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} SOVERSION ${version} LIBRARY_OUTPUT_DIRECTORY
                                             ${TRIREME_STAND_IN}${folder})
endfunction()

trireme_stand_in(stand_in_cuda 32 "" cuda 1)
trireme_stand_in_compiler(stand_in_nvrtc "" nvrtc 13 tests/gpu/stand_in_nvrtc.c)
trireme_stand_in(stand_in_hip 64 -hip amdhip64 7 tests/gpu/stand_in_hip.c)
trireme_stand_in_compiler(stand_in_hiprtc -hip hiprtc 7 tests/gpu/stand_in_hiprtc.c)
trireme_stand_in_compiler(stand_in_comgr -hip amd_comgr 3 tests/gpu/stand_in_hiprtc.c)
trireme_stand_in(stand_in_hip_5 64 -hip-5 amdhip64 5 tests/gpu/stand_in_hip.c tests/gpu/stand_in_hiprtc.c)
target_compile_definitions(stand_in_hip_5 PRIVATE STAND_IN_HIP_5)
trireme_stand_in_compiler(stand_in_comgr_5 -hip-5 amd_comgr 2 tests/gpu/stand_in_hiprtc.c)
# What others of these, or the library, compile of the same files: for clang-tidy, once is enough.
set_target_properties(stand_in_emulator stand_in_hip_5 stand_in_comgr stand_in_comgr_5 PROPERTIES EXPORT_COMPILE_COMMANDS OFF)
