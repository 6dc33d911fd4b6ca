/* What is known of this build when it is made: cmake/build_info.cmake writes these functions for each build. */
#ifndef TRI_CLI_BUILD_H
#define TRI_CLI_BUILD_H

const char *tri_build_date(void);     /* "2026-11-23": SOURCE_DATE_EPOCH's day, or that of the build */
const char *tri_build_commit(void);   /* as `git describe` has it; "unknown" outside a repository */
const char *tri_build_compiler(void); /* "GNU 12.2.0" */

#endif
