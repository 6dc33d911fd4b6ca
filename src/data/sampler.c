/* What a sample is.
 *
 * Windows of an epoch are sequence + 1 tokens long and lie `sequence` tokens apart, so that every token but the first
 * is a label once. An epoch begins its windows at a shift of its own in [0, sequence): otherwise every epoch would cut
 * the text at the same places. Their number must not depend on the shift (the epoch of a sample is its index divided by
 * it), so where the last window would reach over the end of the corpus it is moved back to end there.
 *
 * Packed sequences hold pieces of given lengths (packing.h), and their number does not depend on the epoch either: an
 * epoch only says which of the pieces of a length takes which place.
 *
 * The order is a permutation that is computed, not stored (permutation.h): a corpus of 10^12 tokens has 10^9 windows,
 * and any rank must find sample i of epoch e alone.
 *
 * The label of a token is the one that follows it where both are of one sequence, or of one document. At the end of a
 * masked document nothing follows: that label does not count. */
#include "data/sampler.h"

#include "base/log.h"
#include "data/permutation.h"

#include <inttypes.h>
#include <string.h>

/* Beside the permutation's blocks, for the shift. */
#define SHIFT_BLOCK (UINT64_C(1) << 63)

/* What is left of a masked sequence is cut into documents of this length: attention's work on them stays small, and is
 * not that of a document a token either. */
enum { FILLING_POSITIONS = 64 };

static void say_empty(const tri_corpus *corpus) {
  int64_t empty = tri_corpus_num_empty(corpus);
  if (empty == 0) return;
  tri_warn("%s: its index has %" PRId64
           " documents of no tokens, which are passed over; if there should be text, prepare it again",
           tri_corpus_name(corpus), empty);
}

static tri_status create_windows(const tri_corpus *corpus, tri_sampler *sampler) {
  int64_t tokens = tri_corpus_num_tokens(corpus), sequence = sampler->sequence;
  if (tokens - 1 < sequence) {
    return tri_fail(TRI_BAD_CONFIG,
                    "the corpus has %" PRId64 " tokens, fewer than the %" PRIu64
                    " of one sample (data.sequence %" PRId64
                    " and its last label); prepare more text or lower data.sequence",
                    tokens, (uint64_t)sequence + 1, sequence);
  }
  sampler->per_epoch = (tokens - 1) / sequence;
  return TRI_OK;
}

static tri_status create_packed(tri_sampler *sampler) {
  TRI_TRY(tri_pieces_find(&sampler->documents, sampler->sequence, &sampler->pieces));
  sampler->per_epoch = tri_packing_sequences(sampler->pieces.packing);
  return TRI_OK;
}

tri_status tri_sampler_create(const tri_corpus *corpus, const tri_sampler_options *options, tri_sampler *out) {
  tri_sampler sampler = {
      .corpus = corpus,
      .sequence = options->sequence,
      .vocab_size = options->vocab_size,
      .seed = options->seed,
      .masked = options->documents == TRI_DOCUMENTS_MASKED,
      .documents = tri_documents_of(corpus, options->end_of_text),
  };
  if (sampler.sequence < 1) {
    return tri_fail(TRI_BAD_CONFIG, "data.sequence is %" PRId64 "; a sample has at least 1 token", sampler.sequence);
  }
  bool packed = options->packing == TRI_PACKING_DOCUMENTS;
  if (sampler.masked || packed) say_empty(corpus);
  TRI_TRY(packed ? create_packed(&sampler) : create_windows(corpus, &sampler));
  *out = sampler;
  return TRI_OK;
}

void tri_sampler_destroy(tri_sampler *sampler) { tri_pieces_release(&sampler->pieces); }

/* ---- windows ----------------------------------------------------------------------------------------------------- */

static tri_status read_window(const tri_sampler *sampler, int64_t first, const tri_sample *out) {
  int64_t sequence = sampler->sequence;
  bool ends = false;
  TRI_TRY(tri_corpus_read(sampler->corpus, first, sequence, sampler->vocab_size, out->ids));
  memcpy(out->labels, out->ids + 1, (size_t)(sequence - 1) * sizeof *out->labels);
  TRI_TRY(tri_corpus_read(sampler->corpus, first + sequence, 1, sampler->vocab_size, out->labels + sequence - 1));
  if (!sampler->masked) {
    for (int64_t t = 0; t < sequence; t++) out->positions[t] = (int32_t)t;
    return TRI_OK;
  }
  tri_documents_positions(&sampler->documents, first, sequence, out->ids, out->positions, &ends);
  for (int64_t t = 0; t < sequence; t++) {
    if (t + 1 < sequence ? out->positions[t + 1] == 0 : ends) out->labels[t] = -1;
  }
  return TRI_OK;
}

