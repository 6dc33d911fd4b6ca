/* A tokenized corpus in Megatron-LM's format: PREFIX.bin holds the ids of all documents one after the other, PREFIX.idx
 * says their type and where documents begin. Existing Megatron-LM corpora work as they are. Where `trireme prepare`
 * made it, PREFIX.corpus.json says with which tokenizer (corpus_record.h). A corpus of conversations has PREFIX.mask
 * too: a byte for each token in the order of the stream, 1 if it is learnt as a label, 0 if it is context only.
 */
#ifndef TRI_DATA_CORPUS_H
#define TRI_DATA_CORPUS_H

#include "base/status.h"
#include "tokenizer/tokenizer.h"

#include <stdint.h>

#define TRI_CORPUS_MASK_SUFFIX ".mask"

typedef struct tri_corpus tri_corpus;

/* Opens PREFIX.bin and PREFIX.idx for reading (memory-mapped), and PREFIX.mask if there is one. Every number of the
 * index is checked against the size of the files before it is used, and both files against PREFIX.corpus.json if there
 * is one. Release with tri_corpus_close. */
tri_status tri_corpus_open(const char *prefix, tri_corpus **out);
void tri_corpus_close(tri_corpus *corpus);

int64_t tri_corpus_num_tokens(const tri_corpus *corpus);
int64_t tri_corpus_num_documents(const tri_corpus *corpus);

/* ---- which corpus it is, and whose ------------------------------------------------------------------------------ */

/* Equal for the same index over the same tokens with the same mask, as far as fingerprint.h looks. It was computed when
 * the corpus was opened. */
const char *tri_corpus_fingerprint(const tri_corpus *corpus);

/* That of the .bin and .idx alone, and that of the mask ("": there is none), as PREFIX.corpus.json has them. */
const char *tri_corpus_tokens_fingerprint(const tri_corpus *corpus);
const char *tri_corpus_mask_fingerprint(const tri_corpus *corpus);

/* The fingerprint of the tokenizer that made the ids, and the size of its vocabulary: "" and 0 if the corpus does
 * not say. */
const char *tri_corpus_tokenizer(const tri_corpus *corpus);
/* The token behind each document, as its record says; -1 if there is none, or an older one. */
int32_t tri_corpus_end_of_text(const tri_corpus *corpus);
int64_t tri_corpus_vocab_size(const tri_corpus *corpus);

/* Compares the corpus's tokenizer with the one in use, which is NULL if there is none; tokenizer_name
 * (how it was asked for: a path, "bytes") is for messages. Another one is TRI_BAD_FILE, and the message names both.
 * Where one of the two is not known, that is logged, and accepted. */
tri_status tri_corpus_check_tokenizer(const tri_corpus *corpus, const tri_tokenizer *tokenizer,
                                      const char *tokenizer_name);

/* The same of two corpora, where both say it. */
tri_status tri_corpus_check_same_tokenizer(const tri_corpus *corpus, const tri_corpus *other);

/* Whether a model's vocabulary is much larger than the one with which the corpus was made (tri_tokenizer_leaves_gap).
 * Logs one line about it then. */
bool tri_corpus_say_vocabulary(const tri_corpus *corpus, int64_t vocab_size);

/* Copies tokens [first, first + count) of the stream of all documents. An id outside [0, vocab_size) is TRI_BAD_FILE
 * and the message says at which position, and that the corpus was made with another tokenizer than the model's. */
tri_status tri_corpus_read(const tri_corpus *corpus, int64_t first, int64_t count, int64_t vocab_size, int32_t *out);

/* ---- what is learnt --------------------------------------------------------------------------------------------- */

/* Whether some tokens are context only. */
bool tri_corpus_has_mask(const tri_corpus *corpus);
/* The masks of tokens [first, first + count), in the corpus's memory; NULL if it has none: all are learnt. */
const uint8_t *tri_corpus_mask(const tri_corpus *corpus, int64_t first, int64_t count);
/* Labels that are tokens [first, first + count): those that are context only become -1, which does not count. */
void tri_corpus_mask_labels(const tri_corpus *corpus, int64_t first, int64_t count, int32_t *labels);
/* How many tokens are learnt: those whose mask is 1, or all. */
int64_t tri_corpus_num_learnt(const tri_corpus *corpus);

/* ---- documents -------------------------------------------------------------------------------------------------- */

/* Those of the index without any tokens. */
int64_t tri_corpus_num_empty(const tri_corpus *corpus);

/* The token with which a document of the index begins, in the stream of all: that with which the next one does, if it
 * is empty. Document num_documents begins behind the last token. */
int64_t tri_corpus_document(const tri_corpus *corpus, int64_t document);

/* How it was named. */
const char *tri_corpus_name(const tri_corpus *corpus);

#endif
