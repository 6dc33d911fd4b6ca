/* A pattern of any content and a text, with a zero byte between them: the pattern is refused with a message, or it cuts
 * the text into words that are the text again. */
#include "base/memory.h"
#include "tokenizer/pretokenizer.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct rest {
  const char *text;
  size_t bytes;
} rest;

static tri_status take(void *context, const char *word, size_t bytes) {
  rest *r = context;
  if (bytes == 0 || bytes > r->bytes || memcmp(word, r->text, bytes) != 0) abort();
  r->text += bytes;
  r->bytes -= bytes;
  return TRI_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const uint8_t *zero = size > 0 ? memchr(data, 0, size) : NULL;
  size_t first = zero != NULL ? (size_t)(zero - data) : size;
  size_t second = zero != NULL ? size - first - 1 : 0;
  char *pattern = malloc(first + 1),
       *text = malloc(second + 1); /* each its own block, so that a read past its end is detected */
  if (pattern == NULL || text == NULL) abort();
  if (first > 0) memcpy(pattern, data, first);
  if (second > 0) memcpy(text, zero + 1, second);
  pattern[first] = '\0';
  tri_pretokenizer pretokenizer = {.count = 0};
  if (tri_pretokenizer_add_pattern(&pretokenizer, "fuzz.json", pattern, first, false, false) != TRI_OK) {
    if (strstr(tri_status_message(), "fuzz.json") == NULL) abort();
  } else {
    tri_splitter splitter;
    if (tri_splitter_create(&splitter, &pretokenizer) != TRI_OK) abort();
    rest r = {text, second};
    /* A pattern may take too many steps on a text. */
    if (tri_splitter_run(&splitter, text, second, take, &r) == TRI_OK && r.bytes != 0) abort();
    tri_splitter_release(&splitter);
  }
  tri_pretokenizer_release(&pretokenizer);
  free(pattern);
  free(text);
  return 0;
}
