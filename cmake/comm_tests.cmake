# tests/comm: ranks that work together, started by the mpiexec of the MPI that this folder is built with (mpi.cmake). A
# second build folder, `cmake --preset mpich`, tests the other one.
add_executable(comm_test tests/comm/comm_test.c)
target_link_libraries(comm_test PRIVATE trireme_core)

# More ranks than cores, all of them free to move, and root as in a container.
if(TRIREME_MPI_IS_OPEN_MPI)
  set(TRIREME_MPIEXEC ${MPIEXEC_EXECUTABLE} --allow-run-as-root --oversubscribe --bind-to none)
else()
  set(TRIREME_MPIEXEC ${MPIEXEC_EXECUTABLE} -bind-to none)
endif()

# What MPI itself never gives back hides leaks of ours, so comm_test counts those itself.
set(TRIREME_COMM_ENVIRONMENT OMP_NUM_THREADS=1 ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1
    HWLOC_COMPONENTS=-pci,-linuxio) # see tests/CMakeLists.txt

# trireme_comm_test(NAME RANKS RANKS_PER_NODE ARGUMENTS...): ranks per node 0 is as they are.
function(trireme_comm_test name ranks per_node)
  add_test(NAME comm/${name} COMMAND ${TRIREME_MPIEXEC} -n ${ranks} $<TARGET_FILE:comm_test> ${ARGN})
  set(environment ${TRIREME_COMM_ENVIRONMENT})
  if(per_node GREATER 0)
    list(APPEND environment TRIREME_RANKS_PER_NODE=${per_node})
  endif()
  set_tests_properties(comm/${name} PROPERTIES LABELS comm TIMEOUT 600 PROCESSORS 2 ENVIRONMENT "${environment}")
endfunction()

foreach(ranks 1 2 3 4 8)
  trireme_comm_test(ranks-${ranks} ${ranks} 0)
endforeach()
foreach(case 2-1 4-2 4-3 8-2 8-3) # RANKS-RANKS_PER_NODE
  string(REPLACE "-" ";" numbers ${case})
  list(GET numbers 0 ranks)
  list(GET numbers 1 per_node)
  trireme_comm_test(ranks-${ranks}-nodes-of-${per_node} ${ranks} ${per_node})
endforeach()
trireme_comm_test(short 2 0 short)
trireme_comm_test(uneven 2 0 uneven)
trireme_comm_test(uneven-nodes-of-1 2 1 uneven)
trireme_comm_test(mismatch 2 0 mismatch)
trireme_comm_test(abort 3 0 abort)
set_tests_properties(comm/abort PROPERTIES WILL_FAIL TRUE TIMEOUT 60)

# The same of device memory: staged, where the host sees it, and where MPI reaches it.
add_executable(exchange_test tests/comm/exchange_test.c)
target_link_libraries(exchange_test PRIVATE trireme_core)
foreach(case 1-0 2-0 3-0 4-2 5-3) # RANKS-RANKS_PER_NODE
  string(REPLACE "-" ";" numbers ${case})
  list(GET numbers 0 ranks)
  list(GET numbers 1 per_node)
  add_test(NAME comm/exchange-${case} COMMAND ${TRIREME_MPIEXEC} -n ${ranks} $<TARGET_FILE:exchange_test> reference guarded:seed=5
           emulated:seed=3 emulated:peer=1 emulated:peer=1,seed=9)
  set(environment ${TRIREME_COMM_ENVIRONMENT})
  if(per_node GREATER 0)
    list(APPEND environment TRIREME_RANKS_PER_NODE=${per_node})
  endif()
  set_tests_properties(comm/exchange-${case} PROPERTIES LABELS comm TIMEOUT 600 PROCESSORS 2 ENVIRONMENT "${environment}")
endforeach()

# A rank that is stopped while it waits is named by the report; one that is killed ends the job.
foreach(case all_to_all-reference-0 all_to_all-reference-1 all_to_all-guarded-0 pass-reference-0 pass-reference-1
             pass-guarded-0) # WHAT-DEVICE-RANKS_PER_NODE
  string(REPLACE "-" ";" words ${case})
  list(GET words 0 what)
  list(GET words 1 device)
  list(GET words 2 per_node)
  set(environment ${TRIREME_COMM_ENVIRONMENT})
  if(per_node GREATER 0)
    list(APPEND environment TRIREME_RANKS_PER_NODE=${per_node})
  endif()
  set(waits ${what})
  if(device STREQUAL guarded)
    set(waits "receive|send") # between staging
  endif()
  foreach(fate stopped killed)
    add_test(NAME comm/${fate}-${case} COMMAND ${TRIREME_MPIEXEC} -n 3 $<TARGET_FILE:exchange_test> ${fate} ${what} ${device}
             ${CMAKE_CURRENT_BINARY_DIR}/lost-ranks/${fate}-${case})
    set_tests_properties(comm/${fate}-${case} PROPERTIES LABELS comm TIMEOUT 120 COST 5 ENVIRONMENT "${environment}")
  endforeach()
  set_tests_properties(comm/stopped-${case} PROPERTIES PASS_REGULAR_EXPRESSION
    "rank 1 .context 1. is behind: it does not answer.*; rank [02] .context [02]. waits for it in (${waits})[a-z0-9 ]* over context_outer")
  set_tests_properties(comm/killed-${case} PROPERTIES PASS_REGULAR_EXPRESSION
    "signal 9|EXIT CODE: 9|: No such process|context_outer: MPI_") # the launcher's words, or MPI's for a rank that reads from it
endforeach()
file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/lost-ranks)

# Started by the wrong launcher, where there is one.
if(TRIREME_MPI_IS_OPEN_MPI)
  find_program(TRIREME_OTHER_MPIEXEC NAMES mpiexec.mpich mpiexec.hydra)
  set(other ${TRIREME_OTHER_MPIEXEC})
else()
  find_program(TRIREME_OTHER_MPIEXEC NAMES mpiexec.openmpi)
  set(other ${TRIREME_OTHER_MPIEXEC} --allow-run-as-root --oversubscribe)
endif()
if(TRIREME_OTHER_MPIEXEC)
  add_test(NAME comm/other-mpi COMMAND ${other} -n 2 $<TARGET_FILE:comm_test> other-mpi)
  set_tests_properties(comm/other-mpi PROPERTIES LABELS comm TIMEOUT 60 ENVIRONMENT "${TRIREME_COMM_ENVIRONMENT}")
endif()

# Buffers beyond what MPI counts in int; 9 GB of memory, so only `make test-full` runs it.
add_test(NAME comm/huge CONFIGURATIONS full COMMAND ${TRIREME_MPIEXEC} -n 2 $<TARGET_FILE:comm_test> huge)
set_tests_properties(comm/huge PROPERTIES LABELS full TIMEOUT 600 PROCESSORS 2)
