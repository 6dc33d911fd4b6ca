/* `trireme --version`: what this program is, and what it runs with. */
#ifndef TRI_CLI_VERSION_H
#define TRI_CLI_VERSION_H

#include <stdio.h>

/* The first line is "trireme VERSION". */
void tri_version_print(FILE *to);

/* Its last lines: of what a build that only plans has not. */
void tri_version_print_libraries(FILE *to);

#endif
