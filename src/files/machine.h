/* The kind of this machine, and the resources that this process may use, read from the system's files. The files are
 * read below a root folder, so that a test can replay those of another machine. */
#ifndef TRI_FILES_MACHINE_H
#define TRI_FILES_MACHINE_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tri_machine {
  char processor[128]; /* "AMD EPYC 9554 64-Core Processor"; "" if unknown */
  bool avx2, avx512, avx512_bf16,
      amx; /* whether an x86 processor has each unit; avx2 includes fma, and avx512 includes bw, vl and dq */
  bool neon, sve, arm_bf16;        /* whether an arm64 processor has each unit */
  int64_t cores_online;            /* logical cores */
  int64_t cores_allowed;           /* cores in the affinity mask of this process */
  double cores_quota;              /* cores that the process's control group may use; 0: no limit */
  int64_t numa_nodes;              /* NUMA nodes with memory; at least 1 */
  int64_t memory_bytes;            /* memory of the machine */
  int64_t memory_limit_bytes;      /* limit of the process's control group; 0: no limit */
  int64_t huge_page_bytes,         /* size of a huge page */
      huge_pages;                  /* number of huge pages that the administrator reserved */
  char transparent_huge_pages[16]; /* "always", "madvise", "never"; "" if unknown */
} tri_machine;

/* Reads the files below `root` ("/" for this machine). Members that are not found are 0. Fails without /proc/cpuinfo
 * or /proc/meminfo, or if memory is exhausted. */
tri_status tri_machine_read(const char *root, tri_machine *out);

/* Returns the number of cores that this process can use: cores_allowed (cores_online if that is unknown), limited by
 * cores_quota; at least 1. */
int64_t tri_machine_usable_cores(const tri_machine *machine);

/* Returns the name of the best vector unit: "AVX-512 with bf16", "AVX2", "NEON", ..., or "none beyond the baseline". */
const char *tri_machine_vector_unit(const tri_machine *machine);

#endif
