/* A config.json from memory: a model that is let through can be written, and reads back to the same text. */
#include "base/memory.h"
#include "checkpoint/huggingface.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(int condition) {
  if (!condition) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  tri_model model, again;
  char *text = NULL, *second = NULL;
  if (tri_huggingface_parse("input", (const char *)data, bytes, &model) != TRI_OK) return 0;
  require(model.num_layers > 0 && model.num_heads > 0 && model.head_dim > 0 &&
          model.num_heads % model.num_kv_heads == 0);
  /* A name that was cut in the middle of a letter is not a text any more. */
  if (tri_huggingface_print(&model, TRI_FP32, -1, NULL, &text) != TRI_OK) return 0;
  require(tri_huggingface_parse("text", text, strlen(text), &again) == TRI_OK);
  require(tri_huggingface_print(&again, TRI_FP32, -1, NULL, &second) == TRI_OK && strcmp(text, second) == 0);
  tri_free(text);
  tri_free(second);
  return 0;
}
