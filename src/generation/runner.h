/* Runs a model forward on rows of any sequences, with a paged cache of keys and values: the engine of text generation
 * (generator.h). A row is one token of a sequence. The caller knows which pages belong to which sequence.
 *
 * The logits of a row depend only on the weights and on the tokens of its sequence, up to the row's own. They do not
 * depend on the other rows of the run, on how earlier tokens were divided among runs, or on the pages. That holds to
 * the bit on devices whose GEMMs (tri_matmul.generating) and attention (attention_pages) promise it: `cpu` and
 * `reference`. */
#ifndef TRI_GENERATION_RUNNER_H
#define TRI_GENERATION_RUNNER_H

#include "comm/mesh.h"
#include "device/device.h"
#include "device/logit_query.h"
#include "engine/executor.h"
#include "model/model.h"
#include "model/parameters.h"
#include "weights/move.h"

typedef struct tri_runner tri_runner;

/* With a mesh of several tensor ranks, each rank has a runner with a slice of the weights and with the keys and values
 * of its heads. The first rank makes the runs; the others call tri_runner_follow, and so join in each call that is
 * COLLECTIVE. The logits of a row then also depend, in their last bits, on the number of tensor ranks. */

/* Sizes that a runner is created for. */
typedef struct tri_runner_sizes {
  int64_t sequences;  /* largest number of sequences in a run */
  int64_t positions;  /* largest number of positions of a sequence */
  int64_t rows;       /* largest number of rows in a run */
  int64_t logit_rows; /* largest number of rows with logits in a run */
  int64_t pages;      /* pages of the cache, of TRI_PAGE_ROWS positions each */
  int64_t prompt; /* tokens of the longest prompt; rotary embeddings may depend on it (tri_rope_table.prefill_tokens) */
} tri_runner_sizes;

/* Returns sizes for `sequences` sequences of `positions` positions each, with the usual number of rows in a run. */
tri_runner_sizes tri_runner_sizes_for(int64_t sequences, int64_t positions);

/* Returns the shape of a mesh of `tensor` ranks. Each expert is split over them, as the dense matrices are, if `tensor`
 * divides its width (expert_ffn_size); otherwise each rank has all experts unsplit. */
tri_mesh_shape tri_runner_shape(const tri_model *model, int64_t tensor);

/* Creates a runner. If the model has an adapter (model->tuning), its factors are kept apart from the frozen matrices,
 * as in training; dropout is not applied. Without an adapter, all weights are frozen, even if the model's settings say
 * that some are trained. `shared`: weights of the same model that the runner reads in place (tri_runner_can_share);
 * NULL: the runner has weights of its own, which are zero until they are written through tri_runner_executor. `mesh`:
 * the tensor ranks, which must outlive the runner; NULL: this rank alone. `lent`: memory for activations, packed
 * weights and pages, at least scratch_bytes of tri_runner_plan; {NULL}: the runner allocates it. After each use of lent
 * memory by its owner, call tri_runner_publish. Fails with TRI_BAD_USAGE if the positions of all sequences, or of all
 * pages, exceed INT32_MAX. Release with tri_runner_destroy. */
tri_status tri_runner_create(const tri_model *model, tri_dtype precision, const tri_runner_sizes *sizes,
                             const tri_weights *shared, const tri_mesh *mesh, tri_lent_memory lent, tri_device *device,
                             tri_runner **out);
void tri_runner_destroy(tri_runner *runner);

/* Bytes that tri_runner_create allocates, without the device's own queue. device_bytes includes cache_bytes, the bytes
 * of the pages. tri_runner_plan computes them and allocates nothing on the device. `shares`: whether the runner reads
 * `shared` weights (tri_runner_create). `tensor`: number of tensor ranks; the bytes are those of the first tensor rank,
 * which needs the most. */
