/* `trireme --version`: the version of the program and of its libraries. */
#ifndef TRI_CLI_VERSION_H
#define TRI_CLI_VERSION_H

#include <stdio.h>

/* Prints the versions. The first line is "trireme VERSION". */
void tri_version_print(FILE *to);

/* Prints the last lines: the versions of the libraries of a build that runs models; in other builds, that it has no
 * MPI. */
void tri_version_print_libraries(FILE *to);

#endif
