/* The pre-tokenizers of llama.cpp, which has names for a fixed list of them. */
#ifndef TRI_LLAMACPP_PRETOKENIZERS_H
#define TRI_LLAMACPP_PRETOKENIZERS_H

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>

typedef struct tri_llamacpp_pretokenizer {
  const char *name; /* value of tokenizer.ggml.pre */
  const char *form; /* normal form of the pre_tokenizer of a tokenizer.json (pretokenizers.c) */
  bool ignore_merges;
  bool covers;  /* whether the pattern matches every character, so that text between matches does not occur */
  bool differs; /* whether llama.cpp cuts some texts differently */
} tri_llamacpp_pretokenizer;

/* Returns the table of all pre-tokenizers; sets *count to their number. */
const tri_llamacpp_pretokenizer *tri_llamacpp_pretokenizers(int *count);

/* LOCAL. Finds the pre-tokenizer for the "pre_tokenizer" of a byte-level tokenizer.json; `file` is its name for
 * messages. Of two with the same form, the one with the same ignore_merges is returned; otherwise the caller checks
 * this member. Fails with TRI_UNSUPPORTED if llama.cpp has no such pre-tokenizer; the message shows the form. */
tri_status tri_llamacpp_find_pretokenizer(const char *file, const json_t *object, bool ignore_merges,
                                          const tri_llamacpp_pretokenizer **out);

#endif
