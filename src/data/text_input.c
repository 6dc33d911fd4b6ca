/* Cuts a file of any size into blocks.
 *
 * A block is BLOCK_BYTES of the file or a little less: it ends with the last whole document, and the rest is moved to
 * the next block. A document longer than a block is cut into pieces. A cut must not change the ids, so it is only made
 * where the usual pre-tokenizer patterns (GPT-2, Llama 3 and Qwen 2) always end a word. There are two such positions:
 *
 *  - After a newline between two characters that are not white space. A newline can only be in tokens of white space,
 *    or at the end of a run of punctuation, and a token with a newline can only continue with white space. The
 *    look-ahead \s+(?!\S) of white space sees a run of one character, for which the end of the text makes no
 *    difference. (For a run of two it does: "a \nb" is a, ' ', '\n', b, but "a \n" is a, ' \n'.)
 *
 *  - Before a single space between two characters that are not white space: no token continues across a space.
 *
 * White space is Unicode's; in doubt, a position is not used. A tokenizer may have another pattern, or put a space
 * before every text, so each cut is tested with the tokenizer, which is cheap for one cut in a mebibyte. Text without a
 * safe position for ROUGH_BYTES (Chinese without newlines, base64) is cut between two characters; such cuts are counted
 * and reported. */
#include "data/text_input.h"

#include "base/format.h"
#include "base/memory.h"
#include "data/json_array.h"
#include "data/text_check.h"
#include "data/text_stream.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

enum {
  BLOCK_BYTES = 1 << 20,
  KEEP_BYTES = 4 * BLOCK_BYTES,   /* buffers up to this size are kept for the next block */
  ROUGH_BYTES = 16 * BLOCK_BYTES, /* a piece of a document is at most this long */
  CHECK_BYTES = 256,              /* number of bytes on either side of a cut that the tokenizer encodes for the test */
  CHECK_TRIES = 16,
  LINE_BYTES = 1 << 30, /* a document that must be one piece is at most this long */
};

struct tri_text_input {
  const char *const *paths;
  int num_paths, next_path;
  tri_document_rule rule;
  tri_text_stream *stream; /* stream of the current file; NULL: none */
  char *carry;             /* text that was read but is not in a block yet */
  size_t carried, carry_capacity;
  int64_t lines; /* number of lines of the current file so far; in an array, line on which the last element begins. Not
                    for documents that are files or paragraphs */
  bool is_array, form_known; /* for JSON; is_array: whether the current file is an array of records, not lines;
                                form_known: whether is_array was determined for this file */
  tri_json_array array;
  int64_t documents;         /* number of complete documents so far */
  int64_t most_documents;    /* maximum number of documents; 0: no limit */
  bool in_document;          /* whether the carried text continues a document */
  int64_t finished_position; /* number of bytes of the files before the current one */
  int64_t rough_cuts;
  bool binary, leaves_bad;  /* binary: whether files that are not text are read as bytes; leaves_bad: whether the caller
                               skips bad documents */
  tri_text_check quality;   /* check of the current file */
  tri_text_cut_check check; /* NULL: none */
  void *check_context;
};

void tri_text_block_destroy(tri_text_block *block) {
  tri_free(block->text);
  tri_free(block->pieces);
  *block = (tri_text_block){0};
}

void tri_text_block_trim(tri_text_block *block) {
  if (block->capacity > KEEP_BYTES) tri_text_block_destroy(block);
}

bool tri_text_input_is_json(const char *path) {
  static const char *const suffixes[] = {".jsonl", ".ndjson", ".json"};
  size_t length = strlen(path);
  if (length > 4 && strcasecmp(path + length - 4, ".zst") == 0) length -= 4;
  for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
    size_t suffix_length = strlen(suffixes[i]);
    if (length > suffix_length && strncasecmp(path + length - suffix_length, suffixes[i], suffix_length) == 0) {
      return true;
    }
  }
  return false;
}

tri_status tri_text_input_create(const char *const *paths, int count, tri_document_rule rule, tri_text_input **out) {
  tri_text_input *input = NULL;
  TRI_TRY(tri_alloc("the inputs", 1, sizeof *input, &input));
  input->paths = paths;
  input->num_paths = count;
  input->rule = rule;
  *out = input;
  return TRI_OK;
}

void tri_text_input_destroy(tri_text_input *input) {
  if (input == NULL) return;
  tri_text_stream_close(input->stream);
  tri_free(input->carry);
  tri_free(input);
}

void tri_text_input_check_cuts(tri_text_input *input, tri_text_cut_check check, void *context) {
  input->check = check;
  input->check_context = context;
}

