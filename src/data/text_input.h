/* Reads inputs as blocks of whole pieces of text, in constant memory. A piece is a document or a part of a long
 * document. A part encodes to the same ids alone as within its document, except after rough cuts (see text_input.c). */
#ifndef TRI_DATA_TEXT_INPUT_H
#define TRI_DATA_TEXT_INPUT_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Definition of a document in a plain text file. In a JSON file (.jsonl, .ndjson, .json) a document is always a record:
 * a line, or, in a file that begins with `[`, an element of the array. */
typedef enum tri_document_rule {
  TRI_DOCUMENT_FILE,  /* the file */
  TRI_DOCUMENT_BLANK, /* the lines between two blank lines */
  TRI_DOCUMENT_LINE,  /* a line that is not blank, without its line end */
} tri_document_rule;

typedef struct tri_text_piece {
  size_t offset, bytes; /* range in the block's text; JSON: the whole record */
  int64_t document;     /* index over all inputs */
  int64_t line;         /* line on which the piece begins, from 1; JSON only */
  int64_t element;      /* index of the record in the file's array, from 1; 0: not in an array */
  bool begins_document, ends_document;
} tri_text_piece;

/* Starts as {0}; each tri_text_input_next overwrites it. */
typedef struct tri_text_block {
  char *text;
  size_t bytes, capacity;
  tri_text_piece *pieces;
  int64_t num_pieces, piece_capacity;
  const char *path; /* path of the text's file, owned by the caller */
  bool json;
  int64_t position; /* bytes of all input files read so far, before decompression */
} tri_text_block;

void tri_text_block_destroy(tri_text_block *block);
/* Releases the memory of an unusually large block. */
void tri_text_block_trim(tri_text_block *block);

typedef struct tri_text_input tri_text_input;

/* Creates an input. The paths must outlive *out. */
tri_status tri_text_input_create(const char *const *paths, int count, tri_document_rule rule, tri_text_input **out);
void tri_text_input_destroy(tri_text_input *input);

/* Reads the next block; num_pieces is 0 at the end. Fails with TRI_BAD_FILE if a file cannot be read or is not text. */
tri_status tri_text_input_next(tri_text_input *input, tri_text_block *block);

/* Turns off the checks of files, which by default fail for files that are not text (text_check.h). */
void tri_text_input_allow_binary(tri_text_input *input);
/* Restricts the checks of files (text_check.h) to the kind of a file. The caller checks each document and skips bad
 * ones (tri_piece_text_get_clean). */
void tri_text_input_leave_bad(tri_text_input *input);

/* Limits the input to its first `documents` documents, counted over all files; 0: no limit. */
void tri_text_input_limit(tri_text_input *input, int64_t documents);

/* Checks a cut before a document is cut there. Returns whether text[0, bytes), a part of a document, has the same ids
 * as a whole and as two parts divided at `cut`. Only cuts that are safe with the usual patterns are tried; the check is
 * still needed, because a tokenizer.json may have any patterns. */
typedef bool (*tri_text_cut_check)(void *context, const char *text, size_t bytes, size_t cut);
/* Sets the check of cuts. Without a check, all cuts that are safe with the usual patterns are made. */
void tri_text_input_check_cuts(tri_text_input *input, tri_text_cut_check check, void *context);

/* Returns the number of cuts at which ids may differ from those of the whole document, because there was no safe
 * position. */
int64_t tri_text_input_rough_cuts(const tri_text_input *input);

/* Returns whether a file has JSON records, by its name: .jsonl, .ndjson or .json, with or without .zst after it. */
bool tri_text_input_is_json(const char *path);

/* Returns an offset inside the text at which a cut does not change the ids with the usual patterns: the last one after
 * a newline, else the last one before a space. 0: there is no such offset. */
size_t tri_text_find_cut(const char *text, size_t bytes);

/* ---- the text of a piece ----------------------------------------------------------------------------------------- */

/* Text of a piece. Starts as {0}; the text is valid until tri_piece_text_release or the next use of the block. */
typedef struct tri_piece_text {
  const char *text;
  size_t bytes;
  void *memory; /* memory allocated for the text; NULL: none */
} tri_piece_text;

/* Returns the text of a piece; for JSON the string under `key`. Fails with TRI_BAD_FILE, with file and line, for bad
 * JSON, and if the key is missing or not a string. Call this once for each piece, since the piece may be
 * overwritten. */
tri_status tri_piece_text_get(tri_text_block *block, const tri_text_piece *piece, const char *key, tri_piece_text *out);
/* Returns the text of a piece as tri_piece_text_get does; also fails with TRI_BAD_FILE if the text has NUL bytes or is
 * not UTF-8. */
tri_status tri_piece_text_get_clean(tri_text_block *block, const tri_text_piece *piece, const char *key,
                                    tri_piece_text *out);
void tri_piece_text_release(tri_piece_text *text);

#endif
