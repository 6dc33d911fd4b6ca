/* The columns of a batch. A row here describes a column completely: the structs that hold it, its memory in the plan,
 * and how it is cut, copied and passed to operations follow from the row. A new column needs a row, and a feed that
 * fills it. */
#ifndef TRI_MESH_BATCH_COLUMNS_H
#define TRI_MESH_BATCH_COLUMNS_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Columns of samples: one value for each token of a sequence. A feed fills them for whole sequences (data/feed.h).
 * X(name, type, blank, rows, wanted): `blank` is the value of token i of a sequence that no feed has filled. `rows`: a
 * rank keeps its OWN tokens, or the WHOLE sequences. `wanted`: ALWAYS, or only if the OBJECTIVE needs it
 * (tri_op_list.columns).
 *
 * ids        the token
 * labels     the next token; a negative label does not count (mesh/label.h): after a masked document's last token, for
 *            tokens that the corpus's mask excludes, and in padding
 * positions  position in the sequence, or in the document if documents are masked: a token attends only to its own
 *            document, which begins at the last position 0
 * weights    weight of a label in the cross entropy: 1, or the weight of its source (data/sampler.h)
 * segments   number of the completion to which the token's label belongs, from 0 on; -1: none. With
 *            losses of preferences, completions 2 p and 2 p + 1 are a pair: chosen and rejected (device/preference.h);
 *            without pairs, 2 p is desirable and 2 p + 1 undesirable. A completion's labels are adjacent, and
 *            completions ascend
 *
 * reference   log-probability of the label under the reference model
 *
 * For sampled completions (device/policy.h):
 *
 * advantage   advantage of the label's completion
 * normaliser  factor of the label in the loss of the batch
 * old         log-probability of the label at the first update on its batch
 * behaviour   log-probability of the label when it was sampled */
#define TRI_SAMPLE_COLUMNS(X)                                                                                          \
  X(ids, int32_t, 0, OWN, ALWAYS)                                                                                      \
  X(labels, int32_t, 0, OWN, ALWAYS)                                                                                   \
  X(positions, int32_t, (int32_t)i, OWN, ALWAYS)                                                                       \
  X(weights, float, 1, OWN, ALWAYS)                                                                                    \
  X(segments, int32_t, -1, WHOLE, OBJECTIVE)                                                                           \
  X(reference, double, 0, WHOLE, OBJECTIVE)                                                                            \
  X(advantage, double, 0, WHOLE, OBJECTIVE)                                                                            \
  X(normaliser, double, 0, WHOLE, OBJECTIVE)                                                                           \
  X(old, double, 0, WHOLE, OBJECTIVE)                                                                                  \
  X(behaviour, double, 0, WHOLE, OBJECTIVE)

/* Columns that follow from the cut of a micro-batch over context ranks (made by engine/batch.h). X(name, type, rows):
 * the rows that have a value.
 *
 * global_rows  OWN: index of the row among the rows of all ranks, if several ranks share sequences
 * inner_order  INNER: order of the rows of the ranks that exchange heads
 * outer_order  ALL: order of the gathered keys
 * send_rows    SENT: rank after rank, the rows of keys that each of the outer ranks needs, if documents are masked and
 *              keys are gathered
 *
 * Columns of lists that generate:
 *
 * cache_rows   CACHED: index, among the rows of all pages, at which a row's keys and values are stored
 * logit_rows   LOGITS: rows whose logits are computed
 * pages        PAGES: page of each TRI_PAGE_ROWS positions of each sequence */
#define TRI_CUT_COLUMNS(X)                                                                                             \
  X(global_rows, int32_t, OWN)                                                                                         \
  X(inner_order, int32_t, INNER)                                                                                       \
  X(outer_order, int32_t, ALL)                                                                                         \
  X(send_rows, int32_t, SENT)                                                                                          \
  X(cache_rows, int32_t, CACHED)                                                                                       \
  X(logit_rows, int32_t, LOGITS)                                                                                       \
  X(pages, int32_t, PAGES)