void tri_text_input_allow_binary(tri_text_input *input) { input->binary = true; }

void tri_text_input_limit(tri_text_input *input, int64_t documents) { input->most_documents = documents; }

void tri_text_input_leave_bad(tri_text_input *input) { input->leaves_bad = true; }

int64_t tri_text_input_rough_cuts(const tri_text_input *input) { return input->rough_cuts; }

/* ---- cuts -------------------------------------------------------------------------------------------------------- */

static bool is_wide_space(const unsigned char *c) {
  switch (c[0]) {
    case 0xE1: return (c[1] == 0x9A && c[2] == 0x80) || (c[1] == 0xA0 && c[2] == 0x8E);
    case 0xE2:
      return (c[1] == 0x80 && (c[2] <= 0x8F || (c[2] >= 0xA8 && c[2] <= 0xAF))) ||
             (c[1] == 0x81 && (c[2] == 0x9F || c[2] == 0xA0));
    case 0xE3: return c[1] == 0x80 && c[2] == 0x80;
    default: return false;
  }
}

static bool is_narrow_space(const unsigned char *c) { return c[0] == 0xC2 && (c[1] == 0x85 || c[1] == 0xA0); }

/* Returns whether the character that begins at `at` is certainly not white space. */
static bool solid_from(const char *text, size_t bytes, size_t at) {
  const unsigned char *c = (const unsigned char *)text + at;
  if (at >= bytes) return false;
  if (c[0] < 0x80) return c[0] > 0x20 && c[0] != 0x7F;
  return at + 3 <= bytes && !is_narrow_space(c) && !is_wide_space(c);
}

/* Returns whether the character that ends at `at` is certainly not white space. */
static bool solid_until(const char *text, size_t at) {
  const unsigned char *c = (const unsigned char *)text + at;
  if (at == 0) return false;
  if (c[-1] < 0x80) return c[-1] > 0x20 && c[-1] != 0x7F;
  return at >= 3 && !is_narrow_space(c - 2) && !is_wide_space(c - 3);
}

/* Returns the last safe position after a newline (separator '\n') or before a space; 0 if there is no such position. */
static size_t find_cut_at(char separator, const char *text, size_t bytes) {
  for (size_t end = bytes; end > 0;) {
    const char *found = memrchr(text, separator, end);
    if (found == NULL) break;
    end = (size_t)(found - text);
    if (solid_until(text, end) && solid_from(text, bytes, end + 1)) return separator == '\n' ? end + 1 : end;
  }
  return 0;
}

size_t tri_text_find_cut(const char *text, size_t bytes) {
  size_t cut = find_cut_at('\n', text, bytes);
  return cut != 0 ? cut : find_cut_at(' ', text, bytes);
}

static bool agrees(const tri_text_input *input, const char *text, size_t bytes, size_t cut) {
  if (input->check == NULL) return true;
  size_t from = cut < CHECK_BYTES ? 0 : cut - CHECK_BYTES;
  size_t to = bytes - cut < CHECK_BYTES ? bytes : cut + CHECK_BYTES;
  return input->check(input->check_context, text + from, to - from, cut - from);
}

/* Returns the last safe position at which the tokenizer gives the same ids for the text around it, whether it is cut or
 * not. Returns 0 if this fails for the last CHECK_TRIES positions of each kind. */
static size_t find_checked_cut(const tri_text_input *input, const char *text, size_t bytes) {
  static const char separators[] = {'\n', ' '};
  for (int kind = 0; kind < 2; kind++) {
    size_t cut = bytes;
    for (int tries = 0; tries < CHECK_TRIES; tries++) {
      cut = find_cut_at(separators[kind], text, cut);
      if (cut == 0) break;
      if (agrees(input, text, bytes, cut)) return cut;
    }
  }
  return 0;
}

/* Returns a position between two characters near the end, not before white space, so that the rest of a line is not
 * read as a blank line in the next block. */
static size_t find_rough_cut(const char *text, size_t bytes) {
  size_t cut = bytes - 1;
  while (cut > bytes / 2 && (((unsigned char)text[cut] & 0xC0) == 0x80 || (unsigned char)text[cut] <= 0x20)) cut--;
  return cut;
}

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

static tri_status add_piece(tri_text_input *input, tri_text_block *block, size_t begin, size_t end,
                            bool ends_document) {
  TRI_TRY(tri_grow("the pieces of a block", sizeof *block->pieces, block->num_pieces, &block->piece_capacity,
                   &block->pieces));
  block->pieces[block->num_pieces++] = (tri_text_piece){
      .offset = begin,
      .bytes = end - begin,
      .document = input->documents,
      .line = input->lines,
      .element = input->is_array ? input->array.elements : 0,
      .begins_document = !input->in_document,
      .ends_document = ends_document,
  };
  if (ends_document) input->documents++;
  input->in_document = !ends_document;
  return TRI_OK;
}

