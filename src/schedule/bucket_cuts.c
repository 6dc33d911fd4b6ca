/* Replicas share out the work of an update, in whole tensors.
 *
 * A bucket is a row of pieces that may be parted: a tensor that has to stay whole, or many blocks of elements. Its
 * parts follow each other in the order of the ranks, since a reduction scatters a bucket in that order. One that has
 * fewer tensors than there are ranks cannot give each of them something, so the work of all buckets is balanced
 * together: of each, a rank takes what comes next as long as its work, with what it has of the buckets before, stays
 * below a limit, and the limit is the lowest with which all is taken.
 *
 * All ranks of a stage have to come to the same answer: those that hold parts of a tensor put it together among the
 * ranks of one replica. So numbers are whole, and all that is compared is of the first rank of the parts, which has the
 * most; another may have fewer elements of a piece. */
#include "schedule/bucket_cuts.h"

#include "base/memory.h"

/* What updating an element costs, in FLOPs of products that take as long: a round figure. An update of AdamW moves 28
 * bytes; at 3 TB/s and 300 TFLOP/s those are 2800, on a CPU's core with 20 GB/s and 100 GFLOP/s 140. */
enum { ELEMENT_WORK = 1000 };

/* `count` neighbours of equal size and work. */
typedef struct piece {
  int64_t count, elements;
  int64_t room;  /* elements of all of them on this rank: count * elements, or fewer */
  uint64_t work; /* of one */
} piece;

typedef struct pieces {
  piece *list;
  int64_t count, room;
  uint64_t work; /* of all */
  bool whole;    /* some tensor must stay so */
} pieces;

