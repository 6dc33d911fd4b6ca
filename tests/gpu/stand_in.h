/* Stand-ins for NVIDIA's driver and run-time compiler, for tests where there is no GPU: libraries of their names that a
 * program finds through LD_LIBRARY_PATH. The driver keeps "device memory" where the host cannot reach it by the
 * addresses that it gives out, does work late, and runs kernels by the emulator; the compiler's images say for which
 * module, type and chip they are, and the driver refuses what a real one would.
 *
 * The variable TRI_STAND_IN says what they are like: words with commas between them,
 *
 *   gpus=1 chip=9.0 driver=13000 nvrtc=13.0    what there is
 *   memory=BYTES taken=BYTES                   of a GPU, and what other processes hold of it
 *   late=1                                     0: work is done as it is queued
 *   fail=NAME:N:CODE                           the Nth call of a function returns that code; NAME `work`: the Nth piece
 * of queued work fails. Codes that a GPU does not recover from stay. nvrtc_fails=CODE compiling does
 */
#ifndef TRI_TESTS_GPU_STAND_IN_H
#define TRI_TESTS_GPU_STAND_IN_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STAND_IN_EXPORT __attribute__((visibility("default")))

/* The text behind "NAME=" in the variable, or NULL. */
static inline const char *stand_in_word(const char *name) {
  const char *at = getenv("TRI_STAND_IN");
  size_t length = strlen(name);
  while (at != NULL && *at != '\0') {
    if (strncmp(at, name, length) == 0 && at[length] == '=') return at + length + 1;
    at = strchr(at, ',');
    if (at != NULL) at++;
  }
  return NULL;
}

static inline long long stand_in_number(const char *name, long long otherwise) {
  const char *word = stand_in_word(name);
  return word == NULL ? otherwise : strtoll(word, NULL, 10);
}

/* "13.0" as 130. */
static inline int stand_in_version(const char *name, int otherwise) {
  int major = 0, minor = 0;
  const char *word = stand_in_word(name);
  return word != NULL && sscanf(word, "%d.%d", &major, &minor) == 2 ? major * 10 + minor : otherwise;
}

/* An image: a line of text. `made`: version of the compiler; `binary`: for one chip, else for that chip and later ones.
 * */
typedef struct stand_in_image {
  char module[32];
  int bits, chip, binary, made;
} stand_in_image;

#define STAND_IN_IMAGE "stand-in image: module %s, bits %d, chip %d, binary %d, made by %d\n"
#define STAND_IN_IMAGE_READ "stand-in image: module %31[a-z], bits %d, chip %d, binary %d, made by %d"

/* The headers that the text includes are there by name, and theirs. */
static inline bool stand_in_headers(const char *text, int num_headers, const char *const *texts,
                                    const char *const *names, int depth) {
  for (const char *at = text; (at = strstr(at, "\n#include ")) != NULL;) {
    char name[128];
    int found = -1;
    at += strlen("\n#include ");
    if (sscanf(at + 1, "%127[^\">]", name) != 1) return false;
    if (strcmp(name, "device/gpu/kernels/primitives_host.h") == 0) continue; /* behind an #if */
    static const char of_host[] = "\n#if !defined(TRI_ON_GPU)\n#include ";
    const size_t before = sizeof of_host - 1;
    if ((size_t)(at - text) >= before && strncmp(at - before, of_host, before) == 0) continue;
    for (int i = 0; i < num_headers; i++) {
      if (strcmp(names[i], name) == 0) found = i;
    }
    if (found < 0) return false;
    if (depth < 8 && !stand_in_headers(texts[found], num_headers, texts, names, depth + 1)) return false;
  }
  return true;
}

#endif
