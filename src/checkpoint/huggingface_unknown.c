#include "checkpoint/huggingface_unknown.h"

#include "checkpoint/huggingface_keys.h"
#include "model/hf_keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES = 400 };

/* Returns twice the number of keys that the file and the table share, minus the number of keys that only the file has
 * and that are not off. Bookkeeping keys are not counted. */
static int likeness(const tri_json_reader *from, const tri_hf_keys *hf_keys) {
  const char *key = NULL;
  json_t *value = NULL;
  int sum = 0;
  json_object_foreach((json_t *)(uintptr_t)from->object, key, value) {
    if (tri_huggingface_is_bookkeeping(key)) continue;
    if (tri_huggingface_reads(hf_keys, key)) {
      sum += 2;
    } else if (!tri_huggingface_is_off(value)) {
      sum--;
    }
  }
  return sum;
}

/* Writes keys of the file that the table does not have and that are not off, with their values, as many as fit: "`foo`
 * (3), `bar` (true)". */
static void list_strangers(const tri_json_reader *from, const tri_hf_keys *hf_keys, char out[TEXT_BYTES]) {
  const char *key = NULL;
  json_t *value = NULL;
  size_t used = 0;
  out[0] = '\0';
  json_object_foreach((json_t *)(uintptr_t)from->object, key, value) {
    if (tri_huggingface_is_bookkeeping(key) || tri_huggingface_is_off(value) || tri_huggingface_reads(hf_keys, key))
      continue;
    char *text = json_is_object(value) || json_is_array(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY);
    char one[120];
    snprintf(one, sizeof one, text == NULL ? "%s`%.40s`" : "%s`%.40s` (%.40s)", used == 0 ? "" : ", ", key,
             text == NULL ? "" : text);
    free(text);
    if (used + strlen(one) >= TEXT_BYTES) break;
    used += (size_t)snprintf(out + used, TEXT_BYTES - used, "%s", one);
  }
}

/* Writes the model types of the tables: "gpt2, llama, mistral and qwen2". */
static void list_types(const tri_hf_keys *const *all, int64_t count, char out[TEXT_BYTES]) {
  size_t used = 0;
  for (int64_t i = 0; i < count; i++) {
    const char *before = i == 0 ? "" : i + 1 == count ? " and " : ", ";
    used += (size_t)snprintf(out + used, used < TEXT_BYTES ? TEXT_BYTES - used : 0, "%s%s", before, all[i]->model_type);
  }
}

tri_status tri_huggingface_unknown(const tri_json_reader *from, const char *model_type, const tri_hf_keys *const *all,
                                   int64_t count) {
  enum { LEAST = 6 }; /* least likeness to suggest a family */
  const tri_hf_keys *nearest = NULL;
  int best = LEAST - 1;
  char types[TEXT_BYTES], strangers[TEXT_BYTES];
  for (int64_t i = 0; i < count; i++) {
    const int alike = likeness(from, all[i]);
    if (alike <= best) continue;
    best = alike;
    nearest = all[i];
  }
  list_types(all, count, types);
  if (nearest == NULL) {
    return tri_fail(TRI_UNSUPPORTED, "%s: `model_type` is `%.40s`; %s are supported", from->path, model_type, types);
  }
  list_strangers(from, nearest, strangers);
  return tri_fail(TRI_UNSUPPORTED,
                  "%s: `model_type` is `%.40s`, which is unknown. The most similar one is %s%s%s; %s are supported",
                  from->path, model_type, nearest->model_type,
                  strangers[0] == '\0' ? ", whose keys it has: perhaps its tensors differ" : " but for ", strangers,
                  types);
}
