/* The text of a corpus in sequences for an evaluation, as a feed. The sequences are consecutive windows, in which each
 * token but the corpus's first is a label once; or packed documents, each once, in the order of the corpus. */
#ifndef TRI_DATA_EVAL_WINDOWS_H
#define TRI_DATA_EVAL_WINDOWS_H

#include "data/feed.h"
#include "data/source.h"

typedef struct tri_eval_windows_options {
  int64_t sequence; /* tokens of a sequence */
  int64_t vocab_size;
  int32_t end_of_text;        /* the tokenizer's id, or -1 (tri_documents_of) */
  int64_t ignore_token;       /* labels with this id do not count; -1: unused */
  tri_document_use documents; /* joined or masked */
  tri_packing_use packing;
  tri_too_long too_long;
} tri_eval_windows_options;

typedef struct tri_eval_windows {
  const tri_corpus *corpus;
  tri_eval_windows_options options;
  tri_documents documents;
  tri_source packed; /* unused if sequences are windows */
  int64_t count;     /* number of sequences; the last window has only as many labels as tokens remain */
  int32_t *scratch;  /* [2, sequence + 2]: tokens, and their positions */
} tri_eval_windows;

/* Creates the sequences; packed ones fail as tri_source_create does. The corpus must outlive *out. Release with
 * tri_eval_windows_release, also after a failure. */
tri_status tri_eval_windows_create(const tri_corpus *corpus, const tri_eval_windows_options *options,
                                   tri_eval_windows *out);
void tri_eval_windows_release(tri_eval_windows *windows);

/* Returns the feed of these sequences, which fills ids, labels and positions. */
tri_feed tri_eval_windows_feed(const tri_eval_windows *windows);

/* Sets out[0 .. sequence - 1] to the places of a sequence's tokens. For a window, also sets out[sequence], the place of
 * the token after the window (TRI_TOKEN_NONE for the corpus's last token and for padding). */
tri_status tri_eval_windows_places(const tri_eval_windows *windows, int64_t index, tri_token_place *out);

#endif
