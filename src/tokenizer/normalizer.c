/* Normalizes to form C with utf8proc's tables, in linear time.
 *
 * Most text is in form C already, and most code points are inert: they begin a new combination, are never the second
 * code point of one, and do not change. The text is cut before inert code points. A part of one inert code point is
 * copied (or, if the whole text is inert, not even that); other parts are decomposed, their marks sorted, and composed.
 * utf8proc's own function for whole strings sorts marks by exchanging neighbours, which is quadratic for a hostile text
 * of marks only; here marks are sorted by counting. */
#include "tokenizer/normalizer.h"

#include "base/memory.h"
#include "tokenizer/utf8.h"

#include <stdbool.h>
#include <string.h>
#include <utf8proc.h>

static const char what[] = "normalizing text";

enum { LONGEST_DECOMPOSITION = 4, CLASSES = 256 };

/* Ranges of inert code points: scripts that hardly combine, and marks that Unicode has added since version 9. These
 * combine in current tables, but Hugging Face's tables are version 9, and the ids must be the same. */
static const struct {
  uint32_t first, last;
} inert[] = {{0x0000, 0x02FF},   {0x0388, 0x0482},   {0x048A, 0x052F},   {0x05D0, 0x05EA},   {0x0621, 0x064A},
             {0x07FD, 0x07FD},   {0x0898, 0x089F},   {0x08CA, 0x08D3},   {0x09FE, 0x09FE},   {0x0C3C, 0x0C3C},
             {0x0D3B, 0x0D3C},   {0x0E01, 0x0E30},   {0x0EBA, 0x0EBA},   {0x0ECE, 0x0ECE},   {0x1715, 0x1715},
             {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFA},   {0x2010, 0x2027},   {0x2030, 0x205E},   {0x3000, 0x3029},
             {0x3041, 0x3096},   {0x309D, 0x30FF},   {0x4E00, 0x9FFF},   {0xA82C, 0xA82C},   {0xAC00, 0xD7A3},
             {0xFF01, 0xFFEF},   {0x10D24, 0x10D27}, {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF}, {0x10F46, 0x10F50},
             {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x1145E, 0x1145E}, {0x11839, 0x1183A},
             {0x11930, 0x11930}, {0x1193D, 0x1193E}, {0x11943, 0x11943}, {0x119E0, 0x119E0}, {0x11A34, 0x11A34},
             {0x11A47, 0x11A47}, {0x11A99, 0x11A99}, {0x11D42, 0x11D42}, {0x11D44, 0x11D45}, {0x11D97, 0x11D97},
             {0x11F41, 0x11F42}, {0x16FF0, 0x16FF1}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE},
             {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF}, {0x1F300, 0x1FAFF}};

static bool is_inert(uint32_t code) {
  size_t low = 0, high = sizeof inert / sizeof inert[0];
  while (high - low > 1) {
    size_t middle = (low + high) / 2;
    if (inert[middle].first <= code) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return code <= inert[low].last;
}

void tri_normalizer_release(tri_normalizer *normalizer) {
  tri_free(normalizer->text);
  tri_free(normalizer->codes);
  tri_free(normalizer->parts);
  *normalizer = (tri_normalizer){0};
}

static tri_status normalizer_append(tri_normalizer *normalizer, const char *text, size_t bytes) {
  if (bytes == 0) return TRI_OK;
  TRI_TRY(tri_reserve(what, 1, normalizer->length + bytes, &normalizer->room, &normalizer->text));
  memcpy(normalizer->text + normalizer->length, text, bytes);
  normalizer->length += bytes;
  return TRI_OK;
}

static int class_of(int32_t code) { return (int)utf8proc_get_property(code)->combining_class; }

/* Sorts each run of marks by combining class; the sort is stable. `space` has room for `count` codes. */
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
  TRI_TRY(tri_reserve(what, 2 * sizeof *normalizer->codes, most, &normalizer->codes_room, &normalizer->codes));
  int32_t *codes = normalizer->codes;
  utf8proc_ssize_t count = 0;
  for (size_t i = 0; i < bytes;) {
    uint32_t code = 0;
    i += tri_utf8_decode(text + i, bytes - i, &code);
    utf8proc_ssize_t got = utf8proc_decompose_char((utf8proc_int32_t)code, codes + count, LONGEST_DECOMPOSITION,
                                                   UTF8PROC_DECOMPOSE | UTF8PROC_STABLE, NULL);
    if (got < 0 || got > LONGEST_DECOMPOSITION) {
      return tri_fail_internal("utf8proc decomposes U+%04X into %ld code points", (unsigned)code, (long)got);
    }
    count += got;
  }
  sort_marks(codes, (size_t)count, codes + normalizer->codes_room);
  count = utf8proc_normalize_utf32(codes, count, UTF8PROC_COMPOSE | UTF8PROC_STABLE);
  if (count < 0) return tri_fail_internal("utf8proc cannot compose: %s", utf8proc_errmsg(count));
  for (utf8proc_ssize_t i = 0; i < count; i++) {
    char letter[4];
    TRI_TRY(normalizer_append(normalizer, letter, tri_utf8_encode((uint32_t)codes[i], letter)));
  }
  return TRI_OK;
}

