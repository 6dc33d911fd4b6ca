/* The columns of a batch: a row here is all that is known of one. From these rows follow the structs that hold them,
 * their memory in the plan, and how a batch is cut, copied and given to operations; a new column is a new row, and a
 * feed that fills it. */
#ifndef TRI_BASE_BATCH_COLUMNS_H
#define TRI_BASE_BATCH_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Columns of samples: one value for each token of a sequence. A feed fills them for whole sequences (data/source.h).
 * X(name, type, blank, rows, wanted): `blank` is the value before a feed has filled it, of token i of a sequence.
 * `rows`: a rank keeps its OWN tokens, or the WHOLE sequences. `wanted`: ALWAYS, or where the OBJECTIVE has it
 * (tri_op_list.columns).
 *
 * ids        the token
 * labels     the next one; a negative label does not count (base/label.h): of a masked document's last token, of tokens
 *            that the corpus's mask excludes, of padding
 * positions  in the sequence, or in the document where these do not see each other: a token sees only its own, which
 *            begins at the last position 0
 * weights    how much a label counts in the cross entropy, of those that do: 1, or the weight of its source
 *            (data/sampler.h)
 * segments   which completion of the sequence the token's label belongs to, from 0 on; -1: none. Completions 2 p and
 *            2 p + 1 are a pair: chosen and rejected (device/preference.h). A completion's labels are adjacent, and
 *            completions ascend
 * reference  log-probability of the label under the reference model */
#define TRI_SAMPLE_COLUMNS(X)                                                                                          \
  X(ids, int32_t, 0, OWN, ALWAYS)                                                                                      \
  X(labels, int32_t, 0, OWN, ALWAYS)                                                                                   \
  X(positions, int32_t, (int32_t)i, OWN, ALWAYS)                                                                       \
  X(weights, float, 1, OWN, ALWAYS)                                                                                    \
  X(segments, int32_t, -1, WHOLE, OBJECTIVE)                                                                           \
  X(reference, double, 0, WHOLE, OBJECTIVE)

/* What follows from the cut of a micro-batch over context ranks (engine/batch.h makes it). X(name, type, rows): whose
 * rows it has one value for.
 *
 * global_rows  OWN: which row it is among those of all ranks; where several share sequences
 * inner_order  INNER: where the rows of the ranks that exchange heads lie
 * outer_order  ALL: of the keys that are gathered
 * send_rows    SENT: rank after rank, the rows of keys that each of the outer ranks needs; where documents are masked
 *              and keys are gathered
 *
 * And of lists that generate:
 *
 * cache_rows   CACHED: the row of all pages' rows that gets a row's keys and values
 * logit_rows   LOGITS: the rows whose logits are made
 * pages        PAGES: the page of each TRI_PAGE_ROWS positions of each sequence */
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

/* A set of sample columns, a bit each: those that are always there. */
#define TRI_COLUMN_BIT(NAME) (1u << TRI_COLUMN_##NAME)
#define TRI_COLUMN_IS_ALWAYS_ true
#define TRI_COLUMN_IS_OBJECTIVE_ false
#define TRI_COLUMN_ALWAYS_(NAME, TYPE, BLANK, ROWS, WANTED) | (TRI_COLUMN_IS_##WANTED##_ ? TRI_COLUMN_BIT(NAME) : 0u)
enum { TRI_COLUMNS_ALWAYS = 0u TRI_SAMPLE_COLUMNS(TRI_COLUMN_ALWAYS_) };

/* A sample's columns, each [tokens], in its reader's memory. A column that is not wanted is NULL. */
#define TRI_COLUMN_FIELD_(NAME, TYPE, ...) TYPE *NAME;
typedef struct tri_sample {
  TRI_SAMPLE_COLUMNS(TRI_COLUMN_FIELD_)
} tri_sample;

/* The same columns from token `first` on. */
static inline tri_sample tri_sample_from(const tri_sample *sample, int64_t first) {
#define TRI_COLUMN_FROM_(NAME, TYPE, ...) .NAME = sample->NAME == NULL ? NULL : sample->NAME + first,
  return (tri_sample){TRI_SAMPLE_COLUMNS(TRI_COLUMN_FROM_)};
#undef TRI_COLUMN_FROM_
}

#endif
