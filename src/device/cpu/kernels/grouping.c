/* Rows in groups: sorting by expert, and the sum of the returned rows. */
#include "device/cpu/kernels/by_type.h"
#include "device/cpu/kernels/kernels.h"
#include "device/cpu/kernels/vector.h"

#include "base/memory.h"

/* ---- sorting ----------------------------------------------------------------------------------------------------- */

enum { PARTS = 16 }; /* maximum number of parts of the pairs; each part has a counter for every expert */

/* The state of a counting sort of pairs by expert. */
typedef struct sorting {
  int64_t experts_count, chosen, pairs, parts;
  const int32_t *experts;
  int32_t *counts; /* [parts, experts_count + 1]: pairs of earlier parts per expert; the last column is for pairs
                      without an expert */
  int32_t *order, *sources, *places;
} sorting;

static bool is_expert(const sorting *s, int32_t expert) { return expert >= 0 && expert < s->experts_count; }

static int32_t *counter_of(const sorting *s, int64_t part, int32_t expert) {
  return s->counts + part * (s->experts_count + 1) + (is_expert(s, expert) ? expert : s->experts_count);
}

static int64_t part_begin(const sorting *s, int64_t part) { return s->pairs * part / s->parts; }

static void count_part(const sorting *s, int64_t part) {
  for (int64_t i = part_begin(s, part); i < part_begin(s, part + 1); i++) ++*counter_of(s, part, s->experts[i]);
}

/* Replaces each count, the number of pairs of one part and one expert, by the first place of these pairs. Places are
 * ordered by expert, then by part. */
static void make_begins(const sorting *s, int32_t *begins) {
  int32_t place = 0;
  for (int64_t e = 0; e <= s->experts_count; e++) {
    begins[e] = place;
    for (int64_t part = 0; part < s->parts; part++) {
      int32_t *counter = s->counts + part * (s->experts_count + 1) + e;
      const int32_t count = *counter;
      *counter = place;
      place += count;
    }
  }
}

static void place_part(const sorting *s, int64_t part) {
  int64_t row = part_begin(s, part) / s->chosen, next_row = (row + 1) * s->chosen;
  for (int64_t i = part_begin(s, part); i < part_begin(s, part + 1); i++) {
    if (i == next_row) {
      row++;
      next_row += s->chosen;
    }
    const int32_t place = (*counter_of(s, part, s->experts[i]))++;
    s->order[place] = (int32_t)i;
    s->sources[place] = (int32_t)row;
    s->places[i] = is_expert(s, s->experts[i]) ? place : -1;
  }
}

static tri_status group_rows(tri_queue *queue, tri_rows rows, int64_t chosen, int64_t experts_count,
                             const int32_t *experts, int32_t *begins, int32_t *order, int32_t *sources,
                             int32_t *places) {
  sorting s = {.experts_count = experts_count,
               .chosen = chosen,
               .pairs = tri_rows_live(rows) * chosen,
               .experts = experts,
               .order = order,
               .sources = sources,
               .places = places};
  s.parts = s.pairs <= TRI_ALONE ? 1 : THREADS < PARTS ? THREADS : PARTS;
  TRI_TRY(tri_alloc("counters of experts", (size_t)(s.parts * (experts_count + 1)), sizeof *s.counts, &s.counts));
#pragma omp parallel for schedule(static) num_threads(THREADS) if (s.parts > 1)
  for (int64_t part = 0; part < s.parts; part++) count_part(&s, part);
  make_begins(&s, begins);
#pragma omp parallel for schedule(static) num_threads(THREADS) if (s.parts > 1)
  for (int64_t part = 0; part < s.parts; part++) place_part(&s, part);
  tri_free(s.counts);
  return TRI_OK;
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

INLINE void sum_row(tri_dtype type, int64_t r, int64_t terms, int64_t width, const int32_t *places, const void *in,
                    void *out, bool accumulate) {
  FOR_VECTORS(c, count, 0, width, {
    vf sum = accumulate ? vf_get(type, out, r * width + c, count) : (vf){0};
    for (int64_t j = r * terms; j < (r + 1) * terms; j++) {
      if (places[j] >= 0) sum += vf_get(type, in, places[j] * width + c, count);
    }
    vf_put(type, out, r * width + c, count, sum);
  });
}

static tri_status sum_rows(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t terms, int64_t width,
                           const int32_t *places, const void *in, void *out, bool accumulate) {
  const int64_t live = tri_rows_live(rows);
#pragma omp parallel for schedule(static) num_threads(THREADS) if (live * width > TRI_ALONE)
  for (int64_t r = 0; r < live; r++) BY_TYPE(sum_row, r, terms, width, places, in, out, accumulate);
  return TRI_OK;
}

void TRI_KERNEL(table_grouping)(tri_device_kernels *table) {
  table->group_rows = group_rows;
  table->sum_rows = sum_rows;
}
