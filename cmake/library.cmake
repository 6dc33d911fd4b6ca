# libtrireme: what other programs may use of this one (include/trireme), without MPI and oneDNN, as a shared library that
# shows nothing but its public functions and as a static one. Sanitized builds have neither: they are for tests, which take
# the object files.
option(TRIREME_LIBRARY "Build libtrireme" ON)
set(TRIREME_HAS_LIBRARY OFF)
if(NOT TRIREME_LIBRARY)
  return()
endif()
if(NOT TARGET PkgConfig::PCRE2) # a build that only plans has not looked for them
  pkg_check_modules(PCRE2 IMPORTED_TARGET libpcre2-8)
  pkg_check_modules(UTF8PROC IMPORTED_TARGET libutf8proc)
  pkg_check_modules(ZSTD IMPORTED_TARGET libzstd)
endif()
if(NOT PCRE2_FOUND OR NOT UTF8PROC_FOUND OR NOT ZSTD_FOUND)
  message(STATUS "libtrireme is not built: it wants PCRE2 (8 bit), utf8proc and zstd")
  return()
endif()
if(NOT TRIREME_RUNNING)
  include(cmake/text.cmake)
endif()
configure_file(include/trireme/version.h.in ${CMAKE_BINARY_DIR}/include/trireme/version.h @ONLY)

# With what it shares with the program's commands: their options are the keys of its questions.
file(GLOB sources CONFIGURE_DEPENDS src/api/*.c src/options/*.c)
add_library(trireme_api OBJECT ${sources})
target_include_directories(trireme_api PUBLIC include ${CMAKE_BINARY_DIR}/include)
target_link_libraries(trireme_api PUBLIC trireme_plan trireme_text)

foreach(target trireme_api trireme_text trireme_plan)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden)
endforeach()
if(TRIREME_SANITIZE)
  return()
endif()

set(TRIREME_HAS_LIBRARY ON)
add_library(trireme_shared SHARED $<TARGET_OBJECTS:trireme_api>)
target_link_libraries(trireme_shared PRIVATE trireme_text trireme_plan)
target_link_options(trireme_shared PRIVATE -Wl,-z,defs -Wl,--exclude-libs,ALL)
# As long as the first number is 0, each second one may break what was built with the one before.
set_target_properties(trireme_shared PROPERTIES OUTPUT_NAME trireme VERSION ${PROJECT_VERSION}
                      SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})

add_library(trireme_static STATIC $<TARGET_OBJECTS:trireme_api> $<TARGET_OBJECTS:trireme_text> $<TARGET_OBJECTS:trireme_plan>)
set_target_properties(trireme_static PROPERTIES OUTPUT_NAME trireme LINKER_LANGUAGE C)
