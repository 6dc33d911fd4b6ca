#include "generation/generation.h"

#include "base/count.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/stop.h"
#include "comm/agreement.h"
#include "data/fingerprint.h"
#include "data/same_tokenizer.h"
#include "engine/model_files.h"
#include "engine/rank_device.h"
#include "generation/generation_settings.h"
#include "generation/lookup.h"
#include "generation/scheduler.h"

#include <stdio.h>
#include <string.h>

/* ---- settings of the folder and the options ---------------------------------------------------------------------- */

static void warn_of_gap(const tri_generation *g) {
  const int64_t vocabulary = tri_tokenizer_vocab_size(g->tokenizer);
  if (g->request->quiet || !tri_tokenizer_leaves_gap(vocabulary, g->model.vocab_size)) return;
  tri_log("the tokenizer has %ld tokens and the model's vocabulary %ld: the others spell nothing", (long)vocabulary,
          (long)g->model.vocab_size);
}

static tri_status open_tokenizer(tri_generation *g) {
  const tri_model_options *options = &g->request->model;
  TRI_TRY(tri_model_files_tokenizer(&g->weights, options->tokenizer, !options->no_verify, g->tokenizer_file));
  if (g->tokenizer_file[0] == '\0') {
    return tri_fail(TRI_BAD_FILE, "%s has no tokenizer.json; name one with --tokenizer",
                    tri_checkpoint_path(g->weights.named));
  }
  TRI_TRY(tri_tokenizer_create(g->tokenizer_file, &g->tokenizer));
  TRI_TRY(tri_same_tokenizer(tri_model_files_tokenizer_folder(&g->weights), options->tokenizer, g->tokenizer));
  TRI_TRY(tri_tokenizer_fits_model(g->tokenizer, g->model.vocab_size));
  warn_of_gap(g);
  if (!g->request->quiet) tri_tokenizer_log_class(g->tokenizer);
  return tri_encoder_create(g->tokenizer, &g->encoder);
}

/* Returns the option if given, else the folder's value if the folder has one that applies, else `otherwise`. `draws`:
 * whether a value of the folder applies; for most settings this is do_sample. If the result is the folder's value,
 * appends it with its name to `said`, the text of a log line. */
static double choose_sampling_value(double given, double of_folder, bool draws, double otherwise, const char *name,
                                    char *said, size_t said_bytes) {
  if (given >= 0) return given;
  if (!draws || of_folder < 0) return otherwise;
  const size_t held = strlen(said);
  snprintf(said + held, said_bytes - held, "%s%s %g", held == 0 ? "" : ", ", name, of_folder);
  return of_folder;
}

static void apply_settings(tri_generation *g, const tri_generation_settings *folder) {
  const tri_generation_request *given = g->request;
  const bool draws = folder->draws;
  char said[256] = "";
  g->sampling.seed = given->seed;
  g->sampling.temperature =
      choose_sampling_value(given->temperature, folder->temperature, draws, 1, "--temperature", said, sizeof said);
  g->sampling.top_p = choose_sampling_value(given->top_p, folder->top_p, draws, 1, "--top-p", said, sizeof said);
  g->sampling.min_p = choose_sampling_value(given->min_p, folder->min_p, draws, 0, "--min-p", said, sizeof said);
  /* A repetition penalty changes the likeliest token, too, so it does not depend on do_sample. */
  g->sampling.repetition_penalty = choose_sampling_value(given->repetition_penalty, folder->repetition_penalty, true, 1,
                                                         "--repetition-penalty", said, sizeof said);
  g->sampling.top_k = (int64_t)choose_sampling_value((double)given->top_k, (double)folder->top_k, draws, 0, "--top-k",
                                                     said, sizeof said);
  const double most = folder->max_new_tokens > 0 ? (double)folder->max_new_tokens : -1;
  g->tokens = (int64_t)choose_sampling_value((double)given->tokens, most, true, 0, "--tokens", said, sizeof said);
  if (given->tokens < 0 && g->tokens == 0 && folder->max_length > 0) g->max_length = folder->max_length;
  if (said[0] == '\0' || given->quiet) return;
  tri_log("as the folder's generation_config.json has it: %s%s", said,
          given->top_k < 0 && folder->usual_top_k ? " (transformers' default beside do_sample)" : "");
}

static void add_ends(tri_generation *g) {
  int count = 0;
  const int32_t *ends = tri_tokenizer_ends(g->tokenizer, &count);
  for (int i = 0; i < count && !g->request->ignore_end; i++) g->ends[g->num_ends++] = ends[i];
}

/* ---- draft model ------------------------------------------------------------------------------------------------- */

