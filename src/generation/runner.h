/* A model's operations without a backward on any rows of any sequences, with a cache of keys and values in pages: what
 * writing text is made of (generator.h). Whose pages are whose the caller knows.
 *
 * The logits of a row are a function of the weights, and of the tokens of its sequence up to it: not of the other rows
 * of the run, of the runs in which the tokens before it were read, nor of the pages. That holds to the bit on devices
 * whose products and attention promise it (tri_matmul.generating, attention_pages: `cpu` and `reference`). */
#ifndef TRI_GENERATION_RUNNER_H
#define TRI_GENERATION_RUNNER_H

#include "device/device.h"
#include "device/logit_query.h"
#include "engine/executor.h"
#include "model/model.h"
#include "model/parameters.h"

typedef struct tri_runner tri_runner;

typedef struct tri_runner_sizes {
  int64_t sequences;  /* in a run, at most */
  int64_t positions;  /* of a sequence, at most */
  int64_t rows;       /* of a run, at most, */
  int64_t logit_rows; /* and those that have logits */
  int64_t pages;      /* of the cache, of TRI_PAGE_ROWS positions each */
  int64_t prompt;     /* tokens that a sequence begins with: rotary positions may go by that (tri_rope_table) */
} tri_runner_sizes;

/* With room for that many sequences of that many positions, in runs of usual size. */
tri_runner_sizes tri_runner_sizes_for(int64_t sequences, int64_t positions);

/* Parameters are zero until they are written into tri_runner_executor's values. Release with tri_runner_destroy. */
tri_status tri_runner_create(const tri_model *model, tri_dtype precision, const tri_runner_sizes *sizes,
                             tri_device *device, tri_runner **out);
void tri_runner_destroy(tri_runner *runner);

/* The memory that tri_runner_create takes of a device that has its queue already, without taking it; of device memory,
 * what the pages take. */
typedef struct tri_runner_need {
  size_t device_bytes, host_bytes, cache_bytes;
} tri_runner_need;
tri_status tri_runner_plan(const tri_model *model, tri_dtype precision, const tri_runner_sizes *sizes,
                           const tri_device *device, tri_runner_need *out);
/* Tokens that any layer sees at most, its own included; 0: all of them. */
int64_t tri_runner_window(const tri_model *model);
/* Of a page, in all layers. */
size_t tri_runner_page_bytes(const tri_model *model, tri_dtype precision);

const tri_runner_sizes *tri_runner_sizes_of(const tri_runner *runner);
/* Threads that share out what the host does of a step. */
int tri_runner_threads(const tri_runner *runner);
tri_executor *tri_runner_executor(tri_runner *runner);
const tri_parameter_table *tri_runner_parameters(const tri_runner *runner);

/* Rows of a sequence: tokens at the positions from `first` on. */
typedef struct tri_runner_rows {
  const int32_t *ids; /* [count] */
  int64_t first, count;
  const int32_t *pages; /* of all positions up to these rows' */
  int64_t logits;       /* how many of the last rows have logits */
} tri_runner_rows;

/* A run: begun, given rows of each sequence at most once, in turn, and run. The logits of the rows that have any stay
 * on the device until the next run: row i of them is the i-th that has. */
tri_status tri_runner_begin(tri_runner *runner);
tri_status tri_runner_add(tri_runner *runner, const tri_runner_rows *rows);
tri_status tri_runner_run(tri_runner *runner);

/* Asks `count` <= logit_rows queries of the run's logits: ids [count] and numbers [count, TRI_LOGIT_NUMBERS], in host
 * memory that is valid until the next query. */
tri_status tri_runner_query(tri_runner *runner, const tri_logit_query *queries, int64_t count, const int32_t **ids,
                            const double **numbers);
/* Rows [first, first + count) of the run's logits, [count, vocab_size], of tri_dtype_wide, in host memory that is valid
 * until the next run: a copy of them, where the device's memory is its own. */
tri_status tri_runner_logits(tri_runner *runner, int64_t first, int64_t count, const void **out);

/* The page `to` gets what `from` holds, in all layers. */
tri_status tri_runner_copy_page(tri_runner *runner, int32_t from, int32_t to);

#endif