/* Where window `window` begins in an epoch. */
static int64_t window_begin(const tri_sampler *sampler, tri_random_key key, int64_t window) {
  uint32_t words[4];
  tri_random_block(key, SHIFT_BLOCK, words);
  uint64_t shift = ((uint64_t)words[1] << 32 | words[0]) % (uint64_t)sampler->sequence;
  int64_t first = (int64_t)shift + window * sampler->sequence;
  int64_t last_first = tri_corpus_num_tokens(sampler->corpus) - sampler->sequence - 1;
  return first < last_first ? first : last_first;
}

/* ---- packed sequences -------------------------------------------------------------------------------------------- */

/* Which of the pieces of a length has this number in an epoch; in that of evaluations (-1) each its own. */
static int64_t piece_of(const tri_sampler *sampler, int64_t epoch, int64_t length, int64_t number) {
  const int64_t *begins = sampler->pieces.begins;
  if (epoch < 0) return sampler->pieces.places[begins[length] + number];
  uint64_t stream = (uint64_t)epoch << 31 | (uint64_t)length; /* a sequence has at most 2^30 tokens */
  tri_random_key key = tri_random_stream(sampler->seed, TRI_RANDOM_PACK, stream);
  uint64_t count = (uint64_t)(begins[length + 1] - begins[length]);
  return sampler->pieces.places[begins[length] + (int64_t)tri_permutation_at(key, count, (uint64_t)number)];
}

/* A piece, from token `at` of the sample on. */
static tri_status read_piece(const tri_sampler *sampler, int64_t place, int64_t length, int64_t at,
                             const tri_sample *out) {
  int64_t first = place >> 1;
  bool ends = (place & 1) != 0;
  int32_t *ids = out->ids + at, *labels = out->labels + at;
  TRI_TRY(tri_corpus_read(sampler->corpus, first, length, sampler->vocab_size, ids));
  memcpy(labels, ids + 1, (size_t)(length - 1) * sizeof *labels);
  labels[length - 1] = -1;
  if (!ends) TRI_TRY(tri_corpus_read(sampler->corpus, first + length, 1, sampler->vocab_size, labels + length - 1));
  if (!sampler->masked && at > 0) out->labels[at - 1] = ids[0];
  for (int64_t t = 0; t < length; t++) out->positions[at + t] = (int32_t)(sampler->masked ? t : at + t);
  return TRI_OK;
}

static tri_status read_packed(const tri_sampler *sampler, int64_t epoch, int64_t number, const tri_sample *out) {
  tri_packing_cursor cursor = tri_packing_at(sampler->pieces.packing, number);
  int64_t at = 0, length = 0, which = 0;
  while (tri_packing_next(&cursor, &length, &which)) {
    TRI_TRY(read_piece(sampler, piece_of(sampler, epoch, length, which), length, at, out));
    at += length;
  }
  for (int64_t t = at; t < sampler->sequence; t++) {
    out->ids[t] = 0;
    out->labels[t] = -1;
    out->positions[t] = (int32_t)(sampler->masked ? (t - at) % FILLING_POSITIONS : t);
  }
  return TRI_OK;
}

/* ---- both -------------------------------------------------------------------------------------------------------- */

tri_status tri_sampler_read(const tri_sampler *sampler, int64_t index, const tri_sample *out) {
  if (index < 0) return tri_fail(TRI_INTERNAL, "sample %" PRId64 " was asked for", index);
  int64_t epoch = index / sampler->per_epoch;
  tri_random_key key = tri_random_stream(sampler->seed, TRI_RANDOM_ORDER, (uint64_t)epoch);
  uint64_t place = (uint64_t)(index % sampler->per_epoch);
  int64_t which = (int64_t)tri_permutation_at(key, (uint64_t)sampler->per_epoch, place);
  if (sampler->pieces.packing != NULL) return read_packed(sampler, epoch, which, out);
  return read_window(sampler, window_begin(sampler, key, which), out);
}

tri_status tri_sampler_read_in_order(const tri_sampler *sampler, int64_t index, const tri_sample *out) {
  if (index < 0 || index >= sampler->per_epoch) {
    return tri_fail(TRI_INTERNAL, "window %" PRId64 " of %" PRId64 " was asked for", index, sampler->per_epoch);
  }
  if (sampler->pieces.packing != NULL) return read_packed(sampler, -1, index, out);
  return read_window(sampler, index * sampler->sequence, out);
}
