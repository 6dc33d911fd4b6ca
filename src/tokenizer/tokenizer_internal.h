/* Definitions that only the files of the tokenizer share. */
#ifndef TRI_TOKENIZER_TOKENIZER_INTERNAL_H
#define TRI_TOKENIZER_TOKENIZER_INTERNAL_H

#include "tokenizer/added_tokens.h"
#include "tokenizer/decoding.h"
#include "tokenizer/joins.h"
#include "tokenizer/pretokenizer.h"
#include "tokenizer/text_steps.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocabulary.h"

#include <jansson.h>

struct tri_tokenizer {
  tri_vocabulary vocabulary;
  tri_pretokenizer pretokenizer;
  tri_added_token *added;
  int64_t added_count;
  tri_added_matcher raw, normal; /* raw: matcher of the added tokens that are searched before normalization; normal:
                                    matcher of the added tokens that are searched after normalization */
  tri_text_steps normalizer;     /* changes text between the two searches */
  tri_text_steps spaces;         /* changes the remaining plain text: Metaspace */
  tri_joins joins;               /* used with a vocabulary of characters */
  tri_decoding decoding;
  bool byte_fallback; /* whether a character without a token becomes the tokens of its bytes */
  bool ignore_merges; /* whether a word that is a token becomes this token without merges */
  int32_t unknown;    /* token for a byte or a character that has no token; -1: none */
  bool fuse_unknown;  /* whether a run of unknown characters becomes one unknown token */
  int32_t named_end,
      end_of_text; /* id of the token between documents: named_end by its usual name, end_of_text the one in use */
  const char *end_source;
  int32_t ends[TRI_MOST_ENDS];
  int num_ends;
  int missing_bytes; /* byte-level vocabulary without an unknown token: number of bytes without a token, which are
                        dropped */
  int32_t beginning[TRI_MOST_BEGINNING]; /* tokens with which the post_processor begins texts */
  int num_beginning;
  const char *other_class; /* class with which transformers tokenizes differently; NULL: transformers tokenizes in the
                              same way */
  char *json;              /* text of the tokenizer.json that was read, which saving writes back; NULL: none */
  size_t json_bytes;
};

/* Creates an empty tokenizer with room for ids 0 .. size - 1. Release it with tri_tokenizer_destroy. */
tri_status tri_tokenizer_begin(int64_t size, tri_tokenizer **out);

/* Appends an added token, whose id must be in the vocabulary. `token` has its members without the content, which is
 * copied from `content`. */
tri_status tri_tokenizer_add_token(tri_tokenizer *tokenizer, const tri_added_token *token, const char *content,
                                   size_t bytes);

/* Makes the tables of a complete vocabulary, and finds the token that ends texts by its usual name. Logs the number of
 * bytes that have no token and are dropped. Fails with TRI_BAD_FILE if a vocabulary of characters cannot encode every
 * text. `file` is for messages. */
tri_status tri_tokenizer_end(tri_tokenizer *tokenizer, const char *file);

/* Parses a tokenizer.json in memory; `file` is its name for messages. This and the next two functions fail with
 * TRI_BAD_FILE for a wrong file, with TRI_UNSUPPORTED for one that needs something that this program lacks. */
tri_status tri_tokenizer_parse_json(const char *file, const char *text, size_t bytes, tri_tokenizer **out);
/* Reads a tokenizer.json, and the tokens that only the other files of `folder` have (folder.h); folder NULL: none. */
tri_status tri_tokenizer_parse_json_in(const char *folder, const char *file, const char *text, size_t bytes,
                                       tri_tokenizer **out);
/* Reads GPT-2's own files: encoder.json and vocab.bpe. Warns if no merge creates some tokens. */
tri_status tri_tokenizer_parse_gpt2(const char *encoder_file, const char *encoder, size_t encoder_bytes,
                                    const char *merges_file, const char *merges, size_t merges_bytes,
                                    tri_tokenizer **out);

/* ---- for the readers --------------------------------------------------------------------------------------------- */

/* Composes the text of a tokenizer.json (vocab_merges.c) from vocab.json and merges.txt of a folder, by the class that
 * its tokenizer_config.json names. Fails with TRI_UNSUPPORTED for an unknown class, with TRI_BAD_FILE for a wrong file.
 * Release *out with free. */
tri_status tri_tokenizer_compose_json(const char *folder, const char *vocab_file, char **out);

