/* attention_tool DEVICE fp32|bf16|fp64 HEADS KV_HEADS HEAD_DIM SCALE CAP WINDOW LENGTH...
 *
 * Causal attention of documents of these lengths, one behind the other, with a window of that many keys (0: all).
 * Doubles on standard input: rows of q, k and v of all heads side by side, then the gradient of out. Doubles on
 * standard output: out, the log of the sums of exponentials [heads, rows], the gradients of q, k and v. */
#include "base/memory.h"
#include "device/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DOCUMENTS = 16, FIRST_LENGTH = 9 };
typedef enum array { ROWS, GRADIENT_OUT, OUT, LOG_SUM_EXP, GRADIENTS, SLICES, WORKSPACE, ARRAYS } array;

typedef struct problem {
  tri_device *device;
  tri_attention call;
  tri_attention_slice slices[MOST_DOCUMENTS];
  int64_t count[ARRAYS]; /* number of elements; bytes for the last two arrays */
  tri_dtype types[ARRAYS];
  char *there[ARRAYS];
} problem;

static size_t bytes_of(const problem *p, array a) {
  return (size_t)p->count[a] * (a >= SLICES ? 1 : tri_dtype_bytes(p->types[a]));
}

static tri_dtype type_of(const char *name) {
  static const tri_dtype types[] = {TRI_FP32, TRI_BF16};
  for (int t = 0; t < 2; t++)
    if (strcmp(tri_dtype_name(types[t]), name) == 0) return types[t];
  return TRI_FP64;
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* Writes element i. `value` must be representable in the type. */
static void put(tri_dtype type, void *to, int64_t i, double value) {
  const float narrow = (float)value;
  uint32_t bits;
  memcpy(&bits, &narrow, sizeof bits);
  if (type == TRI_FP64) ((double *)to)[i] = value;
  if (type == TRI_FP32) ((float *)to)[i] = narrow;
  if (type == TRI_BF16) ((uint16_t *)to)[i] = (uint16_t)(bits >> 16);
}

static double get(tri_dtype type, const void *from, int64_t i) {
  if (type == TRI_FP64) return ((const double *)from)[i];
  if (type == TRI_FP32) return (double)((const float *)from)[i];
  const uint32_t bits = (uint32_t)((const uint16_t *)from)[i] << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return (double)value;
}

static tri_status read_array(const problem *p, array a) {
  char *values = NULL;
  double value = 0;
  TRI_TRY(tri_alloc("numbers", bytes_of(p, a), 1, &values));
  for (int64_t i = 0; i < p->count[a]; i++) {
    if (fread(&value, sizeof value, 1, stdin) != 1) value = 0;
    put(p->types[a], values, i, value);
  }
  tri_status status = tri_queue_upload_now(p->device->queue, p->there[a], values, bytes_of(p, a));
  tri_free(values);
  return status;
}

static tri_status write_array(const problem *p, array a) {
  char *values = NULL;
  TRI_TRY(tri_alloc("numbers", bytes_of(p, a), 1, &values));
  tri_status status = tri_queue_download_now(p->device->queue, values, p->there[a], bytes_of(p, a));
  for (int64_t i = 0; i < p->count[a] && status == TRI_OK; i++) {
    const double value = get(p->types[a], values, i);
    fwrite(&value, sizeof value, 1, stdout);
  }
  tri_free(values);
  return status;
}

/* ---- the problem ------------------------------------------------------------------------------------------------- */

static void lay_out(problem *p) {
  tri_attention *c = &p->call;
  c->out_type = c->gradient_type = c->type;
  c->q_head = c->k_head = c->v_head = c->out_head = c->head_dim;
  c->q_row = c->k_row = c->v_row = (c->heads + 2 * c->kv_heads) * c->head_dim;
  c->out_row = c->heads * c->head_dim;
  c->key_rows = c->query_rows;
  p->count[ROWS] = p->count[GRADIENTS] = c->query_rows * c->q_row;
  p->count[OUT] = p->count[GRADIENT_OUT] = c->query_rows * c->out_row;
  p->count[LOG_SUM_EXP] = c->query_rows * c->heads;
  p->count[SLICES] = c->num_slices * (int64_t)sizeof p->slices[0];
  for (int a = 0; a < ARRAYS; a++) p->types[a] = a == LOG_SUM_EXP ? tri_dtype_wide(c->type) : c->type;
}

static void read_words(problem *p, int argc, char **argv) {
  tri_attention *c = &p->call;
  const int64_t window = strtol(argv[8], NULL, 10);
  c->type = type_of(argv[2]);
  c->heads = strtol(argv[3], NULL, 10);
  c->kv_heads = strtol(argv[4], NULL, 10);
  c->head_dim = strtol(argv[5], NULL, 10);
  c->scale = strtod(argv[6], NULL);
  c->soft_cap = strtod(argv[7], NULL);
  for (int i = FIRST_LENGTH; i < argc && c->num_slices < MOST_DOCUMENTS; i++) {
    const int64_t first = c->query_rows, length = strtol(argv[i], NULL, 10);
    p->slices[c->num_slices++] = tri_slice_window(first, length, first, length, window > 0 ? window : length);
    c->query_rows += length;
    if (length > c->most_queries) c->most_queries = c->most_keys = length;
  }
  lay_out(p);
}

static char *part_of(const problem *p, array a, int64_t heads) {
  return p->there[a] + (size_t)(heads * p->call.head_dim) * tri_dtype_bytes(p->types[a]);
}

static tri_status run(const problem *p) {
  const tri_attention *c = &p->call;
  const tri_attention_slice *slices = (const tri_attention_slice *)(const void *)p->there[SLICES];
  tri_queue *queue = p->device->queue;
  char *k = part_of(p, ROWS, c->heads), *v = part_of(p, ROWS, c->heads + c->kv_heads);
  TRI_TRY(tri_queue_upload_now(queue, p->there[SLICES], p->slices, bytes_of(p, SLICES)));
  TRI_TRY(read_array(p, ROWS));
  TRI_TRY(read_array(p, GRADIENT_OUT));
  TRI_KERNEL_CALL(queue, attention_forward, c, slices, p->there[ROWS], k, v, p->there[OUT], p->there[LOG_SUM_EXP],
                  p->there[WORKSPACE]);
  TRI_KERNEL_CALL(queue, attention_backward, c, slices, p->there[ROWS], k, v, p->there[OUT], p->there[LOG_SUM_EXP],
                  p->there[GRADIENT_OUT], p->there[GRADIENTS], part_of(p, GRADIENTS, c->heads),
                  part_of(p, GRADIENTS, c->heads + c->kv_heads), p->there[WORKSPACE]);
  TRI_TRY(write_array(p, OUT));
  TRI_TRY(write_array(p, LOG_SUM_EXP));
  return write_array(p, GRADIENTS);
}

static tri_status run_on(problem *p) {
  size_t workspace = 0;
  int made = 0;
  TRI_TRY(p->device->description.attention_workspace(&p->device->description, &p->call, &workspace));
  p->count[WORKSPACE] = (int64_t)workspace;
  tri_status status = TRI_OK;
  for (; made < ARRAYS && status == TRI_OK; made++) {
    void *memory = NULL;
    status = tri_device_memory_create(p->device, bytes_of(p, (array)made), &memory);
    if (status != TRI_OK) break;
    p->there[made] = memory;
  }
  if (status == TRI_OK) status = run(p);
  while (made-- > 0) tri_device_memory_destroy(p->device, p->there[made], bytes_of(p, (array)made));
  return status;
}

int main(int argc, char **argv) {
  static problem p;
  if (argc <= FIRST_LENGTH) return 2;
  tri_status status = tri_device_create(argv[1], 2, &p.device);
  if (status == TRI_OK) {
    read_words(&p, argc, argv);
    status = run_on(&p);
    tri_device_destroy(p.device);
  }
  if (status != TRI_OK) fprintf(stderr, "attention_tool: %s\n", tri_status_message());
  return tri_status_exit(status);
}