typedef struct tri_runner_need {
  size_t device_bytes, host_bytes, cache_bytes;
  size_t scratch_bytes; /* part of device_bytes that may be lent memory; includes cache_bytes */
  bool shares;
} tri_runner_need;
tri_status tri_runner_plan(const tri_model *model, tri_dtype precision, const tri_runner_sizes *sizes, bool shares,
                           int64_t tensor, const tri_device *device, tri_runner_need *out);
/* Sets *out to whether a runner of the model can read these weights in place. The weights need not have memory yet. */
tri_status tri_runner_can_share(const tri_model *model, tri_dtype precision, const tri_weights *weights, bool *out);
/* Returns the largest number of tokens that any layer attends to, the row's own token included; 0: all of them. */
int64_t tri_runner_window(const tri_model *model);
/* Returns the bytes of one page on a rank: keys and values of all layers. */
size_t tri_runner_page_bytes(const tri_model *model, tri_dtype precision, int64_t tensor);

const tri_runner_sizes *tri_runner_sizes_of(const tri_runner *runner);
/* Returns the number of threads for the host's part of a step. */
int tri_runner_threads(const tri_runner *runner);
tri_executor *tri_runner_executor(tri_runner *runner);
const tri_parameter_table *tri_runner_parameters(const tri_runner *runner);
/* Returns the weights of the runner as the target of a move. */
tri_weights_target tri_runner_target(tri_runner *runner);

/* COLLECTIVE over the tensor ranks, called by the first. Packs the weights again after they have changed. Later runs
 * use the new weights, and must not use keys and values of earlier runs. The first run calls this itself. A run fails
 * if the weights have changed since the last call. */
tri_status tri_runner_publish(tri_runner *runner);
/* Returns the version of the weights that the runs use (tri_weights_version); -1 before the first run or
 * tri_runner_publish. */
int64_t tri_runner_version(const tri_runner *runner);

/* Rows of one sequence: tokens at positions from `first` on. */
typedef struct tri_runner_rows {
  const int32_t *ids; /* [count] */
  int64_t first, count;
  const int32_t *pages; /* [(first + count) / TRI_PAGE_ROWS, rounded up], pages of all positions up to the last row */
  int64_t logits;       /* number of rows, counted from the last, that have logits */
} tri_runner_rows;

/* Joins in the calls of the first tensor rank until it calls tri_runner_dismiss. Sleeps while there is no call. */
tri_status tri_runner_follow(tri_runner *runner);
/* On the first tensor rank: lets the others return from tri_runner_follow. They may follow again later. */
tri_status tri_runner_dismiss(tri_runner *runner);

/* A run: tri_runner_begin, then tri_runner_add at most once for each sequence, then tri_runner_run. The logits remain
 * on the device until the next run; logit row i belongs to the i-th row that has logits. */
tri_status tri_runner_begin(tri_runner *runner);
tri_status tri_runner_add(tri_runner *runner, const tri_runner_rows *rows);
tri_status tri_runner_run(tri_runner *runner); /* COLLECTIVE over the tensor ranks, as are the functions below */

enum { TRI_ROW_QUERIES = 2 };

/* Answers `count` <= TRI_ROW_QUERIES * logit_rows queries about the run's logits: ids [count] and numbers [count,
 * TRI_LOGIT_NUMBERS], in host memory that is valid until the next query. id -1: the row's logits are not finite. */
tri_status tri_runner_query(tri_runner *runner, const tri_logit_query *queries, int64_t count, const int32_t **ids,
                            const double **numbers);
/* Returns logit rows [first, first + count) of the run, [count, vocab_size] of tri_dtype_wide, in host memory that is
 * valid until the next run. The logits are copied only if the host cannot access device memory, or if there are several
 * tensor ranks, whose slices are joined. */
tri_status tri_runner_logits(tri_runner *runner, int64_t first, int64_t count, const void **out);

/* Copies page `from` to page `to`, in all layers. */
tri_status tri_runner_copy_page(tri_runner *runner, int32_t from, int32_t to);

#endif
