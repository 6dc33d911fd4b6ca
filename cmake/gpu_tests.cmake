# kernel_check: every kernel of a device beside the reference device. A program of its own, without cmocka, since it goes
# to machines that have a GPU.
file(GLOB TRIREME_KERNEL_CHECKS CONFIGURE_DEPENDS tests/gpu/cases_*.c)
add_library(kernel_check_cases STATIC ${TRIREME_KERNEL_CHECKS} tests/gpu/checker.c tests/gpu/problem.c)
target_include_directories(kernel_check_cases PUBLIC tests/gpu)
target_link_libraries(kernel_check_cases PUBLIC trireme_core)
# How fast they are.
add_library(kernel_speed_parts OBJECT tests/gpu/kernel_speed.c tests/gpu/kernel_speed_experts.c)
target_include_directories(kernel_speed_parts PRIVATE tests/gpu)
target_link_libraries(kernel_speed_parts PUBLIC trireme_core)
add_library(kernel_check_main OBJECT tests/gpu/kernel_check.c)
target_link_libraries(kernel_check_main PUBLIC kernel_check_cases)
# Of the product's devices, and with those for tests.
add_executable(kernel_check $<TARGET_OBJECTS:trireme_kinds>)
target_link_libraries(kernel_check PRIVATE kernel_check_main)
add_executable(kernel_speed $<TARGET_OBJECTS:trireme_kinds>)
target_link_libraries(kernel_speed PRIVATE kernel_speed_parts)
add_executable(kernel_check-test)
target_link_libraries(kernel_check-test PRIVATE kernel_check_main trireme_for_tests)
add_executable(kernel_speed-test)
target_link_libraries(kernel_speed-test PRIVATE kernel_speed_parts trireme_for_tests)
set_target_properties(kernel_check kernel_speed kernel_check-test kernel_speed-test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tools)
if(CMOCKA_FOUND)
  add_dependencies(unit_tests kernel_check-test)
  target_link_libraries(test_kernel_check PRIVATE kernel_check_cases)
  target_link_libraries(test_launches PRIVATE kernel_check_cases)
  target_link_options(test_launches PRIVATE -Wl,--wrap=tri_emulator_run -Wl,--wrap=tri_emulator_shared)
  target_link_options(test_emulator_faults PRIVATE -Wl,--wrap=tri_emulated_add_32_w32) # it has a wrong one
endif()

# In front of the loader: a machine that has no library of a GPU's vendor (tests/oracle/test_without_vendors.py).
add_library(no_vendors SHARED tests/gpu/no_vendors.c)
target_link_libraries(no_vendors PRIVATE trireme_options ${CMAKE_DL_LIBS})
set_target_properties(no_vendors PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tools)
