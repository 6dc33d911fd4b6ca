# kernel_check: every kernel of a device beside the reference device. A program of its own, without cmocka, since it goes
# to machines that have a GPU.
file(GLOB TRIREME_KERNEL_CHECKS CONFIGURE_DEPENDS tests/gpu/cases_*.c)
add_library(kernel_check_cases STATIC ${TRIREME_KERNEL_CHECKS} tests/gpu/checker.c tests/gpu/problem.c)
target_include_directories(kernel_check_cases PUBLIC tests/gpu)
target_link_libraries(kernel_check_cases PUBLIC trireme_core)
add_executable(kernel_check tests/gpu/kernel_check.c)
target_link_libraries(kernel_check PRIVATE kernel_check_cases)
# How fast they are.
add_executable(kernel_speed tests/gpu/kernel_speed.c tests/gpu/kernel_speed_experts.c)
target_include_directories(kernel_speed PRIVATE tests/gpu)
target_link_libraries(kernel_speed PRIVATE trireme_core)
set_target_properties(kernel_check kernel_speed PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tools)
if(CMOCKA_FOUND)
  add_dependencies(unit_tests kernel_check)
  target_link_libraries(test_kernel_check PRIVATE kernel_check_cases)
  target_link_libraries(test_launches PRIVATE kernel_check_cases)
  target_link_options(test_launches PRIVATE -Wl,--wrap=tri_emulator_run -Wl,--wrap=tri_emulator_shared)
  target_link_options(test_emulator_faults PRIVATE -Wl,--wrap=tri_emulated_add_32_w32) # it has a wrong one
endif()

# On the emulator: warps of 32 and of 64, orders of threads over them, each with inputs of its own. All run under
# AddressSanitizer and UBSan too, which take eight times as long: there each has one type, and each type one warp. What
# has every kernel there need not be repeated by tests of one module, whose many cases take minutes then.
set(all_types fp64 fp32 bf16)
set(seeds 4)
if(TRIREME_SANITIZE)
  set(seeds 3)
endif()
foreach(seed RANGE 1 ${seeds})
  math(EXPR warp "32 + 32 * (${seed} % 2)")
  math(EXPR type "${seed} % 3")
  list(GET all_types ${type} type)
  set(name gpu/kernel-check-emulated-warp${warp}-seed${seed})
  set(types)
  if(TRIREME_SANITIZE)
    set(types --types ${type})
  endif()
  add_test(NAME ${name} COMMAND kernel_check emulated:warp=${warp},seed=${seed} --quick --seed ${seed} ${types})
  set_tests_properties(${name} PROPERTIES LABELS "gpu;unit" TIMEOUT 600 COST 10 ENVIRONMENT OMP_NUM_THREADS=1)
endforeach()

# In front of the loader: a machine that has no library of a GPU's vendor (tests/oracle/test_without_vendors.py).
add_library(no_vendors SHARED tests/gpu/no_vendors.c)
target_link_libraries(no_vendors PRIVATE trireme_options ${CMAKE_DL_LIBS})
set_target_properties(no_vendors PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tools)
# The script that a GPU is tried with, without one.
add_test(NAME gpu/gpu-check-emulated COMMAND ${CMAKE_SOURCE_DIR}/tests/gpu/gpu_check_test.sh ${CMAKE_SOURCE_DIR} $<TARGET_FILE:trireme>
         ${CMAKE_BINARY_DIR}/tools)
set_tests_properties(gpu/gpu-check-emulated PROPERTIES LABELS gpu TIMEOUT 900 COST 25)
if(CMOCKA_FOUND)
  foreach(module attention embedding experts loss matmul rows sums)
    set_tests_properties(unit/test_gpu_${module} PROPERTIES LABELS gpu)
  endforeach()
endif()
