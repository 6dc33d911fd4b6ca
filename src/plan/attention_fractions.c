#include "plan/attention_fractions.h"

#include "base/count.h"
#include "base/memory.h"
#include "base/random.h"
#include "mesh/document_cut.h"
#include "mesh/domain.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* SEQUENCES: number of sequences to draw if ranks have whole sequences. If sequences are divided among context ranks,
 * micro-batches are drawn until they have MOST_CUT_TOKENS tokens together, but at least FEWEST_CUT and at most
 * TRI_ATTENTION_FRACTIONS_MOST of them. */
enum { SEQUENCES = 1024, MOST_CUT_TOKENS = 1 << 22, FEWEST_CUT = 8 };

struct tri_attention_fraction_table {
  const tri_drawn_documents *draws;
  /* Query-key pairs of each drawn sequence, divided by those of a sequence with a single document. */
  double whole[SEQUENCES];
  /* Fractions that have been computed [num_found], one entry for each way to divide micro-batches; owned. */
  tri_attention_fractions **found;
  int64_t num_found, room;
};

static double triangle(double length) { return 0.5 * length * (length + 1); }

tri_status tri_attention_fraction_table_create(const tri_drawn_documents *draws, tri_attention_fraction_table **out) {
  tri_attention_fraction_table *table = NULL;
  int32_t *lengths = NULL;
  int64_t tokens = tri_drawn_documents_tokens(draws);
  TRI_TRY(tri_alloc("drawn documents", (size_t)tokens, sizeof *lengths, &lengths));
  tri_status status = tri_alloc("drawn micro-batches", 1, sizeof *table, &table);
  for (int64_t i = 0; i < SEQUENCES && status == TRI_OK; i++) {
    int64_t count = tri_drawn_documents_sequence(draws, i, lengths);
    for (int64_t d = 0; d < count; d++) table->whole[i] += triangle(lengths[d]) / triangle((double)tokens);
  }
  tri_free(lengths);
  TRI_TRY(status);
  table->draws = draws;
  *out = table;
  return TRI_OK;
}

void tri_attention_fraction_table_destroy(tri_attention_fraction_table *table) {
  if (table == NULL) return;
  for (int64_t i = 0; i < table->num_found; i++) tri_free(table->found[i]);
  tri_free(table->found);
  tri_free(table);
}

/* ---- cutting ----------------------------------------------------------------------------------------------------- */

/* Buffers to divide sequences among the outer context ranks. An *outer context rank* is a group of `inner` context
 * ranks with the same tokens. */
typedef struct cutting {
  const tri_drawn_documents *draws;
  int64_t tokens, outer; /* tokens of a sequence; number of outer context ranks */
  int64_t *rows;         /* tokens of a sequence on each outer context rank [outer] */
  /* Lengths of the documents of a sequence, and position of each token in its document, both [tokens]. */
  int32_t *lengths, *positions;
  /* Work (document_cut.h) and query-key pairs of each outer context rank in this micro-batch [outer]. */
  double *load, *area;
  tri_document_cut *documents;
  tri_sequence_cut cut;
} cutting;

static void cutting_destroy(cutting *c) {
  tri_document_cut_destroy(c->documents);
  tri_sequence_cut_destroy(&c->cut);
  tri_free(c->rows);
  tri_free(c->lengths);
  tri_free(c->positions);
  tri_free(c->load);
  tri_free(c->area);
}

static tri_status cutting_fill(const tri_attention_fractions *of, cutting *c) {
  size_t outer = (size_t)c->outer, tokens = (size_t)c->tokens;
  TRI_TRY(tri_alloc("drawn micro-batches", outer, sizeof *c->rows, &c->rows));
  TRI_TRY(tri_alloc("drawn micro-batches", outer, sizeof *c->load, &c->load));
  TRI_TRY(tri_alloc("drawn micro-batches", outer, sizeof *c->area, &c->area));
  TRI_TRY(tri_alloc("drawn micro-batches", tokens, sizeof *c->lengths, &c->lengths));
  TRI_TRY(tri_alloc("drawn micro-batches", tokens, sizeof *c->positions, &c->positions));
  for (int64_t r = 0; r < of->context; r++) c->rows[r / of->inner] += tri_zigzag_rows(c->tokens, of->context, r);
  TRI_TRY(tri_document_cut_create(c->tokens, c->outer, c->rows, (double)of->row_pairs, &c->documents));
  return tri_sequence_cut_create(c->outer, c->tokens, &c->cut);
}

