# MPI, carried by the target trireme_mpi: its headers and library and nothing else of what the compiler wrappers add, so
# that gcc and clang read one set of flags. Where Open MPI and MPICH are both installed, as Debian lets them be,
# -DTRIREME_MPI chooses; changing it in a build folder looks again.
set(TRIREME_MPI "auto" CACHE STRING "MPI to build with: auto (what mpicc is), openmpi or mpich")
set_property(CACHE TRIREME_MPI PROPERTY STRINGS auto openmpi mpich)
if(NOT TRIREME_MPI MATCHES "^(auto|openmpi|mpich)$")
  message(FATAL_ERROR "TRIREME_MPI is `${TRIREME_MPI}`; it can be auto, openmpi or mpich")
endif()

if(NOT TRIREME_MPI STREQUAL "${TRIREME_MPI_FOUND}")
  get_cmake_property(names CACHE_VARIABLES)
  foreach(name ${names})
    if(DEFINED TRIREME_MPI_FOUND AND name MATCHES "^(MPI_|MPIEXEC_|TRIREME_MPI_IS|TRIREME_OTHER_)")
      unset(${name} CACHE)
    endif()
  endforeach()
  if(NOT TRIREME_MPI STREQUAL "auto")
    find_program(MPI_C_COMPILER NAMES mpicc.${TRIREME_MPI} mpicc)
    find_program(MPIEXEC_EXECUTABLE NAMES mpiexec.${TRIREME_MPI} mpiexec mpirun)
  endif()
endif()

set(MPI_CXX_SKIP_MPICXX ON)
if(TRIREME_MPI STREQUAL "auto")
  find_package(MPI 3.1 COMPONENTS C)
else()
  find_package(MPI 3.1 REQUIRED COMPONENTS C)
endif()
if(NOT MPI_C_FOUND)
  return() # there is no target trireme_mpi
endif()
set(TRIREME_MPI_FOUND "${TRIREME_MPI}" CACHE INTERNAL "the value of TRIREME_MPI that the MPI_ entries are for")

add_library(trireme_mpi INTERFACE)
target_include_directories(trireme_mpi SYSTEM INTERFACE ${MPI_C_INCLUDE_DIRS})
target_link_libraries(trireme_mpi INTERFACE ${MPI_C_LIBRARIES})

include(CheckSymbolExists)
set(CMAKE_REQUIRED_INCLUDES ${MPI_C_INCLUDE_DIRS})
check_symbol_exists(OPEN_MPI mpi.h TRIREME_MPI_IS_OPEN_MPI)
unset(CMAKE_REQUIRED_INCLUDES)
if((TRIREME_MPI_IS_OPEN_MPI AND TRIREME_MPI STREQUAL "mpich") OR
   (NOT TRIREME_MPI_IS_OPEN_MPI AND TRIREME_MPI STREQUAL "openmpi"))
  message(FATAL_ERROR "TRIREME_MPI is ${TRIREME_MPI}, but ${MPI_C_COMPILER} is not it; "
                      "install it (on Debian lib${TRIREME_MPI}-dev) or name its compiler with -DMPI_C_COMPILER")
endif()
