/* The kind of this machine, and the resources that this process may use, read from the system's files. They are read
 * below a root folder, so that a test can replay the files of another machine. */
#ifndef TRI_FILES_MACHINE_H
#define TRI_FILES_MACHINE_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tri_machine {
  char processor[128];                 /* "AMD EPYC 9554 64-Core Processor"; "" if unknown    */
  bool avx2, avx512, avx512_bf16, amx; /* x86; avx2 with fma, avx512 with bw, vl and dq        */
  bool neon, sve, arm_bf16;            /* arm64                                                */
  int64_t cores_online;                /* logical cores                                        */
  int64_t cores_allowed;               /* limit of the affinity mask of this process           */
  double cores_quota;                  /* limit of its control group; 0: no limit              */
  int64_t numa_nodes;                  /* NUMA nodes with memory; at least 1                   */
  int64_t memory_bytes;                /* memory of the machine                                */
  int64_t memory_limit_bytes;          /* limit of its control group; 0: no limit              */
  int64_t huge_page_bytes, huge_pages; /* reserved by the administrator                        */
  char transparent_huge_pages[16];     /* "always", "madvise", "never"; "" if unknown          */
} tri_machine;

/* Reads the files below `root` ("/" for this machine). Members that are not found are 0. Fails only without
 * /proc/cpuinfo or /proc/meminfo. */
tri_status tri_machine_read(const char *root, tri_machine *out);

/* Returns the number of cores that this process can use: the smallest of cores_online, cores_allowed and cores_quota,
 * at least 1. */
int64_t tri_machine_usable_cores(const tri_machine *machine);

/* Returns the best vector unit: "AVX-512 with bf16", "AVX2", "NEON", ..., or "none beyond the baseline". */
const char *tri_machine_vector_unit(const tri_machine *machine);

#endif
