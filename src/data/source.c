/* Samples of a corpus.
 *
 * Windows are sequence + 1 tokens long and begin `sequence` tokens apart, so that every token but the first is a label
 * once. Each epoch shifts its windows by an offset in [0, sequence); otherwise every epoch would cut the text at the
 * same positions. The number of windows must not depend on the offset (the epoch of a sample is its index divided by
 * that number), so a last window beyond the end of the corpus is moved back to end there.
 *
 * Packed sequences have pieces of given lengths (packing.h), and their number does not depend on the epoch either: an
 * epoch only permutes the pieces of each length.
 *
 * The order is a permutation that is computed, not stored (permutation.h): a corpus of 10^12 tokens has 10^9 windows,
 * and every rank must find sample i of epoch e without computing other samples.
 *
 * The label of a token is the next token of the sequence; if documents are masked, of the document. The label at the
 * end of a masked document does not count, nor do labels that the corpus's mask excludes. */
#include "data/source.h"

#include "base/log.h"
#include "base/random.h"
#include "data/permutation.h"
#include "mesh/label.h"

#include <inttypes.h>
#include <string.h>

/* Block of the key for the offset; the permutation does not use it. */
#define SHIFT_BLOCK (UINT64_C(1) << 63)

static void warn_of_empty(const tri_corpus *corpus) {
  int64_t empty = tri_corpus_num_empty(corpus);
  if (empty == 0) return;
  tri_warn("%s: its index has %" PRId64
           " documents of no tokens, which are passed over; if there should be text, prepare it again",
           tri_corpus_name(corpus), empty);
}

static tri_status create_windows(const tri_corpus *corpus, tri_source *source) {
  int64_t tokens = tri_corpus_num_tokens(corpus), sequence = source->sequence;
  if (tokens - 1 < sequence) {
    return tri_fail(TRI_BAD_CONFIG,
                    "%s has %" PRId64 " tokens, fewer than the %" PRIu64 " of one sample (data.sequence %" PRId64
                    " and its last label); prepare more text or lower data.sequence",
                    tri_corpus_name(corpus), tokens, (uint64_t)sequence + 1, sequence);
  }
  source->per_epoch = (tokens - 1) / sequence;
  return TRI_OK;
}

static tri_status create_packed(tri_too_long too_long, tri_source *source) {
  TRI_TRY(tri_pieces_find(&source->documents, source->sequence, too_long, &source->pieces));
  source->per_epoch = tri_packing_sequences(source->pieces.packing);
  return TRI_OK;
}

tri_status tri_source_create(const tri_corpus *corpus, const tri_source_options *options, tri_source *out) {
  tri_source source = {
      .corpus = corpus,
      .sequence = options->sequence,
      .vocab_size = options->vocab_size,
      .seed = options->seed,
      .masked = options->documents == TRI_DOCUMENTS_MASKED,
      .documents = tri_documents_of(corpus, options->end_of_text),
  };
  if (source.sequence < 1) {
    return tri_fail(TRI_BAD_CONFIG, "data.sequence is %" PRId64 "; a sample has at least 1 token", source.sequence);
  }
  bool packed = options->packing == TRI_PACKING_DOCUMENTS;
  if (source.masked || packed) warn_of_empty(corpus);
  TRI_TRY(packed ? create_packed(options->too_long, &source) : create_windows(corpus, &source));
  source.limited = options->max_samples > 0 && options->max_samples < source.per_epoch;
  if (source.limited) source.per_epoch = options->max_samples;
  *out = source;
  return TRI_OK;
}

void tri_source_destroy(tri_source *source) { tri_pieces_release(&source->pieces); }

/* ---- windows ----------------------------------------------------------------------------------------------------- */

static tri_status read_window(const tri_source *source, int64_t first, const tri_sample *out) {
  int64_t sequence = source->sequence;
  bool ends = false;
  TRI_TRY(tri_corpus_read(source->corpus, first, sequence, source->vocab_size, out->ids));
  memcpy(out->labels, out->ids + 1, (size_t)(sequence - 1) * sizeof *out->labels);
  TRI_TRY(tri_corpus_read(source->corpus, first + sequence, 1, source->vocab_size, out->labels + sequence - 1));
  tri_corpus_mask_labels(source->corpus, first + 1, sequence, out->labels);
  if (!source->masked) {
    for (int64_t t = 0; t < sequence; t++) out->positions[t] = (int32_t)t;
    return TRI_OK;
  }
  tri_documents_positions(&source->documents, first, sequence, out->ids, out->positions, &ends);
  for (int64_t t = 0; t < sequence; t++) {
    if (t + 1 < sequence ? out->positions[t + 1] == 0 : ends) out->labels[t] = TRI_LABEL_NONE;
  }
  return TRI_OK;
}

/* Returns the first token of a window in an epoch. */
static int64_t window_begin(const tri_source *source, tri_random_key key, int64_t window) {
  uint32_t words[4];
  tri_random_block(key, SHIFT_BLOCK, words);
  uint64_t shift = ((uint64_t)words[1] << 32 | words[0]) % (uint64_t)source->sequence;
  int64_t first = (int64_t)shift + window * source->sequence;
  int64_t last_first = tri_corpus_num_tokens(source->corpus) - source->sequence - 1;
  return first < last_first ? first : last_first;
}

/* ---- packed sequences -------------------------------------------------------------------------------------------- */

/* Returns the place (tri_pieces) of piece `number` among the pieces of a length in an epoch. Epoch -1 is for
 * evaluations: its pieces are in the order of the corpus. */
