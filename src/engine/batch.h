/* A micro-batch on one rank: the rank's rows of every sequence, and the lists of slices that define which rows attend
 * to which rows.
 *
 * Sources of batches write whole sequences, and all ranks that share a sequence read all of it. The rows that a rank
 * keeps, and the slices by which its attention runs, follow from the cut (mesh/sequence_cut.h) and from the
 * positions. */
#ifndef TRI_ENGINE_BATCH_H
#define TRI_ENGINE_BATCH_H

#include "device/description.h"
#include "mesh/batch_columns.h"
#include "ops/list.h"

/* The arrays of a micro-batch, in host memory or on the device. Rows are in the order of the operation list: sequence
 * after sequence, each with this rank's tokens in order. inner_order and outer_order have the rows in another order:
 * those of the first inner or outer rank, then those of the next one. Their values are the rows' indices in the order
 * of the sequences. Columns that a micro-batch does not have are NULL (mesh/batch_columns.h). */
typedef struct tri_batch {
  TRI_SAMPLE_COLUMNS(TRI_COLUMN_FIELD_)
  TRI_CUT_COLUMNS(TRI_COLUMN_FIELD_)
  tri_attention_slice *slices; /* slices of all lists, list after list [slice_begins[lists]] */
} tri_batch;

/* Offsets into the arrays of a micro-batch, in host memory. They differ from batch to batch. */
typedef struct tri_batch_counts {
  int64_t *slice_begins; /* index of the first slice of each list [lists + 1]; list l ends at slice_begins[l + 1] */
  /* [outer + 1] each: index of the first row of each outer rank, in send_rows and in outer_order. */
  int64_t *send_begins, *receive_begins;
} tri_batch_counts;

typedef struct tri_batch_maker tri_batch_maker;

/* Creates a maker for the micro-batches of a list. Release with tri_batch_maker_destroy. */
tri_status tri_batch_maker_create(const tri_op_list *list, tri_batch_maker **out);
void tri_batch_maker_destroy(tri_batch_maker *maker);

/* Returns the columns into which whole sequence `i` of a micro-batch is written. Initially its positions are 0, 1, ...
 * and its weights 1. */
tri_sample tri_batch_maker_sequence(const tri_batch_maker *maker, int64_t i);

/* Writes the micro-batch of the current sequences to the arrays of *to and *counts, in host memory. */
tri_status tri_batch_make(tri_batch_maker *maker, const tri_batch *to, const tri_batch_counts *counts);

#endif
