/* Changes of a text before BPE sees it: form C, one string put for another, a string put before. They are what a
 * tokenizer.json calls its normalizer, and what Metaspace does before it cuts. */
#ifndef TRI_TOKENIZER_TEXT_STEPS_H
#define TRI_TOKENIZER_TEXT_STEPS_H

#include "tokenizer/normalizer.h"

#include <stdbool.h>

typedef enum tri_text_step_kind { TRI_TEXT_NFC, TRI_TEXT_REPLACE, TRI_TEXT_PREPEND } tri_text_step_kind;

typedef struct tri_text_step {
  tri_text_step_kind kind;
  bool only_first;   /* PREPEND: only to what begins the text */
  bool unless_there; /* PREPEND: not to what begins with it already */
  char *find, *put;  /* REPLACE: this by that; PREPEND: `put`. Released with tri_free. */
  size_t find_bytes, put_bytes;
} tri_text_step;

enum { TRI_MAX_TEXT_STEPS = 8 };

typedef struct tri_text_steps {
  tri_text_step steps[TRI_MAX_TEXT_STEPS];
  int count;
} tri_text_steps;

/* Append a step, whose strings are copied; `where` begins the message of a failure. */
tri_status tri_text_steps_add_nfc(tri_text_steps *steps, const char *where);
tri_status tri_text_steps_add_replace(tri_text_steps *steps, const char *where, const char *find, size_t find_bytes,
                                      const char *put, size_t put_bytes);
tri_status tri_text_steps_add_prepend(tri_text_steps *steps, const char *where, const char *put, size_t put_bytes,
                                      bool only_first, bool unless_there);
void tri_text_steps_release(tri_text_steps *steps);

/* Where a piece of text stands. */
typedef struct tri_text_place {
  bool first;     /* it begins the text of this call */
  bool continues; /* which goes on where an earlier one ended, so that nothing is put before its first piece */
} tri_text_place;

/* Scratch memory of one thread: a text and its changed parts for each step. Starts as {0}. */
typedef struct tri_stepper {
  tri_normalizer scratch[TRI_MAX_TEXT_STEPS];
  bool changed[TRI_MAX_TEXT_STEPS]; /* by the last run */
  bool keep_parts;                  /* somebody will call tri_stepper_undo */
} tri_stepper;

/* *out is the text behind all steps: the text itself where none changes it, otherwise memory of the stepper that lives
 * until the next call. The text may hold any bytes and is not empty. */
tri_status tri_stepper_run(tri_stepper *stepper, const tri_text_steps *steps, tri_text_place place, const char *text,
                           size_t bytes, const char **out, size_t *out_bytes);

/* From places where tokens end in the text of the last run, rising, to those in the text that it was made of, `begin`
 * added. The first token of a changed part has all of it. */
void tri_stepper_undo(const tri_stepper *stepper, const tri_text_steps *steps, size_t begin, size_t *ends,
                      int64_t count);
void tri_stepper_release(tri_stepper *stepper);

#endif
