/* Inputs as blocks of whole pieces of text, in constant memory. A piece is a document or, where a document is long, a
 * part of one that encodes to the same ids alone as within the whole (see text_input.c). */
#ifndef TRI_DATA_TEXT_INPUT_H
#define TRI_DATA_TEXT_INPUT_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is a document of a plain text file. In a file of JSON lines (.jsonl, .ndjson, .json) it is always a line. */
typedef enum tri_document_rule {
  TRI_DOCUMENT_FILE,  /* the file                                     */
  TRI_DOCUMENT_BLANK, /* a run of lines between blank ones            */
  TRI_DOCUMENT_LINE,  /* a line, without its end; blank ones are none */
} tri_document_rule;

typedef struct tri_text_piece {
  size_t offset, bytes; /* in the block's text; of JSON, the whole line */
  int64_t document;     /* index over all inputs                        */
  int64_t line;         /* of the file, from 1; JSON only               */
  bool begins_document, ends_document;
} tri_text_piece;

/* Starts as {0} and is used again for each tri_text_input_next. */
typedef struct tri_text_block {
  char *text;
  size_t bytes, capacity;
  tri_text_piece *pieces;
  int64_t num_pieces, piece_capacity;
  const char *path; /* of the file that the text is from; the caller's string */
  bool json;
  int64_t position; /* bytes of all input files read so far, as they lie on the disk */
} tri_text_block;

void tri_text_block_destroy(tri_text_block *block);
/* Gives back the memory of an unusually large block. */
void tri_text_block_trim(tri_text_block *block);

typedef struct tri_text_input tri_text_input;

/* The paths must outlive the input. */
tri_status tri_text_input_create(const char *const *paths, int count, tri_document_rule rule, tri_text_input **out);
void tri_text_input_destroy(tri_text_input *input);

/* The next block; num_pieces is 0 at the end. */
tri_status tri_text_input_next(tri_text_input *input, tri_text_block *block);

/* Files that are not text are refused as they are read (text_check.h), unless they are taken as they are. Where
 * `bad_documents` are the caller's to pass over (tri_piece_text_get_clean), only the kind of a file is looked at. */
void tri_text_input_take_binary(tri_text_input *input);
void tri_text_input_leave_bad(tri_text_input *input);

/* Asked before a document is cut: whether text[0, bytes), a part of a document, gives the same ids whole as in two
 * parts that meet at `cut`. The patterns of a tokenizer.json are anybody's, so the places that are safe under the usual
 * ones are tried first. */
typedef bool (*tri_text_cut_check)(void *context, const char *text, size_t bytes, size_t cut);
void tri_text_input_check_cuts(tri_text_input *input, tri_text_cut_check check, void *context);

/* Pieces that had to be cut where the ids may differ from those of the whole, because there was no other place. */
int64_t tri_text_input_rough_cuts(const tri_text_input *input);

bool tri_text_input_is_json(const char *path);

/* The last place in the text, not its beginning or end, where it can be cut without changing its ids; 0 if none. */
size_t tri_text_find_cut(const char *text, size_t bytes);

/* ---- the text of a piece --------------------------------------------------------------------------------------- */

/* Starts as {0}; the text is valid until tri_piece_text_release, and as long as the block. */
typedef struct tri_piece_text {
  const char *text;
  size_t bytes;
  void *memory; /* of its own, or NULL */
} tri_piece_text;

/* The text itself or, of JSON, the string under `key`. Bad JSON, a missing key or one that is not a string is
 * TRI_BAD_FILE with the file, the line and what is there instead. May write over the piece: ask once. */
tri_status tri_piece_text_get(tri_text_block *block, const tri_text_piece *piece, const char *key, tri_piece_text *out);
/* The same of a piece whose text must have neither NUL bytes nor bytes that are not UTF-8, which are TRI_BAD_FILE. */
tri_status tri_piece_text_get_clean(tri_text_block *block, const tri_text_piece *piece, const char *key,
                                    tri_piece_text *out);
void tri_piece_text_release(tri_piece_text *text);

#endif
