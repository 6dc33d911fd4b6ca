#include "run/trained_text.h"

#include <stdarg.h>
#include <stdio.h>

/* A text that grows; the part that does not fit is dropped. */
typedef struct growing {
  char *text; /* [TRI_ADAPTER_TEXT_BYTES] */
  size_t length;
} growing;

__attribute__((format(printf, 2, 3))) static void add(growing *to, const char *format, ...) {
  const size_t room = TRI_ADAPTER_TEXT_BYTES - to->length;
  va_list values;
  va_start(values, format);
  const int added = vsnprintf(to->text + to->length, room, format, values);
  va_end(values);
  if (added > 0) to->length += (size_t)added < room ? (size_t)added : room - 1;
}

/* Adds the scaling unless it is that of LoRA, because the same factors have another product under another scaling. */
static void add_scaling(growing *to, tri_scaling scaling) {
  switch (scaling) {
    case TRI_SCALING_LORA: break;
    case TRI_SCALING_RSLORA: add(to, " (rslora)"); break;
  }
}

/* Adds the initialization if the initial factors are subtracted from the trained ones. */
static void add_init(growing *to, tri_adapter_init init) {
  switch (init) {
    case TRI_ADAPTER_KAIMING:
    case TRI_ADAPTER_GAUSSIAN: break;
    case TRI_ADAPTER_PISSA: add(to, " (pissa)"); break;
  }
}

static void add_quantise(growing *to, tri_quantise quantise) {
  switch (quantise) {
    case TRI_QUANTISE_NONE: break;
    case TRI_QUANTISE_NF4: add(to, ", the base in nf4"); break;
  }
}

static void add_patterns(growing *to, const char *key, const tri_adapter_patterns *patterns) {
  for (int64_t i = 0; i < patterns->count; i++) {
    const tri_adapter_pattern *entry = &patterns->entries[i];
    if (i == 0) add(to, ", %s {", key);
    add(to, "%s%s: %.12g", i == 0 ? "" : ", ", entry->pattern, entry->rank > 0 ? (double)entry->rank : entry->alpha);
  }
  if (patterns->count > 0) add(to, "}");
}

void tri_adapter_text(const tri_adapter *adapter, char out[TRI_ADAPTER_TEXT_BYTES]) {
  growing to = {.text = out};
  char targets[TRI_TRAINABLE_TEXT_BYTES], train[TRI_TRAINABLE_TEXT_BYTES];
  out[0] = '\0';
  if (adapter->rank == 0) return;
  tri_trainable_describe(&adapter->targets, targets, sizeof targets);
  tri_trainable_describe(&adapter->train, train, sizeof train);
  add(&to, "rank %ld, alpha %.12g", (long)adapter->rank, adapter->alpha);
  add_scaling(&to, adapter->scaling);
  add_init(&to, adapter->init);
  if (adapter->ensure_weight_tying) add(&to, " (tied)");
  if (adapter->magnitude) add(&to, ", magnitudes");
  add_patterns(&to, "rank_pattern", &adapter->rank_pattern);
  add_patterns(&to, "alpha_pattern", &adapter->alpha_pattern);
  add(&to, ", targets %s", targets[0] == '\0' ? "all-linear" : targets);
  if (train[0] != '\0') add(&to, ", and %s", train);
  add_quantise(&to, adapter->quantise);
}

void tri_factors_text(const tri_adapter *adapter, char out[TRI_ADAPTER_TEXT_BYTES]) {
  tri_adapter shapes = *adapter;
  shapes.alpha = 1;
  shapes.alpha_pattern.count = 0;
  shapes.scaling = TRI_SCALING_LORA;
  shapes.init = TRI_ADAPTER_KAIMING;
  shapes.quantise = TRI_QUANTISE_NONE;
  tri_adapter_text(&shapes, out);
}
