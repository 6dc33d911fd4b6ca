/* Fingerprints: short texts that are equal where two things do the same, for what must belong together (a corpus and
 * the tokenizer that made it, a run and its corpus) and lies in files that can be exchanged one by one. They find
 * mistakes, not forgers: XXH3 is not a cryptographic hash. */
#ifndef TRI_DATA_FINGERPRINT_H
#define TRI_DATA_FINGERPRINT_H

#include "data/corpus_index.h"
#include "tokenizer/tokenizer.h"

#include <stdbool.h>

/* 32 hexadecimal digits and a NUL. */
#define TRI_FINGERPRINT_BYTES 33

/* Of a tokenizer: all that decides which ids a text becomes, and which text an id. It does not depend on the file: a
 * vocabulary that was read from encoder.json and vocab.bpe has the fingerprint of the tokenizer.json that
 * tri_tokenizer_save makes of it, and white space and the order of keys do not matter. Patterns are compared as they
 * are written (but those that are known to match the same are one). */
tri_status tri_tokenizer_fingerprint(const tri_tokenizer *tokenizer, char out[TRI_FINGERPRINT_BYTES]);

/* The same as it once was, when the version of Unicode that patterns go by (unicode_classes.h) was that of the
 * machine's PCRE2 and no part of it. It differs only for patterns with \p{..}, \w, \d or \b, for Digits and for
 * Punctuation. */
tri_status tri_tokenizer_fingerprint_before(const tri_tokenizer *tokenizer, char out[TRI_FINGERPRINT_BYTES]);

/* Whether a recorded fingerprint is that of a tokenizer, as it is now or as it once was ("": not known). The latter is
 * logged; the line begins with `what`, which has the record (NULL: it is not logged). */
bool tri_fingerprint_fits(const char *what, const char *recorded, const char *now, const char *before);

/* Of a corpus: the whole index, and the bytes of the tokens: all of them up to TRI_FINGERPRINT_WHOLE_BYTES, of more the
 * first and the last TRI_FINGERPRINT_END_BYTES and TRI_FINGERPRINT_PIECES pieces of TRI_FINGERPRINT_PIECE_BYTES between
 * them, at equal distances. So of a terabyte some 1.2 MB are read, and an edit that changes neither the index nor a
 * byte of these pieces is not seen: one of a few tokens in a large corpus hardly ever is, one that is longer than the
 * distance between two pieces (a 257th of the file) always. `bin` is what lies in PREFIX.bin, idx in PREFIX.idx. */
enum {
  TRI_FINGERPRINT_WHOLE_BYTES = 16 << 20,
  TRI_FINGERPRINT_END_BYTES = 64 << 10,
  TRI_FINGERPRINT_PIECES = 256,
  TRI_FINGERPRINT_PIECE_BYTES = 4 << 10,
};
tri_status tri_fingerprint_corpus(const tri_corpus_index *index, const char *idx, size_t idx_bytes, const char *bin,
                                  size_t bin_bytes, char out[TRI_FINGERPRINT_BYTES]);

/* Of the bytes of a mask, of which as many are looked at as of a .bin. */
tri_status tri_fingerprint_mask(const char *mask, size_t bytes, char out[TRI_FINGERPRINT_BYTES]);

/* Of several fingerprints in this order. */
tri_status tri_fingerprint_join(const char *const *fingerprints, int count, char out[TRI_FINGERPRINT_BYTES]);

/* Whether a text has the form of one. */
bool tri_fingerprint_is_valid(const char *text);

#endif
