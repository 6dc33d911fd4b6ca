#include "tokenizer/alphabet.h"

#include "base/memory.h"
#include "tokenizer/unicode_classes.h"

#include <stdlib.h>
#include <string.h>

enum { CODE_POINTS = 0x110000 };

static bool is_hex(uint32_t code) {
  return (code >= '0' && code <= '9') || (code >= 'A' && code <= 'F') || (code >= 'a' && code <= 'f');
}

uint32_t tri_code_facts(uint32_t code) {
  uint32_t facts = tri_unicode_runs[tri_unicode_run_of(code)] & 0xFF;
  const bool latin = code == 0xB2 || code == 0xB3 || code == 0xB9 || (code >= 0xBC && code <= 0xBE);
  if (tri_unicode_is_word(code)) facts |= TRI_IS_WORD;
  if (latin) facts |= TRI_IS_LATIN_NUMBER;
  if (tri_unicode_is_space(code)) facts |= TRI_IS_SPACE;
  if (code == '\t') facts |= TRI_IS_TAB;
  if (is_hex(code)) facts |= TRI_IS_HEX;
  if (code < TRI_ASCII) facts |= TRI_IS_ASCII;
  if (code == 0x17F) facts |= TRI_IS_LONG_S;
  if (code == 0x212A) facts |= TRI_IS_KELVIN;
  if (code == 0x345) facts |= TRI_IS_IOTA;
  return facts;
}

static int compare_classes(const void *a, const void *b) {
  const tri_class *left = a, *right = b;
  const uint32_t l = left->facts & TRI_UNICODE_CATEGORY, r = right->facts & TRI_UNICODE_CATEGORY;
  if (l != r) return l < r ? -1 : 1;
  if (left->facts != right->facts) return left->facts < right->facts ? -1 : 1;
  return left->named < right->named ? -1 : left->named > right->named;
}

/* tri_code_facts adds facts to those of tri_unicode_runs. These are the code points at which an added fact changes. */
static const uint32_t edges[] = {0x85,   0x86,   0xA0,   0xA1,    0xB2,    0xB4,    0xB9,    0xBA,    0xBC,
                                 0xBF,   0x17F,  0x180,  0x345,   0x346,   0x1680,  0x1681,  0x2000,  0x200B,
                                 0x2028, 0x202A, 0x202F, 0x2030,  0x205F,  0x2060,  0x212A,  0x212B,  0x24B6,
                                 0x24EA, 0x3000, 0x3001, 0x1F130, 0x1F14A, 0x1F150, 0x1F16A, 0x1F170, 0x1F18A};

static tri_class describe(uint32_t code, const tri_named_range *ranges, size_t count) {
  tri_class out = {.facts = tri_code_facts(code)};
  for (size_t i = 0; i < count; i++) {
    if (ranges[i].first <= code && code <= ranges[i].last) out.named |= UINT64_C(1) << ranges[i].set;
  }
  return out;
}

static int compare_codes(const void *a, const void *b) {
  const uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
  return left < right ? -1 : left > right;
}

/* Lists the code points at which facts change, sorted, and one more after the last code point. A code point may be
 * listed twice. */
static tri_status find_edges(const tri_named_range *ranges, size_t count, uint32_t **out, size_t *num_edges) {
  const size_t own = sizeof edges / sizeof edges[0], runs = (size_t)tri_unicode_num_runs;
  uint32_t *all = NULL;
  size_t length = 0;
  TRI_TRY(tri_alloc("a pattern", own + runs + 2 * count + 2, sizeof *all, &all));
  all[length++] = TRI_ASCII;
  for (size_t i = 0; i < own; i++) all[length++] = edges[i];
  for (size_t i = 0; i < runs; i++) {
    if (tri_unicode_runs[i] >> 8 > TRI_ASCII) all[length++] = tri_unicode_runs[i] >> 8;
  }
  for (size_t i = 0; i < count; i++) {
    all[length++] = ranges[i].first;
    all[length++] = ranges[i].last + 1;
  }
  all[length++] = CODE_POINTS;
  qsort(all, length, sizeof *all, compare_codes);
  *out = all;
  *num_edges = length;
  return TRI_OK;
}

static int find_class(const tri_alphabet *alphabet, const tri_class *wanted) {
  for (int i = 0; i < alphabet->num_classes; i++) {
    if (compare_classes(&alphabet->classes[i], wanted) == 0) return i;
  }
  return -1;
}

