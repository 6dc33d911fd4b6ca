/* Fingerprints: short texts that are equal for equal contents. They show whether files belong together (a corpus and
 * its tokenizer, a run and its corpus). They detect mistakes, not forgeries: XXH3 is not a cryptographic hash. */
#ifndef TRI_DATA_FINGERPRINT_H
#define TRI_DATA_FINGERPRINT_H

#include "data/corpus_index.h"
#include "tokenizer/tokenizer.h"

#include <stdbool.h>

/* 32 hexadecimal digits and a NUL. */
#define TRI_FINGERPRINT_BYTES 33

/* Computes the fingerprint of a tokenizer: the tokens and everything that affects the ids of a text, except the tokens
 * with which the post_processor begins texts. The decoder does not count. The fingerprint does not depend on the file:
 * a vocabulary that was read from encoder.json and vocab.bpe has the fingerprint of the tokenizer.json that
 * tri_tokenizer_save writes for it, and white space and the order of keys do not matter. The text of a pattern counts,
 * so two texts have different fingerprints even if they match the same words. Only the known texts of GPT-2's pattern
 * (ascii_scanner.c) have the same fingerprint. */
tri_status tri_tokenizer_fingerprint(const tri_tokenizer *tokenizer, char out[TRI_FINGERPRINT_BYTES]);

/* Computes the fingerprint of a tokenizer by the rules of older versions, which did not include the version of Unicode
 * that patterns use (unicode_classes.h). The two fingerprints differ only for patterns with \p{..}, \w, \d or \b, for
 * Digits and for Punctuation. */
tri_status tri_tokenizer_fingerprint_before(const tri_tokenizer *tokenizer, char out[TRI_FINGERPRINT_BYTES]);

/* Returns whether a recorded fingerprint is that of a tokenizer. `now` is the tokenizer's fingerprint; `before` is its
 * fingerprint by the rules of older versions, or "" if that is unknown. If the recorded one is `before`, logs a line
 * that begins with `what`, the owner of the record (NULL: does not log). */
bool tri_fingerprint_fits(const char *what, const char *recorded, const char *now, const char *before);

/* Computes the fingerprint of a corpus from the whole index and from bytes of the tokens. All bytes are read if they
 * are at most TRI_FINGERPRINT_WHOLE_BYTES. In a larger file these are read: the first and the last
 * TRI_FINGERPRINT_END_BYTES, and TRI_FINGERPRINT_PIECES pieces of TRI_FINGERPRINT_PIECE_BYTES between them, at equal
 * distances; some 1.2 MB of a terabyte. An edit that changes neither the index nor a byte of these pieces is not
 * detected. So an edit of a few tokens in a large corpus is rarely detected, and an edit that is longer than the
 * distance between two pieces (a 257th of the file) always. bin and idx are the contents of PREFIX.bin and PREFIX.idx.
 */
enum {
  TRI_FINGERPRINT_WHOLE_BYTES = 16 << 20,
  TRI_FINGERPRINT_END_BYTES = 64 << 10,
  TRI_FINGERPRINT_PIECES = 256,
  TRI_FINGERPRINT_PIECE_BYTES = 4 << 10,
};
tri_status tri_fingerprint_corpus(const tri_corpus_index *index, const char *idx, size_t idx_bytes, const char *bin,
                                  size_t bin_bytes, char out[TRI_FINGERPRINT_BYTES]);

/* Computes the fingerprint of a mask, or of labels, from the same selection of bytes as for a .bin. */
tri_status tri_fingerprint_mask(const char *mask, size_t bytes, char out[TRI_FINGERPRINT_BYTES]);

/* Computes the fingerprint of several fingerprints in this order. */
tri_status tri_fingerprint_join(const char *const *fingerprints, int count, char out[TRI_FINGERPRINT_BYTES]);

/* Returns whether a text has the form of a fingerprint. */
bool tri_fingerprint_is_valid(const char *text);

#endif
