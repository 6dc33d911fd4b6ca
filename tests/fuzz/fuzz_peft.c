/* Reads any bytes as an adapter_config.json. If it is accepted, its rank and its scale are positive, and it can be
 * printed; the printed text can be read again, and it is printed the same a second time. */
#include "base/memory.h"
#include "checkpoint/huggingface.h"
#include "checkpoint/peft.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(int condition) {
  if (!condition) abort();
}

static const char base[] =
    "{\"model_type\": \"gpt2\", \"n_embd\": 16, \"n_head\": 2, \"n_layer\": 1, \"n_positions\": 8,"
    "\"vocab_size\": 17}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  static tri_peft peft, again;
  tri_model model;
  char *text = NULL, *second = NULL;
  if (tri_peft_parse("input", (const char *)data, bytes, &peft) != TRI_OK) return 0;
  require(peft.adapter.rank > 0 && peft.adapter.alpha > 0 && peft.adapter.alpha / (double)peft.adapter.rank > 0);
  for (int64_t i = 0; i < peft.adapter.rank_pattern.count; i++) {
    require(peft.adapter.rank_pattern.entries[i].rank > 0);
    require(tri_adapter_pair_of(&peft.adapter, "transformer.h.0.attn.c_attn.weight").rank > 0);
  }
  require(peft.adapter.dropout >= 0 && peft.adapter.dropout < 1);
  require(tri_huggingface_parse("base", base, strlen(base), &model) == TRI_OK);
  require(tri_peft_print(&peft, &model, &text) == TRI_OK);
  require(tri_peft_parse("text", text, strlen(text), &again) == TRI_OK);
  require(tri_peft_print(&again, &model, &second) == TRI_OK && strcmp(text, second) == 0);
  tri_free(text);
  tri_free(second);
  return 0;
}
