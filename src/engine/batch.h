/* A micro-batch as a rank sees it: of whole sequences the rows that are its own, and which rows see which.
 *
 * Sources of batches fill in whole sequences; everybody who shares a sequence reads all of it. What a rank keeps of it,
 * and the lists of slices by which its attention runs, follow from the cut (mesh/sequence_cut.h) and the positions. */
#ifndef TRI_ENGINE_BATCH_H
#define TRI_ENGINE_BATCH_H

#include "base/batch_columns.h"
#include "device/description.h"
#include "ops/list.h"

/* In host memory, or on the device. Rows are those of the list: sequence after sequence, this rank's tokens of each in
 * their order. Orders say of rows that come rank after rank, and of each rank sequence after sequence, where they lie
 * in the order of the sequences. What a micro-batch does not have is NULL (base/batch_columns.h). */
typedef struct tri_batch {
  TRI_SAMPLE_COLUMNS(TRI_COLUMN_FIELD_)
  TRI_CUT_COLUMNS(TRI_COLUMN_FIELD_)
  tri_attention_slice *slices; /* lists one behind the other */
} tri_batch;

/* How many there are of what differs from batch to batch: all in host memory. */
typedef struct tri_batch_counts {
  int64_t *slice_begins;                 /* [lists + 1]: list l of slices is [slice_begins[l], slice_begins[l + 1]) */
  int64_t *send_begins, *receive_begins; /* [outer + 1], in rows of keys: with send_rows, and with outer_order */
} tri_batch_counts;

typedef struct tri_batch_maker tri_batch_maker;

/* For the micro-batches of a list. Release with tri_batch_maker_destroy. */
tri_status tri_batch_maker_create(const tri_op_list *list, tri_batch_maker **out);
void tri_batch_maker_destroy(tri_batch_maker *maker);

/* Where whole sequence `i` of a micro-batch is filled in; its positions say 0, 1, ... from the beginning, and
 * its weights 1. */
tri_sample tri_batch_maker_sequence(const tri_batch_maker *maker, int64_t i);

/* Makes a batch in host memory of the sequences as they are now. */
tri_status tri_batch_make(tri_batch_maker *maker, const tri_batch *to, const tri_batch_counts *counts);

#endif
