# The devices that only tests need: the guarded one and the emulated GPU. The product has neither of them; trireme-test and
# the test programs have both (src/device/kinds).
#
# The emulated GPU's kernels are the GPU's sources, compiled by the host's compiler once for each type of activations and for
# warps of 32 and of 64 threads. The stand-ins for vendors' drivers (stand_in.cmake) run the same objects, so they are
# position-independent, and hidden as a shared library's own functions should be.
foreach(type 64 32 16)
  foreach(warp 32 64)
    set(name trireme_emulated_${type}_w${warp})
    add_library(${name} OBJECT ${TRIREME_GPU_KERNELS})
    target_include_directories(${name} PRIVATE src)
    target_link_libraries(${name} PRIVATE trireme_options)
    target_compile_definitions(${name} PRIVATE TRI_GPU_TYPE=${type} TRI_GPU_WARP=${warp})
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden)
    list(APPEND TRIREME_EMULATED_KERNELS $<TARGET_OBJECTS:${name}>)
    if(NOT name MATCHES "_64_w32|_16_w64") # clang-tidy runs once for each command of a file: two of six are enough
      set_target_properties(${name} PROPERTIES EXPORT_COMPILE_COMMANDS OFF)
    endif()
  endforeach()
endforeach()

file(GLOB sources CONFIGURE_DEPENDS src/device/guarded/*.c src/device/emulated/*.c)
add_library(trireme_test_devices STATIC ${sources} ${TRIREME_EMULATED_KERNELS})
target_link_libraries(trireme_test_devices PUBLIC trireme_core)

# What test programs link: all of trireme_core, and the table with the devices for tests.
add_library(trireme_kinds_for_tests OBJECT src/device/kinds/for_tests.c)
target_link_libraries(trireme_kinds_for_tests PRIVATE trireme_core)
add_library(trireme_for_tests INTERFACE)
target_sources(trireme_for_tests INTERFACE $<TARGET_OBJECTS:trireme_kinds_for_tests>)
target_link_libraries(trireme_for_tests INTERFACE trireme_test_devices)

# The program with these devices.
add_executable(trireme-test)
target_link_libraries(trireme-test PRIVATE trireme_main trireme_for_tests)
