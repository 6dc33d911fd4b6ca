/* Text to token ids and back: BPE over bytes or characters (GPT-2 files, Hugging Face tokenizer.json) and plain bytes.
 * A tokenizer is immutable once created and may be used from many threads, each with its own tri_encoder.
 *
 * Ids are those of Hugging Face `tokenizers` without the tokens that a post-processor adds (add_special_tokens=False).
 * That program does not accept bytes that are not UTF-8; here each longest range of such bytes is one word, and the
 * text before and after is encoded separately, except that no space is put before it. The tokens of any text spell the
 * text again, byte for byte, unless the tokenizer itself changes text (a normalizer, add_prefix_space, Metaspace,
 * unk_token, lstrip or rstrip). */
#ifndef TRI_TOKENIZER_TOKENIZER_H
#define TRI_TOKENIZER_TOKENIZER_H

#include "base/status.h"
#include "files/file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tri_tokenizer tri_tokenizer;

/* A growing list of ids. Starts as {0}; release ids with tri_free. */
typedef struct tri_token_list {
  int32_t *ids;
  int64_t count, capacity;
} tri_token_list;

tri_status tri_token_list_append(tri_token_list *list, int32_t id);

/* Finds the source for tri_tokenizer_create from `given`. For a folder, given by its path or its name on the hub, it is
 * the folder's tokenizer.json, which may be missing; otherwise `given` itself. Fails as tri_hub_resolve does
 * (files/hub.h). */
tri_status tri_tokenizer_path(const char *given, char path[TRI_PATH_BYTES]);

/* LOCAL. Creates a tokenizer. source: "gpt2:DIR" (encoder.json and vocab.bpe in DIR), "bytes" (ids 0..255 and
 * end-of-text 256) or the path of a Hugging Face tokenizer.json with a BPE model, byte-level or of characters
 * (SentencePiece's, with byte_fallback). If the folder has vocab.json and merges.txt instead, the same path (or that of
 * vocab.json) means the two files. Also reads the other files of the folder that describe tokens (folder.h). Fails with
 * TRI_BAD_FILE if a file is wrong, with TRI_UNSUPPORTED if it needs something that this program lacks. Release with
 * tri_tokenizer_destroy. */
tri_status tri_tokenizer_create(const char *source, tri_tokenizer **out);

/* LOCAL. Sets path to FOLDER/tokenizer.json, and *found to whether tri_tokenizer_create would find a tokenizer there.
 */
tri_status tri_tokenizer_of_folder(const char *folder, char path[TRI_PATH_BYTES], bool *found);
void tri_tokenizer_destroy(tri_tokenizer *tokenizer);

/* Returns the number of ids, which are 0 .. vocab_size - 1. */
int64_t tri_tokenizer_vocab_size(const tri_tokenizer *tokenizer);
/* Returns whether a model's vocabulary is so much larger than a tokenizer's of `size` tokens that it is not padding:
 * beyond the next multiple of 128, and by more than a tenth. */
bool tri_tokenizer_leaves_gap(int64_t size, int64_t model_vocab_size);
/* Returns the id that separates documents; -1 if there is no such token. It is the first token that ends a text
 * according to the tokenizer's folder (generation_config.json, config.json, special_tokens_map.json,
 * tokenizer_config.json, in this order), else a token with a usual name ("<|endoftext|>", "<|end_of_text|>", ...). */
int32_t tri_tokenizer_end_of_text(const tri_tokenizer *tokenizer);
/* Returns the source of tri_tokenizer_end_of_text: "tokenizer_config.json", ..., or "its name". */
const char *tri_tokenizer_end_source(const tri_tokenizer *tokenizer);
/* Returns the tokens with which the tokenizer's post_processor begins texts. Tokens that it appends to texts are not
 * part of prompts, and are not read. */
enum { TRI_MOST_BEGINNING = 8 };
const int32_t *tri_tokenizer_beginning(const tri_tokenizer *tokenizer, int *count);
/* Logs a line if the folder names a class with which transformers tokenizes differently from tokenizer.json. */
void tri_tokenizer_log_class(const tri_tokenizer *tokenizer);
/* Returns all tokens that end a generated text; the tokenizer owns the list. Ids may be beyond its vocabulary, because
 * a model can have more tokens. */
