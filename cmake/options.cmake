# Language, warnings and sanitizers, carried by the target trireme_options.
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON) # vector types, POSIX
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

# A product and a sum are never fused by themselves, so that results do not depend on the compiler's mood. Here and not
# among the target's options below, which come last on the command line: the CPU kernels ask for the opposite.
string(APPEND CMAKE_C_FLAGS " -ffp-contract=off")

option(TRIREME_WERROR "Warnings are errors" OFF)
set(TRIREME_SANITIZE "" CACHE STRING "Sanitizers to build with: address,undefined or thread")
option(TRIREME_FUZZ "Build the fuzzers (needs clang)" OFF)

# Presets, when the program runs from where it was built; packages give the place that they install them in.
set(TRIREME_CONFIG_DIR "${PROJECT_SOURCE_DIR}/configs" CACHE STRING "The last folder in which presets are looked for")

add_library(trireme_options INTERFACE)
target_compile_definitions(trireme_options INTERFACE _GNU_SOURCE TRIREME_VERSION="${PROJECT_VERSION}")
set_source_files_properties(src/config/preset.c PROPERTIES COMPILE_DEFINITIONS "TRIREME_CONFIG_DIR=\"${TRIREME_CONFIG_DIR}\"")
target_compile_options(trireme_options INTERFACE
  -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Werror=implicit-function-declaration -Wpointer-arith -Wvla -Wundef
  -Wswitch-enum # a switch names every value of an enum, so that a new one stops the build where it has a meaning
  -fno-math-errno
  "-fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=") # messages of internal errors name src/FILE, wherever it was built
if(CMAKE_C_COMPILER_ID MATCHES Clang)
  target_compile_options(trireme_options INTERFACE -Wcovered-switch-default) # nor does a default hide the next one
  target_compile_options(trireme_options INTERFACE -Wno-pass-failed) # under sanitizers `omp simd` loops stay scalar
endif()
if(TRIREME_WERROR)
  target_compile_options(trireme_options INTERFACE -Werror)
endif()
if(TRIREME_SANITIZE)
  # -g1: names and lines for reports, in half the files' size
  target_compile_options(trireme_options INTERFACE -fsanitize=${TRIREME_SANITIZE} -fno-omit-frame-pointer -g1)
  target_link_options(trireme_options INTERFACE -fsanitize=${TRIREME_SANITIZE})
  if(CMAKE_C_COMPILER_ID MATCHES Clang AND TRIREME_SANITIZE MATCHES undefined)
    # Optional arguments of kernels are offset before anybody asks whether they are NULL; gcc does not look at that.
    target_compile_options(trireme_options INTERFACE -fno-sanitize=pointer-overflow)
  endif()
  if(CMAKE_C_COMPILER_ID STREQUAL GNU)
    target_compile_options(trireme_options INTERFACE -Wno-format-truncation) # sees too little of what -O1 leaves of loops
  endif()
endif()
