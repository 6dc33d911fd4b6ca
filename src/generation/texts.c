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
    text->sampling.sample = (uint64_t)(i % samples);
    text->requested = request->requested;
    if (request->prompt_scores && i % samples == 0 && text->prompt_tokens > 1)
      TRI_TRY(tri_alloc("scores", (size_t)text->prompt_tokens - 1, sizeof *text->prompt_scores, &text->prompt_scores));
    text->prompt_log_probs = out->list[i - i % samples].prompt_scores;
  }
  return TRI_OK;
}

/* Computes the number of tokens to sample: the requested number; else max_length of the model folder's
 * generation_config.json minus the prompt's tokens; else tri_texts_request.usual_tokens. A number that was not
 * requested is limited to the positions left after the prompt. If none are left, it is not limited: a text may grow
 * beyond the positions, because it then slides (generator.h). */
static tri_status count_tokens(const tri_texts *t, const tri_written *text, int64_t most, int64_t *out) {
  const int64_t room = most - text->tokens.count, length = t->generation->max_length;
  const int64_t usual = t->asked.usual_tokens > 0 ? t->asked.usual_tokens : 100;
  *out = t->asked.tokens;
  if (t->asked.tokens > 0) return TRI_OK;
  *out = length > 0 ? length - text->tokens.count : usual;
  if (*out <= 0) {
    return tri_fail(TRI_BAD_USAGE,
                    "a prompt of %ld tokens leaves nothing of max_length, %ld in the folder's generation_config.json; "
                    "give --tokens",
                    (long)text->tokens.count, (long)length);
  }
  if (room < *out && room > 0) *out = room;
  return TRI_OK;
}

/* Checks that all prompts may share the runner's rotary table. With rope_scaling `dynamic`, the table's frequencies
 * depend on the length of a long prompt. */
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

tri_status tri_texts_sizes(tri_texts *t, tri_runner_sizes *out) {
  const int64_t context = t->asked.context, model = t->generation->model.max_sequence;
  const int64_t most = context > 0 && context < model ? context : model;
  int64_t positions = 1, prompt = 1;
  if (context > model)
    tri_log("--context %ld is beyond the model's %ld positions, which are used", (long)context, (long)model);
  if (t->asked.tokens <= 0 && t->generation->max_length > 0)
    tri_log("as the folder's generation_config.json has it: max_length %ld", (long)t->generation->max_length);
  TRI_TRY(check_dynamic(t));
  t->batch = t->asked.batch < t->count ? t->asked.batch : t->count;
  for (int64_t i = 0; i < t->count; i++) {
    tri_written *text = &t->list[i];
    TRI_TRY(count_tokens(t, text, most, &text->wanted));
    const int64_t length = text->prompt_tokens + text->wanted;
    if (length > positions) positions = length < most ? length : most;
    if (text->prompt_tokens > prompt) prompt = text->prompt_tokens < most ? text->prompt_tokens : most;
  }
  *out = tri_runner_sizes_for(t->batch, positions);
  out->prompt = prompt;
  return tri_generation_choose_pages(t->generation, t->samples > 1, t->asked.cache_bytes, out);
}

tri_status tri_texts_load(tri_texts *t) {
  tri_runner_sizes sizes = {0};
  const tri_status status = tri_generation_leads(t->generation) ? tri_texts_sizes(t, &sizes) : TRI_OK;
  TRI_TRY(tri_generation_agree(t->generation, status));
  return tri_generation_load(t->generation, &sizes);
}

/* ---- generation -------------------------------------------------------------------------------------------------- */

/* Starts further prompts until twice as many texts are in progress as all replicas have places. The other prompts are
 * started later, because a waiting sample keeps the pages of its prompt in use. */
static tri_status start_texts(tri_texts *t) {
  const int64_t most = 2 * t->batch * tri_dispatcher_replicas(t->generation->dispatcher);
  while (t->started < t->count && t->started - t->ended < most) {
    tri_written *first = &t->list[t->started];
    t->started += t->samples;
    TRI_TRY(tri_written_start_samples(first, t->samples));
  }
  return TRI_OK;
}

static tri_status visit_ended(void *context, tri_written *written) {
  tri_texts *t = context;
  t->ended++;
  for (; t->reported < t->count && t->list[t->reported].finish != TRI_FINISH_NONE; t->reported++) {
    if (t->done != NULL) TRI_TRY(t->done(t->context, &t->list[t->reported]));
  }
  if (written->finish == TRI_FINISH_CANCELLED) return TRI_OK; /* tri_generation_run cancels all texts together */
  return start_texts(t);
}

tri_status tri_texts_write(tri_texts *t, tri_status (*done)(void *context, tri_written *written), void *context) {
  tri_dispatcher *dispatcher = t->generation->dispatcher;
  if (!tri_generation_leads(t->generation)) return tri_dispatcher_follow(dispatcher);
  t->done = done;
  t->context = context;
  for (int64_t i = 0; i < t->count; i++) {
    t->list[i].done = visit_ended;
    t->list[i].context = t;
  }
  tri_status status = start_texts(t);
  if (status == TRI_OK) status = tri_generation_run(t->generation);
  if (status == TRI_OK) return tri_dispatcher_dismiss(dispatcher);
  tri_dispatcher_give_up(dispatcher, status);
  return status;
}

void tri_texts_release(tri_texts *t) {
  for (int64_t i = 0; i < t->count; i++) tri_written_release(&t->list[i]);
  tri_free(t->list);
  *t = (tri_texts){.generation = NULL};
}