/* Adds a part of a document that is longer than the block. *consumed is unchanged if there is no position for a cut
 * yet. */
static tri_status cut_document(tri_text_input *input, tri_text_block *block, size_t begin, size_t *consumed) {
  const char *text = block->text + begin;
  size_t bytes = block->bytes - begin;
  size_t cut = find_checked_cut(input, text, bytes);
  if (cut == 0 && block->bytes >= ROUGH_BYTES) {
    cut = find_rough_cut(text, bytes);
    input->rough_cuts++;
  }
  if (cut == 0) return TRI_OK;
  *consumed = begin + cut;
  return add_piece(input, block, begin, begin + cut, false);
}

static tri_status split_file(tri_text_input *input, tri_text_block *block, bool ended, size_t *consumed) {
  if (!ended) return cut_document(input, block, 0, consumed);
  *consumed = block->bytes;
  return block->bytes > 0 ? add_piece(input, block, 0, block->bytes, true) : TRI_OK;
}

/* Returns the end of the line at `at`, after its newline; without a newline, the end of the text if the file has
 * `ended`, else 0. */
static size_t find_line_end(const tri_text_block *block, size_t at, bool ended) {
  const char *newline = memchr(block->text + at, '\n', block->bytes - at);
  if (newline != NULL) return (size_t)(newline - block->text) + 1;
  return ended ? block->bytes : 0;
}

static bool is_blank(const char *text, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) {
    if (text[i] != ' ' && (text[i] < '\t' || text[i] > '\r')) return false;
  }
  return true;
}

/* Returns `end`, or if a line end (\n or \r\n) is before it, the offset at which that begins. */
static size_t without_newline(const tri_text_block *block, size_t begin, size_t end) {
  if (end > begin && block->text[end - 1] == '\n') end--;
  if (end > begin && block->text[end - 1] == '\r') end--;
  return end;
}

static tri_status split_lines(tri_text_input *input, tri_text_block *block, bool ended, size_t *consumed) {
  for (size_t at = 0; at < block->bytes;) {
    size_t end = find_line_end(block, at, ended);
    if (end == 0) break;
    input->lines++;
    if (!is_blank(block->text + at, end - at)) {
      TRI_TRY(add_piece(input, block, at, without_newline(block, at, end), true));
    }
    *consumed = at = end;
  }
  return TRI_OK;
}

/* Adds those elements of an array that end in the block as pieces; *consumed is set to the end of the last one. */
static tri_status split_array(tri_text_input *input, tri_text_block *block, bool ended, size_t *consumed) {
  for (bool found = true; found;) {
    tri_json_element element = {0};
    size_t at = *consumed;
    TRI_TRY(tri_json_array_next(&input->array, block->text, block->bytes, ended, &at, &element, &found));
    *consumed = at;
    if (!found) break;
    input->lines = element.line;
    TRI_TRY(add_piece(input, block, element.begin, element.end, true));
  }
  return TRI_OK;
}

/* Splits JSON into records. The first byte that is not white space determines the form of the file. */
static tri_status split_json(tri_text_input *input, tri_text_block *block, bool ended, size_t *consumed) {
  if (!input->form_known) {
    input->is_array = tri_json_array_begins(block->text, block->bytes);
    input->form_known = !is_blank(block->text, block->bytes);
    input->array.lines = input->lines;
  }
  return input->is_array ? split_array(input, block, ended, consumed) : split_lines(input, block, ended, consumed);
}

/* Adds runs of lines that are not blank. A run that continues after the block is moved to the next block, unless it
 * fills this block. */
static tri_status split_paragraphs(tri_text_input *input, tri_text_block *block, bool ended, size_t *consumed) {
  bool open = input->in_document;
  size_t begin = 0, at = 0;
  while (at < block->bytes) {
    size_t end = find_line_end(block, at, ended);
    if (end == 0) break;
    bool blank = is_blank(block->text + at, end - at);
    if (blank && open) TRI_TRY(add_piece(input, block, begin, without_newline(block, begin, at), true));
    if (!blank && !open) begin = at;
    open = !blank;
    at = end;
    if (blank) *consumed = end;
  }
  if (!open) begin = at; /* no run is open, so the next one may begin with the incomplete line at the end */
  if (ended) {
    *consumed = block->bytes;
    return open ? add_piece(input, block, begin, without_newline(block, begin, block->bytes), true) : TRI_OK;
  }
  return block->num_pieces == 0 ? cut_document(input, block, begin, consumed) : TRI_OK;
}

