/* Replicas share out the work of an update, in whole tensors.
 *
 * A bucket is a row of pieces that may be parted: a tensor that has to stay whole, or many blocks of elements. Its
 * parts follow each other in the order of the ranks, since a reduction scatters a bucket in that order. One that has
 * fewer tensors than there are ranks cannot give each of them something, so the work of all buckets is balanced
 * together: of each, a rank takes what comes next as long as its work, with what it has of the buckets before, stays
 * below a limit, and the limit is the lowest with which all is taken. All ranks of a stage come to the same answer,
 * since the numbers are whole. */
#include "schedule/cut_between.h"

#include "base/memory.h"

/* What updating an element costs, in FLOPs of products that take as long: a round figure. An update of AdamW moves 28
 * bytes; at 3 TB/s and 300 TFLOP/s those are 2800, on a CPU's core with 20 GB/s and 100 GFLOP/s 140. */
enum { ELEMENT_WORK = 1000 };

/* So many neighbours of equal size and work. */
typedef struct piece {
  int64_t count, elements;
  uint64_t work; /* of one */
} piece;

typedef struct pieces {
  piece *list;
  int64_t count, room;
  uint64_t work; /* of all */
  bool whole;    /* some tensor must stay so */
} pieces;

static tri_status add_piece(pieces *to, int64_t count, int64_t elements, uint64_t work) {
  if (count == 0 || elements == 0) return TRI_OK;
  if (to->count == to->room) {
    to->room = to->room == 0 ? 32 : 2 * to->room;
    TRI_TRY(tri_realloc("pieces of a bucket", (size_t)to->room, sizeof *to->list, &to->list));
  }
  to->list[to->count++] = (piece){count, elements, work};
  to->work += (uint64_t)count * work;
  return TRI_OK;
}

static bool stays_whole(const tri_optimizer *optimizer) {
  if (optimizer == NULL) return false;
  switch (optimizer->unit) {
    case TRI_UNIT_MATRIX: return true;
    case TRI_UNIT_ELEMENTS: break;
  }
  return false;
}

/* What begins with an entry and ends where the next one begins that no block is shared with; *i becomes that. Experts
 * of a stack are pieces of their own: sums over blocks begin anew with each. */
static tri_status add_entries(const tri_optimizer_settings *settings, const tri_parameter_table *table,
                              const tri_bucket *bucket, int64_t *i, pieces *to) {
  const tri_parameter *entry = &table->entries[*i];
  const tri_optimizer *optimizer = tri_optimizer_of(settings, entry);
  const int64_t members = entry->num_members < 1 ? 1 : entry->num_members, begin = entry->offset;
  const bool whole = stays_whole(optimizer);
  uint64_t work = 0;
  int64_t end = begin;
  bool some = whole;
  for (bool more = true; more;) {
    const tri_parameter *at = &table->entries[*i];
    const tri_optimizer *by = tri_optimizer_of(settings, at);
    if (stays_whole(by)) work += (uint64_t)(by->work(settings, at) * (double)tri_parameter_num_tensors(at));
    if (!stays_whole(by)) work += (uint64_t)at->count * ELEMENT_WORK;
    some = some || stays_whole(by);
    do (*i)++;
    while (*i < bucket->end_entry && !tri_parameter_is_in_arrays(&table->entries[*i]));
    end = *i < bucket->end_entry ? table->entries[*i].offset : bucket->end;
    more = *i < bucket->end_entry && end % TRI_BLOCK_ELEMENTS != 0;
  }
  to->whole = to->whole || some;
  if (!some) {
    return add_piece(to, (end - begin) / TRI_BLOCK_ELEMENTS, TRI_BLOCK_ELEMENTS, TRI_BLOCK_ELEMENTS * ELEMENT_WORK);
  }
  if (members == 1) return add_piece(to, 1, end - begin, work);
  const int64_t each = entry->count / members, stack = entry->stack < 1 ? 1 : entry->stack;
  const uint64_t of_each = work / (uint64_t)stack; /* the work above is of all the stack's */
  TRI_TRY(add_piece(to, members - 1, each, of_each));
  return add_piece(to, 1, end - begin - (members - 1) * each, of_each);
}

