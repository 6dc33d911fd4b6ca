# The chosen parts (see docs/architecture.md). trireme_plan_dependencies carries what planning needs, and
# trireme_dependencies the rest: MPI, oneDNN and what reads texts and keeps studies. Without MPI or oneDNN there is only
# the first, and the program plans and simulates (TRIREME_RUNNING is off).
find_package(PkgConfig REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS C)
find_package(Threads REQUIRED)
pkg_check_modules(YAML REQUIRED IMPORTED_TARGET yaml-0.1)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson>=2.12)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash>=0.8)

add_library(trireme_plan_dependencies INTERFACE)
target_link_libraries(trireme_plan_dependencies INTERFACE
  PkgConfig::YAML PkgConfig::JANSSON PkgConfig::XXHASH OpenMP::OpenMP_C Threads::Threads m)

option(TRIREME_WITHOUT_RUNNING "Only plan, simulate, validate and inspect: needs neither MPI nor oneDNN" OFF)
set(TRIREME_RUNNING ON)
if(TRIREME_WITHOUT_RUNNING)
  set(TRIREME_RUNNING OFF)
  return()
endif()

include(cmake/mpi.cmake)
# oneDNN ships a CMake package on some systems and a bare header and library on others.
find_path(DNNL_INCLUDE_DIR dnnl.h)
find_library(DNNL_LIBRARY NAMES dnnl)
set(missing)
if(NOT TARGET trireme_mpi)
  list(APPEND missing "MPI (on Debian libopenmpi-dev)")
endif()
if(NOT DNNL_INCLUDE_DIR OR NOT DNNL_LIBRARY)
  list(APPEND missing "oneDNN (on Debian libdnnl-dev)")
endif()
if(missing)
  list(JOIN missing " and " missing)
  message(WARNING "Without ${missing}, trireme is built with plan, simulate, validate and inspect alone; to train with it, "
                  "install that (scripts/install-deps.sh does) and configure again")
  set(TRIREME_RUNNING OFF)
  return()
endif()

pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(SQLITE REQUIRED IMPORTED_TARGET sqlite3)
pkg_check_modules(LAPACKE REQUIRED IMPORTED_TARGET lapacke)

add_library(trireme_dependencies INTERFACE)
target_include_directories(trireme_dependencies SYSTEM INTERFACE ${DNNL_INCLUDE_DIR})
target_link_libraries(trireme_dependencies INTERFACE trireme_plan_dependencies
  PkgConfig::PCRE2 PkgConfig::UTF8PROC PkgConfig::ZSTD PkgConfig::SQLITE PkgConfig::LAPACKE ${DNNL_LIBRARY} trireme_mpi)
