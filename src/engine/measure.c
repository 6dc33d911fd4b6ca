#include "engine/measure.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/system.h"
#include "comm/agreement.h"
#include "engine/peak.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Everything is done `LEAST` times at least and for `each_s` seconds; the median counts. */
enum { LEAST = 5, MOST = 400 };
static const double each_s = 0.15;

typedef struct bench {
  tri_device *device;
  tri_dtype type;
  const tri_group *world;
  char *pool; /* of pool_bytes */
  size_t pool_bytes;
  char *host; /* for messages between ranks */
  int turn;
} bench;

typedef tri_status (*work)(bench *b, const void *what);

static int compare(const void *left, const void *right) {
  double a = *(const double *)left, b = *(const double *)right;
  return (a > b) - (a < b);
}

/* The largest of all ranks'. */
static tri_status slowest(const bench *b, double *seconds) { return tri_all_maximum(b->world, TRI_FP64, 1, seconds); }

static tri_status do_it(bench *b, work todo, const void *what) {
  TRI_TRY(todo(b, what));
  return tri_queue_finish(b->device->queue);
}

/* The ranks agree on how often, so that what they do together stays together. */
static tri_status time_of(bench *b, work todo, const void *what, double *out) {
  double times[MOST], once = 0;
  TRI_TRY(do_it(b, todo, what)); /* compiles, touches memory */
  TRI_TRY(tri_barrier(b->world));
  double begin_s = tri_clock_s();
  TRI_TRY(do_it(b, todo, what));
  once = tri_clock_s() - begin_s;
  TRI_TRY(slowest(b, &once));
  double often = once > 0 ? each_s / once : MOST;
  int64_t count = often < LEAST ? LEAST : often > MOST ? MOST : (int64_t)often;
  for (int64_t i = 0; i < count; i++) {
    begin_s = tri_clock_s();
    TRI_TRY(do_it(b, todo, what));
    times[i] = tri_clock_s() - begin_s;
  }
  qsort(times, (size_t)count, sizeof *times, compare);
  *out = times[count / 2];
  return slowest(b, out);
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

/* Several sets of operands, taken in turn: in a step they come from memory, too. */
enum { MOST_SETS = 16 };
typedef struct product {
  tri_matmul matmul;
  void *a[MOST_SETS], *b[MOST_SETS], *c[MOST_SETS], *workspace;
  int sets;
} product;

static tri_status multiply(bench *b, const void *what) {
  const product *p = what;
  int i = b->turn++ % p->sets;
  return b->device->kernels->matmul(b->device->queue, &p->matmul, p->a[i], p->b[i], NULL, p->c[i], p->workspace);
}

static char *take(char **next, size_t bytes) {
  char *at = *next;
  *next += (bytes + 4095) / 4096 * 4096;
  return at;
}

/* The weights packed where the device likes that, as a step has them. */
static tri_status add_set(bench *b, const tri_measured_product *of, product *p, size_t packed, char **next) {
  const tri_device_kernels *k = b->device->kernels;
  size_t element = tri_dtype_bytes(b->type);
  int i = p->sets;
  p->a[i] = take(next, (size_t)(of->rows * of->inner) * element);
  p->b[i] = take(next, (size_t)(of->inner * of->columns) * element);
  p->c[i] = take(next, (size_t)(of->rows * of->columns) * element);
  if (packed > 0) {
    void *plain = p->b[i];
    p->b[i] = take(next, packed);
    if (*next <= b->pool + b->pool_bytes)
      TRI_TRY(k->matmul_pack(b->device->queue, &p->matmul, b->type, plain, p->b[i]));
  }
  if (*next <= b->pool + b->pool_bytes) p->sets++;
  return TRI_OK;
}

static tri_status time_product(bench *b, tri_measured_product *of) {
  size_t packed = 0, scratch = 0;
  char *next = b->pool;
  product p = {.matmul = {.m = of->rows,
                          .n = of->columns,
                          .k = of->inner,
                          .lda = of->inner,
                          .ldb = of->columns,
                          .ldc = of->columns,
                          .a_type = b->type,
                          .b_type = b->type,
                          .c_type = b->type}};
  TRI_TRY(b->device->description.matmul_packed(&b->device->description, &p.matmul, &packed));
  tri_matmul plain = p.matmul;
  plain.b_packed = packed > 0;
  TRI_TRY(b->device->description.matmul_workspace(&b->device->description, &plain, &scratch));
  p.workspace = take(&next, scratch);
  for (int i = 0; i < MOST_SETS && next <= b->pool + b->pool_bytes; i++) TRI_TRY(add_set(b, of, &p, packed, &next));
  if (p.sets == 0) return tri_fail(TRI_INTERNAL, "a measurement is larger than its memory");
  p.matmul.b_packed = packed > 0;
  return time_of(b, multiply, &p, &of->seconds);
}

static tri_status measure_products(bench *b, tri_measurements *out) {
  static const int64_t shapes[][3] = {{1024, 768, 768},  {1024, 768, 2304}, {1024, 768, 3072},  {1024, 3072, 768},
                                      {256, 768, 768},   {256, 768, 3072},  {64, 768, 3072},    {768, 1024, 3072},
                                      {512, 512, 512},   {128, 128, 128},   {2048, 1024, 1024}, {512, 768, 12288},
                                      {1024, 384, 1536}, {1024, 1536, 384}, {2048, 2048, 2048}, {256, 256, 1024}};
  out->num_products = (int64_t)(sizeof shapes / sizeof shapes[0]);
  for (int64_t i = 0; i < out->num_products; i++) {
    out->products[i] = (tri_measured_product){shapes[i][0], shapes[i][1], shapes[i][2], 0};
    TRI_TRY(time_product(b, &out->products[i]));
  }
  return TRI_OK;
}

/* ---- memory and elements ----------------------------------------------------------------------------------------- */

enum { LONG = 32 << 20, SHORT = 32 << 10 };

static tri_status add_long(bench *b, const void *what) {
  (void)what;
  size_t bytes = (size_t)LONG * tri_dtype_bytes(b->type);
  return b->device->kernels->add(b->device->queue, b->type, tri_all_rows(1), LONG, b->pool, b->pool + bytes,
                                 b->pool + 2 * bytes);
}

static tri_status gelu_short(bench *b, const void *what) {
  (void)what;
  size_t bytes = SHORT * tri_dtype_bytes(b->type);
  return b->device->kernels->gelu_forward(b->device->queue, b->type, TRI_GELU_TANH, tri_all_rows(1), SHORT, b->pool,
                                          b->pool + bytes);
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

typedef struct heads {
  tri_attention call;
  tri_attention_slice *slices;
  char *qkv, *out, *sums, *gradient, *gradient_qkv, *workspace;
} heads;

static tri_status attend(bench *b, const void *what) {
  const heads *h = what;
  const tri_device_kernels *k = b->device->kernels;
  size_t width = (size_t)(h->call.heads * h->call.head_dim) * tri_dtype_bytes(b->type);
  TRI_TRY(k->attention_forward(b->device->queue, &h->call, h->slices, h->qkv, h->qkv + width, h->qkv + 2 * width,
                               h->out, h->sums, h->workspace));
  return k->attention_backward(b->device->queue, &h->call, h->slices, h->qkv, h->qkv + width, h->qkv + 2 * width,
                               h->out, h->sums, h->gradient, h->gradient_qkv, h->gradient_qkv + width,
                               h->gradient_qkv + 2 * width, h->workspace);
}

static tri_status measure_attention(bench *b, tri_measurements *out) {
  enum { HEADS = 12, DIM = 64, POSITIONS = 512, BATCH = 2 };
  size_t element = tri_dtype_bytes(b->type), wide = tri_dtype_bytes(tri_dtype_wide(b->type)), scratch = 0;
  size_t rows = (size_t)BATCH * POSITIONS, width = (size_t)HEADS * DIM;
  char *next = b->pool;
  int64_t stride = 3 * HEADS * DIM;
  heads h = {.call = {.type = b->type,
                      .out_type = b->type,
                      .gradient_type = b->type,
                      .heads = HEADS,
                      .kv_heads = HEADS,
                      .head_dim = DIM,
                      .scale = 0.125,
                      .query_rows = BATCH * POSITIONS,
                      .key_rows = BATCH * POSITIONS,
                      .q_row = stride,
                      .q_head = DIM,
                      .k_row = stride,
                      .k_head = DIM,
                      .v_row = stride,
                      .v_head = DIM,
                      .out_row = HEADS * DIM,
                      .out_head = DIM,
                      .num_slices = BATCH,
                      .most_queries = POSITIONS,
                      .most_keys = POSITIONS}};
  tri_attention_slice slices[BATCH];
  for (int i = 0; i < BATCH; i++) {
    slices[i] = (tri_attention_slice){i * POSITIONS, POSITIONS, i * POSITIONS, POSITIONS, 1};
  }
  h.qkv = take(&next, rows * 3 * width * element);
  h.gradient_qkv = take(&next, rows * 3 * width * element);
  h.out = take(&next, rows * width * element);
  h.gradient = take(&next, rows * width * element);
  h.sums = take(&next, rows * HEADS * wide);
  h.slices = (tri_attention_slice *)(void *)take(&next, sizeof slices);
  TRI_TRY(b->device->description.attention_workspace(&b->device->description, &h.call, &scratch));
  h.workspace = take(&next, scratch);
  if ((size_t)(next - b->pool) > b->pool_bytes)
    return tri_fail(TRI_INTERNAL, "a measurement is larger than its memory");
  TRI_TRY(tri_queue_upload_now(b->device->queue, h.slices, slices, sizeof slices));
  double seconds = 0, pairs = (double)rows * (POSITIONS + 1) / 2;
  TRI_TRY(time_of(b, attend, &h, &seconds));
  seconds -= 2 * 8 * pairs * HEADS / out->vector_flops; /* what ops/attention.c counts for the softmax */
  if (seconds < 1e-9) seconds = 1e-9;
  out->attention_flops = (2 + 5) * 2 * pairs * (double)width / seconds;
  return TRI_OK;
}

/* ---- links ------------------------------------------------------------------------------------------------------- */

static tri_status reduce(bench *b, const void *what) {
  const tri_measured_transfer *of = what;
  return tri_all_reduce(b->world, TRI_FP32, (int64_t)(of->bytes / sizeof(float)), b->host);
}

/* Every rank sends to the next and receives from the one before. */
static tri_status pass_on(bench *b, const void *what) {
  const tri_measured_transfer *of = what;
  const tri_group *world = b->world;
  tri_request *sends = NULL, *receives = NULL;
  int next = (world->rank + 1) % world->size, before = (world->rank + world->size - 1) % world->size;
  TRI_TRY(tri_receive_start(world, before, 7, (size_t)of->bytes, b->host + (size_t)of->bytes, &receives));
  TRI_TRY(tri_send_start(world, next, 7, (size_t)of->bytes, b->host, &sends));
  TRI_TRY(tri_request_wait(&receives));
  return tri_request_wait(&sends);
}

enum { MOST_MESSAGE_BYTES = 16777216 };

static tri_status measure_messages(bench *b, tri_measurements *out) {
  static const double sizes[] = {64, 8192, 65536, 524288, 2097152, 8388608, MOST_MESSAGE_BYTES};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    out->reduces[i].bytes = out->messages[i].bytes = sizes[i];
    TRI_TRY(time_of(b, reduce, &out->reduces[i], &out->reduces[i].seconds));
    TRI_TRY(time_of(b, pass_on, &out->messages[i], &out->messages[i].seconds));
    out->num_reduces = out->num_messages = (int64_t)i + 1;
  }
  return TRI_OK;
}

/* Between hosts: from host memory, as what is staged is. */
static tri_status measure_links(bench *b, tri_measurements *out) {
  void *host = NULL;
  if (b->world->size == 1) return TRI_OK;
  tri_status status = tri_device_host_create(b->device, 2 * (size_t)MOST_MESSAGE_BYTES, &host);
  b->host = host;
  status = tri_common_status(b->world, status);
  if (status == TRI_OK) status = measure_messages(b, out);
  tri_device_host_destroy(b->device, host, 2 * (size_t)MOST_MESSAGE_BYTES);
  return status;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

static tri_status measure_all(bench *b, tri_measurements *out) {
  double seconds = 0;
  TRI_TRY(tri_barrier(b->world));
  TRI_TRY(tri_peak_flops(b->device, b->type, INFINITY, &out->peak_flops));
  TRI_TRY(time_of(b, add_long, NULL, &seconds));
  out->memory_bandwidth = 3.0 * LONG * (double)tri_dtype_bytes(b->type) / seconds;
  TRI_TRY(time_of(b, gelu_short, NULL, &seconds));
  out->vector_flops = 16.0 * SHORT / seconds;
  TRI_TRY(measure_products(b, out));
  TRI_TRY(measure_attention(b, out));
  return measure_links(b, out);
}

/* Random values all over the pool: on zeros a chip draws less power, and some run faster than they will on any data. */
static tri_status fill_pool(bench *b) {
  enum { VALUES = 1 << 18 };
  const tri_random_key key = tri_random_stream(1, TRI_RANDOM_TEST, 0);
  const tri_dtype wide = tri_dtype_wide(b->type);
  const size_t wide_bytes = VALUES * tri_dtype_bytes(wide), bytes = VALUES * tri_dtype_bytes(b->type);
  char *staged = b->pool + bytes;
  tri_queue *queue = b->device->queue;
  void *host = NULL;
  TRI_TRY(tri_alloc("random values", VALUES, tri_dtype_bytes(wide), &host));
  for (int64_t i = 0; i < VALUES; i++) tri_wide_set(wide, host, i, tri_random_normal(key, (uint64_t)i));
  tri_status status = tri_queue_upload_now(queue, staged, host, wide_bytes);
  tri_free(host);
  TRI_TRY(status);
  TRI_TRY(b->device->kernels->convert(queue, VALUES, wide, staged, b->type, b->pool));
  for (size_t at = bytes; at < b->pool_bytes; at *= 2) {
    TRI_TRY(tri_queue_move(queue, b->pool + at, b->pool, at < b->pool_bytes - at ? at : b->pool_bytes - at));
  }
  return tri_queue_finish(queue);
}

tri_status tri_measure(tri_device *device, tri_dtype precision, const tri_group *world, tri_measurements *out) {
  bench b = {.device = device, .type = precision, .world = world, .pool_bytes = (size_t)400 << 20};
  tri_measurements m = {.ranks = world->size, .threads = device->description.threads};
  void *pool = NULL;
  TRI_TRY(tri_device_supports(device, precision));
  tri_status status = tri_device_memory_create(device, b.pool_bytes, &pool);
  status = tri_common_status(world, status);
  b.pool = pool;
  snprintf(m.device, sizeof m.device, "%s", device->info.name);
  snprintf(m.chip, sizeof m.chip, "%s", device->info.chip);
  m.own_memory = !device->info.host_memory;
  m.memory_bytes = device->info.host_memory ? (double)tri_system_memory_of_node() / (double)world->size
                                            : (double)device->info.memory_bytes;
  if (status == TRI_OK) status = fill_pool(&b);
  status = tri_common_status(world, status);
  if (status == TRI_OK) status = measure_all(&b, &m);
  tri_device_memory_destroy(device, pool, b.pool_bytes);
  TRI_TRY(status);
  *out = m;
  return TRI_OK;
}
