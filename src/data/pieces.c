#include "data/pieces.h"

#include "base/memory.h"

#include <inttypes.h>
#include <string.h>

/* ---- counting ---------------------------------------------------------------------------------------------------- */

typedef struct counter {
  const tri_corpus *corpus;
  int64_t sequence;
  tri_too_long rule;
  int64_t documents, too_long, left_out, unlearnt;
  int64_t *counts;         /* number of pieces of each length [sequence + 1] */
  double windows_fraction; /* number of (query, key) pairs that attend in windows of `sequence` tokens with document
                              masks. The first window begins at the first token of the corpus. tri_packing_look divides
                              this number by the number of pairs without document masks */
} counter;

static double triangle(int64_t length) { return 0.5 * (double)length * ((double)length + 1); }

/* Returns the number of tokens of a document that are used. */
static int64_t taken_of(tri_too_long rule, int64_t sequence, int64_t length) {
  if (length <= sequence) return length;
  switch (rule) {
    case TRI_TOO_LONG_CUT:
    case TRI_TOO_LONG_AUTO:
    case TRI_TOO_LONG_REFUSE:
    case TRI_TOO_LONG_TRUNCATE_PROMPT: return length;
    case TRI_TOO_LONG_TRUNCATE: return sequence;
    case TRI_TOO_LONG_DROP: return 0;
  }
  return length;
}

/* Returns whether none of the labels of tokens first .. first + count - 1 is learnt. These labels are tokens first + 1
 * .. first + count. */
static bool nothing_is_learnt(const tri_corpus *corpus, int64_t first, int64_t count) {
  const uint8_t *mask = tri_corpus_mask(corpus, first + 1, count);
  return mask != NULL && memchr(mask, 1, (size_t)count) == NULL;
}

static tri_status count_pieces(void *context, int64_t first, int64_t length) {
  counter *c = context;
  const int64_t taken = taken_of(c->rule, c->sequence, length);
  c->documents++;
  c->too_long += length > c->sequence;
  c->left_out += length - taken;
  /* The last label of a truncated document is not counted in the loss. */
  c->unlearnt += 0 < taken && taken < length && nothing_is_learnt(c->corpus, first, taken - 1);
  length = taken;
  const int64_t rest = length % c->sequence, head = c->sequence - first % c->sequence;
  c->counts[c->sequence] += length / c->sequence;
  if (rest > 0) c->counts[rest]++;
  if (length <= head) {
    c->windows_fraction += triangle(length);
    return TRI_OK;
  }
  const int64_t behind = length - head, whole = behind / c->sequence;
  c->windows_fraction += triangle(head) + (double)whole * triangle(c->sequence) + triangle(behind % c->sequence);
  return TRI_OK;
}

static tri_status count_all(const tri_documents *documents, int64_t sequence, tri_too_long rule, counter *out) {
  *out = (counter){.corpus = documents->corpus, .sequence = sequence, .rule = rule};
  TRI_TRY(tri_alloc("lengths of documents", (size_t)sequence + 1, sizeof *out->counts, &out->counts));
  return tri_documents_walk(documents, count_pieces, out);
}

tri_status tri_packing_look(const tri_documents *documents, int64_t sequence, tri_packing_facts *out) {
  counter c;
  tri_packing *packing = NULL;
  double fraction = 0, tokens = (double)tri_corpus_num_tokens(documents->corpus);
  tri_status status = count_all(documents, sequence, TRI_TOO_LONG_CUT, &c);
  if (status == TRI_OK) status = tri_packing_create(sequence, c.counts, &packing);
  for (int64_t l = 1; l <= sequence && status == TRI_OK; l++) fraction += (double)c.counts[l] * triangle(l);
  if (status == TRI_OK) {
    double sequences = (double)tri_packing_sequences(packing);
    *out =
        (tri_packing_facts){.sequences = tri_packing_sequences(packing),
                            .padding = 1 - tokens / (sequences * (double)sequence),
                            .packed_fraction = fraction / (sequences * triangle(sequence)),
                            .windows_fraction = c.windows_fraction / (tokens / (double)sequence * triangle(sequence))};
  }
  tri_packing_destroy(packing);
  tri_free(c.counts);
  return status;
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

/* Assigns pieces to places by their length. pieces->begins[l + 1] is the next free place for a piece of length l.
 * Before the first piece this is the beginning of the places of length l, after the last piece their end. */
typedef struct placer {
  int64_t sequence;
  tri_too_long rule;
  tri_pieces *pieces;
} placer;

static tri_status place_pieces(void *context, int64_t first, int64_t length) {
  const placer *p = context;
  length = taken_of(p->rule, p->sequence, length);
  for (int64_t at = 0; at < length; at += p->sequence) {
    int64_t piece = length - at < p->sequence ? length - at : p->sequence;
    int64_t ends = at + piece == length;
    p->pieces->places[p->pieces->begins[piece + 1]++] = 2 * (first + at) + ends;
  }
  return TRI_OK;
}

static tri_status find_places(const tri_documents *documents, int64_t sequence, tri_too_long rule,
                              const int64_t *counts, tri_pieces *pieces) {
  int64_t total = 0;
  TRI_TRY(tri_alloc("lengths of pieces", (size_t)sequence + 2, sizeof *pieces->begins, &pieces->begins));
  for (int64_t l = 1; l <= sequence; l++) {
    pieces->begins[l + 1] = total;
    total += counts[l];
  }
  TRI_TRY(tri_alloc("pieces of documents", (size_t)total, sizeof *pieces->places, &pieces->places));
  return tri_documents_walk(documents, place_pieces, &(placer){sequence, rule, pieces});
}

static tri_status none_left(const tri_documents *documents, const counter *c) {
  return tri_fail(TRI_BAD_CONFIG,
                  "%s: all %" PRId64 " documents are longer than data.sequence (%" PRId64
                  " tokens) and dropped (data.too_long); raise data.sequence, or set data.too_long to truncate or cut",
                  tri_corpus_name(documents->corpus), c->documents, c->sequence);
}

tri_status tri_pieces_find(const tri_documents *documents, int64_t sequence, tri_too_long too_long, tri_pieces *out) {
  counter c;
  tri_pieces pieces = {0};
  tri_status status = count_all(documents, sequence, too_long, &c);
  if (status == TRI_OK && c.left_out == tri_corpus_num_tokens(documents->corpus)) status = none_left(documents, &c);
  if (status == TRI_OK) status = tri_packing_create(sequence, c.counts, &pieces.packing);
  if (status == TRI_OK) status = find_places(documents, sequence, too_long, c.counts, &pieces);
  pieces.documents = c.documents;
  pieces.too_long = c.too_long;
  pieces.left_out = c.left_out;
  pieces.unlearnt = c.unlearnt;
  tri_free(c.counts);
  if (status == TRI_OK) *out = pieces;
  if (status != TRI_OK) tri_pieces_release(&pieces);
  return status;
}

void tri_pieces_release(tri_pieces *pieces) {
  tri_free(pieces->places);
  tri_free(pieces->begins);
  tri_packing_destroy(pieces->packing);
  *pieces = (tri_pieces){0};
}
