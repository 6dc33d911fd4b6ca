/* `trireme --version`: the version of the program and of its libraries. */
#ifndef TRI_CLI_VERSION_H
#define TRI_CLI_VERSION_H

#include <stdio.h>

/* Prints the versions. The first line is "trireme VERSION". */
void tri_version_print(FILE *to);

/* Prints the last lines, which are about the libraries that only a build which runs models has. */
void tri_version_print_libraries(FILE *to);

#endif
