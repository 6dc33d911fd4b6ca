#include "chat/markers.h"

#include "base/log.h"
#include "base/memory.h"
#include "config/template_preset.h"

#include <stdio.h>
#include <string.h>

/* Finds the token whose text is `marker`; -1 if the text has several tokens. */
static tri_status find_token(tri_encoder *encoder, const char *marker, int32_t *out) {
  tri_token_list tokens = {0};
  const tri_status status = tri_encoder_encode(encoder, marker, strlen(marker), 1, &tokens);
  *out = status == TRI_OK && tokens.count == 1 ? tokens.ids[0] : -1;
  tri_free(tokens.ids);
  return status;
}

static tri_status warn_of_split_markers(const tri_chat_template *template, tri_encoder *encoder) {
  char markers[TRI_MARKERS_BYTES], split[TRI_MARKERS_BYTES] = "", *state = NULL;
  size_t bytes = 0;
  const char *source = tri_chat_template_source(template, &bytes);
  tri_template_markers(source, bytes, markers);
  for (const char *marker = strtok_r(markers, " ", &state); marker != NULL; marker = strtok_r(NULL, " ", &state)) {
    int32_t id = -1;
    const size_t length = strlen(split);
    TRI_TRY(find_token(encoder, marker, &id));
    if (id < 0) snprintf(split + length, sizeof split - length, "%s%s", length == 0 ? "" : " ", marker);
  }
  if (split[0] == '\0') return TRI_OK;
  tri_warn("template %s: not single tokens of the tokenizer: %s; the model reads them as plain text",
           tri_chat_template_name(template), split);
  return TRI_OK;
}

static tri_status warn_of_turn_end(const tri_chat_template *template, const char *turn_end, tri_encoder *encoder,
                                   const int32_t *ends, int count) {
  int32_t id = -1;
  TRI_TRY(find_token(encoder, turn_end, &id));
  if (id < 0) return TRI_OK; /* a marker that was reported, or there is no eos_token */
  for (int i = 0; i < count; i++) {
    if (id == ends[i]) return TRI_OK;
  }
  tri_warn(
      "template %s: answers end with %s, which is not among the tokens that end a text; Trireme stops there, but other "
      "programs do only if eos_token_id of the model's generation_config.json has it",
      tri_chat_template_name(template), turn_end);
  return TRI_OK;
}

tri_status tri_chat_warn_of_markers(const tri_chat_format *format, const char *turn_end, const tri_tokenizer *tokenizer,
                                    const int32_t *ends, int count) {
  tri_encoder *encoder = NULL;
  if (!format->is_preset) return TRI_OK;
  TRI_TRY(tri_encoder_create(tokenizer, &encoder));
  tri_status status = warn_of_split_markers(format->template, encoder);
  if (status == TRI_OK && turn_end[0] != '\0')
    status = warn_of_turn_end(format->template, turn_end, encoder, ends, count);
  tri_encoder_destroy(encoder);
  return status;
}