typedef enum tri_cut_rows {
  TRI_CUT_ROWS_OWN,
  TRI_CUT_ROWS_INNER,
  TRI_CUT_ROWS_ALL,
  TRI_CUT_ROWS_SENT,
  TRI_CUT_ROWS_CACHED,
  TRI_CUT_ROWS_LOGITS,
  TRI_CUT_ROWS_PAGES
} tri_cut_rows;

#define TRI_COLUMN_OF_SAMPLE_(NAME, TYPE, BLANK, ROWS, WANTED) TRI_COLUMN_##NAME,
#define TRI_COLUMN_OF_CUT_(NAME, TYPE, ROWS) TRI_COLUMN_##NAME,
typedef enum tri_batch_column {
  TRI_SAMPLE_COLUMNS(TRI_COLUMN_OF_SAMPLE_) TRI_CUT_COLUMNS(TRI_COLUMN_OF_CUT_) TRI_NUM_BATCH_COLUMNS
} tri_batch_column;

/* Sets of sample columns, with one bit for each column; TRI_COLUMNS_ALWAYS: the columns of every sample. */
#define TRI_COLUMN_BIT(NAME) (1u << TRI_COLUMN_##NAME)
#define TRI_COLUMN_IS_ALWAYS_ true
#define TRI_COLUMN_IS_OBJECTIVE_ false
#define TRI_COLUMN_ALWAYS_(NAME, TYPE, BLANK, ROWS, WANTED) | (TRI_COLUMN_IS_##WANTED##_ ? TRI_COLUMN_BIT(NAME) : 0u)
enum { TRI_COLUMNS_ALWAYS = 0u TRI_SAMPLE_COLUMNS(TRI_COLUMN_ALWAYS_) };

/* A sample's columns, each [tokens], in memory of its reader. A column that is not needed is NULL. */
#define TRI_COLUMN_FIELD_(NAME, TYPE, ...) TYPE *NAME;
typedef struct tri_sample {
  TRI_SAMPLE_COLUMNS(TRI_COLUMN_FIELD_)
} tri_sample;

/* Sample columns for reading, each [samples, tokens]; a NULL column stands for its blanks. */
#define TRI_COLUMN_READ_(NAME, TYPE, ...) const TYPE *NAME;
typedef struct tri_tokens {
  TRI_SAMPLE_COLUMNS(TRI_COLUMN_READ_)
} tri_tokens;

/* Properties of a column, from its row in the tables above. */
typedef struct tri_column {
  size_t element;        /* bytes of one value */
  bool of_sample;        /* whether the column is a sample column; false: a cut column */
  bool whole;            /* sample columns: whether a rank keeps whole sequences, not only its own tokens */
  tri_cut_rows cut_rows; /* cut columns: the rows that have a value */
} tri_column;
extern const tri_column tri_columns[TRI_NUM_BATCH_COLUMNS];

/* Allocates the columns of a set of bits, each [tokens]; the others are NULL. Release with tri_sample_free, also after
 * a failure. */
tri_status tri_sample_alloc(unsigned columns, int64_t tokens, tri_sample *out);
void tri_sample_free(tri_sample *sample);

/* Fills the columns of *out with `tokens` tokens of `from`, from token `first` on. A column that `from` does not have
 * is filled with its blanks. Columns that are NULL in *out are left out. */
void tri_sample_fill(const tri_tokens *from, int64_t first, int64_t tokens, const tri_sample *out);

/* Fills the columns of *out with padding, in which no label counts. Columns that are NULL in *out are left out. */
void tri_sample_fill_padding(int64_t tokens, const tri_sample *out);

/* Returns the columns of a sample from token `first` on. */
static inline tri_sample tri_sample_from(const tri_sample *sample, int64_t first) {
#define TRI_COLUMN_FROM_(NAME, TYPE, ...) .NAME = sample->NAME == NULL ? NULL : sample->NAME + first,
  return (tri_sample){TRI_SAMPLE_COLUMNS(TRI_COLUMN_FROM_)};
#undef TRI_COLUMN_FROM_
}

#endif