static bool continues(char byte) { return ((uint8_t)byte & 0xC0) == 0x80; }

/* Shrinks a part by the code points that both sides have in common at its ends. */
static void shrink_part(const char *source, const char *normal, tri_normal_part *p) {
  size_t to = p->to;
  while (p->from < p->to && p->begin < p->end && source[p->from] == normal[p->begin]) p->from++, p->begin++;
  bool inside = (p->from < p->to && continues(source[p->from])) || (p->begin < p->end && continues(normal[p->begin]));
  for (; inside; p->from--, p->begin--) inside = continues(source[p->from - 1]);
  while (p->from < p->to && p->begin < p->end && source[p->to - 1] == normal[p->end - 1]) p->to--, p->end--;
  while (p->to < to && continues(source[p->to])) p->to++, p->end++;
}

/* Records that text[from, to) became the end of the normalized text, from `begin` on. Does nothing if normalization has
 * not changed it. */
static tri_status keep_part(tri_normalizer *normalizer, const char *text, size_t from, size_t to, size_t begin) {
  tri_normal_part part = {from, to, begin, normalizer->length};
  size_t length = part.end - begin;
  if (length == to - from && memcmp(normalizer->text + begin, text + from, length) == 0) return TRI_OK;
  TRI_TRY(tri_reserve(what, sizeof *normalizer->parts, normalizer->num_parts + 1, &normalizer->parts_room,
                      &normalizer->parts));
  shrink_part(text, normalizer->text, &part);
  normalizer->parts[normalizer->num_parts++] = part;
  return TRI_OK;
}

tri_status tri_normalize(tri_normalizer *normalizer, const char *text, size_t bytes, const char **out,
                         size_t *out_bytes) {
  size_t copied = 0;    /* number of bytes of the text whose normal form is in normalizer->text */
  size_t part = 0;      /* offset at which the current part begins */
  bool changes = false; /* whether the part has more than its inert beginning */
  normalizer->length = normalizer->num_parts = 0;
  for (size_t i = 0;;) {
    uint32_t code = 0;
    size_t length = i < bytes ? tri_utf8_decode(text + i, bytes - i, &code) : 0;
    bool ends = length == 0 || is_inert(code); /* the next part begins here, or bytes that are not UTF-8 */
    if (ends && changes) {
      TRI_TRY(normalizer_append(normalizer, text + copied, part - copied));
      size_t begin = normalizer->length;
      TRI_TRY(append_composed(normalizer, text + part, i - part));
      TRI_TRY(keep_part(normalizer, text, part, i, begin));
      copied = i;
    }
    if (i == bytes) break;
    /* A mark that counts as inert must not be sorted: the part begins after it. */
    if (ends) part = length == 0 ? i + 1 : class_of((int32_t)code) > 0 ? i + length : i;
    changes = !ends;
    i += length == 0 ? 1 : length;
  }
  *out = text;
  *out_bytes = bytes;
  if (copied == 0) return TRI_OK;
  TRI_TRY(normalizer_append(normalizer, text + copied, bytes - copied));
  *out = normalizer->text;
  *out_bytes = normalizer->length;
  return TRI_OK;
}
