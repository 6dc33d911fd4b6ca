/* Form C by utf8proc's tables, in linear time.
 *
 * Most text is in form C already, and most code points are inert: they start a new combination, are nobody's second
 * half and stay as they are. The text is cut before inert code points. A part of one inert code point is copied (and if
 * that is all there is, not even that); the rest is decomposed, its marks are put in order and composed again.
 * utf8proc's own function for whole strings sorts marks by exchanging neighbours, which a hostile text of nothing but
 * marks makes quadratic; here they are sorted by counting. */
#include "data/normalizer.h"

#include "base/memory.h"
#include "data/utf8.h"

#include <stdbool.h>
#include <string.h>
#include <utf8proc.h>

static const char what[] = "normalizing text";

enum { LONGEST_DECOMPOSITION = 4, CLASSES = 256 };

static const struct {
  uint32_t first, last;
} inert[] = {
    {0x0000, 0x02FF},                                       /* Latin */
    {0x4E00, 0x9FFF},                                       /* Chinese characters */
    {0x0388, 0x0482},                                       /* Greek, Cyrillic */
    {0x2010, 0x2027},                                       /* punctuation */
    {0x3000, 0x3029},   {0x3041, 0x3096}, {0x309D, 0x30FF}, /* Japanese */
    {0xAC00, 0xD7A3},                                       /* Korean */
    {0xFF01, 0xFFEF},                                       /* wide forms */
    {0x0621, 0x064A},                                       /* Arabic */
    {0x05D0, 0x05EA},                                       /* Hebrew */
    {0x0E01, 0x0E30},                                       /* Thai */
    {0x1F300, 0x1FAFF},                                     /* emoji */
};

static bool is_inert(uint32_t code) {
  for (size_t i = 0; i < sizeof inert / sizeof inert[0]; i++) {
    if (code >= inert[i].first && code <= inert[i].last) return true;
  }
  return false;
}

void tri_normalizer_release(tri_normalizer *normalizer) {
  tri_free(normalizer->text);
  tri_free(normalizer->codes);
  *normalizer = (tri_normalizer){0};
}

static tri_status append(tri_normalizer *normalizer, const char *text, size_t bytes) {
  if (normalizer->room - normalizer->length < bytes) {
    size_t room = (normalizer->length + bytes) * 2 + 256;
    TRI_TRY(tri_realloc(what, room, 1, &normalizer->text));
    normalizer->room = room;
  }
  memcpy(normalizer->text + normalizer->length, text, bytes);
  normalizer->length += bytes;
  return TRI_OK;
}

static int class_of(int32_t code) { return (int)utf8proc_get_property(code)->combining_class; }

/* Puts each run of marks in the order of their combining classes, equal ones as they stood. */
static void sort_marks(int32_t *codes, size_t count, int32_t *space) {
  for (size_t i = 0, end = 0; i < count; i = end + 1) {
    for (end = i; end < count && class_of(codes[end]) > 0;) end++;
    if (end - i < 2) continue;
    size_t places[CLASSES + 1] = {0};
    for (size_t k = i; k < end; k++) places[class_of(codes[k]) + 1]++;
    for (int c = 0; c < CLASSES; c++) places[c + 1] += places[c];
    for (size_t k = i; k < end; k++) space[places[class_of(codes[k])]++] = codes[k];
    memcpy(codes + i, space, (end - i) * sizeof *codes);
  }
}

/* Normalizes one part (valid UTF-8) and appends it. */
static tri_status append_composed(tri_normalizer *normalizer, const char *text, size_t bytes) {
  size_t most = bytes * LONGEST_DECOMPOSITION;
  if (normalizer->codes_room < most) {
    TRI_TRY(tri_realloc(what, most * 2, 2 * sizeof *normalizer->codes, &normalizer->codes));
    normalizer->codes_room = most * 2;
  }
  int32_t *codes = normalizer->codes;
  utf8proc_ssize_t count = 0;
  for (size_t i = 0; i < bytes;) {
    uint32_t code = 0;
    i += tri_utf8_decode(text + i, bytes - i, &code);
    utf8proc_ssize_t got = utf8proc_decompose_char((utf8proc_int32_t)code, codes + count, LONGEST_DECOMPOSITION,
                                                   UTF8PROC_DECOMPOSE | UTF8PROC_STABLE, NULL);
    if (got < 0 || got > LONGEST_DECOMPOSITION) {
      return tri_fail(TRI_INTERNAL, "utf8proc decomposes U+%04X into %ld code points", (unsigned)code, (long)got);
    }
    count += got;
  }
  sort_marks(codes, (size_t)count, codes + normalizer->codes_room);
  count = utf8proc_normalize_utf32(codes, count, UTF8PROC_COMPOSE | UTF8PROC_STABLE);
  if (count < 0) return tri_fail(TRI_INTERNAL, "utf8proc cannot compose: %s", utf8proc_errmsg(count));
  for (utf8proc_ssize_t i = 0; i < count; i++) {
    char letter[4];
    TRI_TRY(append(normalizer, letter, tri_utf8_encode((uint32_t)codes[i], letter)));
  }
  return TRI_OK;
}

tri_status tri_normalize(tri_normalizer *normalizer, const char *text, size_t bytes, const char **out,
                         size_t *out_bytes) {
  size_t copied = 0;    /* the text before is in normalizer->text */
  size_t part = 0;      /* where the part at hand begins */
  bool changes = false; /* whether it holds anything but its inert beginning */
  normalizer->length = 0;
  for (size_t i = 0;;) {
    uint32_t code = 0;
    size_t length = i < bytes ? tri_utf8_decode(text + i, bytes - i, &code) : 0;
    bool ends = length == 0 || is_inert(code); /* here begins another part, or bytes that belong to none */
    if (ends && changes) {
      TRI_TRY(append(normalizer, text + copied, part - copied));
      TRI_TRY(append_composed(normalizer, text + part, i - part));
      copied = i;
    }
    if (i == bytes) break;
    if (ends) part = length == 0 ? i + 1 : i;
    changes = !ends;
    i += length == 0 ? 1 : length;
  }
  *out = text;
  *out_bytes = bytes;
  if (copied == 0) return TRI_OK;
  TRI_TRY(append(normalizer, text + copied, bytes - copied));
  *out = normalizer->text;
  *out_bytes = normalizer->length;
  return TRI_OK;
}
