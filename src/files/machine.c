#include "files/machine.h"

#include "base/memory.h"
#include "files/file.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 64 << 20 }; /* /proc/cpuinfo of a thousand cores has some MiB */

/* ---- small readers ----------------------------------------------------------------------------------------------- */

static tri_status read_below(const char *root, const char *path, char **out) {
  char full[TRI_PATH_BYTES];
  TRI_TRY(tri_path_join(full, root, path));
  return tri_file_read(full, MOST_BYTES, out, NULL);
}

/* Copies the value of the first line "KEY<blanks>:<blanks>VALUE", or as much of it as fits; returns false if there is
 * no such line. */
static bool line_value(const char *text, const char *key, char *out, size_t out_bytes) {
  size_t key_length = strlen(key);
  for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
    if (*line == '\n') line++;
    if (strncmp(line, key, key_length) != 0) continue;
    const char *value = line + key_length;
    while (*value == ' ' || *value == '\t') value++;
    if (*value != ':') continue;
    value++;
    while (*value == ' ' || *value == '\t') value++;
    size_t length = strcspn(value, "\n");
    if (length >= out_bytes) length = out_bytes - 1;
    memcpy(out, value, length);
    out[length] = '\0';
    return true;
  }
  return false;
}

static int64_t line_number(const char *text, const char *key) {
  char value[64];
  return line_value(text, key, value, sizeof value) ? strtoll(value, NULL, 10) : 0;
}

/* Counts the numbers of a list such as "0-3,8,10-11". */
static int64_t count_list(const char *list) {
  int64_t count = 0;
  while (isdigit((unsigned char)*list)) {
    char *end = NULL;
    long long first = strtoll(list, &end, 10), last = first;
    if (*end == '-') last = strtoll(end + 1, &end, 10);
    if (last < first) break;
    count += last - first + 1;
    list = *end == ',' ? end + 1 : end;
  }
  return count;
}

static int64_t count_list_file(const char *root, const char *path) {
  char *text = NULL;
  if (read_below(root, path, &text) != TRI_OK) return 0;
  int64_t count = count_list(text);
  tri_free(text);
  return count;
}

/* Returns whether a list of words separated by blanks has this word. */
static bool has_word(const char *words, const char *word) {
  size_t length = strlen(word);
  for (const char *at = strstr(words, word); at != NULL; at = strstr(at + 1, word)) {
    bool begins = at == words || at[-1] == ' ';
    if (begins && (at[length] == ' ' || at[length] == '\0')) return true;
  }
  return false;
}

/* ---- processor --------------------------------------------------------------------------------------------------- */

static tri_status read_processor(const char *root, tri_machine *m) {
  char *text = NULL, *flags = NULL;
  tri_status status = TRI_OK;
  TRI_TRY(read_below(root, "proc/cpuinfo", &text));
  TRI_TRY_GOTO(tri_alloc("the processor's flags", 16384, 1, &flags), free_text);
  if (!line_value(text, "model name", m->processor, sizeof m->processor)) {
    char part[64];
    if (line_value(text, "CPU part", part, sizeof part)) {
      snprintf(m->processor, sizeof m->processor, "arm64, part %s", part);
    }
  }
  if (line_value(text, "flags", flags, 16384)) {
    m->avx2 = has_word(flags, "avx2") && has_word(flags, "fma");
    m->avx512 = has_word(flags, "avx512f") && has_word(flags, "avx512bw") && has_word(flags, "avx512vl") &&
                has_word(flags, "avx512dq");
    m->avx512_bf16 = m->avx512 && has_word(flags, "avx512_bf16");
    m->amx = has_word(flags, "amx_bf16");
  } else if (line_value(text, "Features", flags, 16384)) {
    m->neon = has_word(flags, "asimd");
    m->sve = has_word(flags, "sve");
    m->arm_bf16 = has_word(flags, "bf16");
  }
  tri_free(flags);
free_text:
  tri_free(text);
  return status;
}

static void read_cores(const char *root, tri_machine *m) {
  m->cores_online = count_list_file(root, "sys/devices/system/cpu/online");
  char *text = NULL, list[4096];
  if (read_below(root, "proc/self/status", &text) != TRI_OK) return;
  if (line_value(text, "Cpus_allowed_list", list, sizeof list)) m->cores_allowed = count_list(list);
  tri_free(text);
}

/* ---- control groups ---------------------------------------------------------------------------------------------- */

/* Finds the path of this process in the hierarchy of a controller, in the text of /proc/self/cgroup, whose lines are
 * "ID:CONTROLLERS:PATH". The line of version 2 has no controllers: `controller` is "". Returns false if there is no
 * such line. */
static bool group_path(const char *text, const char *controller, char *out, size_t out_bytes) {
  for (const char *line = text; *line != '\0';) {
    size_t length = strcspn(line, "\n");
    const char *controllers = memchr(line, ':', length);
    const char *path =
        controllers == NULL ? NULL : memchr(controllers + 1, ':', length - (size_t)(controllers + 1 - line));
    if (path != NULL) {
      char names[128];
      snprintf(names, sizeof names, ",%.*s,", (int)(path - controllers - 1), controllers + 1);
      char wanted[64];
      snprintf(wanted, sizeof wanted, ",%s,", controller);
      if (strstr(names, wanted) != NULL) {
        snprintf(out, out_bytes, "%.*s", (int)(line + length - path - 1), path + 1);
        return true;
      }
    }
    line += length + (line[length] == '\n');
  }
  return false;
}