enum { TRI_MOST_ENDS = 64 };
const int32_t *tri_tokenizer_ends(const tri_tokenizer *tokenizer, int *count);
/* Reads the tokens that end a text, and the token that separates documents, from the files of a folder: the tokenizer's
 * own folder, or that of a model's weights. Changes nothing if these files name no such token. Fails with
 * TRI_BAD_FILE for wrong values, and changes nothing then either. */
tri_status tri_tokenizer_find_ends(tri_tokenizer *tokenizer, const char *folder);
/* Returns the token for text that has no token of its own; -1: none. */
int32_t tri_tokenizer_unknown(const tri_tokenizer *tokenizer);
/* Returns the text of the tokenizer.json that the tokenizer was read from, with the changes that other files of its
 * folder make (folder.h), and sets *bytes to its length; NULL if it was not read from such a file. The tokenizer owns
 * the text. */
const char *tri_tokenizer_json(const tri_tokenizer *tokenizer, size_t *bytes);
/* Returns the bytes that one token adds to a text (not NUL-terminated; owned by the tokenizer); length 0 for an unknown
 * id. */
const char *tri_tokenizer_token(const tri_tokenizer *tokenizer, int32_t id, size_t *bytes);

/* Decodes ids to text one by one. `begins`: the first id begins a text, so a space that encoding added is removed. */
typedef struct tri_decoder tri_decoder;
tri_status tri_decoder_create(const tri_tokenizer *tokenizer, bool begins, tri_decoder **out);
void tri_decoder_destroy(tri_decoder *decoder);
/* Decodes one id. Sets *out to the new part of the text: complete characters, and bytes that are not part of a
 * character. It is valid until the next call. */
tri_status tri_decoder_next(tri_decoder *decoder, int32_t id, const char **out, size_t *out_bytes);
/* Sets *out to the bytes of an incomplete character at the end of the text, which the decoder then no longer holds. */
void tri_decoder_end(tri_decoder *decoder, const char **out, size_t *out_bytes);

/* Starts another text, as tri_decoder_create does. */
void tri_decoder_restart(tri_decoder *decoder, bool begins);
/* Counts the bytes that a token adds to the text as decoded by Hugging Face tokenizers (skip_special_tokens). Special
 * tokens and the end-of-text token add none, and characters that encoding added at the beginning of a text do not
 * count. Byte tokens that spell the mark of a space count as a space, at the last of them, although decoding gives the
 * mark. This function replaces tri_decoder_next: do not call both for a text. */
tri_status tri_decoder_count(tri_decoder *decoder, int32_t id, size_t *bytes);

/* Scratch memory and the word cache of one thread. */
typedef struct tri_encoder tri_encoder;
tri_status tri_encoder_create(const tri_tokenizer *tokenizer, tri_encoder **out);
void tri_encoder_destroy(tri_encoder *encoder);

/* Appends the ids of `text`, which may have any bytes. If `specials`, special tokens that are written in the text
 * ("<|endoftext|>") become their ids, as in Hugging Face. Otherwise their letters are encoded as plain text (Hugging
 * Face's encode_special_tokens). Added tokens that are not special are found in either case. Fails with TRI_UNSUPPORTED
 * if the tokenizer's pattern fails on the text, or for a word of 1 GiB or more, as all functions that encode do. */
tri_status tri_encoder_encode(tri_encoder *encoder, const char *text, size_t bytes, int specials, tri_token_list *out);

/* Bytes [begin, end) of a text. */
typedef struct tri_text_range {
  size_t begin, end;
} tri_text_range;
/* Appends the ids of `text` as tri_encoder_encode with `specials` does, except that the letters of a special token that
 * has a byte in one of the ranges, ascending and disjoint, are plain text. So the ranges can have text of strangers,
 * whose "<|im_end|>" is not the end of a message. Other text in a range gets the same ids as outside, because text is
 * not cut at the ends of the ranges. */
tri_status tri_encoder_encode_guarded(tri_encoder *encoder, const char *text, size_t bytes,
                                      const tri_text_range *ranges, int64_t num_ranges, tri_token_list *out);