/* Checks that both tokenizers are the same, because guesses are ids of the model's tokens. */
static tri_status check_draft_tokenizer(const tri_generation *g) {
  const tri_generation *draft = g->draft_model;
  char own[TRI_FINGERPRINT_BYTES], other[TRI_FINGERPRINT_BYTES];
  TRI_TRY(tri_tokenizer_fingerprint(g->tokenizer, own));
  TRI_TRY(tri_tokenizer_fingerprint(draft->tokenizer, other));
  if (strcmp(own, other) == 0) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG,
                  "--draft %s: its tokenizer %s (%ld tokens, fingerprint %.8s) is another than the model's, %s (%ld "
                  "tokens, fingerprint %.8s); a draft model needs the same one",
                  g->request->draft, draft->tokenizer_file, (long)tri_tokenizer_vocab_size(draft->tokenizer), other,
                  g->tokenizer_file, (long)tri_tokenizer_vocab_size(g->tokenizer), own);
}

static tri_status open_draft(tri_generation *g) {
  if (g->request->draft == NULL) return TRI_OK;
  g->draft_request = *g->request;
  g->draft_request.checkpoint = g->request->draft;
  g->draft_request.draft = NULL;
  g->draft_request.unmerged = false;
  g->draft_request.group = NULL;
  g->draft_request.tensor = 1;
  g->draft_request.replicas = NULL;
  g->draft_request.model.base = g->draft_request.model.tokenizer = NULL;
  g->draft_request.quiet = true;
  TRI_TRY(tri_alloc("a draft model", 1, sizeof *g->draft_model, &g->draft_model));
  const tri_status status = tri_generation_open(&g->draft_request, g->draft_model);
  if (status != TRI_OK) return tri_fail(status, "--draft: %s", tri_status_message());
  return check_draft_tokenizer(g);
}

static tri_runner_sizes draft_sizes(const tri_generation *g, const tri_runner_sizes *sizes) {
  const int64_t most = g->draft_model->model.max_sequence;
  tri_runner_sizes out = tri_runner_sizes_for(sizes->sequences, sizes->positions < most ? sizes->positions : most);
  out.prompt = sizes->prompt < out.positions ? sizes->prompt : out.positions;
  return out;
}

static tri_status load_draft(tri_generation *g, const tri_runner_sizes *sizes) {
  const tri_runner_sizes of_draft = draft_sizes(g, sizes);
  g->draft_request.lent = g->device;
  TRI_TRY(tri_generation_load(g->draft_model, &of_draft));
  g->draft = (tri_draft){g->draft_model->generator, of_draft.positions, g->model.vocab_size};
  const tri_proposer proposer = tri_draft_proposer(&g->draft);
  tri_generator_set_proposer(g->generator, &proposer, g->request->draft_tokens);
  return TRI_OK;
}

/* ---- model ------------------------------------------------------------------------------------------------------- */

tri_status tri_generation_open(const tri_generation_request *request, tri_generation *out) {
  const tri_checkpoint_use use = tri_model_options_use(&request->model);
  tri_generation_settings folder;
  *out = (tri_generation){.request = request, .replicas = tri_replicas_alone()};
  TRI_TRY(tri_merged_open(request->checkpoint, request->model.base, &use, &out->model, &out->weights));
  if (request->unmerged) TRI_TRY(tri_merged_keep_factors(&out->weights, &out->model));
  TRI_TRY(tri_model_options_apply(&request->model, &out->model));
  TRI_TRY(open_tokenizer(out));
  TRI_TRY(tri_tokenizer_find_ends(out->tokenizer, tri_model_files_tokenizer_folder(&out->weights)));
  TRI_TRY(tri_generation_settings_read(tri_model_files_tokenizer_folder(&out->weights), &folder));
  apply_settings(out, &folder);
  add_ends(out);
  const tri_checkpoint_state *state = tri_checkpoint_get_state(out->weights.named);
  out->step = state == NULL ? -1 : state->step;
  return open_draft(out);
}

tri_status tri_generation_plan(const tri_generation *g, const tri_runner_sizes *sizes, const tri_device *device,
                               tri_runner_need *need, tri_runner_need *draft) {
  const tri_dtype precision = g->request->model.precision;
  *draft = (tri_runner_need){0};
  TRI_TRY(tri_runner_plan(&g->model, precision, sizes, false, tri_larger(1, g->request->tensor), device, need));
  const int64_t threads =
      device->description.threads < sizes->sequences ? device->description.threads : sizes->sequences;
  if (g->request->own_settings || !tri_sampling_is_whole(&g->sampling))
    need->host_bytes += tri_generator_sampler_bytes(g->model.vocab_size, (int)threads);
  if (g->draft_model == NULL) return TRI_OK;
  const tri_runner_sizes of_draft = draft_sizes(g, sizes);
  return tri_runner_plan(&g->draft_model->model, precision, &of_draft, false, 1, device, draft);
}

tri_status tri_generation_choose_pages(const tri_generation *g, bool copies, size_t cache_bytes,
                                       tri_runner_sizes *sizes) {
  const size_t page = tri_runner_page_bytes(&g->model, g->request->model.precision, tri_larger(1, g->request->tensor));
  /* Additional pages for two prompts whose samples have not all begun. The last page of such a prompt is partly filled,
   * and it is in use until all samples of the prompt have copied it. */
  const int64_t copied = copies ? 2 : 0;
  const int64_t window = tri_runner_window(&g->model);
  const int64_t all =
      tri_schedule_pages(sizes->positions, TRI_PAGE_ROWS, window, sizes->rows) * sizes->sequences + copied;
  sizes->pages = all;
  if (cache_bytes == 0) return TRI_OK;
  const size_t pages = cache_bytes / page;
  if (pages < 1) {
    return tri_fail(TRI_BAD_USAGE, "--cache: %zu bytes are too few for a page of %d positions, which takes %zu",
                    cache_bytes, (int)TRI_PAGE_ROWS, page);
  }
  if (pages < (size_t)all) sizes->pages = (int64_t)pages;
  return TRI_OK;
}

