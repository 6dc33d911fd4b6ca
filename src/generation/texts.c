#include "generation/texts.h"

#include "base/log.h"
#include "base/memory.h"

tri_status tri_texts_begin(tri_generation *generation, const tri_texts_request *request, tri_texts *out) {
  const int64_t samples = request->samples > 0 ? request->samples : 1, count = request->num_prompts * samples;
  *out = (tri_texts){.generation = generation, .asked = *request, .samples = samples};
  TRI_TRY(tri_alloc("texts", (size_t)count, sizeof *out->list, &out->list));
  for (int64_t i = 0; i < count; i++) {
    const tri_prompt *prompt = &request->prompts[i / samples];
    tri_written *text = &out->list[i];
    out->count = i + 1;
    TRI_TRY(tri_written_begin(generation, prompt, request->tokens > 0 ? request->tokens : 0, text));
    text->number = i / samples;
    text->sample = (uint64_t)(i % samples);
  }
  return TRI_OK;
}

/* Without a number: a hundred, or as many as there are positions for, if there is any. */
static int64_t tokens_wanted(const tri_texts *t, const tri_written *text, int64_t most) {
  const int64_t room = most - text->tokens.count;
  if (t->asked.tokens > 0) return t->asked.tokens;
  return room < 100 && room > 0 ? room : 100;
}

/* Where the model's rotary positions go by the length of a prompt, prompts that are to share them are of one length. */
static tri_status check_dynamic(const tri_texts *t) {
  const tri_rope_scaling *scaling = &t->generation->model.rope_scaling;
  for (int64_t i = 1; i < t->count; i++) {
    const int64_t length = t->list[i].tokens.count, first = t->list[0].tokens.count;
    if (tri_rope_can_share(scaling, first, length)) continue;
    return tri_fail(TRI_UNSUPPORTED,
                    "prompts of %ld and %ld tokens: with rope_scaling `dynamic` positions beyond %ld go by the length "
                    "of each prompt; give prompts of one length together, or one at a time",
                    (long)first, (long)length, (long)scaling->original_max_sequence);
  }
  return TRI_OK;
}

tri_status tri_texts_load(tri_texts *t) {
  const int64_t context = t->asked.context, model = t->generation->model.max_sequence;
  const int64_t most = context > 0 && context < model ? context : model;
  int64_t positions = 1, *lengths = NULL;
  if (context > model)
    tri_log("--context %ld is beyond the model's %ld positions, which are used", (long)context, (long)model);
  TRI_TRY(check_dynamic(t));
  t->batch = t->asked.batch < t->count ? t->asked.batch : t->count;
  TRI_TRY(tri_alloc("texts", (size_t)t->batch, sizeof *lengths, &lengths));
  for (int64_t i = 0; i < t->count; i++) {
    tri_written *text = &t->list[i];
    text->wanted = tokens_wanted(t, text, most);
    const int64_t length = text->tokens.count + text->wanted, prompt = text->tokens.count;
    if (length > positions) positions = length < most ? length : most;
    if (i < t->batch) lengths[i] = prompt < most ? prompt : most;
  }
  const tri_status status = tri_generation_load(t->generation, t->batch, positions, lengths);
  tri_free(lengths);
  return status;
}

tri_status tri_texts_write(tri_texts *t, int64_t first, int64_t *count) {
  *count = t->count - first < t->batch ? t->count - first : t->batch;
  return tri_generation_write(t->generation, t->list + first, *count, 0);
}

void tri_texts_release(tri_texts *t) {
  for (int64_t i = 0; i < t->count; i++) tri_written_release(&t->list[i]);
  tri_free(t->list);
  *t = (tri_texts){.generation = NULL};
}
