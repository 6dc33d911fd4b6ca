/* Counts the bytes of labels. The bytes of a token depend on the tokens before it: at the beginning of a document, a
 * decoder removes the space that the encoder has added. So the decoder reads all tokens in order, including those whose
 * labels do not count. */
#include "cli/running/eval_bytes.h"

/* Returns whether the token after token `i` is not its label, because a row, a piece or the corpus ends between them.
 * The label's bytes are then counted with token `i`. */
static bool ends_here(const tri_label_rows *rows, int64_t i) {
  if (rows->packed && (i + 1) % rows->sequence == 0) return true;
  switch (rows->places[i + 1]) {
    case TRI_TOKEN_INSIDE: return false;
    case TRI_TOKEN_CONTINUES:
    case TRI_TOKEN_BEGINS: return rows->packed && rows->masked;
    case TRI_TOKEN_NONE: return true;
  }
  return true;
}

static tri_status count_label(tri_label_bytes *counter, int32_t id) {
  size_t bytes = 0;
  TRI_TRY(tri_decoder_count(counter->decoder, id, &bytes));
  counter->unknown += id == counter->unknown_token;
  if (id != counter->unknown_token) counter->bytes += (int64_t)bytes;
  return TRI_OK;
}

/* Counts a token that is not a counted label. `is_label`: whether the token is the first one of a piece that begins in
 * the middle of a document. It is then the last label of the piece before, and is not counted again. */
static tri_status count_other(tri_label_bytes *counter, int32_t id, bool is_label) {
  size_t bytes = 0;
  TRI_TRY(tri_decoder_count(counter->decoder, id, &bytes));
  if (id != counter->unknown_token && !is_label) counter->others += (int64_t)bytes;
  return TRI_OK;
}

static tri_status count_token(tri_label_bytes *counter, const tri_label_rows *rows, int64_t i) {
  switch (rows->places[i]) {
    case TRI_TOKEN_INSIDE: break;
    case TRI_TOKEN_CONTINUES: tri_decoder_restart(counter->decoder, false); break;
    case TRI_TOKEN_BEGINS: tri_decoder_restart(counter->decoder, true); break;
    case TRI_TOKEN_NONE: return TRI_OK;
  }
  TRI_TRY(counter->awaited ? count_label(counter, rows->tokens[i])
                           : count_other(counter, rows->tokens[i], rows->places[i] == TRI_TOKEN_CONTINUES));
  counter->awaited = rows->labels[i] >= 0;
  if (!counter->awaited || !ends_here(rows, i)) return TRI_OK;
  counter->awaited = false;
  return count_label(counter, rows->labels[i]);
}

tri_status tri_label_bytes_add(tri_label_bytes *counter, const tri_label_rows *rows) {
  for (int64_t i = 0; i < rows->count && counter->decoder != NULL; i++) TRI_TRY(count_token(counter, rows, i));
  return TRI_OK;
}