/* Parses a JSON object. Fails with TRI_BAD_FILE if it is invalid; the message names the file and the line. Release with
 * json_decref. */
tri_status tri_tokenizer_load_json(const char *file, const char *text, size_t bytes, json_t **out);

/* Writes a token for a message: shortened, without control characters. */
enum { TRI_SHOWN_BYTES = 64 };
const char *tri_tokenizer_show(const char *token, size_t bytes, char out[TRI_SHOWN_BYTES]);

/* Options for reading a vocabulary from the object {"token": id, ...}. */
typedef struct tri_vocabulary_options {
  const json_t *added; /* keys of this object (may be NULL) may have letters that are not byte letters */
  int64_t least_size;  /* minimum number of ids to allocate */
  bool characters;     /* whether tokens are plain text, not byte letters */
} tri_vocabulary_options;

/* Makes the tokenizer and fills its vocabulary. `where` names file and key. Fails with TRI_BAD_FILE if the object has
 * no tokens, or wrong ids or keys. */
tri_status tri_tokenizer_begin_vocabulary(const char *where, json_t *object, const tri_vocabulary_options *options,
                                          tri_tokenizer **out);

/* Adds a token that is only in added_tokens. If it consists of byte letters only, its text is their bytes, as with
 * Hugging Face's decoder ByteLevel. */
tri_status tri_tokenizer_enter_added(tri_vocabulary *vocabulary, int32_t id, const char *content, size_t bytes);

/* A reader of merges; messages name the current merge as "FILE: KIND NUMBER". Release scratch with tri_free. */
typedef struct tri_merge_reader {
  tri_vocabulary *vocabulary;
  const char *file, *kind;
  int64_t number;
  char *scratch;
  size_t room;
} tri_merge_reader;

/* Adds the merge of two tokens, spelled as in the file. Fails with TRI_BAD_FILE if they or their merged token are not
 * in the vocabulary. */
tri_status tri_merge_reader_add(tri_merge_reader *reader, const char *left, size_t left_bytes, const char *right,
                                size_t right_bytes);
/* Adds a merge from the line "left right". Fails with TRI_BAD_FILE if the line is not two tokens, or the merge is
 * wrong. */
tri_status tri_merge_reader_add_line(tri_merge_reader *reader, const char *line, size_t bytes);

enum { TRI_DEEPEST_SEQUENCE = 8 }; /* maximum number of levels of Sequence within Sequence */

/* Returns whether the pre-tokenizer of a tokenizer.json has ByteLevel, so that its tokens are spelled in byte letters.
 */
bool tri_tokenizer_is_byte_level(const json_t *root);
/* Reads the normalizer and the pre-tokenizer of a tokenizer.json. Fails with TRI_UNSUPPORTED for a step or an option
 * that this program lacks, with TRI_BAD_FILE for a wrong value. */
tri_status tri_tokenizer_read_stages(const char *file, const json_t *root, tri_tokenizer *tokenizer);
/* Reads the decoder of a tokenizer.json. Logs a line if the file has none. Fails with TRI_UNSUPPORTED for a decoder
 * that this program lacks, with TRI_BAD_FILE for a wrong value. */
tri_status tri_tokenizer_read_decoder(const char *file, const json_t *root, tri_tokenizer *tokenizer);

/* {"type": "Metaspace", ...} of pre-tokenizers and decoders. */
typedef struct tri_metaspace {
  char mark[5];    /* mark of a space */
  bool prepends;   /* whether the mark is put before a text */
  bool only_first; /* whether the mark is not put before text that follows an added token */
  bool splits;     /* whether text is cut before each mark, so that words begin with it */
} tri_metaspace;
tri_status tri_metaspace_read(const char *where, const json_t *object, tri_metaspace *out);

/* Reads {"type": "Replace", "pattern": {"String": ...}, "content": ...} of normalizers and decoders. Fails with
 * TRI_UNSUPPORTED for a Regex or an empty string, with TRI_BAD_FILE for other values. */
tri_status tri_text_steps_read_replace(const char *where, const json_t *object, tri_text_steps *out);

/* Read a member of a JSON object. A missing key (or null) gives `otherwise`. Fail with TRI_BAD_FILE for a value of
 * another type; the message names file, place and key. */
tri_status tri_json_bool(const char *where, const json_t *object, const char *key, bool otherwise, bool *out);
tri_status tri_json_string(const char *where, const json_t *object, const char *key, const char *otherwise,
                           const char **out);

#endif
