/* Attention fractions of micro-batches whose documents do not attend to each other. The documents are drawn
 * (drawn_documents.h) and divided among the context ranks as the engine does it.
 *
 * The attention fraction of a rank, its *area*, is its number of query-key pairs, divided by their number without
 * document masks. The area of a micro-batch is the largest area of its ranks, since the other ranks wait. */
#ifndef TRI_PLAN_ATTENTION_FRACTIONS_H
#define TRI_PLAN_ATTENTION_FRACTIONS_H

#include "plan/drawn_documents.h"
#include "schedule/layout.h"

enum { TRI_ATTENTION_FRACTIONS_MOST = 1024 };

/* The areas of drawn micro-batches, for one way to divide them among context ranks. */
typedef struct tri_attention_fractions {
  /* micro_batch: sequences of a micro-batch; context: number of context ranks; inner: number of adjacent context
   * ranks that have the same tokens and divide the heads; row_pairs: tri_layout.context_row_pairs, rounded up to a
   * power of two. */
  int64_t micro_batch, context, inner, row_pairs;
  int64_t count;                              /* number of drawn micro-batches */
  double areas[TRI_ATTENTION_FRACTIONS_MOST]; /* area of each micro-batch [count], ascending */
  double mean;                                /* mean of the areas of all ranks in all micro-batches */
  double busiest;                             /* mean of `areas` */
  double deviation, skew;                     /* standard deviation and skewness of `areas` */
} tri_attention_fractions;

typedef struct tri_attention_fraction_table tri_attention_fraction_table;

/* Creates a table of the fractions for all layouts of a plan. They are computed once for all layouts that divide
 * micro-batches in the same way. `draws` must outlive the table. Release with tri_attention_fraction_table_destroy. */
tri_status tri_attention_fraction_table_create(const tri_drawn_documents *draws, tri_attention_fraction_table **out);
void tri_attention_fraction_table_destroy(tri_attention_fraction_table *table);

/* Sets *out to the fractions of the micro-batches of a resolved layout, and computes them if the table does not have
 * them yet. The table owns *out. Several threads may call this at the same time. */
tri_status tri_attention_fraction_table_find(tri_attention_fraction_table *table, const tri_layout *layout,
                                             const tri_attention_fractions **out);

/* Sets more[micro_batches] to the areas of that many micro-batches, each as (area - mean) / mean, so that their sum
 * is 0. The areas are evenly spaced quantiles of areas->areas, in an order that is drawn from the random stream
 * `order`. */
void tri_attention_fraction_order(const tri_attention_fractions *areas, int64_t micro_batches, int64_t order,
                                  double *more);

/* Returns the expectation of the largest area of `of` drawn micro-batches, minus areas->busiest. */
double tri_attention_fraction_most(const tri_attention_fractions *areas, int64_t of);
/* Returns the expectation of the largest of `ranks` sums, minus the mean of such a sum. Each sum is over the areas of
 * `micro_batches` drawn micro-batches. */
double tri_attention_fraction_most_sum(const tri_attention_fractions *areas, int64_t micro_batches, int64_t ranks);

#endif
