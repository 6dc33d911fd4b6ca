/* Cuts text into words, which BPE encodes one by one. */
#ifndef TRI_TOKENIZER_PRETOKENIZER_H
#define TRI_TOKENIZER_PRETOKENIZER_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include "base/status.h"
#include "tokenizer/alphabet.h"

#include <pcre2.h>
#include <stdbool.h>
#include <stddef.h>

/* Patterns for which a hand-written scanner finds the words of ASCII text. */
typedef enum tri_scanner { TRI_SCAN_NONE, TRI_SCAN_GPT2, TRI_SCAN_LLAMA3, TRI_SCAN_QWEN2 } tri_scanner;

/* GPT-2's pattern, which Hugging Face's ByteLevel has built in. */
extern const char tri_pattern_gpt2[];

/* Returns the scanner of a pattern; TRI_SCAN_NONE if the pattern has none. */
tri_scanner tri_scanner_of(const char *pattern);

/* Returns the length of the first match of the scanner's pattern at the beginning of the text. Returns 0 if it depends
 * on a byte >= 0x80, or for TRI_SCAN_NONE. bytes > 0. */
size_t tri_scanner_word(tri_scanner scanner, const char *text, size_t bytes);

typedef struct tri_compiled_pattern {
  pcre2_code *code;
  tri_alphabet *alphabet; /* text is mapped by tri_alphabet_map before matching; NULL: not mapped */
  bool asks_categories;   /* whether the pattern has classes such as letters or digits, so that its matches depend on
                             the version of Unicode */
} tri_compiled_pattern;

/* Compiles a pattern written for Oniguruma (or, if literal, a plain string) so that PCRE2 matches the same. Fails with
 * TRI_BAD_FILE for an invalid pattern, and with TRI_UNSUPPORTED for a valid one that cannot be translated; `where`, the
 * file and the key, begins the message. Release with tri_pattern_release. */
tri_status tri_pattern_compile(const char *where, const char *pattern, size_t bytes, bool literal,
                               tri_compiled_pattern *out);
void tri_pattern_release(tri_compiled_pattern *pattern);

/* Patterns of Digits and Punctuation. Punctuation's pattern matches all punctuation and symbols of ASCII, and Unicode's
 * punctuation. Each has its own version of Unicode (make_unicode_classes.py). */
#define TRI_PATTERN_DIGIT "\\p{Rust_numeric}"
#define TRI_PATTERN_PUNCTUATION "[\\p{Rust_punctuation}$+<=>^`|~]"

/* The effect of a stage on each piece of the stage before. */
typedef enum tri_stage_kind {
  TRI_STAGE_CUT,           /* each match of the pattern is a piece, and so is the text between two matches */
  TRI_STAGE_WITH_PREVIOUS, /* as CUT, but a match is joined to the text before it; of adjacent matches, only the first
                              is joined */
  TRI_STAGE_WITH_NEXT,     /* as CUT, but a match is joined to the text after it; of adjacent matches, only the last is
                              joined */
  TRI_STAGE_SPACE,         /* puts a space before a piece that does not begin with one */
  TRI_STAGE_LETTERS        /* writes bytes as letters (tri_byte_letter), for later stages */
} tri_stage_kind;

typedef struct tri_stage {
  tri_stage_kind kind;
  tri_compiled_pattern compiled; /* pattern of the first three kinds */
  tri_scanner scanner;           /* scanner that finds the same words faster; TRI_SCAN_NONE: none */
  bool drop_unmatched;           /* CUT: whether the text between two matches is dropped */
  char *text;                    /* source of the pattern, any bytes */
  size_t text_bytes;
  bool literal;
} tri_stage;

enum { TRI_MAX_STAGES = 16 };

typedef struct tri_pretokenizer {
  tri_stage stages[TRI_MAX_STAGES];
  int count;
  bool letters; /* whether one of the stages is TRI_STAGE_LETTERS, so that words are in letters */
} tri_pretokenizer;

/* Appends a stage of the kind TRI_STAGE_CUT. Fails with TRI_BAD_FILE beyond TRI_MAX_STAGES stages, and as
 * tri_pattern_compile does. `drop_unmatched` is the member of the stage; the other arguments are those of
 * tri_pattern_compile. */
tri_status tri_pretokenizer_add_pattern(tri_pretokenizer *pretokenizer, const char *where, const char *pattern,
                                        size_t bytes, bool literal, bool drop_unmatched);
/* Appends a stage that searches a plain string. Its matches are joined to the text before or after them (`kind`). Fails
 * with TRI_UNSUPPORTED if the string is empty. */
tri_status tri_pretokenizer_add_string(tri_pretokenizer *pretokenizer, const char *where, tri_stage_kind kind,
                                       const char *text, size_t bytes);
/* Appends a stage without a pattern; fails as tri_pretokenizer_add_pattern does if there are too many stages. */
tri_status tri_pretokenizer_add_stage(tri_pretokenizer *pretokenizer, const char *where, tri_stage_kind kind);
void tri_pretokenizer_release(tri_pretokenizer *pretokenizer);

/* A mapped piece of text, for its stage's pattern. */
typedef struct tri_mapped_text {
  char *text;
  size_t room;
} tri_mapped_text;

/* Scratch memory of one thread for matching. */
typedef struct tri_splitter {
  const tri_pretokenizer *pretokenizer;
  pcre2_match_data *match;
  pcre2_match_context *context;
  pcre2_jit_stack *stack;
  tri_mapped_text mapped[TRI_MAX_STAGES];
  char *spaced; /* a piece with a space before it */
  size_t spaced_room;
  char *letters, *word; /* letters: a piece in letters; word: a word of the piece in bytes */
  size_t letters_room;  /* bytes allocated for each of the two */
} tri_splitter;

/* Creates a splitter. Release with tri_splitter_release, also after a failure. */
tri_status tri_splitter_create(tri_splitter *splitter, const tri_pretokenizer *pretokenizer);
void tri_splitter_release(tri_splitter *splitter);

typedef tri_status (*tri_word_visitor)(void *context, const char *word, size_t bytes);

/* Visits the words of a text of any bytes. Stops if `visit` fails, and returns its status. Ranges of valid UTF-8 are
 * cut separately; a range of bytes between them that is not UTF-8 is one word. */
tri_status tri_splitter_run(tri_splitter *splitter, const char *text, size_t bytes, tri_word_visitor visit,
                            void *context);

#endif
