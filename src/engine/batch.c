#include "engine/batch.h"

#include "base/count.h"
#include "base/memory.h"
#include "engine/batch_cuts.h"

#include <string.h>

struct tri_batch_maker {
  int64_t batch, tokens, lists, most_slices;
  tri_sample all; /* columns of the whole sequences [batch, tokens] */
  tri_batch_cuts cuts;
};

static tri_status fill_batch_maker(const tri_op_list *list, tri_batch_maker *maker) {
  const tri_op_context context = tri_op_list_context(list);
  const tri_tokens none = {0};
  TRI_TRY(tri_sample_alloc(list->columns, maker->batch * maker->tokens, &maker->all));
  for (int64_t b = 0; b < maker->batch; b++) {
    const tri_sample sequence = tri_batch_maker_sequence(maker, b);
    tri_sample_fill(&none, 0, maker->tokens, &sequence);
  }
  maker->lists = tri_op_context_lists(&context);
  return tri_batch_cuts_create(&context, maker->batch, &maker->cuts);
}

tri_status tri_batch_maker_create(const tri_op_list *list, tri_batch_maker **out) {
  tri_batch_maker *maker = NULL;
  TRI_TRY(tri_alloc("a micro-batch", 1, sizeof *maker, &maker));
  *maker = (tri_batch_maker){.batch = list->batch, .tokens = list->tokens, .most_slices = list->most_slices};
  tri_status status = fill_batch_maker(list, maker);
  if (status == TRI_OK) *out = maker;
  if (status != TRI_OK) tri_batch_maker_destroy(maker);
  return status;
}

void tri_batch_maker_destroy(tri_batch_maker *maker) {
  if (maker == NULL) return;
  tri_batch_cuts_destroy(&maker->cuts);
  tri_sample_free(&maker->all);
  tri_free(maker);
}