/* Adds the query-key pairs of the sequence to c->area, by rank. */
static void add_areas(cutting *c) {
  const tri_sequence_cut *cut = &c->cut;
  for (int64_t p = 0; p < cut->parts; p++) {
    for (int64_t i = cut->begins[p]; i < cut->begins[p + 1]; i++) {
      for (int64_t t = cut->ranges[i].first; t < cut->ranges[i].end; t++) c->area[p] += c->positions[t] + 1.0;
    }
  }
}

static void cut_sequence(cutting *c, int64_t number) {
  int64_t count = tri_drawn_documents_sequence(c->draws, number, c->lengths), t = 0;
  for (int64_t d = 0; d < count; d++) {
    for (int32_t i = 0; i < c->lengths[d]; i++) c->positions[t++] = i;
  }
  tri_document_cut_sequence(c->documents, c->positions, c->load, &c->cut);
  add_areas(c);
}

static tri_status cut_all(const tri_attention_fraction_table *table, tri_attention_fractions *of) {
  cutting c = {
      .draws = table->draws, .tokens = tri_drawn_documents_tokens(table->draws), .outer = of->context / of->inner};
  const double share = (double)of->micro_batch * triangle((double)c.tokens) / (double)c.outer;
  tri_status status = cutting_fill(of, &c);
  int64_t many = MOST_CUT_TOKENS / (c.tokens * of->micro_batch);
  of->count = many > TRI_ATTENTION_FRACTIONS_MOST ? TRI_ATTENTION_FRACTIONS_MOST
              : many < FEWEST_CUT                 ? FEWEST_CUT
                                                  : many;
  for (int64_t m = 0; m < of->count && status == TRI_OK; m++) {
    for (int64_t r = 0; r < c.outer; r++) c.load[r] = c.area[r] = 0;
    for (int64_t b = 0; b < of->micro_batch; b++) cut_sequence(&c, m * of->micro_batch + b);
    for (int64_t r = 0; r < c.outer; r++) {
      of->mean += c.area[r] / share / (double)c.outer / (double)of->count;
      if (c.area[r] / share > of->areas[m]) of->areas[m] = c.area[r] / share;
    }
  }
  cutting_destroy(&c);
  return status;
}

/* Computes the areas if ranks have whole sequences, or all tokens for some of the heads. If a micro-batch is one
 * sequence, the areas are those in table->whole. If it has several, each is drawn from table->whole with replacement,
 * and the area is their mean. */
static void join_all(const tri_attention_fraction_table *table, tri_attention_fractions *of) {
  tri_random_key key = tri_random_stream(1, TRI_RANDOM_PLAN, (uint64_t)of->micro_batch);
  of->count = TRI_ATTENTION_FRACTIONS_MOST;
  for (int64_t m = 0; m < of->count; m++) {
    for (int64_t b = 0; b < of->micro_batch; b++) {
      uint32_t which = tri_random_u32(key, (uint64_t)(m * of->micro_batch + b)) % SEQUENCES;
      of->areas[m] += table->whole[of->micro_batch == 1 ? m : which] / (double)of->micro_batch;
    }
    of->mean += of->areas[m] / (double)of->count;
  }
}

/* ---- the fractions ----------------------------------------------------------------------------------------------- */

static void describe(tri_attention_fractions *of) {
  double n = (double)of->count, squares = 0, cubes = 0;
  qsort(of->areas, (size_t)of->count, sizeof *of->areas, tri_compare_doubles);
  for (int64_t i = 0; i < of->count; i++) of->busiest += of->areas[i] / n;
  for (int64_t i = 0; i < of->count; i++) {
    double off = of->areas[i] - of->busiest;
    squares += off * off / n;
    cubes += off * off * off / n;
  }
  of->deviation = sqrt(squares);
  of->skew = squares > 0 ? cubes / (squares * of->deviation) : 0;
}

/* Returns the smallest power of two that is at least `pairs`; 0 for 0. Rounding saves draws, and the division of
 * documents changes little between two powers. */
static int64_t rounded_up(int64_t pairs) {
  int64_t power = 1;
  while (power < pairs) power *= 2;
  return pairs == 0 ? 0 : power;
}

static bool same_cut(const tri_attention_fractions *a, const tri_attention_fractions *b) {
  if (a->micro_batch != b->micro_batch) return false;
  if (a->context == a->inner && b->context == b->inner) return true;
  return a->context == b->context && a->inner == b->inner && a->row_pairs == b->row_pairs;
}

static tri_status draw(const tri_attention_fraction_table *table, tri_attention_fractions *of) {
  if (of->context > of->inner) {
    TRI_TRY(cut_all(table, of));
  } else {
    join_all(table, of);
  }
  describe(of);
  return TRI_OK;
}

