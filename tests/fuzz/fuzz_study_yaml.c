/* Reads any bytes as the file of a study. It is refused with a message or accepted; either way, all memory is freed. */
#include "base/memory.h"
#include "tune/study.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  static tri_study study;
  const size_t held = tri_memory_bytes();
  char *text = malloc(bytes + 1); /* exactly this size, so that a read past the end is detected */
  if (text == NULL) return 0;
  memcpy(text, data, bytes);
  text = realloc(text, bytes == 0 ? 1 : bytes);
  memset(&study, 0, sizeof study);
  const tri_status status = tri_study_read("fuzzed.yaml", text, bytes, &study);
  free(text);
  if (status == TRI_OK) tri_study_release(&study);
  if (status != TRI_OK && tri_status_message()[0] == '\0') abort();
  if (status == TRI_INTERNAL || tri_memory_bytes() != held) abort();
  return 0;
}
