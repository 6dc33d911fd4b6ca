/* A chat template of any content: it is refused with a message that names the place, or it renders conversations within
 * its limits. */
#include "base/memory.h"
#include "chat/json_value.h"
#include "chat/template.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char conversation[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \" a\\n\"}, {\"role\": \"user\", \"content\": [{\"type\": "
    "\"text\", "
    "\"text\": \"\\u00e9<|x|>\"}]}, {\"role\": \"assistant\", \"content\": \"b </think> c\", \"tool_calls\": "
    "[{\"function\": "
    "{\"name\": \"f\", \"arguments\": {\"k\": 1.5, \"l\": [null, true]}}}]}], \"tools\": [{\"name\": \"f\"}], "
    "\"bos_token\": \"<s>\", "
    "\"add_generation_prompt\": true}";

static void render(const tri_chat_template *template) {
  const tri_chat_limits limits = {.steps = 200000, .value_bytes = 16 << 20, .output_bytes = 4 << 20};
  tri_chat_arena arena = {.limit = 1 << 20};
  tri_chat_renderer *renderer = NULL;
  tri_chat_rendered rendered = {0};
  tri_chat_value value, variables[16];
  json_t *root = json_loads(conversation, 0, NULL);
  if (root == NULL || tri_chat_of_json(&arena, root, &value) != TRI_OK || value.dict->count > 8) abort();
  for (int64_t i = 0; i < value.dict->count; i++) {
    variables[2 * i] = value.dict->entries[i].key;
    variables[2 * i + 1] = value.dict->entries[i].value;
  }
  if (tri_chat_renderer_create(template, &limits, 0, &renderer) != TRI_OK) abort();
  for (int turn = 0; turn < 2; turn++) {
    if (tri_chat_render(renderer, variables, (int32_t)value.dict->count, 3, &rendered) != TRI_OK) break;
    if (rendered.bytes > limits.output_bytes) abort();
    for (int64_t i = 0; i < rendered.num_generated; i++) {
      if (rendered.generated[i].begin > rendered.generated[i].end || rendered.generated[i].end > rendered.bytes)
        abort();
    }
    for (int64_t i = 0; i < rendered.num_given; i++) {
      const tri_chat_span span = rendered.given[i];
      if (span.begin >= span.end || span.end > rendered.bytes) abort();
      if (i > 0 && rendered.given[i - 1].end >= span.begin) abort(); /* neighbours are one range */
    }
  }
  tri_chat_rendered_release(&rendered);
  tri_chat_renderer_destroy(renderer);
  tri_chat_arena_release(&arena);
  json_decref(root);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *text = malloc(size > 0 ? size : 1); /* exactly this size, so that a read past the end is detected */
  tri_chat_template *template = NULL;
  if (text == NULL) return 0;
  memcpy(text, data, size);
  if (tri_chat_template_compile("fuzz.jinja", text, size, &template) == TRI_OK) {
    render(template);
  } else if (template != NULL || strstr(tri_status_message(), "fuzz.jinja") == NULL) {
    abort();
  }
  tri_chat_template_destroy(template);
  free(text);
  return 0;
}