typedef double (*limit_reader)(const char *root, const char *folder);

static double read_two_numbers(const char *root, const char *folder, const char *name, double *second) {
  char path[TRI_PATH_BYTES], *text = NULL;
  if (tri_path_join(path, folder, name) != TRI_OK || read_below(root, path, &text) != TRI_OK) return 0;
  char *end = NULL;
  double first = strtod(text, &end); /* "max" is parsed as 0, which means no limit */
  if (second != NULL) *second = strtod(end, NULL);
  tri_free(text);
  return first;
}

static double cores_v2(const char *root, const char *folder) {
  double period = 0, quota = read_two_numbers(root, folder, "cpu.max", &period);
  return quota > 0 && period > 0 ? quota / period : 0;
}

static double cores_v1(const char *root, const char *folder) {
  double quota = read_two_numbers(root, folder, "cpu.cfs_quota_us", NULL);
  double period = read_two_numbers(root, folder, "cpu.cfs_period_us", NULL);
  return quota > 0 && period > 0 ? quota / period : 0;
}

static double memory_v2(const char *root, const char *folder) {
  return read_two_numbers(root, folder, "memory.max", NULL);
}

static double memory_v1(const char *root, const char *folder) {
  return read_two_numbers(root, folder, "memory.limit_in_bytes", NULL);
}

/* Returns the least limit of the process's group and of all groups above it; 0 if none has a limit. In a container the
 * path may be the host's, and the container may only see the root; every prefix is tried, so that one of them is found
 * in any case. */
static double least_limit(const char *root, const char *mount, const char *path, limit_reader read_limit) {
  char folder[TRI_PATH_BYTES];
  int length = snprintf(folder, sizeof folder, "%s%s", mount, path);
  if (length < 0 || (size_t)length >= sizeof folder) return 0;
  double least = 0;
  for (;;) {
    double limit = read_limit(root, folder);
    if (limit > 0 && (least == 0 || limit < least)) least = limit;
    char *slash = strrchr(folder, '/');
    if (slash == NULL || (size_t)(slash - folder) < strlen(mount)) return least;
    *slash = '\0';
  }
}

static double lesser_limit(double a, double b) { return a == 0 || (b != 0 && b < a) ? b : a; }

static void read_groups(const char *root, tri_machine *m) {
  char *text = NULL, path[1024];
  if (read_below(root, "proc/self/cgroup", &text) != TRI_OK) return;
  double memory = 0;
  if (group_path(text, "", path, sizeof path)) {
    m->cores_quota = least_limit(root, "sys/fs/cgroup", path, cores_v2);
    memory = least_limit(root, "sys/fs/cgroup", path, memory_v2);
  }
  if (group_path(text, "cpu", path, sizeof path)) {
    m->cores_quota = lesser_limit(m->cores_quota, least_limit(root, "sys/fs/cgroup/cpu", path, cores_v1));
  }
  if (group_path(text, "memory", path, sizeof path)) {
    memory = lesser_limit(memory, least_limit(root, "sys/fs/cgroup/memory", path, memory_v1));
  }
  /* In version 1 a number near 2^63 means no limit. */
  if (memory > 0 && memory < 4e18) m->memory_limit_bytes = (int64_t)memory;
  tri_free(text);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static tri_status read_memory(const char *root, tri_machine *m) {
  char *text = NULL;
  TRI_TRY(read_below(root, "proc/meminfo", &text));
  m->memory_bytes = line_number(text, "MemTotal") * 1024;
  m->huge_pages = line_number(text, "HugePages_Total");
  m->huge_page_bytes = line_number(text, "Hugepagesize") * 1024;
  tri_free(text);

  /* "always [madvise] never": the current value is in brackets. */
  if (read_below(root, "sys/kernel/mm/transparent_hugepage/enabled", &text) == TRI_OK) {
    const char *open = strchr(text, '[');
    if (open != NULL) {
      size_t length = strcspn(open + 1, "]");
      snprintf(m->transparent_huge_pages, sizeof m->transparent_huge_pages, "%.*s", (int)length, open + 1);
    }
    tri_free(text);
  }
  m->numa_nodes = count_list_file(root, "sys/devices/system/node/has_memory");
  if (m->numa_nodes < 1) m->numa_nodes = 1;
  return TRI_OK;
}

/* ---- interface --------------------------------------------------------------------------------------------------- */

tri_status tri_machine_read(const char *root, tri_machine *out) {
  tri_machine machine = {.processor = ""};
  TRI_TRY(read_processor(root, &machine));
  TRI_TRY(read_memory(root, &machine));
  read_cores(root, &machine);
  read_groups(root, &machine);
  *out = machine;
  return TRI_OK;
}

int64_t tri_machine_usable_cores(const tri_machine *machine) {
  int64_t cores = machine->cores_allowed > 0 ? machine->cores_allowed : machine->cores_online;
  if (machine->cores_quota > 0 && machine->cores_quota < (double)cores) cores = (int64_t)machine->cores_quota;
  return cores > 1 ? cores : 1;
}

const char *tri_machine_vector_unit(const tri_machine *machine) {
  if (machine->amx) return "AVX-512 and AMX, with bf16";
  if (machine->avx512_bf16) return "AVX-512 with bf16";
  if (machine->avx512) return "AVX-512";
  if (machine->avx2) return "AVX2";
  if (machine->sve) return machine->arm_bf16 ? "SVE with bf16" : "SVE";
  if (machine->neon) return machine->arm_bf16 ? "NEON with bf16" : "NEON";
  return "none beyond the baseline";
}
