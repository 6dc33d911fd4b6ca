/* Runs problems on a device and on the reference device, and keeps account: checker.c. */
#ifndef TRI_TESTS_GPU_CHECKER_H
#define TRI_TESTS_GPU_CHECKER_H

#include "problem.h"

/* The results for a kernel in a type. */
typedef struct kernel_result {
  const char *kernel;
  tri_dtype type;
  bool missing;
  int64_t cases, failures;
  double worst;       /* error by norm, of what came nearest to its tolerance, or past it */
  double worst_share; /* the same, as a share of the tolerance */
  char first[1024];   /* the first failure */
} kernel_result;

/* Device memory for spaces, which are large as a rule: it is kept from problem to problem, and with it what the ones
 * before have left. A space ends where the memory does, or a guard before. */
typedef struct kept_space {
  char *memory;
  size_t bytes;
} kept_space;

struct checker {
  /* Opens the device to be tested; again after each fault, because its queue cannot be used any more. */
  tri_status (*open)(const void *which, tri_device **out);
  const void *which;
  tri_device *device, *reference;
  uint64_t seed, random;
  int64_t turns; /* of add_rows, for the kernel at hand */
  bool quick;
  kept_space kept[2][2][NUM_SPACES]; /* for the device and the reference; guarded and tight */
  kernel_result *result;             /* the current kernel's */
};

/* Patterns of 16 bits that are NaN in every type, and not an id of a token. Each argument has its own, also in its
 * guards, so that values computed from one argument are not taken for those of another. */
enum { POISON_OF_FIRST = 0x7ff1, POISON_OF_GUARDS = 0x7ffd /* of spaces */, POISON_OF_SPACES = 0x7ffe };

/* Fills with a pattern again and again. */
void poison(void *memory, size_t bytes, unsigned pattern);

/* Opens both devices. */
tri_status checker_open(checker *c);
void checker_close(checker *c);

/* All cases of a kernel for a type. Fails only where no device is to be had any more. */
tri_status checker_run(checker *c, const kernel_cases *kernel, tri_dtype type, kernel_result *out);

/* All kernels; a NULL name ends the list. */
extern const kernel_cases all_kernels[];

/* Ends the program: memory of the host is not a device's fault. */
_Noreturn void checker_is_out_of_memory(size_t bytes);

#endif
