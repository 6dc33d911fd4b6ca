#include "plan/drawn_documents.h"

#include "base/memory.h"
#include "base/random.h"
#include "data/packing.h"

#include <inttypes.h>

/* Largest number of different lengths for a range. */
enum { SPREAD = 16 };

/* Largest number of tokens of a range: a double has all integers up to it. */
static const int64_t MOST_TOKENS = INT64_C(1) << 50;

/* Documents of one length. */
typedef struct group {
  int64_t length, documents;
  double documents_below, tokens_below; /* numbers of documents and of tokens in all groups before this one */
} group;

struct tri_drawn_documents {
  int64_t sequence;
  group *groups; /* groups in ascending order of length [num_groups] */
  int64_t num_groups;
  double documents, tokens; /* numbers of documents and of tokens in all groups */
  tri_packing *packing;     /* NULL: sequences are windows of the text */
};

tri_status tri_length_ranges_check(const tri_length_ranges *lengths, const char *name) {
  for (int64_t i = 0; i < lengths->count; i++) {
    const tri_length_range *r = &lengths->ranges[i];
    bool possible = r->from >= 1 && r->to >= r->from && r->documents >= 1 && r->tokens >= 1 && r->tokens <= MOST_TOKENS;
    double mean = possible ? (double)r->tokens / (double)r->documents : 0;
    if (possible && mean >= (double)r->from && mean <= (double)r->to) continue;
    return tri_fail(TRI_BAD_FILE,
                    "%s is inconsistent: %" PRId64 " documents of %" PRId64 " to %" PRId64
                    " tokens cannot have %" PRId64
                    " tokens in total; write it again with `trireme inspect CORPUS --json`",
                    name, r->documents, r->from, r->to, r->tokens);
  }
  return TRI_OK;
}

/* ---- lengths of documents ---------------------------------------------------------------------------------------- */

/* Appends documents of one length, which must not be below that of the last group. Equal lengths become one group. */
static void add_documents(tri_drawn_documents *draws, int64_t length, int64_t count) {
  int64_t n = draws->num_groups;
  if (n > 0 && draws->groups[n - 1].length == length) {
    draws->groups[n - 1].documents += count;
  } else {
    draws->groups[draws->num_groups++] = (group){.length = length, .documents = count};
  }
}

/* Adds a range as groups of lengths. The lengths are spread evenly over an interval around the mean of the range. Half
 * the width of the interval is the distance from the mean to the nearer end of the range. */
static void add_range(tri_drawn_documents *draws, const tri_length_range *r) {
  double mean = (double)r->tokens / (double)r->documents, low = (double)r->from, high = (double)r->to;
  if (mean - low < high - mean) high = 2 * mean - low;
  if (high - mean < mean - low) low = 2 * mean - high;
  int64_t parts = r->documents < SPREAD ? r->documents : SPREAD, given = 0;
  if (parts > r->to - r->from + 1) parts = r->to - r->from + 1;
  for (int64_t i = 0; i < parts; i++) {
    double at = low + (high - low) * ((double)i + 0.5) / (double)parts;
    int64_t count = r->documents * (i + 1) / parts - given;
    given += count;
    add_documents(draws, (int64_t)(at + 0.5), count);
  }
}

static tri_status pack(tri_drawn_documents *draws) {
  int64_t *pieces = NULL, s = draws->sequence;
  TRI_TRY(tri_alloc("drawn documents", (size_t)s + 1, sizeof *pieces, &pieces));
  for (int64_t g = 0; g < draws->num_groups; g++) {
    const group *of = &draws->groups[g];
    pieces[s] += of->length / s * of->documents;
    if (of->length % s > 0) pieces[of->length % s] += of->documents;
  }
  tri_status status = tri_packing_create(s, pieces, &draws->packing);
  tri_free(pieces);
  return status;
}

