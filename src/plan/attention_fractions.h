/* How much attention there is in micro-batches of documents that do not see each other: they are drawn (drawn_documents.h), cut
 * over the ranks that share their sequences as the engine cuts them, and differ.
 *
 * Areas are pairs of positions, as shares of what a rank has of joined documents. In a micro-batch the rank with the
 * most decides, since the others wait for its keys. */
#ifndef TRI_PLAN_ATTENTION_FRACTIONS_H
#define TRI_PLAN_ATTENTION_FRACTIONS_H

#include "plan/drawn_documents.h"
#include "schedule/layout.h"

enum { TRI_DRAWN_MOST = 1024 };

/* Micro-batches of so many sequences, cut over so many ranks. */
typedef struct tri_drawn_areas {
  int64_t micro_batch, context, inner, row_pairs;
  int64_t count;
  double areas[TRI_DRAWN_MOST]; /* of the busiest rank of each micro-batch, ascending */
  double mean;                  /* over all ranks */
  double busiest;               /* the mean of `areas`, */
  double deviation, skew;       /* and the standard deviation and skewness of these */
} tri_drawn_areas;

typedef struct tri_drawn_table tri_drawn_table;

/* Draws for all layouts of one plan, each kind of cut once. The draws must outlive it. Release with
 * tri_drawn_table_destroy. */
tri_status tri_drawn_table_create(const tri_draws *draws, tri_drawn_table **out);
void tri_drawn_table_destroy(tri_drawn_table *table);

/* Of a resolved layout's micro-batches; as long as the table is. Threads may ask at once. */
tri_status tri_drawn_table_find(tri_drawn_table *table, const tri_layout *layout, const tri_drawn_areas **out);

/* So many micro-batches that stand for all of them: evenly from the least to the most, in one of many random orders.
 * How much more each has than the mean, as a share of it; together nothing. */
void tri_drawn_order(const tri_drawn_areas *areas, int64_t micro_batches, int64_t order, double *more);

/* The expected largest of so many micro-batches' areas, as much as it is above their mean. */
double tri_drawn_most(const tri_drawn_areas *areas, int64_t of);
/* The expected largest of `ranks` sums of so many, likewise above their mean. */
double tri_drawn_most_sum(const tri_drawn_areas *areas, int64_t micro_batches, int64_t ranks);

#endif