static tri_group group_of(const tri_generation *g) {
  if (g->request->replicas != NULL) return g->request->replicas->all;
  return g->request->group == NULL ? tri_group_alone("generation") : *g->request->group;
}

bool tri_generation_leads(const tri_generation *g) { return group_of(g).rank == 0; }

tri_status tri_generation_agree(const tri_generation *g, tri_status status) {
  const tri_group group = group_of(g);
  return tri_first_rank_status(&group, status);
}

static tri_status create_device(tri_generation *g) {
  const tri_model_options *options = &g->request->model;
  g->device = g->request->lent;
  if (g->device != NULL) return TRI_OK;
  return tri_rank_device_create(options->device, (int)options->threads, &g->device);
}

/* Appends a list of settings that need less memory to the error message of a runner that does not fit into memory. */
static tri_status suggest_less(const tri_generation *g, tri_status status) {
  if (status != TRI_OUT_OF_MEMORY || g->request->quiet) return status;
  return tri_fail(
      status,
      "%s; --precision bf16, T ranks that share the model (--tensor T), fewer positions (--context, --tokens), "
      "or a smaller --batch or --cache need less",
      tri_status_message());
}

static tri_status create_generator(tri_generation *g, const tri_runner_sizes *sizes) {
  const tri_dtype precision = g->request->model.precision;
  const tri_mesh *mesh = tri_replicas_mesh(&g->replicas);
  TRI_TRY(suggest_less(g, tri_runner_create(&g->model, precision, sizes, g->request->shared, mesh, (tri_lent_memory){0},
                                            g->device, &g->runner)));
  if (tri_replicas_leads(&g->replicas)) TRI_TRY(tri_generator_create(&g->model, precision, g->runner, &g->generator));
  return tri_dispatcher_create(&g->replicas, g->runner, g->generator, &g->dispatcher);
}

static tri_status load_weights(tri_generation *g) {
  tri_executor *executor = tri_runner_executor(g->runner);
  const bool moved = g->request->without_weights;
  if (g->request->shared != NULL || (moved && !tri_runner_parameters(g->runner)->has_factors)) return TRI_OK;
  TRI_TRY(tri_model_files_load(&g->weights, moved ? TRI_MODEL_FILES_BASE : TRI_MODEL_FILES_WHOLE,
                               tri_runner_parameters(g->runner), &g->replicas.replica, executor));
  if (moved) return TRI_OK;
  TRI_TRY(tri_model_files_agree(&g->replicas.all, &g->weights, executor));
  return g->request->hashes ? tri_model_files_hash(&g->weights, executor, &g->hash) : TRI_OK;
}

tri_status tri_generation_load(tri_generation *g, const tri_runner_sizes *of_first) {
  const tri_group group = group_of(g);
  tri_runner_sizes sizes = *of_first;
  if (g->request->replicas != NULL) g->replicas = *g->request->replicas;
  if (g->request->replicas == NULL)
    TRI_TRY(tri_replicas_create(&group, g->request->tensor, &g->model, &g->weights, &g->replicas));
  TRI_TRY(tri_broadcast(&group, 0, sizeof sizes, &sizes));
  g->positions = sizes.positions;
  TRI_TRY(tri_common_failure(&group, create_device(g)));
  TRI_TRY(tri_common_failure(&group, create_generator(g, &sizes)));
  TRI_TRY(load_weights(g));
  if (g->generator == NULL) return TRI_OK;
  if (g->draft_model != NULL) return load_draft(g, &sizes);
  tri_generator_set_proposer(g->generator, &tri_lookup_proposer, g->request->lookup);
  return TRI_OK;
}

tri_status tri_generation_run(tri_generation *g) {
  for (bool more = true; more;) {
    TRI_TRY(tri_dispatcher_step(g->dispatcher, &more));
    if (more && g->request->stops_when_asked && tri_stop_asked()) return tri_dispatcher_cancel_all(g->dispatcher);
  }
  return TRI_OK;
}

void tri_generation_close(tri_generation *g) {
  tri_dispatcher_destroy(g->dispatcher);
  tri_generator_destroy(g->generator);
  if (g->draft_model != NULL) tri_generation_close(g->draft_model);
  tri_free(g->draft_model);
  tri_runner_destroy(g->runner);
  if (g->request != NULL && g->request->lent == NULL) tri_device_destroy(g->device);
  tri_encoder_destroy(g->encoder);
  tri_tokenizer_destroy(g->tokenizer);
  tri_merged_close(&g->weights);
  if (g->request != NULL && g->request->replicas == NULL) tri_replicas_destroy(&g->replicas);
}
