/* GEMMs and choices as lines of text, for other ranks and for runs that resume. */
#include "device/gpu/gemm.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- words ------------------------------------------------------------------------------------------------------- */

typedef struct word {
  const char *name;
  size_t offset; /* offset of a bool in tri_gpu_gemm */
} word;

static const word words[] = {
    {"a_transposed", offsetof(tri_gpu_gemm, a_transposed)},
    {"b_transposed", offsetof(tri_gpu_gemm, b_transposed)},
    {"accumulate", offsetof(tri_gpu_gemm, accumulate)},
    {"bias", offsetof(tri_gpu_gemm, bias)},
    {"tf32", offsetof(tri_gpu_gemm, tf32)},
};
enum { NUM_WORDS = sizeof words / sizeof words[0], WORDS_BYTES = 64 };

static void print_words(const tri_gpu_gemm *product, char text[WORDS_BYTES]) {
  text[0] = '\0';
  for (int i = 0; i < NUM_WORDS; i++) {
    const size_t used = strlen(text);
    if (!*(const bool *)((const char *)product + words[i].offset)) continue;
    snprintf(text + used, WORDS_BYTES - used, "%s%s", used == 0 ? "" : ",", words[i].name);
  }
  if (text[0] == '\0') memcpy(text, "-", 2);
}

static bool parse_word(const char *text, size_t length, tri_gpu_gemm *product) {
  for (int i = 0; i < NUM_WORDS; i++) {
    if (strlen(words[i].name) != length || strncmp(words[i].name, text, length) != 0) continue;
    *(bool *)((char *)product + words[i].offset) = true;
    return true;
  }
  return false;
}

static bool parse_words(const char *text, tri_gpu_gemm *product) {
  if (strcmp(text, "-") == 0) return true;
  while (*text != '\0') {
    const size_t length = strcspn(text, ",");
    if (!parse_word(text, length, product)) return false;
    text += length + (text[length] == ',');
  }
  return true;
}

static bool parse_type(const char *name, tri_dtype *out) {
  static const tri_dtype all[] = {TRI_FP64, TRI_FP32, TRI_BF16};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    if (strcmp(tri_dtype_name(all[i]), name) != 0) continue;
    *out = all[i];
    return true;
  }
  return false;
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

const char *tri_gpu_gemm_print(const tri_gpu_gemm *p, char text[TRI_GPU_GEMM_TEXT_BYTES]) {
  char printed[WORDS_BYTES];
  print_words(p, printed);
  snprintf(text, TRI_GPU_GEMM_TEXT_BYTES,
           "%s %s %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %s %d", tri_dtype_name(p->in),
           tri_dtype_name(p->out), p->m, p->n, p->k, p->lda, p->ldb, p->ldc, printed, p->alignment);
  return text;
}

/* Returns whether a parsed line, which may come from outside, is valid: sizes are in range, and leading dimensions are
 * not shorter than rows. */
static bool makes_sense(const tri_gpu_gemm *p) {
  const int64_t most = (int64_t)1 << 40;
  const int64_t lengths[] = {p->m, p->n, p->lda, p->ldb, p->ldc};
  for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
    if (lengths[i] < 1 || lengths[i] > most) return false;
  }
  if (p->k < 0 || p->k > most || p->alignment < 1 || p->alignment > 16) return false;
  const double widest = fmax((double)p->lda, fmax((double)p->ldb, (double)p->ldc));
  const double rows = fmax((double)p->m, fmax((double)p->n, (double)p->k));
  if (widest * rows > 0x1p59) return false; /* sizes in bytes are int64_t */
  return p->lda >= (p->a_transposed ? p->m : p->k) && p->ldb >= (p->b_transposed ? p->k : p->n) && p->ldc >= p->n;
}

/* Parses a GEMM; *behind is the rest of the line. Returns false if the GEMM is invalid. */
static bool parse(const char *line, tri_gpu_gemm *out, const char **behind) {
  char in[8], to[8], printed[WORDS_BYTES];
  int used = 0;
  tri_gpu_gemm p = {.alignment = 0};
  if (sscanf(line, "%7s %7s %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %63s %d%n", in, to,
             &p.m, &p.n, &p.k, &p.lda, &p.ldb, &p.ldc, printed, &p.alignment, &used) != 10) {
    return false;
  }
  if (!parse_type(in, &p.in) || !parse_type(to, &p.out) || !parse_words(printed, &p) || !makes_sense(&p)) return false;
  *out = p;
  *behind = line + used;
  return true;
}

bool tri_gpu_gemm_parse(const char *line, tri_gpu_gemm *product) {
  const char *behind = NULL;
  return parse(line, product, &behind) && *behind == '\0';
}

/* ---- choices ----------------------------------------------------------------------------------------------------- */

const char *tri_gpu_gemm_choice_print(const tri_gpu_gemm *product, const tri_gpu_gemm_choice *choice,
                                      char text[TRI_GPU_GEMM_TEXT_BYTES]) {
  size_t bytes = TRI_GPU_ALGORITHM_BYTES;
  const unsigned char *data = choice->algorithm.data;
  while (bytes > 1 && data[bytes - 1] == 0) bytes--;
  size_t used = strlen(tri_gpu_gemm_print(product, text));
  used += (size_t)snprintf(text + used, TRI_GPU_GEMM_TEXT_BYTES - used, " : %s %zu ", choice->maker->name,
                           choice->algorithm.workspace_bytes);
  for (size_t i = 0; i < bytes; i++) {
    used += (size_t)snprintf(text + used, TRI_GPU_GEMM_TEXT_BYTES - used, "%02x", data[i]);
  }
  return text;
}

static bool parse_hex(const char *text, unsigned char out[TRI_GPU_ALGORITHM_BYTES]) {
  const size_t length = strlen(text);
  if (length % 2 != 0 || length > 2 * (size_t)TRI_GPU_ALGORITHM_BYTES) return false;
  if (strspn(text, "0123456789abcdef") != length) return false;
  for (size_t i = 0; i < length / 2; i++) {
    unsigned byte = 0;
    if (sscanf(text + 2 * i, "%2x", &byte) != 1) return false;
    out[i] = (unsigned char)byte;
  }
  return true;
}

/* The line may come from outside, so an algorithm that needs more workspace than its GEMM has is rejected. */
bool tri_gpu_gemm_choice_parse(const char *line, const tri_gpu_gemms *products, tri_gpu_gemm *product,
                               tri_gpu_gemm_choice *choice) {
  char name[32], hex[2 * TRI_GPU_ALGORITHM_BYTES + 1];
  const char *behind = NULL;
  int used = 0;
  tri_gpu_gemm_choice found = {.maker = NULL};
  if (!parse(line, product, &behind)) return false;
  if (sscanf(behind, " : %31s %zu %128s%n", name, &found.algorithm.workspace_bytes, hex, &used) != 3) return false;
  if (behind[used] != '\0' || !parse_hex(hex, found.algorithm.data)) return false;
  if (strcmp(name, tri_gpu_tiled.name) == 0) found.maker = &tri_gpu_tiled;
  if (products->vendor != NULL && strcmp(name, products->vendor->name) == 0) found.maker = products->vendor;
  if (found.maker == NULL || found.algorithm.workspace_bytes > tri_gpu_gemm_workspace(product)) return false;
  *choice = found;
  return true;
}
