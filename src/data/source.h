/* One corpus as an endless sequence of samples. */
#ifndef TRI_DATA_SOURCE_H
#define TRI_DATA_SOURCE_H

#include "data/pieces.h"

/* Whether documents that share a sequence see each other. */
typedef enum tri_document_use {
  TRI_DOCUMENTS_JOINED,
  TRI_DOCUMENTS_MASKED,
  TRI_DOCUMENTS_AUTO, /* in a configuration that is not settled yet */
} tri_document_use;

/* What a sequence is: a window of the stream of all documents, or whole documents side by side (pieces.h). */
typedef enum tri_packing_use {
  TRI_PACKING_WINDOWS,
  TRI_PACKING_DOCUMENTS,
  TRI_PACKING_AUTO, /* as TRI_DOCUMENTS_AUTO */
} tri_packing_use;

typedef struct tri_source_options {
  int64_t sequence; /* T: a sample is T inputs and, one position later, T labels */
  int64_t vocab_size;
  uint64_t seed;
  tri_document_use documents;
  tri_packing_use packing;
  tri_too_long too_long; /* where documents are packed */
  int32_t end_of_text;   /* the tokenizer's, or -1: where the index knows but one document */
} tri_source_options;

/* Sample `index` of an endless sequence: what it is depends on the corpus and (seed, epoch, index) alone, where epoch =
 * index / samples per epoch, and each epoch has all that there is once, in an order of its own. Windows lie `sequence`
 * tokens apart, beginning at a place of the epoch's own. Which lengths of documents share a sequence is alike in every
 * epoch, which documents of those lengths is not. */
typedef struct tri_source {
  const tri_corpus *corpus;
  int64_t sequence;
  int64_t per_epoch; /* samples in one pass over the corpus */
  int64_t vocab_size;
  uint64_t seed;
  bool masked;
  tri_documents documents;
  tri_pieces pieces; /* nothing, where samples are windows */
} tri_source;

/* A corpus shorter than one window (sequence + 1 tokens) is TRI_BAD_CONFIG and the message gives both lengths. Release
 * with tri_source_destroy; the corpus must outlive it. */
tri_status tri_source_create(const tri_corpus *corpus, const tri_source_options *options, tri_source *out);
void tri_source_destroy(tri_source *source);

/* What a sample is read into, each [sequence]. */
typedef struct tri_sample {
  int32_t *ids;
  int32_t *labels;    /* none of a masked document's last token, of what the corpus's mask keeps as context only, nor of
                         padding (base/label.h) */
  int32_t *positions; /* a token sees those of its own document, which begins where the last position 0 stands */
  float *weights;     /* how much each label counts, where it does: 1, but for a sampler's weights; NULL: unused */
} tri_sample;

/* Sample `index`, shuffled. */
tri_status tri_source_read(const tri_source *source, int64_t index, const tri_sample *out);

/* The samples in the order of the text, or as they are packed: for evaluation. index < per_epoch; fewer than `sequence`
 * tokens at the end are in no window. */
tri_status tri_source_read_in_order(const tri_source *source, int64_t index, const tri_sample *out);

/* Where a token of a sequence stands. */
typedef enum tri_token_place {
  TRI_TOKEN_INSIDE,    /* behind the token that stands before it in the corpus, too */
  TRI_TOKEN_CONTINUES, /* a piece begins, in the middle of a document */
  TRI_TOKEN_BEGINS,    /* a document begins */
  TRI_TOKEN_NONE       /* and all behind it: no token of the corpus */
} tri_token_place;

/* Of each token of a packed sequence that tri_source_read_in_order reads; out: [sequence]. */
tri_status tri_source_places_in_order(const tri_source *source, int64_t index, tri_token_place *out);

#endif
