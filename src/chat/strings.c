/* Flat strings, and a writer that makes them. For each byte of a string it is recorded whether the byte is given, by a
 * message or another part of the request, or is the template's. */
#include "chat/value.h"
#include "tokenizer/utf8.h"

#include <string.h>

tri_chat_value tri_chat_string(const char *text, size_t bytes) {
  /* An empty string may be NULL, which memcmp and memmem do not accept. */
  return (tri_chat_value){.kind = TRI_CHAT_STRING, .text = text == NULL ? "" : text, .bytes = bytes};
}

tri_chat_value tri_chat_part(tri_chat_value string, size_t begin, size_t end) {
  tri_chat_value part = tri_chat_string(string.text + begin, end - begin);
  part.origin = string.origin;
  if (string.marks != NULL) part.marks = string.marks + begin;
  return part;
}

bool tri_chat_is_given(tri_chat_value string, size_t at) {
  return string.marks != NULL ? string.marks[at] : string.origin != 0;
}

size_t tri_chat_run_end(tri_chat_value string, size_t at) {
  const bool *other = NULL;
  if (string.marks != NULL) other = memchr(string.marks + at, !string.marks[at], string.bytes - at);
  return other == NULL ? string.bytes : (size_t)(other - string.marks);
}

/* ---- writer ------------------------------------------------------------------------------------------------------ */

static tri_status grow(tri_chat_writer *writer, size_t more) {
  const size_t room = 2 * (writer->bytes + more) + 64;
  char *grown = NULL;
  bool *marks = NULL;
  TRI_TRY(tri_chat_arena_alloc(writer->arena, room, 1, &grown));
  if (writer->bytes > 0) memcpy(grown, writer->text, writer->bytes);
  if (writer->marks != NULL) {
    TRI_TRY(tri_chat_arena_alloc(writer->arena, room, sizeof *marks, &marks));
    memcpy(marks, writer->marks, writer->bytes * sizeof *marks);
  }
  writer->text = grown;
  writer->marks = marks;
  writer->room = room;
  return TRI_OK;
}

/* Allocates the marks, with those of the bytes that are written already. */
static tri_status make_marks(tri_chat_writer *writer) {
  TRI_TRY(tri_chat_arena_alloc(writer->arena, writer->room, sizeof *writer->marks, &writer->marks));
  memset(writer->marks, writer->first_given, writer->bytes * sizeof *writer->marks);
  return TRI_OK;
}

tri_status tri_chat_write(tri_chat_writer *writer, const char *text, size_t bytes) {
  if (bytes == 0) return TRI_OK;
  if (bytes > writer->room - writer->bytes) TRI_TRY(grow(writer, bytes));
  if (writer->bytes == 0) writer->first_given = writer->given;
  if (writer->marks == NULL && writer->given != writer->first_given) TRI_TRY(make_marks(writer));
  memcpy(writer->text + writer->bytes, text, bytes);
  if (writer->marks != NULL) memset(writer->marks + writer->bytes, writer->given, bytes * sizeof *writer->marks);
  writer->bytes += bytes;
  return TRI_OK;
}

tri_status tri_chat_write_part(tri_chat_writer *writer, tri_chat_value string, size_t begin, size_t end) {
  const tri_chat_value part = tri_chat_part(string, begin, end);
  const bool given = writer->given;
  for (size_t at = 0, next = 0; at < part.bytes; at = next) {
    next = tri_chat_run_end(part, at);
    writer->given = tri_chat_is_given(part, at);
    TRI_TRY(tri_chat_write(writer, part.text + at, next - at));
  }
  writer->given = given;
  return TRI_OK;
}

tri_status tri_chat_written(tri_chat_writer *writer, int32_t origin, tri_chat_value *out) {
  if (writer->marks == NULL && writer->bytes > 0) { /* all bytes are alike */
    if (writer->first_given && origin == 0) origin = TRI_CHAT_GIVEN;
    if (!writer->first_given && origin == TRI_CHAT_GIVEN) origin = 0;
    if (!writer->first_given && origin > 0) TRI_TRY(make_marks(writer));
  }
  *out = tri_chat_string(writer->text, writer->bytes);
  out->origin = origin;
  out->marks = writer->marks;
  return TRI_OK;
}

tri_status tri_chat_write_code(tri_chat_writer *writer, uint32_t code) {
  char letter[4];
  return tri_chat_write(writer, letter, tri_utf8_encode(code, letter));
}
