/* Which GPU a process takes: of those that the vendors' drivers show, one after the other. */
#ifndef TRI_DEVICE_GPU_CHOICE_H
#define TRI_DEVICE_GPU_CHOICE_H

#include "device/gpu/runtime.h"

typedef struct tri_gpu_choice {
  const tri_gpu_runtime *runtime;
  int ordinal;       /* the runtime's */
  int number;        /* among those of all runtimes */
  bool blocking;     /* each kernel is waited for, so that a fault names it */
  char options[256]; /* for the runtime's open */
} tri_gpu_choice;

/* Those of the kind `gpu`, in the order in which their GPUs are numbered; NULL at the end. */
extern const tri_gpu_runtime *const tri_gpu_runtimes[];

/* GPUs of these runtimes; one that fails has none. `why` (may be NULL) gets what each looked for and found. */
tri_status tri_gpu_count(const tri_gpu_runtime *const *runtimes, int *out, char *why, size_t why_bytes);

/* Whether `rest` makes sense, on whatever machine. */
tri_status tri_gpu_choice_check(const char *kind, const tri_gpu_runtime *const *runtimes, const char *rest);

/* `rest` stands behind the colon of `kind`, which is for messages: the number of a GPU, `blocking`, options of the
 * runtime itself; commas between them. Without a number the GPU is number place modulo their count. */
tri_status tri_gpu_choose(const char *kind, const tri_gpu_runtime *const *runtimes, const char *rest, int place,
                          tri_gpu_choice *out);

#endif