tri_status tri_alphabet_create(const char *where, const tri_named_range *ranges, size_t count, tri_alphabet **out) {
  tri_status status = TRI_OK;
  tri_alphabet *alphabet = NULL;
  uint32_t *all = NULL;
  size_t num_edges = 0;
  TRI_TRY(tri_alloc("a pattern", 1, sizeof *alphabet, &alphabet));
  TRI_TRY_GOTO(tri_alloc("a pattern", CODE_POINTS, 1, &alphabet->class_of), destroy);
  TRI_TRY_GOTO(find_edges(ranges, count, &all, &num_edges), destroy);
  for (size_t i = 0; i + 1 < num_edges; i++) {
    const tri_class here = describe(all[i], ranges, count);
    if (all[i] == all[i + 1] || find_class(alphabet, &here) >= 0) continue;
    if (alphabet->num_classes == TRI_MOST_CLASSES) {
      status = tri_fail(TRI_UNSUPPORTED, "%s: the pattern tells more than %d classes of characters beyond ASCII apart",
                        where, TRI_MOST_CLASSES);
      goto destroy;
    }
    alphabet->classes[alphabet->num_classes++] = here;
  }
  qsort(alphabet->classes, (size_t)alphabet->num_classes, sizeof alphabet->classes[0], compare_classes);
  for (size_t i = 0; i + 1 < num_edges; i++) {
    if (all[i] == all[i + 1]) continue;
    const tri_class here = describe(all[i], ranges, count);
    memset(alphabet->class_of + all[i], find_class(alphabet, &here), all[i + 1] - all[i]);
  }
  *out = alphabet;
  alphabet = NULL;
destroy:
  tri_free(all);
  tri_alphabet_destroy(alphabet);
  return status;
}

void tri_alphabet_destroy(tri_alphabet *alphabet) {
  if (alphabet == NULL) return;
  tri_free(alphabet->class_of);
  tri_free(alphabet);
}

/* Stand-ins are Arabic for two bytes, and Han for three and four. */
uint32_t tri_alphabet_stand_in(int class_index, int bytes) {
  return (bytes == 2 ? 0x600U : bytes == 3 ? 0x4E00U : 0x20000U) + (uint32_t)class_index;
}

/* Writes the bytes of UTF-8 directly; they are those of the code points of tri_alphabet_stand_in. */
void tri_alphabet_map(const tri_alphabet *alphabet, const char *text, size_t bytes, char *out) {
  const uint8_t *class_of = alphabet->class_of;
  for (size_t i = 0; i < bytes;) {
    const uint8_t first = (uint8_t)text[i];
    if (first < 0x80) {
      uint64_t word = 0;
      while (i + sizeof word <= bytes) { /* eight bytes at a time, while all are ASCII */
        memcpy(&word, text + i, sizeof word);
        if ((word & UINT64_C(0x8080808080808080)) != 0) break;
        memcpy(out + i, &word, sizeof word);
        i += sizeof word;
      }
      while (i < bytes && (uint8_t)text[i] < 0x80) out[i] = text[i], i++;
      continue;
    }
    const uint32_t b = (uint8_t)text[i + 1] & 0x3FU;
    if (first < 0xE0) {
      const uint32_t k = class_of[(first & 0x1FU) << 6 | b];
      out[i] = (char)(0xD8 | k >> 6);
      out[i + 1] = (char)(0x80 | (k & 0x3F));
      i += 2;
    } else if (first < 0xF0) {
      const uint32_t k = class_of[(first & 0xFU) << 12 | b << 6 | ((uint8_t)text[i + 2] & 0x3FU)];
      out[i] = (char)0xE4;
      out[i + 1] = (char)(0xB8 | k >> 6);
      out[i + 2] = (char)(0x80 | (k & 0x3F));
      i += 3;
    } else {
      const uint32_t c = (uint8_t)text[i + 2] & 0x3FU, d = (uint8_t)text[i + 3] & 0x3FU;
      const uint32_t k = class_of[(first & 7U) << 18 | b << 12 | c << 6 | d];
      out[i] = (char)0xF0;
      out[i + 1] = (char)0xA0;
      out[i + 2] = (char)(0x80 | k >> 6);
      out[i + 3] = (char)(0x80 | (k & 0x3F));
      i += 4;
    }
  }
}
