/* Changes of a text before BPE: form C, replacements of strings, a string before the text. They are the `normalizer` of
 * a tokenizer.json, and the first part of Metaspace. */
#ifndef TRI_TOKENIZER_TEXT_STEPS_H
#define TRI_TOKENIZER_TEXT_STEPS_H

#include "tokenizer/normalizer.h"
#include "tokenizer/tokenizer.h"

#include <stdbool.h>

typedef enum tri_text_step_kind { TRI_TEXT_NFC, TRI_TEXT_REPLACE, TRI_TEXT_PREPEND } tri_text_step_kind;

typedef struct tri_text_step {
  tri_text_step_kind kind;
  bool only_first;   /* PREPEND: whether only the first piece of a text is changed */
  bool unless_there; /* PREPEND: whether a piece that already begins with `put` stays unchanged */
  char *find, *put;  /* REPLACE: `find` is replaced by `put`; PREPEND: `put` is prepended. Released with tri_free. */
  size_t find_bytes, put_bytes;
} tri_text_step;

enum { TRI_MAX_TEXT_STEPS = 8 };

typedef struct tri_text_steps {
  tri_text_step steps[TRI_MAX_TEXT_STEPS];
  int count;
} tri_text_steps;

/* Append a step, whose strings are copied. Fail with TRI_UNSUPPORTED beyond TRI_MAX_TEXT_STEPS steps; `where` begins
 * the message. */
tri_status tri_text_steps_add_nfc(tri_text_steps *steps, const char *where);
tri_status tri_text_steps_add_replace(tri_text_steps *steps, const char *where, const char *find, size_t find_bytes,
                                      const char *put, size_t put_bytes);
tri_status tri_text_steps_add_prepend(tri_text_steps *steps, const char *where, const char *put, size_t put_bytes,
                                      bool only_first, bool unless_there);
void tri_text_steps_release(tri_text_steps *steps);

/* Position of a piece of text. */
typedef struct tri_text_place {
  bool first;     /* whether the piece begins the text of this call */
  bool continues; /* whether the text continues an earlier one, so that nothing is prepended to its first piece */
} tri_text_place;

/* Scratch memory of one thread: a text and its changed parts for each step. Starts as {0}. */
typedef struct tri_stepper {
  tri_normalizer scratch[TRI_MAX_TEXT_STEPS];
  bool changed[TRI_MAX_TEXT_STEPS]; /* whether each step of the last run changed the text */
  bool keep_parts;                  /* whether tri_stepper_undo or tri_stepper_follow will be called */
} tri_stepper;

/* Runs all steps. Sets *out to the result. It is the text itself if no step changes it, otherwise memory of the stepper
 * that is valid until the next call. The text may have any bytes and is not empty. */
tri_status tri_stepper_run(tri_stepper *stepper, const tri_text_steps *steps, tri_text_place place, const char *text,
                           size_t bytes, const char **out, size_t *out_bytes);

/* Converts ends[count], ascending ends of tokens in the result of the last run, to ends in its source text, and adds
 * `begin` to each. The first token of a changed part gets the whole part. */
void tri_stepper_undo(const tri_stepper *stepper, const tri_text_steps *steps, size_t begin, size_t *ends,
                      int64_t count);
/* Converts ranges of the source text of the last run, ascending and disjoint, to those of the result. A range that has
 * a byte of a changed part gets the whole part. */
void tri_stepper_follow(const tri_stepper *stepper, const tri_text_steps *steps, tri_text_range *ranges, int64_t count);
void tri_stepper_release(tri_stepper *stepper);

#endif
