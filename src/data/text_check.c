#include "data/text_check.h"

#include "files/file_kind.h"
#include "tokenizer/utf8.h"

#include <inttypes.h>
#include <string.h>

static const double MOST_BAD = 0.001; /* fraction of the bytes that may be damaged */
enum { FIRST_BYTES = 1 << 20 };       /* the fraction is tested after this number of bytes, and at the end */

static tri_status refuse_nul(const char *path, int64_t at) {
  return tri_fail(TRI_BAD_FILE,
                  "%s has a NUL byte at byte %" PRId64
                  ": it is not a text, or it is in UTF-16 (convert it: iconv -f UTF-16 -t UTF-8 FILE > NEW); --binary "
                  "takes its bytes as they are",
                  path, at);
}

static tri_status check_share(const tri_text_check *check) {
  if ((double)check->bad <= MOST_BAD * (double)check->bytes) return TRI_OK;
  return tri_fail(TRI_BAD_FILE,
                  "%s is not in UTF-8: %" PRId64 " of %" PRId64 " bytes are not, the first at byte %" PRId64
                  "; " TRI_LATIN_1_ADVICE
                  "; --skip-bad leaves "
                  "documents with such bytes out, --binary takes all as they are",
                  check->path, check->bad, check->bytes, check->first_bad);
}

static void add_bad(tri_text_check *check, int64_t count) {
  if (check->bad == 0) check->first_bad = check->bytes - check->begun;
  check->bad += count;
}

/* Begins a character beyond ASCII, by the table of well-formed sequences of the Unicode standard (3-7). Counts a byte
 * that cannot begin one as bad. */
static void begin_character(tri_text_check *check, unsigned char byte) {
  check->missing = byte >= 0xF0 ? 3 : byte >= 0xE0 ? 2 : 1;
  check->low = byte == 0xE0 ? 0xA0 : byte == 0xF0 ? 0x90 : 0x80;
  check->high = byte == 0xED ? 0x9F : byte == 0xF4 ? 0x8F : 0xBF;
  if (byte < 0xC2 || byte > 0xF4) check->missing = 0;
  if (check->missing == 0) add_bad(check, 1);
  if (check->missing > 0) check->begun = 1;
}

/* Counts bytes that are not UTF-8. A character may continue in the next call. */
static void count_bad(tri_text_check *check, const char *text, size_t bytes) {
  for (size_t i = 0; i < bytes; check->bytes++, i++) {
    const unsigned char byte = (unsigned char)text[i];
    if (check->missing > 0 && byte >= check->low && byte <= check->high) {
      check->begun = --check->missing > 0 ? check->begun + 1 : 0;
      check->low = 0x80;
      check->high = 0xBF;
      continue;
    }
    if (check->missing > 0) add_bad(check, check->begun);
    check->missing = check->begun = 0;
    if (byte >= 0x80) begin_character(check, byte);
  }
}

tri_status tri_text_check_next(tri_text_check *check, const char *text, size_t bytes, bool ended) {
  const int64_t before = check->bytes;
  if (before == 0) {
    const tri_file_kind *kind = tri_file_kind_of(text, bytes);
    if (kind != NULL && kind->never_text)
      return tri_file_kind_refuse(TRI_BAD_FILE, check->path, kind, "a text in UTF-8");
  }
  if (check->json) {
    check->bytes += (int64_t)bytes;
    return TRI_OK;
  }
  const char *nul = memchr(text, '\0', bytes);
  if (nul != NULL) return refuse_nul(check->path, before + (nul - text));
  count_bad(check, text, bytes);
  if (ended && check->missing > 0) add_bad(check, check->begun);
  return ended || (before < FIRST_BYTES && check->bytes >= FIRST_BYTES) ? check_share(check) : TRI_OK;
}

bool tri_text_is_clean(const char *text, size_t bytes, size_t *at) {
  const char *nul = memchr(text, '\0', bytes);
  const size_t valid = tri_utf8_valid_bytes(text, bytes);
  *at = nul != NULL && (size_t)(nul - text) < valid ? (size_t)(nul - text) : valid;
  return *at == bytes;
}
