/* Best-fit decreasing on a histogram (after Krell et al. 2021, "Efficient sequence packing without
 * cross-contamination", who pack histograms too).
 *
 * Best-fit decreasing puts one piece after the other, longest first, into the sequence with the least sufficient room.
 * Pieces of one length are equivalent, and so are sequences with equal contents, which form a group: each sequence of a
 * group gets as many pieces of a length as fit, since a sequence with one such piece is the best fit for the next. So
 * the work is one step for each pair of a length and a group. There are few such pairs: a group's room falls below half
 * when all its sequences get pieces, and a group is split at most once for each length, when the pieces end. The result
 * equals that of the plain algorithm, sequence for sequence.
 *
 * The contents of a group are a chain of entries, the newest first. Groups that were one group before share the rest of
 * the chain: row r of an entry is the r-th sequence that got these pieces, and a group's sequences are the rows from
 * `row` on. */
#include "data/packing.h"

#include "base/memory.h"

enum { LEVELS = 6 }; /* 6 levels of 64: up to 64^6 lengths */

/* Pieces of one length that were added to some sequences, the rows of the entry: `times` pieces to each row. The first
 * of these pieces in row r has the number first + r * times. */
typedef struct entry {
  int64_t length, times, first;
  int64_t before, before_row; /* before: entry with the contents of row 0 before these pieces, -1 if the sequence was
                                 empty; before_row: the row in that entry */
} entry;

typedef struct group {
  int64_t entry, row; /* entry: newest entry of the group's sequences; row: row of the first sequence in that entry */
  int64_t count;      /* number of sequences */
  int64_t next;       /* next group with the same room; -1: none */
} group;

struct tri_packing {
  int64_t sequence, tokens;
  entry *entries;
  int64_t num_entries, entries_room;
  group *groups; /* a group with count 0 is unused */
  int64_t num_groups, groups_room;
  int64_t *ends; /* [num_groups]: number of sequences in all groups up to and including this one */
};

/* Groups by their room, with a hierarchical bit set of the rooms that have a group. */
typedef struct rooms {
  int64_t *first; /* [sequence + 1]: first group with this room; -1: none */
  uint64_t *bits[LEVELS];
  int64_t words[LEVELS];
} rooms;

static void rooms_set(rooms *r, int64_t room, bool has) {
  for (int level = 0; level < LEVELS; level++) {
    uint64_t *word = &r->bits[level][room >> 6], bit = UINT64_C(1) << (room & 63);
    *word = has ? *word | bit : *word & ~bit;
    has = *word != 0;
    room >>= 6;
  }
}

/* Returns the smallest room from `room` on that has a group; -1 if there is none. */
static int64_t rooms_find(const rooms *r, int64_t room) {
  for (int level = 0; level < LEVELS; level++) {
    if (room >> 6 >= r->words[level]) return -1;
    uint64_t word = r->bits[level][room >> 6] >> (room & 63);
    if (word != 0) {
      room += __builtin_ctzll(word);
      while (level-- > 0) room = room << 6 | __builtin_ctzll(r->bits[level][room]);
      return room;
    }
    room = (room >> 6) + 1;
  }
  return -1;
}

static void rooms_release(rooms *r) {
  for (int level = 0; level < LEVELS; level++) tri_free(r->bits[level]);
  tri_free(r->first);
}

static tri_status rooms_create(int64_t sequence, rooms *out) {
  rooms r = {0};
  tri_status status = tri_alloc("packing", (size_t)sequence + 1, sizeof *r.first, &r.first);
  int64_t places = sequence + 1;
  for (int level = 0; level < LEVELS && status == TRI_OK; level++) {
    places = r.words[level] = (places + 63) / 64;
    status = tri_alloc("packing", (size_t)places, sizeof *r.bits[level], &r.bits[level]);
  }
  if (status != TRI_OK) {
    rooms_release(&r);
    return status;
  }
  for (int64_t i = 0; i <= sequence; i++) r.first[i] = -1;
  *out = r;
  return TRI_OK;
}

static tri_status add_group(tri_packing *p, rooms *r, group g, int64_t room) {
  TRI_TRY(tri_grow("packing", sizeof *p->groups, p->num_groups, &p->groups_room, &p->groups));
  g.next = r->first[room];
  r->first[room] = p->num_groups;
  p->groups[p->num_groups++] = g;
  rooms_set(r, room, true);
  return TRI_OK;
}

