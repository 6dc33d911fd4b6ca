/* Cutting text into words, inside of which BPE works. */
#ifndef TRI_TOKENIZER_PRETOKENIZER_H
#define TRI_TOKENIZER_PRETOKENIZER_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include "base/status.h"
#include "tokenizer/alphabet.h"

#include <pcre2.h>
#include <stdbool.h>
#include <stddef.h>

/* Patterns whose words a hand-written scanner finds where the text is ASCII. */
typedef enum tri_scanner { TRI_SCAN_NONE, TRI_SCAN_GPT2, TRI_SCAN_LLAMA3, TRI_SCAN_QWEN2 } tri_scanner;

/* GPT-2's pattern, which Hugging Face's ByteLevel has built in. */
extern const char tri_pattern_gpt2[];

/* The scanner of a pattern. */
tri_scanner tri_scanner_of(const char *pattern);

/* The length of the first match of the scanner's pattern at the beginning of the text; 0 if a byte >= 0x80 has a say in
 * it (or there is no scanner). bytes > 0. */
size_t tri_scanner_word(tri_scanner scanner, const char *text, size_t bytes);

typedef struct tri_compiled_pattern {
  pcre2_code *code;
  tri_alphabet *alphabet; /* text is matched as tri_alphabet_map writes it; NULL: as it is */
  bool asks_categories;   /* for letters, digits, ...: what it matches depends on the version of Unicode */
} tri_compiled_pattern;

/* Compiles a pattern written for Oniguruma (or, if literal, a plain string) so that PCRE2 matches the same. `where`
 * begins the message of a failure: the file and the key. Release with tri_pattern_release. */
tri_status tri_pattern_compile(const char *where, const char *pattern, size_t bytes, bool literal,
                               tri_compiled_pattern *out);
void tri_pattern_release(tri_compiled_pattern *pattern);

/* What Digits and Punctuation cut at: ASCII's signs are all among the latter, of the others Unicode's punctuation. Both
 * go by their own versions of Unicode (make_unicode_classes.py). */
#define TRI_PATTERN_DIGIT "\\p{Rust_numeric}"
#define TRI_PATTERN_PUNCTUATION "[\\p{Rust_punctuation}$+<=>^`|~]"

/* What a stage does with each piece that the stage before it has left. */
typedef enum tri_stage_kind {
  TRI_STAGE_CUT,           /* every match of the pattern, and the text between two, is a piece */
  TRI_STAGE_WITH_PREVIOUS, /* the same, but a match goes with the text before it; of matches in a row the first */
  TRI_STAGE_WITH_NEXT,     /* with the text behind it; the last */
  TRI_STAGE_SPACE,         /* puts a space before a piece that does not begin with one */
  TRI_STAGE_LETTERS        /* writes bytes as letters (tri_byte_letter), for the stages behind it */
} tri_stage_kind;

typedef struct tri_stage {
  tri_stage_kind kind;
  tri_compiled_pattern compiled; /* of the first three kinds */
  tri_scanner scanner;           /* finds the same words faster */
  bool drop_unmatched;           /* CUT: the text between two matches is dropped */
  char *text;                    /* the pattern as it was given, of any bytes */
  size_t text_bytes;
  bool literal;
} tri_stage;

enum { TRI_MAX_STAGES = 16 };

typedef struct tri_pretokenizer {
  tri_stage stages[TRI_MAX_STAGES];
  int count;
  bool letters; /* one of them is LETTERS: words come out in letters */
} tri_pretokenizer;

/* Appends a stage. `pattern` is as in tri_pattern_compile. */
tri_status tri_pretokenizer_add_pattern(tri_pretokenizer *pretokenizer, const char *where, const char *pattern,
                                        size_t bytes, bool literal, bool drop_unmatched);
/* The same for a plain string that goes with what is before it, or behind it. */
tri_status tri_pretokenizer_add_string(tri_pretokenizer *pretokenizer, const char *where, tri_stage_kind kind,
                                       const char *text, size_t bytes);
/* A stage without a pattern. */
tri_status tri_pretokenizer_add_stage(tri_pretokenizer *pretokenizer, const char *where, tri_stage_kind kind);
void tri_pretokenizer_release(tri_pretokenizer *pretokenizer);

/* A piece of text as its stage's pattern is matched with it. */
typedef struct tri_mapped_text {
  char *text;
  size_t room;
} tri_mapped_text;

/* What one thread needs to match. */
typedef struct tri_splitter {
  const tri_pretokenizer *pretokenizer;
  pcre2_match_data *match;
  pcre2_match_context *context;
  pcre2_jit_stack *stack;
  tri_mapped_text mapped[TRI_MAX_STAGES];
  char *spaced; /* a piece with a space before it */
  size_t spaced_room;
  char *letters, *word; /* a piece in letters, and a word of it in bytes again */
  size_t letters_room;  /* of each of them */
} tri_splitter;

/* Release it also after a failure. */
tri_status tri_splitter_create(tri_splitter *splitter, const tri_pretokenizer *pretokenizer);
void tri_splitter_release(tri_splitter *splitter);

typedef tri_status (*tri_word_visitor)(void *context, const char *word, size_t bytes);

/* Visits the words of a text of any bytes. Stretches of valid UTF-8 are cut as if each stood alone; a stretch of bytes
 * between them that is not UTF-8 is one word. */
tri_status tri_splitter_run(tri_splitter *splitter, const char *text, size_t bytes, tri_word_visitor visit,
                            void *context);

#endif
