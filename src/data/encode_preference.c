/* Follows TRL (DPOTrainer and KTOTrainer, 1.16): the prompt is encoded alone, prompt and answer are encoded together,
 * and the answer begins after the common tokens of both. If letters on both sides of the boundary become one token,
 * that token belongs to the answer; the prompt of a pair is the common part for both answers. Texts begin with the
 * tokens that the tokenizer's post-processor adds; a template writes them itself. */
#include "data/encode_preference.h"

#include "base/memory.h"
#include "chat/preference_session.h"

#include <inttypes.h>
#include <string.h>

struct tri_preference_encoder {
  tri_encoder *encoder;
  tri_preference_session *session;
  tri_token_list prompt;
};

tri_status tri_preference_encoder_create(const tri_chat_format *format, const tri_tokenizer *tokenizer,
                                         tri_preference_encoder **out) {
  tri_status status = TRI_OK;
  tri_preference_encoder *encoder = NULL;
  TRI_TRY(tri_alloc("an encoder of preferences", 1, sizeof *encoder, &encoder));
  TRI_TRY_GOTO(tri_encoder_create(tokenizer, &encoder->encoder), destroy_encoder);
  TRI_TRY_GOTO(tri_preference_session_create(format, &encoder->session), destroy_encoder);
  *out = encoder;
  return TRI_OK;
destroy_encoder:
  tri_preference_encoder_destroy(encoder);
  return status;
}

void tri_preference_encoder_destroy(tri_preference_encoder *encoder) {
  if (encoder == NULL) return;
  tri_preference_session_destroy(encoder->session);
  tri_encoder_destroy(encoder->encoder);
  tri_free(encoder->prompt.ids);
  tri_free(encoder);
}

static tri_status encode_text(tri_preference_encoder *encoder, tri_preference_text text, bool begins,
                              tri_token_list *out) {
  const char *given = text.bytes == 0 ? "" : text.text;
  if (begins) return tri_encoder_encode_text(encoder->encoder, given, text.bytes, 1, out);
  return tri_encoder_encode(encoder->encoder, given, text.bytes, 1, out);
}

static int64_t common_ids(const tri_token_list *prompt, const int32_t *ids, int64_t count) {
  const int64_t least = count < prompt->count ? count : prompt->count;
  int64_t same = 0;
  while (same < least && prompt->ids[same] == ids[same]) same++;
  return same;
}

/* Refuses answers with equal tokens: different texts may become equal by normalization. */
static tri_status check_differ(const int32_t *ids, const tri_encoded_preference *e, const tri_preference_line *line) {
  if (e->num_documents == 1 || e->tokens[0] != e->tokens[1]) return TRI_OK;
  if (memcmp(ids, ids + e->tokens[0], (size_t)e->tokens[0] * sizeof *ids) != 0) return TRI_OK;
  return tri_fail(TRI_BAD_FILE,
                  "%s line %" PRId64
                  ": `chosen` and `rejected` become the same tokens, which is not a preference; remove the record, or "
                  "give --skip-bad",
                  line->path, line->number);
}

static tri_status encode_texts(tri_preference_encoder *encoder, const tri_preference_texts *texts,
                               const tri_preference_line *line, tri_token_list *ids, tri_encoded_preference *out) {
  encoder->prompt.count = 0;
  TRI_TRY(encode_text(encoder, texts->prompt, texts->is_text, &encoder->prompt));
  out->prompt_tokens = encoder->prompt.count;
  for (int k = 0; k < texts->num_answers; k++) {
    const int64_t first = ids->count;
    TRI_TRY(encode_text(encoder, texts->whole[k], texts->is_text, ids));
    out->tokens[k] = ids->count - first;
    out->text_bytes += (int64_t)texts->whole[k].bytes;
    const int64_t same = common_ids(&encoder->prompt, ids->ids + first, out->tokens[k]);
    if (same < out->prompt_tokens) out->prompt_tokens = same;
    if (out->tokens[k] > out->prompt_tokens) continue;
    return tri_fail(TRI_BAD_FILE,
                    "%s line %" PRId64
                    ": the tokenizer makes no token of an answer, so there is nothing to learn from; "
                    "remove the record, or give --skip-bad",
                    line->path, line->number);
  }
  return TRI_OK;
}

tri_status tri_preference_encoder_add(tri_preference_encoder *encoder, const tri_preference_line *line,
                                      tri_token_list *ids, tri_encoded_preference *out) {
  const int64_t before = ids->count;
  tri_preference_texts texts;
  TRI_TRY(tri_preference_session_read(encoder->session, line->path, line->number, line->text, line->bytes, &texts));
  tri_encoded_preference encoded = {.num_documents = texts.num_answers, .desirable = texts.desirable};
  tri_status status = encode_texts(encoder, &texts, line, ids, &encoded);
  if (status == TRI_OK) status = check_differ(ids->ids + before, &encoded, line);
  if (status == TRI_OK) *out = encoded;
  if (status != TRI_OK) ids->count = before;
  return status;
}

void tri_preference_mark(const tri_encoded_preference *encoded, uint8_t *mask) {
  for (int k = 0; k < encoded->num_documents; k++) {
    for (int64_t i = 0; i < encoded->tokens[k]; i++) mask[i] = i >= encoded->prompt_tokens;
    mask += encoded->tokens[k];
  }
}
