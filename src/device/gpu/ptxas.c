/* Shortens the report of NVIDIA's assembler. For each kernel it prints a line "Compiling entry function", lines about
 * the functions that the kernel calls and about itself ("Function properties for"), and last a line with ": Used R
 * registers". */
#include "device/gpu/ptxas.h"

#include "base/memory.h"
#include "device/gpu/code_object.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The assembler's report of a kernel's resources, as far as it has been read. */
typedef struct assembler_report {
  tri_gpu_code_kernel kernel;
  bool of_kernel; /* whether the following lines are about the kernel, and not about a function that it calls */
} assembler_report;

/* Returns the number before a text such as " bytes smem"; 0 if the text is absent. */
static size_t number_before(const char *line, const char *what) {
  const char *at = strstr(line, what);
  if (at == NULL) return 0;
  while (at > line && at[-1] >= '0' && at[-1] <= '9') at--;
  return strtoull(at, NULL, 10);
}

/* Reads a line of the assembler, and adds its facts to the report. Returns whether it is the last line about a
 * kernel. */
static bool read_resources(const char *line, assembler_report *r) {
  char name[64];
  const char *used = strstr(line, ": Used ");
  if (strstr(line, "Compiling entry function '") != NULL) {
    *r = (assembler_report){.kernel.name = ""};
    (void)sscanf(strchr(line, '\''), "'%63[^']", r->kernel.name);
  } else if (sscanf(line, "ptxas info : Function properties for %63s", name) == 1) {
    r->of_kernel = strcmp(name, r->kernel.name) == 0;
  } else if (r->of_kernel && strstr(line, " bytes stack frame") != NULL) {
    r->kernel.private_bytes = number_before(line, " bytes stack frame");
  } else if (used != NULL && r->kernel.name[0] != '\0') {
    r->kernel.registers = atoi(used + strlen(": Used "));
    r->kernel.shared_bytes = number_before(line, " bytes smem");
    return true;
  }
  return false;
}

tri_status tri_gpu_ptxas_shorten(char **log) {
  /* This room is enough, because a kernel's line is shorter than the lines that it replaces. */
  const size_t room = 2 * strlen(*log) + 1;
  char *out = NULL, *rest = *log;
  size_t used = 0;
  assembler_report r = {.kernel.name = ""};
  TRI_TRY(tri_alloc("a compiler's messages", room, 1, &out));
  for (char *line = strtok_r(*log, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
    if (read_resources(line, &r)) {
      used += tri_gpu_code_kernel_print(&r.kernel, out + used, room - used);
    } else if (strncmp(line, "ptxas info", 10) != 0 && strstr(line, " bytes stack frame") == NULL) {
      used += (size_t)snprintf(out + used, room - used, "%s\n", line);
    }
    if (used >= room) used = room - 1;
  }
  tri_free(*log);
  *log = out;
  return TRI_OK;
}
