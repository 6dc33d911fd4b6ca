/* How much attention there is in micro-batches of documents that do not see each other: they are drawn
 * (drawn_documents.h), cut over the ranks that share their sequences as the engine cuts them, and differ.
 *
 * Areas are pairs of positions, as shares of what a rank has of joined documents. In a micro-batch the rank with the
 * most decides, since the others wait for its keys. */
#ifndef TRI_PLAN_ATTENTION_FRACTIONS_H
#define TRI_PLAN_ATTENTION_FRACTIONS_H

#include "plan/drawn_documents.h"
#include "schedule/layout.h"

enum { TRI_ATTENTION_FRACTIONS_MOST = 1024 };

/* Micro-batches of that many sequences, split over that many ranks. */
typedef struct tri_attention_fractions {
  int64_t micro_batch, context, inner, row_pairs;
  int64_t count;
  double areas[TRI_ATTENTION_FRACTIONS_MOST]; /* of the busiest rank of each micro-batch, ascending */
  double mean;                                /* over all ranks */
  double busiest;                             /* the mean of `areas`, */
  double deviation, skew;                     /* and the standard deviation and skewness of these */
} tri_attention_fractions;

typedef struct tri_attention_fraction_table tri_attention_fraction_table;

/* Draws for all layouts of one plan, each kind of cut once. The draws must outlive it. Release with
 * tri_attention_fraction_table_destroy. */
tri_status tri_attention_fraction_table_create(const tri_drawn_documents *draws, tri_attention_fraction_table **out);
void tri_attention_fraction_table_destroy(tri_attention_fraction_table *table);

/* Of a resolved layout's micro-batches; as long as the table is. Threads may ask at once. */
tri_status tri_attention_fraction_table_find(tri_attention_fraction_table *table, const tri_layout *layout,
                                             const tri_attention_fractions **out);

/* Representative micro-batches: evenly from the least to the most, in one of many random orders.
 * How much more each has than the mean, as a share of it; together nothing. */
void tri_attention_fraction_order(const tri_attention_fractions *areas, int64_t micro_batches, int64_t order,
                                  double *more);

/* The expected largest of that many micro-batches' areas, as much as it is above their mean. */
double tri_attention_fraction_most(const tri_attention_fractions *areas, int64_t of);
/* The expected largest of `ranks` sums of that many, also above their mean. */
double tri_attention_fraction_most_sum(const tri_attention_fractions *areas, int64_t micro_batches, int64_t ranks);

#endif
