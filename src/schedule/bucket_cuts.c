/* Divides the work of an update among replicas, in whole tensors.
 *
 * A bucket is a sequence of pieces: a tensor that has to stay whole, or many blocks of elements. The parts of a bucket
 * are in the order of the ranks, since a reduction scatters a bucket in that order. A bucket with fewer tensors than
 * ranks leaves some ranks without work, so the work of all buckets is balanced together: in each bucket a rank takes
 * the next pieces as long as its work, including the work in earlier buckets, does not exceed a limit. The limit is the
 * lowest one with which all pieces are assigned.
 *
 * All ranks of a stage must compute the same cut, because the ranks of a replica that have the shards of a tensor
 * gather the whole tensor from each other. So the work is counted in integers, and from the sizes of the shards on the
 * first of these ranks, which has the most elements. Another rank may have fewer elements of a piece. */
#include "schedule/bucket_cuts.h"

#include "base/count.h"
#include "base/memory.h"

/* Cost of updating an element, as the number of FLOPs that a GEMM does in the same time. It is a round figure: AdamW's
 * update moves 28 bytes, which take as long as 2800 FLOPs at 3 TB/s and 300 TFLOP/s, and as 140 FLOPs on a CPU core
 * with 20 GB/s and 100 GFLOP/s. */
enum { ELEMENT_WORK = 1000 };

/* `count` adjacent tensors or blocks of equal size and work. */
typedef struct piece {
  int64_t count, elements; /* number of tensors or blocks; number of elements of each */
  int64_t room;  /* number of elements of all tensors or blocks together on this rank, at most count * elements */
  uint64_t work; /* work of each tensor or block, in the unit of ELEMENT_WORK */
} piece;

typedef struct pieces {
  piece *list;
  int64_t count, room;
  uint64_t work; /* sum over all pieces */
  bool whole;    /* whether one of the pieces is a tensor that must not be cut */
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

/* Returns the elements of an entry on the first of the ranks that split it. If the entry is a stack of experts, only
 * the experts of this rank count. */
static int64_t most_elements(const tri_mesh_shape *shape, const tri_parameter *entry) {
  const tri_parameter first = tri_parameter_of_rank(entry, tri_domain_size(shape, entry->placement.parts), 0);
  return first.count / tri_larger(1, entry->stack) * tri_larger(1, entry->num_members);
}

/* Returns whether an entry ends at the end of a block on all ranks that split it, so that the entry joined to it begins
 * a new block. */
static bool ends_a_block(const tri_mesh_shape *shape, const tri_parameter *entry) {
  const int64_t ranks = tri_domain_size(shape, entry->placement.parts);
  for (int64_t r = 0; r < ranks; r++) {
    const int64_t count = tri_parameter_of_rank(entry, ranks, r).count / tri_larger(1, entry->stack);
    if (count * tri_larger(1, entry->num_members) % TRI_BLOCK_ELEMENTS != 0) return false;
  }
  return true;
}

/* Returns whether an entry's optimizer updates it together with the previous entry. */
static bool is_updated_with(const tri_optimizer_settings *settings, const tri_parameter *entry) {
  const tri_optimizer *optimizer = tri_optimizer_of(settings, entry);
  return tri_parameter_continues(entry) && optimizer != NULL && optimizer->joins_parts;
}

/* Sums over adjacent entries that share blocks. */
typedef struct neighbours {
  uint64_t work;
  int64_t most; /* elements on the first of the ranks that split the entries */
  bool whole;   /* whether one of the entries is a tensor that must not be cut */
} neighbours;

static void add_entry(const tri_optimizer_settings *settings, const tri_mesh_shape *shape, const tri_parameter *entry,
                      neighbours *sum) {
  const tri_optimizer *by = tri_optimizer_of(settings, entry);
  const int64_t most = most_elements(shape, entry);
  sum->most += most;
  sum->work += stays_whole(by) ? (uint64_t)(by->work(settings, entry) * (double)tri_parameter_num_tensors(entry))
                               : (uint64_t)most * ELEMENT_WORK;
  sum->whole = sum->whole || stays_whole(by);
}

/* Adds the entries from *i up to the next entry that shares no block with them on any rank, and sets *i to the index
 * of that entry. The experts of a stack are separate pieces, since sums over blocks restart with each expert. */
static tri_status add_entries(const tri_optimizer_settings *settings, const tri_mesh_shape *shape,
                              const tri_parameter_table *table, const tri_bucket *bucket, int64_t *i, pieces *to) {
  const tri_parameter *entry = &table->entries[*i];
  const int64_t begin = entry->offset;
  const int64_t members = stays_whole(tri_optimizer_of(settings, entry)) ? tri_larger(1, entry->num_members) : 1;
  neighbours sum = {0};
  for (bool more = true; more;) {
    const tri_parameter *at = &table->entries[*i];
    add_entry(settings, shape, at, &sum);
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
  const uint64_t of_each =
      sum.work / (uint64_t)tri_larger(1, entry->stack); /* sum.work is the work of the whole stack */
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

/* Returns the elements on this rank of the first `taken` tensors or blocks of a piece. */
static int64_t elements_of(const piece *p, int64_t taken) {
  const int64_t elements = taken * p->elements;
  return elements < p->room ? elements : p->room;
}

/* Assigns pieces to the ranks in order, to each rank up to the limit of its work. Returns whether all pieces are
 * assigned. If `begins` [ranks + 1] is not NULL, writes the begins of the parts to it and adds the work to
 * loads[ranks]; else only tests the limit. */
static bool assign_below(const pieces *of, uint64_t *loads, int64_t ranks, uint64_t limit, int64_t *begins) {
  int64_t at = 0, taken = 0, before = 0; /* before: elements of the pieces before `at` */
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

/* Returns the lowest limit with which all pieces are assigned. */
static uint64_t lowest_limit(const pieces *of, uint64_t *loads, int64_t ranks) {
  uint64_t low = 0, high = of->work;
  for (int64_t r = 0; r < ranks; r++) high = loads[r] + of->work > high ? loads[r] + of->work : high;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (assign_below(of, loads, ranks, middle, NULL)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return high;
}

/* Cuts all buckets. Buckets over the same domain are balanced together. */
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
    (void)assign_below(scratch, *of, bucket->ranks, limit, bucket->begins);
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
