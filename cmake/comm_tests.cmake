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

# Buffers beyond what MPI counts in int; 5 GB of memory, so only `make test-full` runs it.
add_test(NAME comm/huge CONFIGURATIONS full COMMAND ${TRIREME_MPIEXEC} -n 2 $<TARGET_FILE:comm_test> huge)
set_tests_properties(comm/huge PROPERTIES LABELS full TIMEOUT 600 PROCESSORS 2)