static tri_status find_pieces(const tri_optimizer_settings *settings, const tri_parameter_table *table,
                              const tri_bucket *bucket, pieces *to) {
  to->count = 0;
  to->work = 0;
  to->whole = false;
  for (int64_t i = bucket->first_entry; i < bucket->end_entry;) TRI_TRY(add_entries(settings, table, bucket, &i, to));
  return TRI_OK;
}

/* Takes pieces in the order of the ranks up to the limit; begins[ranks + 1] (NULL: nobody asks). Whether all are taken.
 */
static bool take_below(const pieces *of, const uint64_t *loads, int64_t ranks, uint64_t limit, int64_t *begins) {
  int64_t at = 0, taken = 0, begin = 0;
  for (int64_t r = 0; r < ranks; r++) {
    uint64_t left = limit > loads[r] ? limit - loads[r] : 0;
    if (begins != NULL) begins[r] = begin;
    while (at < of->count) {
      const piece *p = &of->list[at];
      const uint64_t fit = p->work == 0 ? (uint64_t)(p->count - taken) : left / p->work;
      const int64_t some = fit < (uint64_t)(p->count - taken) ? (int64_t)fit : p->count - taken;
      left -= (uint64_t)some * p->work;
      begin += some * p->elements;
      taken += some;
      if (taken < p->count) break;
      taken = 0;
      at++;
    }
  }
  if (begins != NULL) begins[ranks] = begin;
  return at == of->count;
}

static uint64_t lowest_limit(const pieces *of, const uint64_t *loads, int64_t ranks) {
  uint64_t low = 0, high = of->work;
  for (int64_t r = 0; r < ranks; r++) high = loads[r] + of->work > high ? loads[r] + of->work : high;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (take_below(of, loads, ranks, middle, NULL)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return high;
}

/* What each rank has taken, by where the parts begin. */
static void add_loads(const pieces *of, const int64_t *begins, int64_t ranks, uint64_t *loads) {
  int64_t at = 0, taken = 0, begin = 0;
  for (int64_t r = 0; r < ranks; r++) {
    while (begin < begins[r + 1] && at < of->count) {
      const piece *p = &of->list[at];
      int64_t some = (begins[r + 1] - begin + p->elements - 1) / p->elements;
      if (some > p->count - taken) some = p->count - taken;
      loads[r] += (uint64_t)some * p->work;
      begin += some * p->elements;
      taken += some;
      if (taken < p->count) break;
      taken = 0;
      at++;
    }
  }
}

/* Buckets over one domain share the loads. */
static tri_status cut_all(const tri_optimizer_settings *settings, const tri_parameter_table *table,
                          tri_buckets *buckets, pieces *scratch, uint64_t *loads[TRI_NUM_DOMAINS]) {
  for (int64_t b = 0; b < buckets->count; b++) {
    tri_bucket *bucket = &buckets->entries[b];
    TRI_TRY(find_pieces(settings, table, bucket, scratch));
    if (!scratch->whole || bucket->ranks == 1) continue;
    uint64_t **of = &loads[bucket->replicas];
    if (*of == NULL) TRI_TRY(tri_alloc("work of replicas", (size_t)bucket->ranks, sizeof **of, of));
    const uint64_t limit = lowest_limit(scratch, *of, bucket->ranks);
    take_below(scratch, *of, bucket->ranks, limit, bucket->begins);
    add_loads(scratch, bucket->begins, bucket->ranks, *of);
  }
  return TRI_OK;
}

tri_status tri_buckets_cut_between(const tri_optimizer_settings *optimizer, const tri_parameter_table *table,
                                   tri_buckets *buckets) {
  pieces scratch = {0};
  uint64_t *loads[TRI_NUM_DOMAINS] = {NULL};
  const tri_status status = cut_all(optimizer, table, buckets, &scratch, loads);
  for (int d = 0; d < TRI_NUM_DOMAINS; d++) tri_free(loads[d]);
  tri_free(scratch.list);
  return status;
}
