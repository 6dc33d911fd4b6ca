/* One corpus as an endless sequence of samples. */
#ifndef TRI_DATA_SOURCE_H
#define TRI_DATA_SOURCE_H

#include "data/pieces.h"
#include "mesh/batch_columns.h"

/* Attention between documents of a sequence: joined (yes) or masked (no). */
typedef enum tri_document_use {
  TRI_DOCUMENTS_JOINED,
  TRI_DOCUMENTS_MASKED,
  TRI_DOCUMENTS_AUTO, /* not decided yet: only in a configuration before resolving */
} tri_document_use;

/* Content of a sequence: a window of the stream of all documents, or whole documents one after the other (pieces.h). */
typedef enum tri_packing_use {
  TRI_PACKING_WINDOWS,
  TRI_PACKING_DOCUMENTS,
  TRI_PACKING_AUTO, /* not decided yet, like TRI_DOCUMENTS_AUTO */
} tri_packing_use;

typedef struct tri_source_options {
  int64_t sequence; /* T: a sample is T inputs and, one position later, T labels */
  int64_t vocab_size;
  uint64_t seed;
  tri_document_use documents;
  tri_packing_use packing;
  tri_too_long too_long; /* only used with TRI_PACKING_DOCUMENTS */
  int64_t max_samples;   /* number of samples to use, the first in order, in every epoch; 0: all */
  int32_t end_of_text;   /* the tokenizer's id, or -1; used if the index has only one document (documents.h) */
} tri_source_options;

/* An endless sequence of samples: sample `index` depends only on the corpus and on (seed, epoch, index), where epoch =
 * index / per_epoch. Each epoch has all samples once, in its own order. Windows are `sequence` tokens apart, from an
 * offset that differs between epochs. With packing, the lengths of documents that share a sequence are the same in
 * every epoch, but the documents of these lengths are not. If `limited`, samples are the same in every epoch. */
typedef struct tri_source {
  const tri_corpus *corpus;
  int64_t sequence;
  int64_t per_epoch; /* samples in one pass over the corpus, or over its first samples */
  bool limited;      /* whether the source uses only its first samples, the same in every epoch */
  int64_t vocab_size;
  uint64_t seed;
  bool masked; /* whether documents do not attend to each other */
  tri_documents documents;
  tri_pieces pieces; /* {0} if samples are windows */
} tri_source;

/* Creates a source. Fails with TRI_BAD_CONFIG if the corpus is shorter than one window (sequence + 1 tokens), with both
 * lengths in the message, or if packing leaves no piece. Release with tri_source_destroy; the corpus must outlive *out.
 */
tri_status tri_source_create(const tri_corpus *corpus, const tri_source_options *options, tri_source *out);
void tri_source_destroy(tri_source *source);

/* Reads sample `index` of the shuffled order. Fails with TRI_BAD_FILE, as tri_corpus_read does, for an id that is not
 * below vocab_size. */
tri_status tri_source_read(const tri_source *source, int64_t index, const tri_sample *out);

/* Reads sample `index` < per_epoch without shuffling, for evaluation: windows in the order of the text, or packed
 * sequences. The last tokens of the corpus, fewer than `sequence`, are not in a window. */
tri_status tri_source_read_in_order(const tri_source *source, int64_t index, const tri_sample *out);

/* Relation of a token of a sequence to the token before it. */
typedef enum tri_token_place {
  TRI_TOKEN_INSIDE,    /* follows the token before it in the corpus */
  TRI_TOKEN_CONTINUES, /* the first token of a piece that begins in the middle of a document */
  TRI_TOKEN_BEGINS,    /* the first token of a document */
  TRI_TOKEN_NONE       /* padding, to the end of the sequence */
} tri_token_place;

/* Sets out[sequence] for the tokens of a packed sequence that tri_source_read_in_order reads. */
tri_status tri_source_places_in_order(const tri_source *source, int64_t index, tri_token_place *out);

#endif