static tri_status draws_fill(const tri_length_ranges *lengths, bool packed, tri_drawn_documents *draws) {
  TRI_TRY(tri_alloc("drawn documents", (size_t)lengths->count * SPREAD, sizeof *draws->groups, &draws->groups));
  for (int64_t i = 0; i < lengths->count; i++) add_range(draws, &lengths->ranges[i]);
  for (int64_t g = 0; g < draws->num_groups; g++) {
    group *of = &draws->groups[g];
    of->documents_below = draws->documents;
    of->tokens_below = draws->tokens;
    draws->documents += (double)of->documents;
    draws->tokens += (double)of->documents * (double)of->length;
  }
  return packed ? pack(draws) : TRI_OK;
}

tri_status tri_drawn_documents_create(const tri_length_ranges *lengths, int64_t sequence, bool packed,
                                      tri_drawn_documents **out) {
  tri_drawn_documents *draws = NULL;
  TRI_TRY(tri_alloc("drawn documents", 1, sizeof *draws, &draws));
  draws->sequence = sequence;
  tri_status status = draws_fill(lengths, packed, draws);
  if (status == TRI_OK) *out = draws;
  if (status != TRI_OK) tri_drawn_documents_destroy(draws);
  return status;
}

void tri_drawn_documents_destroy(tri_drawn_documents *draws) {
  if (draws == NULL) return;
  tri_packing_destroy(draws->packing);
  tri_free(draws->groups);
  tri_free(draws);
}

int64_t tri_drawn_documents_tokens(const tri_drawn_documents *draws) { return draws->sequence; }

/* ---- a sequence -------------------------------------------------------------------------------------------------- */

/* Returns the group with document number `place`, or with token number `place` if by_tokens is set. */
static const group *find_group(const tri_drawn_documents *draws, double place, bool by_tokens) {
  int64_t low = 0, high = draws->num_groups - 1;
  while (low < high) {
    int64_t middle = (low + high + 1) / 2;
    const group *of = &draws->groups[middle];
    if ((by_tokens ? of->tokens_below : of->documents_below) <= place) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return &draws->groups[low];
}

static int64_t draw_window(const tri_drawn_documents *draws, int64_t number, int32_t *lengths) {
  tri_random_key key = tri_random_stream(0, TRI_RANDOM_PLAN, (uint64_t)number);
  double place = tri_random_uniform(key, 0) * draws->tokens;
  const group *of = find_group(draws, place, true);
  int64_t count = 0, room = draws->sequence, inside = (int64_t)(place - of->tokens_below) % of->length;
  int64_t length = of->length - inside;
  for (;;) {
    if (length > room) length = room;
    lengths[count++] = (int32_t)length;
    room -= length;
    if (room == 0) return count;
    length = find_group(draws, tri_random_uniform(key, (uint64_t)count) * draws->documents, false)->length;
  }
}

/* Writes the lengths of the documents of a packed sequence. The rest of the sequence is padding, which counts as
 * documents of at most TRI_PACKING_FILLING tokens (data/packing.h). */
static int64_t draw_packed(const tri_drawn_documents *draws, int64_t number, int32_t *lengths) {
  tri_random_key key = tri_random_stream(0, TRI_RANDOM_PLAN, (uint64_t)number);
  int64_t sequences = tri_packing_sequences(draws->packing), count = 0, length = 0, which = 0, room = draws->sequence;
  int64_t at = (int64_t)(tri_random_uniform(key, 0) * (double)sequences);
  tri_packing_cursor cursor = tri_packing_at(draws->packing, at < sequences ? at : sequences - 1);
  while (tri_packing_next(&cursor, &length, &which)) {
    lengths[count++] = (int32_t)length;
    room -= length;
  }
  for (; room > 0; room -= length) {
    length = room < TRI_PACKING_FILLING ? room : TRI_PACKING_FILLING;
    lengths[count++] = (int32_t)length;
  }
  return count;
}

int64_t tri_drawn_documents_sequence(const tri_drawn_documents *draws, int64_t number, int32_t *lengths) {
  return draws->packing != NULL ? draw_packed(draws, number, lengths) : draw_window(draws, number, lengths);
}
