#include "comm/library.h"

#include <mpi.h>
#include <stdio.h>
#include <string.h>

char *tri_comm_library_loaded(char *buffer, size_t buffer_bytes) {
  char said[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  if (MPI_Get_library_version(said, &length) != MPI_SUCCESS) said[0] = '\0';
  said[strcspn(said, "\n")] = '\0';
  for (char *at = said; *at != '\0'; at++) *at = (char)(*at == '\t' ? ' ' : *at);
  snprintf(buffer, buffer_bytes, "%s", said);
  return buffer;
}