static tri_status find_or_draw(tri_attention_fraction_table *table, const tri_attention_fractions *key,
                               const tri_attention_fractions **out) {
  for (int64_t i = 0; i < table->num_found; i++) {
    *out = table->found[i];
    if (same_cut(*out, key)) return TRI_OK;
  }
  TRI_TRY(tri_grow("drawn micro-batches", sizeof *table->found, table->num_found, &table->room, &table->found));
  tri_attention_fractions *made = NULL;
  TRI_TRY(tri_alloc("drawn micro-batches", 1, sizeof *made, &made));
  *made = *key;
  tri_status status = draw(table, made);
  if (status != TRI_OK) {
    tri_free(made);
    return status;
  }
  table->found[table->num_found++] = made;
  *out = made;
  return TRI_OK;
}

tri_status tri_attention_fraction_table_find(tri_attention_fraction_table *table, const tri_layout *layout,
                                             const tri_attention_fractions **out) {
  const tri_mesh_shape shape = tri_layout_mesh(layout);
  tri_attention_fractions *key = NULL;
  TRI_TRY(tri_alloc("drawn micro-batches", 1, sizeof *key, &key));
  key->micro_batch = layout->micro_batch;
  key->context = tri_domain_size(&shape, TRI_DOMAIN_CONTEXT);
  key->inner = tri_domain_size(&shape, TRI_DOMAIN_CONTEXT_INNER);
  key->row_pairs = rounded_up(layout->context_row_pairs);
  tri_status status;
#pragma omp critical(tri_attention_fraction_table)
  status = find_or_draw(table, key, out);
  tri_free(key);
  return status;
}

/* ---- the largest of several -------------------------------------------------------------------------------------- */

/* Computes the expectation for draws with replacement. The n areas are in ascending order, so the probability that area
 * k (from 0 to n - 1) is the largest of `of` draws is ((k + 1) / n)^of - (k / n)^of. */
double tri_attention_fraction_most(const tri_attention_fractions *areas, int64_t of) {
  double sum = 0, below = 0, n = (double)areas->count;
  for (int64_t k = 0; k < areas->count; k++) {
    double up_to = pow((double)(k + 1) / n, (double)of);
    sum += (up_to - below) * areas->areas[k];
    below = up_to;
  }
  return sum > areas->busiest ? sum - areas->busiest : 0;
}

void tri_attention_fraction_order(const tri_attention_fractions *areas, int64_t micro_batches, int64_t order,
                                  double *more) {
  tri_random_key key = tri_random_stream(2, TRI_RANDOM_PLAN, (uint64_t)order);
  double sum = 0;
  for (int64_t i = 0; i < micro_batches; i++) {
    more[i] = areas->areas[(2 * i + 1) * areas->count / (2 * micro_batches)];
    sum += more[i];
  }
  for (int64_t i = 0; i < micro_batches; i++) more[i] = more[i] * (double)micro_batches / sum - 1;
  for (int64_t i = micro_batches - 1; i > 0; i--) {
    int64_t other = (int64_t)(tri_random_u32(key, (uint64_t)i) % ((uint64_t)i + 1));
    double moved = more[i];
    more[i] = more[other];
    more[other] = moved;
  }
}

/* Computes the mean of the largest of n numbers with a standard normal distribution, and the mean of its square. */
static void largest_normal(double n, double *mean, double *square) {
  enum { STEPS = 400 };
  const double low = -8, step = 16.0 / STEPS;
  double below = 0;
  *mean = *square = 0;
  for (int i = 0; i < STEPS; i++) {
    double end = low + (i + 1) * step, middle = end - step / 2, up_to = pow(0.5 * erfc(-end / sqrt(2)), n);
    *mean += (up_to - below) * middle;
    *square += (up_to - below) * middle * middle;
    below = up_to;
  }
}

/* Approximates the distribution of a sum by a normal one, whose quantiles are corrected for the skewness (Cornish
 * and Fisher, 1938). */
double tri_attention_fraction_most_sum(const tri_attention_fractions *areas, int64_t micro_batches, int64_t ranks) {
  double mean = 0, square = 0, m = (double)micro_batches;
  if (ranks == 1) return 0;
  if (micro_batches == 1) return tri_attention_fraction_most(areas, ranks);
  largest_normal((double)ranks, &mean, &square);
  double above = sqrt(m) * areas->deviation * (mean + areas->skew / sqrt(m) / 6 * (square - 1));
  double most = m * (areas->areas[areas->count - 1] - areas->busiest);
  return above < 0 ? 0 : above < most ? above : most;
}
