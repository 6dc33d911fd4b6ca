/* What the files of the tokenizer share. Not for others. */
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
  tri_added_matcher raw, normal; /* the added tokens to look for before and after normalization */
  tri_text_steps normalizer;     /* changes text before the second of them */
  tri_text_steps spaces;         /* changes what is plain text after it: Metaspace */
  tri_joins joins;               /* of a vocabulary of characters */
  tri_decoding decoding;
  bool byte_fallback;             /* a character without a token is the tokens of its bytes */
  bool ignore_merges;             /* a word that is a token is that token, whatever the merges say */
  int32_t unknown;                /* stands for a byte or a character without a token, or -1 */
  bool fuse_unknown;              /* one for a run of them */
  int32_t named_end, end_of_text; /* by the usual names; as the folder says */
  const char *end_source;
  int32_t ends[TRI_MOST_ENDS];
  int num_ends;
  int missing_bytes; /* of a byte-level vocabulary without an unknown token: bytes that have none, and are dropped */
  int32_t beginning[TRI_MOST_BEGINNING]; /* what its post_processor begins texts with */
  int num_beginning;
  const char *other_class; /* with which transformers cuts texts otherwise; NULL: it reads tokenizer.json as here */
  char *json;              /* the tokenizer.json it was read from, which saving writes back; NULL: none */
  size_t json_bytes;
};

/* An empty tokenizer with room for ids 0 .. size - 1. Release it with tri_tokenizer_destroy. */
tri_status tri_tokenizer_begin(int64_t size, tri_tokenizer **out);

/* Appends an added token, whose id is known to be in the vocabulary: all of `token` but its content, which is copied.
 */
tri_status tri_tokenizer_add_token(tri_tokenizer *tokenizer, const tri_added_token *token, const char *content,
                                   size_t bytes);

/* Makes the tables, once the vocabulary is there. `file` is for the message if a byte cannot be encoded. */
tri_status tri_tokenizer_end(tri_tokenizer *tokenizer, const char *file);

/* Readers, of memory: `file` is the name for messages. */
tri_status tri_tokenizer_parse_json(const char *file, const char *text, size_t bytes, tri_tokenizer **out);
/* The same with the tokens that other files of a folder have (folder.h). */
tri_status tri_tokenizer_parse_json_in(const char *folder, const char *file, const char *text, size_t bytes,
                                       tri_tokenizer **out);
tri_status tri_tokenizer_parse_gpt2(const char *encoder_file, const char *encoder, size_t encoder_bytes,
                                    const char *merges_file, const char *merges, size_t merges_bytes,
                                    tri_tokenizer **out);

/* ---- for the readers ------------------------------------------------------------------------------------------- */

/* vocab_merges.c: the text of a tokenizer.json from vocab.json and merges.txt of a folder, by the class that its
 * tokenizer_config.json names. Release *out with free. */
tri_status tri_tokenizer_compose_json(const char *folder, const char *vocab_file, char **out);

/* Parses JSON; a fault names the file and the line. Release with json_decref. */
tri_status tri_tokenizer_load_json(const char *file, const char *text, size_t bytes, json_t **out);

/* A token as it may stand in a message: not too long, nothing a terminal would obey. */
enum { TRI_SHOWN_BYTES = 64 };
const char *tri_tokenizer_show(const char *token, size_t bytes, char out[TRI_SHOWN_BYTES]);

/* What a vocabulary is made of beside {"token": id}. */
typedef struct tri_vocabulary_options {
  const json_t *added; /* keys of this object (or NULL) may hold letters that are not byte letters */
  int64_t least_size;  /* there will be room for as many ids */
  bool characters;     /* tokens are spelled as they are, not in byte letters */
} tri_vocabulary_options;

/* Makes the tokenizer and fills its vocabulary. `where` names file and key. */
tri_status tri_tokenizer_begin_vocabulary(const char *where, json_t *object, const tri_vocabulary_options *options,
                                          tri_tokenizer **out);

/* Adds a token that only added_tokens has. One that is spelled in byte letters alone is text as their bytes, as the
 * decoder ByteLevel of Hugging Face reads it. */
tri_status tri_tokenizer_enter_added(tri_vocabulary *vocabulary, int32_t id, const char *content, size_t bytes);

/* Reading merges: "FILE: KIND NUMBER" names the one at hand. Release scratch with tri_free. */
typedef struct tri_merge_reader {
  tri_vocabulary *vocabulary;
  const char *file, *kind;
  int64_t number;
  char *scratch;
  size_t room;
} tri_merge_reader;

/* Adds the merge of two tokens, given as the file spells them. */
tri_status tri_merge_reader_add(tri_merge_reader *reader, const char *left, size_t left_bytes, const char *right,
                                size_t right_bytes);
/* As above for "left right". */
tri_status tri_merge_reader_add_line(tri_merge_reader *reader, const char *line, size_t bytes);

enum { TRI_DEEPEST_SEQUENCE = 8 }; /* levels of Sequence within Sequence */

/* Whether there is ByteLevel in the pre-tokenizer of a tokenizer.json, so that its tokens are spelled in byte letters.
 */
bool tri_tokenizer_is_byte_level(const json_t *root);
/* Reads the normalizer and the pre-tokenizer of a tokenizer.json. */
tri_status tri_tokenizer_read_stages(const char *file, const json_t *root, tri_tokenizer *tokenizer);
/* Reads the decoder. */
tri_status tri_tokenizer_read_decoder(const char *file, const json_t *root, tri_tokenizer *tokenizer);

/* {"type": "Metaspace", ...}, which pre-tokenizers and decoders have. */
typedef struct tri_metaspace {
  char mark[5];    /* stands for a space */
  bool prepends;   /* it is put before a text */
  bool only_first; /* but not before what follows an added token */
  bool splits;     /* words begin with it */
} tri_metaspace;
tri_status tri_metaspace_read(const char *where, const json_t *object, tri_metaspace *out);

/* {"type": "Replace", "pattern": {"String": ...}, "content": ...}, which normalizers and decoders have. */
tri_status tri_text_steps_read_replace(const char *where, const json_t *object, tri_text_steps *out);

/* Members of a JSON object. A missing key (or null) gives `otherwise`; another type fails and names file, place, key.
 */
tri_status tri_json_bool(const char *where, const json_t *object, const char *key, bool otherwise, bool *out);
tri_status tri_json_string(const char *where, const json_t *object, const char *key, const char *otherwise,
                           const char **out);

#endif
