/* The runner's struct, and the part of its calls that runs on every tensor rank; for runner*.c only. */
#ifndef TRI_GENERATION_RUNNER_INTERNAL_H
#define TRI_GENERATION_RUNNER_INTERNAL_H

#include "generation/runner.h"

struct tri_runner {
  tri_model model;
  tri_device *device;
  tri_dtype precision;
  tri_runner_sizes sizes;
  tri_mesh_position position; /* of this rank among the tensor ranks */
  const tri_group *tensor;    /* NULL: this rank alone, or only planned */
  int64_t first_id, own_ids;  /* this rank's slice of the vocabulary */
  int64_t pages_each;         /* largest number of pages of a sequence */
  tri_parameter_table *table;
  tri_op_list *list;
  tri_weights *weights;
  tri_executor *executor;
  tri_kv_cache cache;
  void *cache_memory;
  size_t cache_bytes;
  tri_device_event uploaded; /* marks the end of the copy of the batch to the device */
  int64_t version;           /* version of the weights that the runs read; -1 before the first run */
  void *logits;              /* [logit_rows, vocab_size] in host memory; NULL: the host reads device memory */
  void *queries,
      *device_queries; /* [query_bytes], queries of a run and their answers, in host memory and in device memory */
  const void *made;    /* logits of the last run, device memory */
  char *exchanged;     /* [exchanged_bytes], values that the tensor ranks exchange, in host memory; NULL: alone */

  /* The run in preparation. */
  tri_batch host;
  int64_t rows, sequences;
  char *sent; /* [sent_bytes]: with several tensor ranks, the rows of the run, or data of the last call received */
  size_t sent_bytes, sent_room;
};

/* Returns the number of pages of a sequence with this number of positions. */
static inline int64_t tri_runner_pages_of(int64_t positions) { return (positions + TRI_PAGE_ROWS - 1) / TRI_PAGE_ROWS; }

/* Returns the number of tensor ranks. */
static inline int tri_runner_ranks(const tri_runner *runner) { return runner->position.shape.size[TRI_AXIS_TENSOR]; }

/* Returns the bytes of `exchanged` (runner_ranks.c). */
size_t tri_runner_exchanged_bytes(const tri_runner *runner);

/* Adds rows to r->sent (runner_ranks.c). */
tri_status tri_runner_note_rows(tri_runner *runner, const tri_runner_rows *rows);

/* Copies one row of this rank's logits to host memory, [own_ids]. */
tri_status tri_runner_copy_logits(tri_runner *runner, int64_t row, void *out);

/* The part of a call on this rank alone. Queries and logits are those of this rank's slice of the vocabulary. */
tri_status tri_runner_run_own(tri_runner *runner);
tri_status tri_runner_query_own(tri_runner *runner, const tri_logit_query *queries, int64_t count, const int32_t **ids,
                                const double **numbers);
tri_status tri_runner_logits_own(tri_runner *runner, int64_t first, int64_t count, const void **out);
tri_status tri_runner_copy_page_own(tri_runner *runner, int32_t from, int32_t to);

/* The same calls with several tensor ranks, on the first one (runner_ranks.c). */
tri_status tri_runner_run_all(tri_runner *runner);
tri_status tri_runner_query_all(tri_runner *runner, const tri_logit_query *queries, int64_t count, const int32_t **ids,
                                const double **numbers);
tri_status tri_runner_logits_all(tri_runner *runner, int64_t first, int64_t count, const void **out);
tri_status tri_runner_copy_page_all(tri_runner *runner, int32_t from, int32_t to);

#endif
