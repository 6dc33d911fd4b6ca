# tests/comm: ranks that work together, started by the mpiexec of the MPI that this folder is built with (mpi.cmake). A
# second build folder, `cmake --preset mpich`, tests the other one. tests/table.py says what is run.
add_executable(comm_test tests/comm/comm_test.c)
target_link_libraries(comm_test PRIVATE trireme_for_tests)

# More ranks than cores, all of them free to move, and root as in a container.
if(TRIREME_MPI_IS_OPEN_MPI)
  set(TRIREME_MPIEXEC ${MPIEXEC_EXECUTABLE} --allow-run-as-root --oversubscribe --bind-to none)
else()
  set(TRIREME_MPIEXEC ${MPIEXEC_EXECUTABLE} -bind-to none)
endif()

# The same of device memory: staged, where the host sees it, and where MPI reaches it.
add_executable(exchange_test tests/comm/exchange_test.c)
target_link_libraries(exchange_test PRIVATE trireme_for_tests)
file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/lost-ranks)

# Sequences that ranks share.
add_executable(dispatcher_test tests/comm/dispatcher_test.c)
target_link_libraries(dispatcher_test PRIVATE trireme_for_tests)

# Samples that the first rank shares.
add_executable(held_samples_test tests/comm/held_samples_test.c)
target_link_libraries(held_samples_test PRIVATE trireme_for_tests)

# The wrong launcher, if there is one.
if(TRIREME_MPI_IS_OPEN_MPI)
  find_program(TRIREME_OTHER_MPIEXEC NAMES mpiexec.mpich mpiexec.hydra)
  set(TRIREME_OTHER_COMMAND ${TRIREME_OTHER_MPIEXEC})
else()
  find_program(TRIREME_OTHER_MPIEXEC NAMES mpiexec.openmpi)
  set(TRIREME_OTHER_COMMAND ${TRIREME_OTHER_MPIEXEC} --allow-run-as-root --oversubscribe)
endif()
if(NOT TRIREME_OTHER_MPIEXEC)
  set(TRIREME_OTHER_COMMAND)
endif()