static tri_status split(tri_text_input *input, tri_text_block *block, bool ended, size_t *consumed) {
  if (block->json) return split_json(input, block, ended, consumed);
  if (input->rule == TRI_DOCUMENT_LINE) return split_lines(input, block, ended, consumed);
  if (input->rule == TRI_DOCUMENT_BLANK) return split_paragraphs(input, block, ended, consumed);
  return split_file(input, block, ended, consumed);
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

static tri_status open_next(tri_text_input *input) {
  TRI_TRY(tri_text_stream_open(input->paths[input->next_path], &input->stream));
  const char *path = input->paths[input->next_path++];
  input->quality = (tri_text_check){.path = path, .json = input->leaves_bad || tri_text_input_is_json(path)};
  input->lines = 0;
  input->form_known = input->is_array = false;
  input->array = (tri_json_array){.path = path};
  input->in_document = false;
  input->carried = 0;
  return TRI_OK;
}

static tri_status reserve(char **buffer, size_t *capacity, size_t bytes) {
  if (bytes <= *capacity) return TRI_OK;
  TRI_TRY(tri_realloc("a block of text", bytes, 1, buffer));
  *capacity = bytes;
  return TRI_OK;
}

static tri_status keep_rest(tri_text_input *input, const tri_text_block *block, size_t consumed) {
  size_t rest = block->bytes - consumed;
  if (rest <= KEEP_BYTES && input->carry_capacity > KEEP_BYTES) {
    tri_free(input->carry);
    input->carry = NULL;
    input->carry_capacity = 0;
  }
  TRI_TRY(reserve(&input->carry, &input->carry_capacity, rest < BLOCK_BYTES ? BLOCK_BYTES : rest));
  memcpy(input->carry, block->text + consumed, rest);
  input->carried = rest;
  return TRI_OK;
}

static tri_status line_too_long(const tri_text_input *input, const tri_text_block *block) {
  char limit[32];
  return tri_fail(TRI_BAD_FILE, "%s line %" PRId64 " is longer than %s; a document that is a line must fit in memory",
                  block->path, input->lines + 1, tri_format_bytes(LINE_BYTES, limit, sizeof limit));
}

/* Reads one block of the current file, and closes the file after its last block. The block may have no pieces (blank
 * lines, an empty file). */
static tri_status read_block(tri_text_input *input, tri_text_block *block) {
  size_t consumed = 0;
  bool ended = false;
  TRI_TRY(reserve(&block->text, &block->capacity, input->carried < BLOCK_BYTES ? BLOCK_BYTES : input->carried));
  if (input->carried > 0) memcpy(block->text, input->carry, input->carried);
  block->bytes = input->carried;
  for (size_t want = BLOCK_BYTES; consumed == 0 && !ended;) {
    if (want > block->bytes) {
      size_t got = 0;
      TRI_TRY(reserve(&block->text, &block->capacity, want));
      TRI_TRY(tri_text_stream_read(input->stream, block->text + block->bytes, want - block->bytes, &got));
      ended = got < want - block->bytes;
      if (!input->binary) {
        TRI_TRY(tri_text_check_next(&input->quality, block->text + block->bytes, got, ended));
      }
      block->bytes += got;
    }
    TRI_TRY(split(input, block, ended, &consumed));
    while (want <= block->bytes) want *= 2;
    if (want > LINE_BYTES) return line_too_long(input, block);
  }
  block->position = input->finished_position + tri_text_stream_position(input->stream);
  if (!ended) return keep_rest(input, block, consumed);
  input->finished_position = block->position;
  tri_text_stream_close(input->stream);
  input->stream = NULL;
  return TRI_OK;
}

tri_status tri_text_input_next(tri_text_input *input, tri_text_block *block) {
  block->num_pieces = 0;
  block->bytes = 0;
  while (block->num_pieces == 0) {
    const int64_t most = input->most_documents;
    if (most > 0 && input->documents >= most) return TRI_OK;
    if (input->stream == NULL && input->next_path == input->num_paths) return TRI_OK;
    if (input->stream == NULL) TRI_TRY(open_next(input));
    block->path = input->paths[input->next_path - 1];
    block->json = tri_text_input_is_json(block->path);
    TRI_TRY(read_block(input, block));
    while (most > 0 && block->num_pieces > 0 && block->pieces[block->num_pieces - 1].document >= most) {
      block->num_pieces--;
    }
  }
  return TRI_OK;
}
