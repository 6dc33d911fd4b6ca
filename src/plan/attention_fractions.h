/* Attention fractions of micro-batches of masked documents: the documents are drawn (drawn_documents.h) and cut over
 * the context ranks as the engine does.
 *
 * An *area* is the attention fraction of one rank: its number of query-key pairs, as a share of the pairs that it has
 * without document masks. The area of a micro-batch is the largest one of its ranks, since the other ranks wait for
 * that rank's keys. */
#ifndef TRI_PLAN_ATTENTION_FRACTIONS_H
#define TRI_PLAN_ATTENTION_FRACTIONS_H

#include "plan/drawn_documents.h"
#include "schedule/layout.h"

enum { TRI_ATTENTION_FRACTIONS_MOST = 1024 };

/* The areas of micro-batches of `micro_batch` sequences, split over `context` ranks. */
typedef struct tri_attention_fractions {
  int64_t micro_batch, context, inner, row_pairs; /* inner: context ranks that split heads, not tokens; row_pairs:
                                                     tri_layout.context_row_pairs, rounded up to a power of two */
  int64_t count;
  double areas[TRI_ATTENTION_FRACTIONS_MOST]; /* [count]: area of the busiest rank of each micro-batch, ascending */
  double mean;                                /* mean area over all ranks of all micro-batches */
  double busiest;                             /* mean of `areas` */
  double deviation, skew;                     /* standard deviation and skewness of `areas` */
} tri_attention_fractions;

typedef struct tri_attention_fraction_table tri_attention_fraction_table;

/* Creates a table for all layouts of a plan, which computes each kind of cut once. `draws` must outlive it. Release
 * with tri_attention_fraction_table_destroy. */
tri_status tri_attention_fraction_table_create(const tri_drawn_documents *draws, tri_attention_fraction_table **out);
void tri_attention_fraction_table_destroy(tri_attention_fraction_table *table);

/* Finds or computes the fractions of a resolved layout's micro-batches; the table owns *out. Several threads may call
 * it at once. */
tri_status tri_attention_fraction_table_find(tri_attention_fraction_table *table, const tri_layout *layout,
                                             const tri_attention_fractions **out);

/* Sets more[micro_batches] to the difference of each micro-batch's area from the mean, as a share of the mean. The
 * areas are spread evenly from the smallest to the largest, and shuffled with the random stream `order`. The sum of
 * more[] is 0. */
void tri_attention_fraction_order(const tri_attention_fractions *areas, int64_t micro_batches, int64_t order,
                                  double *more);

/* Returns the expected largest area of `of` micro-batches, minus their mean. */
double tri_attention_fraction_most(const tri_attention_fractions *areas, int64_t of);
/* Returns the expected largest of `ranks` sums, each of micro_batches areas, minus the mean of such sums. */
double tri_attention_fraction_most_sum(const tri_attention_fractions *areas, int64_t micro_batches, int64_t ranks);

#endif