static tri_status add_piece(pieces *to, int64_t count, int64_t elements, int64_t room, uint64_t work) {
  if (count == 0 || elements == 0) return TRI_OK;
  TRI_TRY(tri_grow("pieces of a bucket", sizeof *to->list, to->count, &to->room, &to->list));
  to->list[to->count++] = (piece){count, elements, room, work};
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

static int64_t at_least_1(int64_t count) { return count < 1 ? 1 : count; }

/* Elements of an entry that the first rank of its parts has of the members that this one has. */
static int64_t most_elements(const tri_mesh_shape *shape, const tri_parameter *entry) {
  const tri_parameter first = tri_parameter_of_rank(entry, tri_domain_size(shape, entry->placement.parts), 0);
  return first.count / at_least_1(entry->stack) * at_least_1(entry->num_members);
}

/* Whether no rank of its parts has a block with the end of an entry and the begin of what is joined to it. */
static bool ends_a_block(const tri_mesh_shape *shape, const tri_parameter *entry) {
  const int64_t ranks = tri_domain_size(shape, entry->placement.parts);
  for (int64_t r = 0; r < ranks; r++) {
    const int64_t count = tri_parameter_of_rank(entry, ranks, r).count / at_least_1(entry->stack);
    if (count * at_least_1(entry->num_members) % TRI_BLOCK_ELEMENTS != 0) return false;
  }
  return true;
}

/* Whether an entry's optimizer updates it with the one before. */
static bool is_updated_with(const tri_optimizer_settings *settings, const tri_parameter *entry) {
  const tri_optimizer *optimizer = tri_optimizer_of(settings, entry);
  return tri_parameter_continues(entry) && optimizer != NULL && optimizer->joins_parts;
}

/* Entries that share blocks, and what they come to. */
typedef struct neighbours {
  uint64_t work;
  int64_t most; /* elements, as the first rank of their parts has them */
  bool whole;   /* some tensor of theirs must stay so */
} neighbours;

static void take_in(const tri_optimizer_settings *settings, const tri_mesh_shape *shape, const tri_parameter *entry,
                    neighbours *sum) {
  const tri_optimizer *by = tri_optimizer_of(settings, entry);
  const int64_t most = most_elements(shape, entry);
  sum->most += most;
  sum->work += stays_whole(by) ? (uint64_t)(by->work(settings, entry) * (double)tri_parameter_num_tensors(entry))
                               : (uint64_t)most * ELEMENT_WORK;
  sum->whole = sum->whole || stays_whole(by);
}

/* What begins with an entry and ends where the next one begins that no block is shared with, on any rank of its parts;
 * *i becomes that. Experts of a stack are pieces of their own: sums over blocks restart with each. */
static tri_status add_entries(const tri_optimizer_settings *settings, const tri_mesh_shape *shape,
                              const tri_parameter_table *table, const tri_bucket *bucket, int64_t *i, pieces *to) {
  const tri_parameter *entry = &table->entries[*i];
  const int64_t begin = entry->offset;
  const int64_t members = stays_whole(tri_optimizer_of(settings, entry)) ? at_least_1(entry->num_members) : 1;
  neighbours sum = {0};
  for (bool more = true; more;) {
    const tri_parameter *at = &table->entries[*i];
    take_in(settings, shape, at, &sum);
    do (*i)++;
    while (*i < bucket->end_entry && !tri_parameter_is_in_arrays(&table->entries[*i]));
    more = *i < bucket->end_entry && table->entries[*i].joined &&
           (is_updated_with(settings, &table->entries[*i]) || !ends_a_block(shape, at));
  }
  const int64_t end = *i < bucket->end_entry ? table->entries[*i].offset : bucket->end;
  to->whole = to->whole || sum.whole;
  if (!sum.whole) {
    const int64_t blocks = (sum.most + TRI_BLOCK_ELEMENTS - 1) / TRI_BLOCK_ELEMENTS;
    return add_piece(to, blocks, TRI_BLOCK_ELEMENTS, end - begin, TRI_BLOCK_ELEMENTS * ELEMENT_WORK);
  }
  if (members == 1) return add_piece(to, 1, end - begin, end - begin, sum.work);
  const int64_t each = entry->count / members;
  const uint64_t of_each = sum.work / (uint64_t)at_least_1(entry->stack); /* the work above is of all the stack's */
  TRI_TRY(add_piece(to, members - 1, each, (members - 1) * each, of_each));
  const int64_t rest = end - begin - (members - 1) * each;
  return add_piece(to, 1, rest, rest, of_each);
}

static tri_status find_pieces(const tri_optimizer_settings *settings, const tri_mesh_shape *shape,
                              const tri_parameter_table *table, const tri_bucket *bucket, pieces *to) {
  to->count = 0;
  to->work = 0;
  to->whole = false;
  int64_t i = bucket->first_entry;
  while (i < bucket->end_entry && !tri_parameter_is_in_arrays(&table->entries[i])) i++;
  while (i < bucket->end_entry) TRI_TRY(add_entries(settings, shape, table, bucket, &i, to));
  return TRI_OK;
}

/* Elements on this rank of the first `taken` of a piece. */
static int64_t elements_of(const piece *p, int64_t taken) {
  const int64_t elements = taken * p->elements;
  return elements < p->room ? elements : p->room;
}

/* Takes pieces in the order of the ranks up to the limit; whether all are taken. With `begins`, [ranks + 1], what each
 * rank has taken is added to the loads, and where its part begins is written there. */
static bool take_below(const pieces *of, uint64_t *loads, int64_t ranks, uint64_t limit, int64_t *begins) {
  int64_t at = 0, taken = 0, before = 0; /* elements of the pieces before */
  for (int64_t r = 0; r < ranks; r++) {
    uint64_t left = limit > loads[r] ? limit - loads[r] : 0, took = 0;
    if (begins != NULL) begins[r] = before + (at < of->count ? elements_of(&of->list[at], taken) : 0);
    while (at < of->count) {
      const piece *p = &of->list[at];
      const uint64_t fit = p->work == 0 ? (uint64_t)(p->count - taken) : left / p->work;
      const int64_t some = fit < (uint64_t)(p->count - taken) ? (int64_t)fit : p->count - taken;
      left -= (uint64_t)some * p->work;
      took += (uint64_t)some * p->work;
      taken += some;
      if (taken < p->count) break;
      before += p->room;
      taken = 0;
      at++;
    }
    if (begins != NULL) loads[r] += took;
  }
  if (begins != NULL) begins[ranks] = before;
  return at == of->count;
}

static uint64_t lowest_limit(const pieces *of, uint64_t *loads, int64_t ranks) {
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

/* Buckets over one domain share the loads. */
static tri_status cut_all(const tri_optimizer_settings *settings, const tri_mesh_shape *shape,
                          const tri_parameter_table *table, tri_buckets *buckets, pieces *scratch,
                          uint64_t *loads[TRI_NUM_DOMAINS]) {
  for (int64_t b = 0; b < buckets->count; b++) {
    tri_bucket *bucket = &buckets->entries[b];
    TRI_TRY(find_pieces(settings, shape, table, bucket, scratch));
    if (!scratch->whole || bucket->ranks == 1) continue;
    uint64_t **of = &loads[bucket->replicas];
    if (*of == NULL) TRI_TRY(tri_alloc("work of replicas", (size_t)bucket->ranks, sizeof **of, of));
    const uint64_t limit = lowest_limit(scratch, *of, bucket->ranks);
    (void)take_below(scratch, *of, bucket->ranks, limit, bucket->begins);
  }
  return TRI_OK;
}

tri_status tri_buckets_cut_at_tensors(const tri_optimizer_settings *optimizer, const tri_mesh_shape *shape,
                                      const tri_parameter_table *table, tri_buckets *buckets) {
  pieces scratch = {0};
  uint64_t *loads[TRI_NUM_DOMAINS] = {NULL};
  const tri_status status = cut_all(optimizer, shape, table, buckets, &scratch, loads);
  for (int d = 0; d < TRI_NUM_DOMAINS; d++) tri_free(loads[d]);
  tri_free(scratch.list);
  return status;
}
