/* The runner's struct, and its calls on one tensor rank; for runner*.c only. */
#ifndef TRI_GENERATION_RUNNER_INTERNAL_H
#define TRI_GENERATION_RUNNER_INTERNAL_H

#include "generation/runner.h"

struct tri_runner {
  tri_model model;
  tri_device *device;
  tri_dtype precision;
  tri_runner_sizes sizes;
  tri_mesh_position position; /* coordinates of this rank among the tensor ranks */
  const tri_group *tensor;    /* group of the tensor ranks; NULL: one tensor rank, or a runner for tri_runner_plan */
  int64_t first_id, own_ids;  /* this rank's slice of the vocabulary: ids [first_id, first_id + own_ids) */
  int64_t pages_each;         /* largest number of pages of a sequence */
  tri_parameter_table *table;
  tri_op_list *list;
  tri_weights *weights;
  tri_executor *executor;
  tri_kv_cache cache;
  void *cache_memory; /* allocation of the pages; NULL: in lent memory */
  size_t cache_bytes;
  tri_device_event uploaded; /* marks the end of the copy of the batch to the device */
  int64_t version;           /* version of the weights that the runs read; -1 before the first tri_runner_publish */
  void *logits;              /* [logit_rows, vocab_size] in host memory; NULL: the host reads device memory */
  void *queries, *device_queries; /* queries of a run and their answers, in host memory and in device memory; same
                                     layout (runner.c) */
  const void *made;               /* logits of the last run, [logit rows of the run, own_ids], in device memory */
  char *exchanged; /* [tri_runner_exchanged_bytes], values that the tensor ranks exchange, in host memory; NULL: one
                      tensor rank */

  /* The run in preparation. */
  tri_batch host;          /* the batch in host memory */
  int64_t rows, sequences; /* numbers of rows and sequences added so far */
  char *sent; /* [sent_bytes], on the first of several tensor ranks: the rows of the run; on the others: the data of the
                 last call received */
  size_t sent_bytes, sent_room;
};

/* Returns the number of pages of a sequence with this number of positions. */
static inline int64_t tri_runner_pages_of(int64_t positions) { return (positions + TRI_PAGE_ROWS - 1) / TRI_PAGE_ROWS; }

/* Returns the number of tensor ranks. */
static inline int tri_runner_ranks(const tri_runner *runner) { return runner->position.shape.size[TRI_AXIS_TENSOR]; }

/* Returns the largest number of queries about a run. */
static inline int64_t tri_runner_most_queries(const tri_runner *runner) {
  return TRI_ROW_QUERIES * runner->sizes.logit_rows;
}

/* A rank's answer to a query, about its slice of the vocabulary. */
typedef struct tri_slice_answer {
  int64_t id; /* index in the slice; -1: a logit of the slice is not finite */
  double numbers[TRI_LOGIT_NUMBERS];
} tri_slice_answer;

/* Returns the bytes of one row of logits in the largest slice. */
static inline size_t tri_runner_slice_bytes(const tri_runner *runner) {
  const int64_t most_ids = (runner->model.vocab_size - 1) / tri_runner_ranks(runner) + 1;
  return (size_t)most_ids * tri_dtype_bytes(tri_dtype_wide(runner->precision));
}

/* Returns the bytes that a rank exchanges at most: a slice of a row of logits, or its answers to all queries. */
static inline size_t tri_runner_part_bytes(const tri_runner *runner) {
  const size_t answers = (size_t)tri_runner_most_queries(runner) * sizeof(tri_slice_answer);
  const size_t slice = tri_runner_slice_bytes(runner);
  return answers > slice ? answers : slice;
}

/* Returns the bytes of `exchanged`: this rank's part, then the parts of all tensor ranks. */
static inline size_t tri_runner_exchanged_bytes(const tri_runner *runner) {
  return (size_t)(tri_runner_ranks(runner) + 1) * tri_runner_part_bytes(runner);
}

/* Copies one row of this rank's logits to host memory, [own_ids]. */
tri_status tri_runner_copy_logits(tri_runner *runner, int64_t row, void *out);

/* The calls of this rank alone, without the other tensor ranks. Queries and logits are those of this rank's slice of
 * the vocabulary. */
tri_status tri_runner_publish_own(tri_runner *runner);
tri_status tri_runner_begin_own(tri_runner *runner);
tri_status tri_runner_run_own(tri_runner *runner);
tri_status tri_runner_query_own(tri_runner *runner, const tri_logit_query *queries, int64_t count, const int32_t **ids,
                                const double **numbers);
tri_status tri_runner_logits_own(tri_runner *runner, int64_t first, int64_t count, const void **out);
tri_status tri_runner_copy_page_own(tri_runner *runner, int32_t from, int32_t to);

#endif
