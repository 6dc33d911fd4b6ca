/* `trireme --version`: the version of the program and of its libraries. */
#ifndef TRI_CLI_VERSION_H
#define TRI_CLI_VERSION_H

#include <stdio.h>

/* The first line is "trireme VERSION". */
void tri_version_print(FILE *to);

/* Prints its last lines: the libraries that a build which only plans does not have. */
void tri_version_print_libraries(FILE *to);

#endif
