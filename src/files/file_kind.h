/* Recognises files and folders of other programs, with advice for messages. All code that refuses a file uses these
 * functions, so that all commands give the same advice. Which files Trireme reads is decided elsewhere. */
#ifndef TRI_FILES_FILE_KIND_H
#define TRI_FILES_FILE_KIND_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

/* Number of bytes at the beginning of a file that determine its kind. */
enum { TRI_FILE_KIND_BYTES = 512 };

typedef struct tri_file_kind {
  const char *is;     /* "a Git LFS pointer" */
  const char *advice; /* "run `git lfs pull` in its folder" */
  bool never_text;    /* whether all readers of text refuse such a file */
} tri_file_kind;

/* LOCAL. Returns the kind by the first bytes of a file; NULL if it is unknown. */
const tri_file_kind *tri_file_kind_of(const void *first, size_t bytes);
/* LOCAL. Returns the kind of the file at `path`; NULL also if it cannot be read, and for pipes and devices, which are
 * not opened. */
const tri_file_kind *tri_file_kind_find(const char *path);

/* LOCAL. Writes the kind's advice, with the path instead of the word FILE unless a shell or Python interprets
 * characters of the path. Returns out. */
enum { TRI_ADVICE_BYTES = 8192 };
const char *tri_file_kind_advice(const tri_file_kind *kind, const char *path, char out[TRI_ADVICE_BYTES]);
/* Returns whether a file is a table by its name: .csv or .tsv. */
bool tri_table_is_named(const char *path);
/* LOCAL. Writes the command that converts a table to JSON lines, by its name: .csv, .tsv or .parquet. Returns out. */
const char *tri_table_advice(const char *path, char out[TRI_ADVICE_BYTES]);

/* Advice about bytes that are not UTF-8, for the end of a message. */
#define TRI_LATIN_1_ADVICE "convert it, if it is in Latin-1: iconv -f ISO-8859-1 -t UTF-8 FILE > NEW"

/* LOCAL. Fails with `status` and the message "PATH is KIND, not WANTED: ADVICE". */
tri_status tri_file_kind_refuse(tri_status status, const char *path, const tri_file_kind *kind, const char *wanted);

/* Content that a folder should have. */
typedef enum tri_folder_content {
  TRI_CONTENT_MODEL,     /* config.json, weights as .safetensors */
  TRI_CONTENT_WEIGHTS,   /* weights as .safetensors */
  TRI_CONTENT_TOKENIZER, /* tokenizer.json */
} tri_folder_content;

/* LOCAL. Writes the end of a message about a folder that lacks `wanted`. It names the content that was found instead,
 * with advice, such as ": it holds model.gguf, a file of llama.cpp; ADVICE", or a folder in it that has a config.json.
 * Writes "" if nothing is recognised. Returns out. */
enum { TRI_FOLDER_HINT_BYTES = 1024 };
const char *tri_folder_hint(const char *folder, tri_folder_content wanted, char out[TRI_FOLDER_HINT_BYTES]);

/* LOCAL. Skips a UTF-8 byte order mark at the beginning of a text (a prompt, a template, JSON) by moving *text and
 * *bytes. Fails with TRI_BAD_FILE for a known kind that is not text. `name` and `wanted` ("a prompt") are for messages.
 */
tri_status tri_text_begin(const char *name, const char *wanted, const char **text, size_t *bytes);

#endif