static int64_t piece_of(const tri_source *source, int64_t epoch, int64_t length, int64_t number) {
  const int64_t *begins = source->pieces.begins;
  if (epoch < 0) return source->pieces.places[begins[length] + number];
  uint64_t stream = (uint64_t)epoch << 31 | (uint64_t)length; /* a sequence has at most 2^30 tokens */
  tri_random_key key = tri_random_stream(source->seed, TRI_RANDOM_PACK, stream);
  uint64_t count = (uint64_t)(begins[length + 1] - begins[length]);
  return source->pieces.places[begins[length] + (int64_t)tri_permutation_at(key, count, (uint64_t)number)];
}

/* Reads a piece into the sample from token `at` on, with labels and positions. Unless documents are masked, the first
 * token of the piece also becomes the label of the token before it. */
static tri_status read_piece(const tri_source *source, int64_t place, int64_t length, int64_t at,
                             const tri_sample *out) {
  int64_t first = place >> 1;
  bool ends = (place & 1) != 0;
  int32_t *ids = out->ids + at, *labels = out->labels + at;
  TRI_TRY(tri_corpus_read(source->corpus, first, length, source->vocab_size, ids));
  memcpy(labels, ids + 1, (size_t)(length - 1) * sizeof *labels);
  labels[length - 1] = TRI_LABEL_NONE;
  if (!ends) TRI_TRY(tri_corpus_read(source->corpus, first + length, 1, source->vocab_size, labels + length - 1));
  tri_corpus_mask_labels(source->corpus, first + 1, ends ? length - 1 : length, labels);
  if (!source->masked && at > 0) {
    out->labels[at - 1] = ids[0];
    tri_corpus_mask_labels(source->corpus, first, 1, out->labels + at - 1);
  }
  for (int64_t t = 0; t < length; t++) out->positions[at + t] = (int32_t)(source->masked ? t : at + t);
  return TRI_OK;
}

static tri_status read_packed(const tri_source *source, int64_t epoch, int64_t number, const tri_sample *out) {
  tri_packing_cursor cursor = tri_packing_at(source->pieces.packing, number);
  int64_t at = 0, length = 0, which = 0;
  while (tri_packing_next(&cursor, &length, &which)) {
    TRI_TRY(read_piece(source, piece_of(source, epoch, length, which), length, at, out));
    at += length;
  }
  for (int64_t t = at; t < source->sequence; t++) {
    out->ids[t] = 0;
    out->labels[t] = TRI_LABEL_PADDING;
    out->positions[t] = (int32_t)(source->masked ? (t - at) % TRI_PACKING_FILLING : t);
  }
  return TRI_OK;
}

/* ---- both -------------------------------------------------------------------------------------------------------- */

static void weigh_all(const tri_source *source, const tri_sample *out) {
  for (int64_t t = 0; t < source->sequence && out->weights != NULL; t++) out->weights[t] = 1;
}

tri_status tri_source_read(const tri_source *source, int64_t index, const tri_sample *out) {
  if (index < 0) return tri_fail_internal("sample %" PRId64 " was asked for", index);
  int64_t epoch = index / source->per_epoch;
  tri_random_key key = tri_random_stream(source->seed, TRI_RANDOM_ORDER, (uint64_t)epoch);
  uint64_t place = (uint64_t)(index % source->per_epoch);
  int64_t which = (int64_t)tri_permutation_at(key, (uint64_t)source->per_epoch, place);
  weigh_all(source, out);
  if (source->limited) return tri_source_read_in_order(source, which, out);
  if (source->pieces.packing != NULL) return read_packed(source, epoch, which, out);
  return read_window(source, window_begin(source, key, which), out);
}

tri_status tri_source_read_in_order(const tri_source *source, int64_t index, const tri_sample *out) {
  if (index < 0 || index >= source->per_epoch) {
    return tri_fail_internal("window %" PRId64 " of %" PRId64 " was asked for", index, source->per_epoch);
  }
  weigh_all(source, out);
  if (source->pieces.packing != NULL) return read_packed(source, -1, index, out);
  return read_window(source, index * source->sequence, out);
}

static tri_status begins_document(const tri_source *source, int64_t first, bool *out) {
  int32_t ids[2], positions[2] = {0};
  bool ends = false;
  *out = first == 0;
  if (first == 0) return TRI_OK;
  TRI_TRY(tri_corpus_read(source->corpus, first - 1, 2, source->vocab_size, ids));
  tri_documents_positions(&source->documents, first - 1, 2, ids, positions, &ends);
  *out = positions[1] == 0;
  return TRI_OK;
}

tri_status tri_source_places_in_order(const tri_source *source, int64_t index, tri_token_place *out) {
  tri_packing_cursor cursor = tri_packing_at(source->pieces.packing, index);
  int64_t at = 0, length = 0, which = 0;
  while (tri_packing_next(&cursor, &length, &which)) {
    bool begins = false;
    TRI_TRY(begins_document(source, piece_of(source, -1, length, which) >> 1, &begins));
    for (int64_t t = 0; t < length; t++) out[at + t] = TRI_TOKEN_INSIDE;
    out[at] = begins ? TRI_TOKEN_BEGINS : TRI_TOKEN_CONTINUES;
    at += length;
  }
  for (int64_t t = at; t < source->sequence; t++) out[t] = TRI_TOKEN_NONE;
  return TRI_OK;
}
