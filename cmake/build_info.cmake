# Writes FILE, what src/cli/build.h promises, at every build; a file that says the same is left as it is, so that nothing
# is compiled. -DFILE, -DSOURCE, -DCOMPILER.
find_program(GIT git)
set(commit "unknown")
if(GIT AND EXISTS ${SOURCE}/.git)
  execute_process(COMMAND ${GIT} -C ${SOURCE} describe --always --dirty --tags --abbrev=12 OUTPUT_VARIABLE said
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed AND said)
    set(commit "${said}")
  endif()
endif()
if(commit STREQUAL "unknown" AND EXISTS ${SOURCE}/.commit) # a package's, whose source is no repository
  file(STRINGS ${SOURCE}/.commit commit LIMIT_COUNT 1)
endif()
string(TIMESTAMP day "%Y-%m-%d" UTC) # of SOURCE_DATE_EPOCH where it is set
set(text "/* Written by cmake/build_info.cmake. */
#include \"cli/build.h\"

const char *tri_build_date(void) { return \"${day}\"; }
const char *tri_build_commit(void) { return \"${commit}\"; }
const char *tri_build_compiler(void) { return \"${COMPILER}\"; }
")
set(held "")
if(EXISTS ${FILE})
  file(READ ${FILE} held)
endif()
if(NOT held STREQUAL text)
  file(WRITE ${FILE} "${text}")
endif()
