/* Facts about this build. cmake/build_info.cmake writes these functions for each build. */
#ifndef TRI_CLI_BUILD_H
#define TRI_CLI_BUILD_H

const char *tri_build_date(
    void); /* returns a date such as "2026-11-23": that of SOURCE_DATE_EPOCH, or the day of the build */
const char *tri_build_commit(void);   /* returns the output of `git describe`; "unknown" outside of a repository */
const char *tri_build_compiler(void); /* returns the compiler, such as "GNU 12.2.0" */

#endif