tri_sample tri_batch_maker_sequence(const tri_batch_maker *maker, int64_t i) {
  return tri_sample_from(&maker->all, i * maker->tokens);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static void keep_rows(const tri_batch_maker *maker, const tri_batch *to) {
  int64_t rank = maker->cuts.context.rank, row = 0;
  for (int64_t b = 0; b < maker->batch; b++) {
    const tri_sequence_cut *cut = &maker->cuts.own[b];
    for (int64_t i = cut->begins[rank]; i < cut->begins[rank + 1]; i++) {
      int64_t first = b * maker->tokens + cut->ranges[i].first, count = cut->ranges[i].end - cut->ranges[i].first;
#define KEEP_WHOLE(NAME, TYPE)
#define KEEP_OWN(NAME, TYPE)                                                                                           \
  if (to->NAME != NULL) memcpy(to->NAME + row, maker->all.NAME + first, (size_t)count * sizeof(TYPE));
#define KEEP_COLUMN(NAME, TYPE, BLANK, ROWS, ...) KEEP_##ROWS(NAME, TYPE)
      TRI_SAMPLE_COLUMNS(KEEP_COLUMN)
#undef KEEP_COLUMN
#undef KEEP_OWN
#undef KEEP_WHOLE
      for (int64_t t = 0; t < count && to->global_rows != NULL; t++) to->global_rows[row + t] = (int32_t)(first + t);
      row += count;
    }
  }
}

static void keep_whole(const tri_batch_maker *maker, const tri_batch *to) {
  const size_t count = (size_t)(maker->batch * maker->tokens);
#define KEEP_OWN(NAME, TYPE)
#define KEEP_WHOLE(NAME, TYPE)                                                                                         \
  if (to->NAME != NULL) memcpy(to->NAME, maker->all.NAME, count * sizeof(TYPE));
#define KEEP_COLUMN(NAME, TYPE, BLANK, ROWS, ...) KEEP_##ROWS(NAME, TYPE)
  TRI_SAMPLE_COLUMNS(KEEP_COLUMN)
#undef KEEP_COLUMN
#undef KEEP_OWN
#undef KEEP_WHOLE
}

/* One part of the cuts of all sequences. Its rows are its tokens of sequence 0, then those of sequence 1, ... */
typedef struct part {
  const tri_sequence_cut *cuts; /* cut of each sequence [batch] */
  int64_t number;
} part;

/* Sets `places` to the rows in part `all` of the tokens that both parts have, in order. Returns their number. */
static int64_t find_places(const tri_batch_maker *maker, part some, part all, int32_t *places) {
  int64_t found = 0, first_row = 0;
  for (int64_t b = 0; b < maker->batch; b++) {
    const tri_sequence_cut *x = &some.cuts[b], *y = &all.cuts[b];
    int64_t i = x->begins[some.number], j = y->begins[all.number];
    while (i < x->begins[some.number + 1] && j < y->begins[all.number + 1]) {
      const tri_token_range *r = &x->ranges[i], *s = &y->ranges[j];
      int64_t first = r->first > s->first ? r->first : s->first, end = r->end < s->end ? r->end : s->end;
      for (int64_t t = first; t < end; t++) {
        places[found++] = (int32_t)(first_row + y->before[j] + t - s->first);
      }
      if (r->end < s->end) {
        i++;
      } else {
        j++;
      }
    }
    first_row += tri_sequence_cut_rows(y, all.number);
  }
  return found;
}

static part own_of(const tri_batch_maker *maker, int64_t rank) { return (part){maker->cuts.own, rank}; }
static part joined_of(const tri_batch_maker *maker, int64_t outer_rank) {
  return (part){maker->cuts.joined, outer_rank};
}
static part keys_of(const tri_batch_maker *maker, int64_t outer_rank) { return (part){maker->cuts.keys, outer_rank}; }

static void find_inner_order(const tri_batch_maker *maker, int32_t *order) {
  const tri_op_context *context = &maker->cuts.context;
  for (int64_t r = 0; r < context->inner; r++) {
    part own = own_of(maker, context->outer_rank * context->inner + r);
    order += find_places(maker, own, joined_of(maker, context->outer_rank), order);
  }
}

/* Calls find_places for the part of each outer rank in the cuts `some`. begins[r]: offset of rank r's rows in
 * `places`. */
static void find_all_places(const tri_batch_maker *maker, const tri_sequence_cut *some, part all, int32_t *places,
                            int64_t *begins) {
  begins[0] = 0;
  for (int64_t r = 0; r < maker->cuts.context.outer; r++) {
    begins[r + 1] = begins[r] + find_places(maker, (part){some, r}, all, places + begins[r]);
  }
}

/* Finds the rows of the gathered keys that come from each outer rank, and the rows of this rank's keys that each outer
 * rank needs. */
static void find_keys_that_pass(const tri_batch_maker *maker, const tri_batch *to, const tri_batch_counts *counts) {
  const tri_batch_cuts *cuts = &maker->cuts;
  part own = joined_of(maker, cuts->context.outer_rank), needed = keys_of(maker, cuts->context.outer_rank);
  if (to->outer_order != NULL) {
    find_all_places(maker, cuts->joined, needed, to->outer_order, counts->receive_begins);
  }
  if (to->send_rows != NULL) find_all_places(maker, cuts->keys, own, to->send_rows, counts->send_begins);
}

/* ---- slices ------------------------------------------------------------------------------------------------------ */

/* Adjacent queries of one document. */
typedef struct piece {
  /* Index of the sequence; indices in it of the document's first token, of the first query, and of the token after the
   * last query. */
  int64_t sequence, document, first, end;
  int64_t row; /* row of the first query among this rank's queries */
} piece;

/* The lists of slices that are being built. */
typedef struct slicing {
  tri_attention_slice *slices;
  int64_t first, count, most; /* index of the current list's first slice; number of slices of all lists so far; maximum
                                 number of slices of a list */
  int64_t window;             /* tokens of the sliding window of the current list; 0: none */
} slicing;

/* Returns whether every query attends to every key. */
static bool is_full(const tri_attention_slice *slice) {
  return slice->from + slice->queries <= 1 && slice->to >= slice->keys - 1;
}

/* Returns whether two slices can be merged: `next` has the queries that follow those of `last`, and all these queries
 * attend to all of the same keys. */
static bool goes_on(const tri_attention_slice *last, const tri_attention_slice *next) {
  return is_full(last) && is_full(next) && last->first_key == next->first_key && last->keys == next->keys &&
         last->first_query + last->queries == next->first_query;
}

static tri_status add_attention_slice(slicing *to, tri_attention_slice slice) {
  if (slice.keys == 0) return TRI_OK;
  if (to->count > to->first) {
    tri_attention_slice *last = &to->slices[to->count - 1];
    if (goes_on(last, &slice)) {
      *last = tri_slice_full(last->first_query, last->queries + slice.queries, last->first_key, last->keys);
      return TRI_OK;
    }
  }
  if (to->count - to->first == to->most) {
    return tri_fail_internal("a batch has more documents than the %ld that it was planned with", (long)to->most);
  }
  to->slices[to->count++] = slice;
  return TRI_OK;
}

/* Adds the slice of a piece's queries. Its keys are the tokens that part `keys` has from the first token of the
 * document to the last query. first_row: row of the part's first key of this sequence. If the part has the queries' own
 * tokens, these are its last keys, and the slice is causal; if not, all keys are earlier tokens, and the slice is full.
 */
static tri_status add_piece(part keys, int64_t first_row, const piece *p, slicing *to) {
  const tri_sequence_cut *cut = &keys.cuts[p->sequence];
  int64_t first = tri_sequence_cut_before(cut, keys.number, p->document);
  int64_t before = tri_sequence_cut_before(cut, keys.number, p->first);
  int64_t end = tri_sequence_cut_before(cut, keys.number, p->end);
  int64_t queries = p->end - p->first, first_key = first_row + first;
  return add_attention_slice(to, end > before ? tri_slice_causal(p->row, queries, first_key, end - first)
                                              : tri_slice_full(p->row, queries, first_key, end - first));
}

/* Adds the slices of a piece for attention with a window: one for each range of the part's tokens, with the queries
 * that attend to any token of the range. The arguments are those of add_piece. */
static tri_status add_windowed(part keys, int64_t first_row, const piece *p, int64_t window, slicing *to) {
  const tri_sequence_cut *cut = &keys.cuts[p->sequence];
  const int64_t seen = tri_larger(p->document, p->first - window + 1); /* the first token that any query attends to */
  for (int64_t i = tri_sequence_cut_find(cut, keys.number, seen); i < cut->begins[keys.number + 1]; i++) {
    const tri_token_range *range = &cut->ranges[i];
    int64_t key = tri_larger(range->first, seen), end_key = tri_smaller(range->end, p->end);
    if (key >= end_key) break;
    int64_t query = tri_larger(p->first, key), end_query = tri_smaller(p->end, end_key - 1 + window);
    tri_attention_slice slice = tri_slice_full(p->row + query - p->first, end_query - query,
                                               first_row + cut->before[i] + key - range->first, end_key - key);
    slice.from = (int32_t)(query - key - window + 1);
    slice.to = (int32_t)(query - key);
    TRI_TRY(add_attention_slice(to, slice));
  }
  return TRI_OK;
}

/* Adds the slices of a range of tokens, cut where documents begin. */
static tri_status add_range(const tri_batch_maker *maker, int64_t sequence, tri_token_range range, int64_t row,
                            part keys, int64_t first_row, slicing *to) {
  const int32_t *positions = maker->all.positions + sequence * maker->tokens;
  piece p = {.sequence = sequence, .row = row};
  for (p.first = range.first; p.first < range.end; p.first = p.end) {
    p.end = tri_document_end(positions, p.first, range.end);
    p.document = tri_document_begin(positions, p.first);
    TRI_TRY(to->window > 0 ? add_windowed(keys, first_row, &p, to->window, to) : add_piece(keys, first_row, &p, to));
    p.row += p.end - p.first;
  }
  return TRI_OK;
}

static tri_status add_list(const tri_batch_maker *maker, part keys, slicing *to) {
  int64_t rank = maker->cuts.context.outer_rank, row = 0, first_row = 0;
  to->first = to->count;
  for (int64_t b = 0; b < maker->batch; b++) {
    const tri_sequence_cut *cut = &maker->cuts.joined[b];
    for (int64_t i = cut->begins[rank]; i < cut->begins[rank + 1]; i++) {
      TRI_TRY(add_range(maker, b, cut->ranges[i], row, keys, first_row, to));
      row += cut->ranges[i].end - cut->ranges[i].first;
    }
    first_row += tri_sequence_cut_rows(&keys.cuts[b], keys.number);
  }
  return TRI_OK;
}

/* Returns the part with the keys of a block. With a ring, it has the tokens of the rank from which the block comes;
 * without one, the gathered keys, or the rank's own keys if no keys are gathered. */
static part block_of(const tri_batch_maker *maker, int64_t block) {
  const tri_op_context *context = &maker->cuts.context;
  if (tri_op_context_rings(context)) return joined_of(maker, block);
  return context->outer > 1 ? keys_of(maker, context->outer_rank) : joined_of(maker, 0);
}

static tri_status add_lists(const tri_batch_maker *maker, const tri_batch *to, int64_t *begins) {
  const int64_t blocks = tri_op_context_blocks(&maker->cuts.context);
  slicing slices = {.slices = to->slices, .most = maker->most_slices};
  for (int64_t l = 0; l < maker->lists; l++) {
    begins[l] = slices.count;
    slices.window = maker->cuts.context.windows.tokens[l / blocks];
    TRI_TRY(add_list(maker, block_of(maker, l % blocks), &slices));
  }
  begins[maker->lists] = slices.count;
  return TRI_OK;
}

tri_status tri_batch_make(tri_batch_maker *maker, const tri_batch *to, const tri_batch_counts *counts) {
  tri_batch_cuts_make(&maker->cuts, maker->all.positions);
  keep_rows(maker, to);
  keep_whole(maker, to);
  if (to->inner_order != NULL) find_inner_order(maker, to->inner_order);
  find_keys_that_pass(maker, to, counts);
  return add_lists(maker, to, counts->slice_begins);
}
