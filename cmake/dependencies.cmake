# The chosen parts (see docs/architecture.md), carried by the target trireme_dependencies.
find_package(PkgConfig REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS C)
find_package(Threads REQUIRED)
pkg_check_modules(YAML REQUIRED IMPORTED_TARGET yaml-0.1)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson>=2.12)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash>=0.8)
pkg_check_modules(SQLITE REQUIRED IMPORTED_TARGET sqlite3)
pkg_check_modules(LAPACKE REQUIRED IMPORTED_TARGET lapacke)

include(cmake/mpi.cmake)

# oneDNN ships a CMake package on some systems and a bare header and library on others.
find_path(DNNL_INCLUDE_DIR dnnl.h REQUIRED)
find_library(DNNL_LIBRARY NAMES dnnl REQUIRED)

add_library(trireme_dependencies INTERFACE)
target_include_directories(trireme_dependencies SYSTEM INTERFACE ${DNNL_INCLUDE_DIR})
target_link_libraries(trireme_dependencies INTERFACE
  PkgConfig::YAML PkgConfig::JANSSON PkgConfig::PCRE2 PkgConfig::UTF8PROC PkgConfig::ZSTD PkgConfig::XXHASH
  PkgConfig::SQLITE PkgConfig::LAPACKE
  OpenMP::OpenMP_C Threads::Threads ${DNNL_LIBRARY} trireme_mpi m)