/* Appends the ids of a whole text after those of tri_tokenizer_beginning, as the tokenizer's post_processor does.
 * Tokens of the beginning that the text already has are not repeated. */
tri_status tri_encoder_encode_text(tri_encoder *encoder, const char *text, size_t bytes, int specials,
                                   tri_token_list *out);

/* Appends the ids of a text that continues the text of an earlier call: no space is put before it. */
tri_status tri_encoder_encode_rest(tri_encoder *encoder, const char *text, size_t bytes, int specials,
                                   tri_token_list *out);

/* Ends of tokens in the text: a byte offset for each id. Starts as {0}; release ends with tri_free. */
typedef struct tri_token_ends {
  size_t *ends;
  int64_t count, capacity;
} tri_token_ends;

/* Appends the ids of `text`, with special tokens, and the end of each token. A token begins at the end of the token
 * before. If normalization changes some letters, the first of their tokens gets all of them. Fails with TRI_UNSUPPORTED
 * if the tokenizer loses text (an unk_token, a pattern that drops unmatched text). */
tri_status tri_encoder_encode_with_ends(tri_encoder *encoder, const char *text, size_t bytes, tri_token_list *out,
                                        tri_token_ends *ends);
/* Appends the ids of a whole text (tri_encoder_encode_text) and their ends; tokens before the text end at offset 0.
 * Fails as tri_encoder_encode_with_ends does. */
tri_status tri_encoder_encode_text_with_ends(tri_encoder *encoder, const char *text, size_t bytes, tri_token_list *out,
                                             tri_token_ends *ends);

/* Writes the tokenizer as a tokenizer.json that Hugging Face `tokenizers` loads to the same ids. If it was read from a
 * tokenizer.json, that file is written unchanged, byte for byte, unless other files of its folder added tokens or
 * changed flags (folder.h): then the result is written. */
tri_status tri_tokenizer_save(const tri_tokenizer *tokenizer, const char *path);

/* ---- learning a vocabulary --------------------------------------------------------------------------------------- */

typedef struct tri_tokenizer_trainer tri_tokenizer_trainer;

/* Creates a trainer of byte-level BPE with GPT-2's pre-tokenizer. The vocabulary is the one that Hugging Face's
 * BpeTrainer learns with ByteLevel, its alphabet, and the special token "<|endoftext|>", which has id 0; the 256 bytes
 * follow in the order of their letters ("!" is 1, a space 221), then the learnt tokens, by falling frequency of their
 * pair (equal ones by rising ids). vocab_size counts all of them; fails with TRI_BAD_CONFIG if it is below 257 or above
 * TRI_MAX_VOCABULARY (vocabulary.h). */
tri_status tri_tokenizer_trainer_create(int64_t vocab_size, tri_tokenizer_trainer **out);
/* Counts the words of one piece of text (a document), of any bytes. Memory grows with the number of different words.
 * Fails with TRI_UNSUPPORTED for 2^31 different words or more. */
tri_status tri_tokenizer_trainer_feed(tri_tokenizer_trainer *trainer, const char *text, size_t bytes);
/* Creates the tokenizer. Fails with TRI_BAD_CONFIG if there is too little text for the vocabulary; the message names
 * the size that is possible. */
tri_status tri_tokenizer_trainer_finish(tri_tokenizer_trainer *trainer, tri_tokenizer **out);
void tri_tokenizer_trainer_destroy(tri_tokenizer_trainer *trainer);

/* A vocabulary of characters: "<|endoftext|>" has id 0, "<unk>" (unknown characters) 1, and the characters of the text
 * follow by code point. Bytes that are not UTF-8 are ignored. */
typedef struct tri_character_trainer tri_character_trainer;
tri_status tri_character_trainer_create(tri_character_trainer **out);
void tri_character_trainer_feed(tri_character_trainer *trainer, const char *text, size_t bytes);
tri_status tri_character_trainer_finish(const tri_character_trainer *trainer, tri_tokenizer **out);
void tri_character_trainer_destroy(tri_character_trainer *trainer);

#endif
