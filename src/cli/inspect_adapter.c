#include "cli/inspect_adapter.h"

#include "model/trainable_config.h"

#include <inttypes.h>
#include <stdio.h>

static const char *word_of(const tri_config_word *words, int value) {
  while (words->name != NULL && words->value != value) words++;
  return words->name == NULL ? "?" : words->name;
}

static void print_words(const char *before, const tri_trainable_words *words) {
  for (int64_t i = 0; i < words->count; i++) printf("%s%s", i == 0 ? before : ", ", words->words[i].text);
}

/* Prints how the initialization of an adapter changes the base. */
static void print_init(tri_adapter_init init) {
  switch (init) {
    case TRI_ADAPTER_KAIMING:
    case TRI_ADAPTER_GAUSSIAN: return;
    case TRI_ADAPTER_PISSA: printf(", less what they began as (PiSSA)"); return;
  }
}

static void print_patterns(const tri_adapter *adapter) {
  for (int64_t i = 0; i < adapter->rank_pattern.count; i++) {
    const tri_adapter_pattern *entry = &adapter->rank_pattern.entries[i];
    printf(", rank %" PRId64 " at %s", entry->rank, entry->pattern);
  }
  for (int64_t i = 0; i < adapter->alpha_pattern.count; i++) {
    printf(", alpha %g at %s", adapter->alpha_pattern.entries[i].alpha, adapter->alpha_pattern.entries[i].pattern);
  }
}

void tri_inspect_print_adapter(const tri_peft *peft) {
  const tri_adapter *adapter = &peft->adapter;
  char text[TRI_BASE_SIGNATURE_TEXT_BYTES];
  printf("an adapter (LoRA) of rank %" PRId64 ", alpha %g", adapter->rank, adapter->alpha);
  if (adapter->scaling == TRI_SCALING_RSLORA) printf(" over the root of the rank (rsLoRA)");
  print_patterns(adapter);
  print_init(adapter->init);
  if (adapter->magnitude) printf(", with magnitudes (DoRA)");
  if (adapter->dropout > 0) printf(", dropout %g", adapter->dropout);
  print_words(", on ", &adapter->targets);
  print_words(", beside trained ", &adapter->train);
  if (adapter->ensure_weight_tying) printf(", tied weights stay tied");
  if (adapter->quantise != TRI_QUANTISE_NONE) printf(", over a base in %s", tri_peft_quantise_word(adapter->quantise));
  printf("\nits base: %s", peft->base[0] == '\0' ? "not said" : peft->base);
  if (peft->signature.frame[0] != '\0') printf(", signature %s", tri_base_signature_text(&peft->signature, text));
  printf("\n");
}

/* Returns an object {pattern: rank}, or {pattern: alpha} if `alphas`. The patterns stay in their order, because the
 * first pattern that matches applies. */
static json_t *patterns_json(const tri_adapter_patterns *patterns, bool alphas) {
  json_t *out = json_object();
  for (int64_t i = 0; i < patterns->count; i++) {
    const tri_adapter_pattern *entry = &patterns->entries[i];
    json_object_set_new(out, entry->pattern, alphas ? json_real(entry->alpha) : json_integer((json_int_t)entry->rank));
  }
  return out;
}

json_t *tri_inspect_adapter_json(const tri_peft *peft) {
  const tri_adapter *adapter = &peft->adapter;
  return json_pack(
      "{s:I, s:f, s:s, s:o, s:o, s:s, s:b, s:f, s:s, s:o, s:o, s:b, s:s, s:s, s:s}", "rank", (json_int_t)adapter->rank,
      "alpha", adapter->alpha, "scaling", word_of(tri_scaling_words, (int)adapter->scaling), "rank_pattern",
      patterns_json(&adapter->rank_pattern, false), "alpha_pattern", patterns_json(&adapter->alpha_pattern, true),
      "init", word_of(tri_adapter_init_words, (int)adapter->init), "magnitude", adapter->magnitude, "dropout",
      adapter->dropout, "quantise", tri_peft_quantise_word(adapter->quantise), "targets",
      tri_peft_words_json(&adapter->targets), "train", tri_peft_words_json(&adapter->train), "ensure_weight_tying",
      adapter->ensure_weight_tying, "base", peft->base, "base_signature", peft->signature.frame, "base_values",
      peft->signature.values);
}
