/* What a file or a folder is that another program wrote, and what to do about it: asked by every refusal, so that the
 * same file has the same answer in all commands. Nothing here says what Trireme reads. */
#ifndef TRI_BASE_FILE_KIND_H
#define TRI_BASE_FILE_KIND_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

/* As many first bytes of a file tell all kinds apart. */
enum { TRI_FILE_KIND_BYTES = 512 };

typedef struct tri_file_kind {
  const char *is;     /* "a Git LFS pointer" */
  const char *advice; /* "run `git lfs pull` in its folder" */
  bool never_text;    /* a language model is not trained on it as it is */
} tri_file_kind;

/* LOCAL. By the first bytes of a file, NULL if they are of no kind that is known. */
const tri_file_kind *tri_file_kind_of(const void *first, size_t bytes);
/* LOCAL. The same of a file. NULL for what cannot be read, and for pipes and devices, which are not opened. */
const tri_file_kind *tri_file_kind_find(const char *path);

/* What to do about bytes that are not UTF-8, for the end of a message. */
#define TRI_LATIN_1_ADVICE "convert it, if it is in Latin-1: iconv -f ISO-8859-1 -t UTF-8 FILE > NEW"

/* LOCAL. A failure of the status that says the kind: "PATH is KIND, not WANTED: ADVICE". */
tri_status tri_file_kind_refuse(tri_status status, const char *path, const tri_file_kind *kind, const char *wanted);

/* What is looked for in a folder. */
typedef enum tri_folder_content {
  TRI_CONTENT_MODEL,     /* config.json, weights as .safetensors */
  TRI_CONTENT_WEIGHTS,   /* the second of them                   */
  TRI_CONTENT_TOKENIZER, /* tokenizer.json                       */
} tri_folder_content;

/* LOCAL. What lies in a folder instead, and what to do, for the end of a message: ": it holds model.gguf, a file of
 * llama.cpp; ADVICE". "" if nothing there is known. */
enum { TRI_FOLDER_HINT_BYTES = 1024 };
const char *tri_folder_hint(const char *folder, tri_folder_content wanted, char out[TRI_FOLDER_HINT_BYTES]);

/* LOCAL. Where a text begins (a prompt, a template, JSON): moves *text and *bytes behind a byte order mark of UTF-8.
 * What is not text by its kind is TRI_BAD_FILE. `name` and `wanted` ("a prompt") are for messages. */
tri_status tri_text_begin(const char *name, const char *wanted, const char **text, size_t *bytes);

#endif
