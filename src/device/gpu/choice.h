/* Chooses the GPU of a process. The GPUs that the vendors' drivers show are numbered consecutively. */
#ifndef TRI_DEVICE_GPU_CHOICE_H
#define TRI_DEVICE_GPU_CHOICE_H

#include "device/gpu/runtime.h"

typedef struct tri_gpu_choice {
  const tri_gpu_runtime *runtime;
  int ordinal;       /* GPU number in its runtime */
  int number;        /* GPU number over all runtimes */
  bool blocking;     /* whether the queue waits for each kernel, so that an error names the kernel */
  char options[256]; /* options of the runtime, for its function `open` */
} tri_gpu_choice;

/* Runtimes of the kind `gpu`, in the order in which their GPUs are numbered; NULL at the end. */
extern const tri_gpu_runtime *const tri_gpu_runtimes[];

/* Counts the GPUs of these runtimes; a runtime that fails counts 0. Writes a text to `why` (may be NULL if why_bytes is
 * 0) that has, for each runtime, the libraries that it looked for and the GPUs that it found. Always returns TRI_OK. */
tri_status tri_gpu_count(const tri_gpu_runtime *const *runtimes, int *out, char *why, size_t why_bytes);

/* Checks the syntax of `rest`, as in tri_gpu_choose, without looking for GPUs. Fails with TRI_BAD_CONFIG for a word
 * that is neither a number, `blocking` nor an option of the first runtime. */
tri_status tri_gpu_choice_check(const char *kind, const tri_gpu_runtime *const *runtimes, const char *rest);

/* Chooses a GPU. `rest` is the text after the colon in `device: gpu:2,blocking`: the number of a GPU, `blocking` and
 * options of the runtime, separated by commas. Without a number, the GPU is number `place` modulo their count. `kind`,
 * the text before the colon, is only for messages. Fails with TRI_UNSUPPORTED if there is no GPU, and with
 * TRI_BAD_CONFIG for invalid text and for a number that no GPU has. */
tri_status tri_gpu_choose(const char *kind, const tri_gpu_runtime *const *runtimes, const char *rest, int place,
                          tri_gpu_choice *out);

#endif
