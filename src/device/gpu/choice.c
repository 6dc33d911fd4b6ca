/* Chooses the GPU of a process. GPUs are numbered consecutively over all runtimes: those of CUDA, then those of HIP.
 * Without a number in the options, rank `place` of a node has GPU place modulo their count. */
#include "device/gpu/choice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const tri_gpu_runtime *const tri_gpu_runtimes[] = {&tri_gpu_cuda, &tri_gpu_hip, NULL};

/* ---- the existing GPUs ------------------------------------------------------------------------------------------- */

/* Returns the number of a runtime's GPUs, 0 if the runtime fails. Sets *why to a text about the GPUs that it found, or
 * to its error message. */
static int count_of(const tri_gpu_runtime *runtime, const char **why) {
  int count = 0;
  *why = "";
  if (runtime->count(&count, why) == TRI_OK) return count;
  *why = tri_status_message();
  return 0;
}

tri_status tri_gpu_count(const tri_gpu_runtime *const *runtimes, int *out, char *why, size_t why_bytes) {
  *out = 0;
  if (why_bytes > 0) why[0] = '\0';
  for (; *runtimes != NULL; runtimes++) {
    const char *words;
    *out += count_of(*runtimes, &words);
    size_t used = why_bytes > 0 ? strlen(why) : 0;
    if (used + 1 < why_bytes) {
      snprintf(why + used, why_bytes - used, "%s%s: %s", used == 0 ? "" : "; ", (*runtimes)->name, words);
    }
  }
  return TRI_OK;
}

/* ---- the request ------------------------------------------------------------------------------------------------- */

typedef struct requested {
  int number; /* GPU number; -1: round robin by rank */
  int count;  /* number of GPUs of the emulator (`gpus=N`); 0: number of existing GPUs */
} requested;

enum { MOST = 4096 }; /* GPU numbers are 0 .. MOST - 1, and N of `gpus=N` is at most MOST */

/* Parses the text as an integer in [least, least + MOST). Returns false if it is not one. */
static bool read_number(const char *text, size_t length, int least, int *out) {
  char *end = NULL;
  if (length == 0 || text[0] < '0' || text[0] > '9') return false;
  long value = strtol(text, &end, 10);
  if (end != text + length || value < least || value >= least + MOST) return false;
  *out = (int)value;
  return true;
}

/* Reads one word of the options: the number of a GPU, `blocking`, or `gpus=N` of the emulator. Appends any other word
 * to out->options if out->runtime, the first runtime of the list, has a function `check`; otherwise fails with
 * TRI_BAD_CONFIG. */
static tri_status read_word(const char *kind, const char *word, size_t length, requested *asked, tri_gpu_choice *out) {
  size_t used = strlen(out->options);
  const int before = asked->number;
  if (read_number(word, length, 0, &asked->number)) {
    if (before < 0) return TRI_OK;
    return tri_fail(TRI_BAD_CONFIG,
                    "`%s` takes the number of one GPU, not %d and %d; without a number the ranks of a node "
                    "take its GPUs in turn, and CUDA_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES says which it sees",
                    kind, before, asked->number);
  }
  if (length == strlen("blocking") && strncmp(word, "blocking", length) == 0) {
    out->blocking = true;
    return TRI_OK;
  }
  if (out->runtime->any_count && length > 5 && strncmp(word, "gpus=", 5) == 0) {
    if (read_number(word + 5, length - 5, 1, &asked->count)) return TRI_OK;
    return tri_fail(TRI_BAD_CONFIG, "`%.*s` of `device: %s` should be gpus=NUMBER, from 1 to %d", (int)length, word,
                    kind, MOST);
  }
  if (out->runtime->check == NULL || used + length + 2 > sizeof out->options) {
    return tri_fail(
        TRI_BAD_CONFIG,
        "`%.*s` is not an option of `device: %s`; there are the number of a GPU, from 0 to %d, and blocking (each "
        "kernel is waited for), with a comma between them, as in %s:2,blocking",
        (int)length, word, kind, MOST - 1, kind);
  }
  snprintf(out->options + used, sizeof out->options - used, "%s%.*s", used == 0 ? "" : ",", (int)length, word);
  return TRI_OK;
}

static tri_status read_words(const char *kind, const char *rest, requested *asked, tri_gpu_choice *out) {
  while (*rest != '\0') {
    size_t length = strcspn(rest, ",");
    TRI_TRY(read_word(kind, rest, length, asked, out));
    rest += length + (rest[length] == ',');
  }
  return TRI_OK;
}

tri_status tri_gpu_choice_check(const char *kind, const tri_gpu_runtime *const *runtimes, const char *rest) {
  requested asked = {.number = -1};
  tri_gpu_choice choice = {.runtime = *runtimes};
  TRI_TRY(read_words(kind, rest, &asked, &choice));
  return choice.runtime->check == NULL ? TRI_OK : choice.runtime->check(choice.options);
}

/* ---- the choice -------------------------------------------------------------------------------------------------- */

/* Fails with TRI_UNSUPPORTED because no GPU can be used. `why`: the text of tri_gpu_count. */
static tri_status none(const char *kind, const char *why) {
  return tri_fail(TRI_UNSUPPORTED,
                  "`device: %s`: there is no GPU that this process can use%s%s; `trireme doctor` shows what there is, "
                  "`device: cpu` does without one",
                  kind, why[0] == '\0' ? "" : ": ", why);
}

/* Sets out->number, and out->runtime and out->ordinal of GPU `number`. GPUs are numbered consecutively over all
 * runtimes; a number beyond the GPUs of the other runtimes is one of the last runtime. */
static void find_runtime(const tri_gpu_runtime *const *runtimes, int count, int number, tri_gpu_choice *out) {
  out->number = out->ordinal = number;
  for (; *runtimes != NULL; runtimes++) {
    const char *why;
    const int own = runtimes[1] == NULL ? count : count_of(*runtimes, &why);
    out->runtime = *runtimes;
    if (out->ordinal < own) return;
    out->ordinal -= own;
  }
}

tri_status tri_gpu_choose(const char *kind, const tri_gpu_runtime *const *runtimes, const char *rest, int place,
                          tri_gpu_choice *out) {
  requested asked = {.number = -1};
  int count = 0;
  char why[1024];
  *out = (tri_gpu_choice){.runtime = *runtimes};
  TRI_TRY(read_words(kind, rest, &asked, out));
  TRI_TRY(tri_gpu_count(runtimes, &count, why, sizeof why));
  if (asked.count > 0) count = asked.count;
  if (count == 0) return none(kind, why);
  if (asked.number >= count) {
    return tri_fail(TRI_BAD_CONFIG,
                    "`device: %s:%s`: this process can use %d GPU%s, numbered from 0 to %d (CUDA_VISIBLE_DEVICES and "
                    "ROCR_VISIBLE_DEVICES say which it sees)",
                    kind, rest, count, count == 1 ? "" : "s", count - 1);
  }
  find_runtime(runtimes, count, asked.number >= 0 ? asked.number : place % count, out);
  return TRI_OK;
}
