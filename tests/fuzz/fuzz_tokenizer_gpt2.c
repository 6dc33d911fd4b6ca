/* encoder.json and vocab.bpe of any content, with a zero byte between them. */
#include "tokenizer/tokenizer_internal.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const uint8_t *zero = size > 0 ? memchr(data, 0, size) : NULL;
  size_t first = zero != NULL ? (size_t)(zero - data) : size;
  size_t second = zero != NULL ? size - first - 1 : 0;
  char *encoder = malloc(first + 1), *merges = malloc(second + 1);
  if (encoder == NULL || merges == NULL) abort();
  if (first > 0) memcpy(encoder, data, first);
  if (second > 0) memcpy(merges, zero + 1, second);
  tri_tokenizer *tokenizer = NULL;
  tri_status status = tri_tokenizer_parse_gpt2("fuzz.json", encoder, first, "fuzz.bpe", merges, second, &tokenizer);
  if (status != TRI_OK && (tokenizer != NULL || strstr(tri_status_message(), "fuzz.") == NULL)) abort();
  tri_tokenizer_destroy(tokenizer);
  free(encoder);
  free(merges);
  return 0;
}