/* Adds the pieces of `e` to each of the first `count` sequences of the group `before`, which has `room` left; these
 * become a group with less room. */
static tri_status add_pieces_to_sequences(tri_packing *p, rooms *r, group before, int64_t count, entry e,
                                          int64_t room) {
  TRI_TRY(tri_grow("packing", sizeof *p->entries, p->num_entries, &p->entries_room, &p->entries));
  e.before = before.entry;
  e.before_row = before.row;
  p->entries[p->num_entries++] = e;
  return add_group(p, r, (group){.entry = p->num_entries - 1, .count = count}, room - e.length * e.times);
}

/* Packs pieces of a length into the group with the least sufficient room, or into empty sequences. Raises *number, the
 * number of the next piece of this length, and lowers *left, the number of pieces that are not packed yet. */
static tri_status pack_some(tri_packing *p, rooms *r, int64_t length, int64_t *number, int64_t *left) {
  int64_t room = rooms_find(r, length), at = room < 0 ? -1 : r->first[room];
  group before = {.entry = -1, .count = INT64_MAX};
  if (at < 0) room = p->sequence;
  if (at >= 0) before = p->groups[at];
  int64_t times = room / length, count = *left / times;
  if (count == 0) {
    times = *left;
    count = 1;
  }
  if (count > before.count) count = before.count;
  if (at >= 0 && count == before.count) {
    p->groups[at].count = 0;
    r->first[room] = before.next;
    rooms_set(r, room, before.next >= 0);
  } else if (at >= 0) {
    p->groups[at].row += count;
    p->groups[at].count -= count;
  }
  entry e = {.length = length, .times = times, .first = *number};
  *number += count * times;
  *left -= count * times;
  return add_pieces_to_sequences(p, r, before, count, e, room);
}

static tri_status pack(tri_packing *p, rooms *r, const int64_t *counts) {
  for (int64_t length = p->sequence; length > 0; length--) {
    int64_t number = 0, left = counts[length];
    p->tokens += left * length;
    while (left > 0) TRI_TRY(pack_some(p, r, length, &number, &left));
  }
  TRI_TRY(tri_alloc("packing", (size_t)p->num_groups, sizeof *p->ends, &p->ends));
  int64_t end = 0;
  for (int64_t g = 0; g < p->num_groups; g++) p->ends[g] = end += p->groups[g].count;
  return TRI_OK;
}

tri_status tri_packing_create(int64_t sequence, const int64_t *counts, tri_packing **out) {
  tri_packing *packing = NULL;
  rooms r;
  TRI_TRY(rooms_create(sequence, &r));
  tri_status status = tri_alloc("packing", 1, sizeof *packing, &packing);
  if (status == TRI_OK) packing->sequence = sequence;
  if (status == TRI_OK) status = pack(packing, &r, counts);
  rooms_release(&r);
  if (status == TRI_OK) *out = packing;
  if (status != TRI_OK) tri_packing_destroy(packing);
  return status;
}

void tri_packing_destroy(tri_packing *packing) {
  if (packing == NULL) return;
  tri_free(packing->ends);
  tri_free(packing->groups);
  tri_free(packing->entries);
  tri_free(packing);
}

int64_t tri_packing_sequences(const tri_packing *packing) {
  return packing->num_groups == 0 ? 0 : packing->ends[packing->num_groups - 1];
}

int64_t tri_packing_tokens(const tri_packing *packing) { return packing->tokens; }

tri_packing_cursor tri_packing_at(const tri_packing *packing, int64_t sequence) {
  int64_t low = 0, high = packing->num_groups - 1; /* bisection for the first group that ends after the sequence */
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (packing->ends[middle] > sequence) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  const group *g = &packing->groups[low];
  int64_t within = sequence - (packing->ends[low] - g->count);
  return (tri_packing_cursor){packing, g->entry, g->row + within, 0};
}

bool tri_packing_next(tri_packing_cursor *cursor, int64_t *length, int64_t *number) {
  if (cursor->entry < 0) return false;
  const entry *e = &cursor->packing->entries[cursor->entry];
  *length = e->length;
  *number = e->first + cursor->row * e->times + cursor->done;
  if (++cursor->done < e->times) return true;
  cursor->entry = e->before;
  cursor->row += e->before_row;
  cursor->done = 0;
  return true;
}
