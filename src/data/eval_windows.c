#include "data/eval_windows.h"

#include "base/memory.h"
#include "mesh/label.h"

#include <string.h>

static bool is_packed(const tri_eval_windows *w) {
  switch (w->options.packing) {
    case TRI_PACKING_AUTO:
    case TRI_PACKING_WINDOWS: return false;
    case TRI_PACKING_DOCUMENTS: break;
  }
  return true;
}

static bool is_masked(const tri_eval_windows *w) {
  switch (w->options.documents) {
    case TRI_DOCUMENTS_AUTO:
    case TRI_DOCUMENTS_JOINED: return false;
    case TRI_DOCUMENTS_MASKED: break;
  }
  return true;
}

/* Creates a source that yields each document once, in the order of the corpus, and sets the number of sequences; the
 * seed is not used. */
static tri_status pack(tri_eval_windows *w) {
  const tri_source_options options = {
      .sequence = w->options.sequence,
      .vocab_size = w->options.vocab_size,
      .documents = w->options.documents,
      .packing = w->options.packing,
      .too_long = w->options.too_long,
      .end_of_text = w->documents.end_of_text,
  };
  TRI_TRY(tri_source_create(w->corpus, &options, &w->packed));
  w->count = w->packed.per_epoch;
  return TRI_OK;
}

tri_status tri_eval_windows_create(const tri_corpus *corpus, const tri_eval_windows_options *options,
                                   tri_eval_windows *out) {
  const int64_t sequence = options->sequence;
  *out = (tri_eval_windows){.corpus = corpus, .options = *options};
  out->documents = tri_documents_of(corpus, options->end_of_text);
  out->count = (tri_corpus_num_tokens(corpus) - 1 + sequence - 1) / sequence;
  TRI_TRY(tri_alloc("evaluation tokens", 2 * (size_t)(sequence + 2), sizeof *out->scratch, &out->scratch));
  return is_packed(out) ? pack(out) : TRI_OK;
}

void tri_eval_windows_release(tri_eval_windows *windows) {
  tri_source_destroy(&windows->packed);
  tri_free(windows->scratch);
  *windows = (tri_eval_windows){0};
}

/* Sets the positions of a window's tokens within their documents. Labels that are in the next document no longer
 * count. */
static void mask_window(const tri_eval_windows *w, int64_t first, int64_t count, const tri_sample *out) {
  bool ends = false;
  tri_documents_positions(&w->documents, first, count, out->ids, out->positions, &ends);
  for (int64_t i = 0; i < count; i++) {
    if (i + 1 < count ? out->positions[i + 1] == 0 : ends) out->labels[i] = TRI_LABEL_NONE;
  }
}

/* Returns the number of labels of the window that begins at token `first`. */
static int64_t labels_of(const tri_eval_windows *w, int64_t first) {
  const int64_t left = tri_corpus_num_tokens(w->corpus) - 1 - first;
  return left < w->options.sequence ? left : w->options.sequence;
}

static tri_status read_window(const tri_eval_windows *w, int64_t index, const tri_sample *out) {
  const int64_t sequence = w->options.sequence, first = index * sequence, count = labels_of(w, first);
  TRI_TRY(tri_corpus_read(w->corpus, first, count, w->options.vocab_size, out->ids));
  TRI_TRY(tri_corpus_read(w->corpus, first + 1, count, w->options.vocab_size, out->labels));
  tri_corpus_mask_labels(w->corpus, first + 1, count, out->labels);
  for (int64_t i = 0; i < sequence; i++) out->positions[i] = (int32_t)i;
  if (is_masked(w)) mask_window(w, first, count, out);
  for (int64_t i = count; i < sequence; i++) {
    out->ids[i] = 0;
    out->labels[i] = TRI_LABEL_PADDING;
  }
  return TRI_OK;
}

static tri_status read_sequence(const void *from, int64_t index, const tri_sample *out) {
  const tri_eval_windows *w = from;
  TRI_TRY(is_packed(w) ? tri_source_read_in_order(&w->packed, index, out) : read_window(w, index, out));
  for (int64_t i = 0; i < w->options.sequence; i++) {
    if (out->labels[i] == w->options.ignore_token) out->labels[i] = TRI_LABEL_NONE;
  }
  return TRI_OK;
}

tri_feed tri_eval_windows_feed(const tri_eval_windows *windows) { return (tri_feed){read_sequence, windows}; }

/* Finds the places of a window's tokens. A token begins a document if its position is 0. The range that is read begins
 * one token before the window, because the position of the first token of a range is 0 in any case. The corpus's last
 * token is only a label, so it has no place. */
static tri_status place_window(const tri_eval_windows *w, int64_t index, tri_token_place *out) {
  const int64_t sequence = w->options.sequence, first = index * sequence, count = labels_of(w, first);
  const int64_t begin = first > 0 ? first - 1 : 0, tokens = first + count + 1 - begin;
  int32_t *ids = w->scratch, *positions = ids + sequence + 2;
  bool ends = false;
  TRI_TRY(tri_corpus_read(w->corpus, begin, tokens, w->options.vocab_size, ids));
  tri_documents_positions(&w->documents, begin, tokens, ids, positions, &ends);
  for (int64_t i = 0; i <= count; i++) {
    out[i] = positions[first + i - begin] == 0 ? TRI_TOKEN_BEGINS : TRI_TOKEN_INSIDE;
  }
  const bool last = first + count + 1 == tri_corpus_num_tokens(w->corpus);
  for (int64_t i = count; i <= sequence && last; i++) out[i] = TRI_TOKEN_NONE;
  return TRI_OK;
}

tri_status tri_eval_windows_places(const tri_eval_windows *windows, int64_t index, tri_token_place *out) {
  return is_packed(windows) ? tri_source_places_in_order(&windows->packed, index, out)
                            : place_window(windows, index, out);
}
