/* Writes samples of a run's checkpoints: lines of OUTPUT/samples.jsonl in the format of `trireme generate --json`.
 *
 * The first rank, or with samples.tensor the first ranks, generate them with generators of their own, and the other
 * ranks wait in the next collective. The weights are those in memory while the run is still at the checkpoint's step:
 * the generator reads them in place if the first rank has all of them in the type that it needs, else they are moved
 * from all ranks to memory of its own. They are read back from the checkpoint only when a resumed run adds missing
 * samples. An adapter's factors are kept apart from the base, as in training, and only the factors are moved. The lines
 * are the same in each case, and under every layout.
 *
 * With checkpoint.async the samples are generated while the checkpoint is written in the background; the generator
 * reads the tokenizer and the settings in its temporary folder. If the save fails, the run ends, and a resume removes
 * the samples again, because they are of a later step than its checkpoint.
 *
 * If a run was killed between a checkpoint and its samples, the missing samples are added when the run is resumed. A
 * text that cannot be generated causes a warning; a file that cannot be written ends the run, as with its metrics, and
 * so do weights that did not arrive as they were sent. */
#include "train/train_internal.h"

#include "base/flight_recorder.h"
#include "base/format.h"
#include "base/log.h"
#include "base/memory.h"
#include "checkpoint/checkpoint.h"
#include "comm/agreement.h"
#include "data/same_tokenizer.h"
#include "engine/send_weights.h"
#include "files/file.h"
#include "files/json_kind.h"
#include "files/lines.h"
#include "files/write_fault.h"
#include "generation/texts.h"
#include "schedule/layout.h"
#include "train/sample_prompts.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

enum { BATCH = 8 /* texts per batch, as in `generate` */, LONGEST_LINE_BYTES = 64 << 20 };

/* ---- before the run ---------------------------------------------------------------------------------------------- */

/* Formats the name of a prompt, such as "`samples.prompts` number 2". */
static const char *name_of(const tri_run_config *config, int64_t number, char out[64]) {
  const int64_t prompts = config->samples.num_prompts;
  snprintf(out, 64, "`samples.%s` number %ld", number < prompts ? "prompts" : "chat",
           (long)(number < prompts ? number : number - prompts) + 1);
  return out;
}

static tri_status check_length(const tri_run_config *config, int64_t number, int64_t count, int64_t first) {
  char name[64];
  const tri_rope_scaling *scaling = &config->model.rope_scaling;
  const int64_t most = config->model.max_sequence;
  if (count > most) {
    return tri_fail(TRI_BAD_CONFIG, "%s has %ld tokens, and the model has %ld positions; make it shorter",
                    name_of(config, number, name), (long)count, (long)most);
  }
  if (tri_rope_can_share(scaling, first, count)) return TRI_OK;
  return tri_fail(
      TRI_BAD_CONFIG,
      "samples that begin with %ld and %ld tokens: with rope_scaling `dynamic` positions beyond %ld go by the "
      "length of each; give prompts of one length",
      (long)first, (long)count, (long)scaling->original_max_sequence);
}

static tri_status check_prompts(const tri_run_config *config, const tri_sample_prompts *prompts,
                                const tri_tokenizer *tokenizer, tri_encoder *encoder) {
  int64_t first = 0;
  for (int64_t i = 0; i < prompts->count; i++) {
    tri_token_list tokens = {.ids = NULL};
    const tri_status status = tri_prompt_encode(encoder, &prompts->list[i], &tokens);
    const int64_t count = tokens.count;
    tri_free(tokens.ids);
    TRI_TRY(status);
    if (count == 0 && tri_tokenizer_end_of_text(tokenizer) < 0) {
      return tri_fail(TRI_BAD_CONFIG,
                      "`samples.prompts` number %ld is empty, and the tokenizer has no end-of-text token to begin "
                      "with; write a prompt",
                      (long)i + 1);
    }
    if (i == 0) first = count;
    TRI_TRY(check_length(config, i, count, first));
  }
  return TRI_OK;
}

tri_status tri_training_check_samples(const tri_run_config *config, const char *tokenizer_file) {
  tri_tokenizer *tokenizer = NULL;
  tri_encoder *encoder = NULL;
  tri_sample_prompts prompts;
  if (tri_num_samples(config) == 0) return TRI_OK;
  if (tokenizer_file[0] == '\0') {
    return tri_fail(TRI_BAD_CONFIG,
                    "`samples.%s` requests texts, but the folder of %s has no tokenizer.json; name one in "
                    "data.tokenizer, or leave the prompts out",
                    config->samples.num_prompts > 0 ? "prompts" : "chat", config->data.train[0].path);
  }
  TRI_TRY(tri_tokenizer_create(tokenizer_file, &tokenizer));
  tri_status status = tri_tokenizer_fits_model(tokenizer, config->model.vocab_size);
  if (status == TRI_OK) status = tri_encoder_create(tokenizer, &encoder);
  if (status == TRI_OK) {
    status = tri_sample_prompts_make(config, tokenizer_file, &prompts);
    if (status == TRI_OK) status = check_prompts(config, &prompts, tokenizer, encoder);
    tri_sample_prompts_release(&prompts);
  }
  tri_encoder_destroy(encoder);
  tri_tokenizer_destroy(tokenizer);
  return status;
}

tri_status tri_training_group_samplers(tri_training *t) {
  const tri_run_config *config = t->config;
  const tri_group *world = &t->mesh.world;
  const int64_t tensor = config->samples.tensor;
  t->samplers = tri_replicas_alone();
  t->samples_here = world->rank == 0;
  if (tri_num_samples(config) == 0 || tensor == 1) return TRI_OK;
  if (tensor > world->size) {
    return tri_fail(TRI_BAD_CONFIG, "samples.tensor is %ld, and this job has %d rank%s; set it to at most %d",
                    (long)tensor, world->size, TRI_PLURAL(world->size), world->size);
  }
  TRI_TRY(tri_layout_check_tensor("samples.tensor", tensor, &config->model));
  t->samples_here = world->rank < tensor;
  TRI_TRY(tri_group_split(world, "samples", t->samples_here ? 0 : 1, world->rank, &t->sampling));
  return t->samples_here ? tri_replicas_create(&t->sampling, tensor, &config->model, NULL, &t->samplers) : TRI_OK;
}

/* The weights that samples are generated with. */
typedef enum weights_from { FROM_CHECKPOINT, FROM_MEMORY_IN_PLACE, FROM_MEMORY_MOVED } weights_from;

/* Returns whether the values in memory equal those of a checkpoint. They do not if the optimizer evaluates an average
 * of the weights (tri_optimizer.evaluated). */
static bool has_saved_values(const tri_run_config *config) {
  return tri_optimizer_that_averages(&config->optimizer.settings) == NULL;
}

/* Sets *out to whether the first rank's generator can read the engine's weights in place. */
static tri_status reads_in_place(const tri_run_config *config, const tri_weights *weights, bool *out) {
  *out = false;
  return has_saved_values(config) && config->samples.tensor == 1
             ? tri_runner_can_share(&config->model, config->precision, weights, out)
             : TRI_OK;
}

/* Sets *out to the value that reads_in_place will set, from a plan, before the engine exists. */
static tri_status plan_in_place(const tri_run_config *config, const tri_engine_options *options, tri_device *device,
                                bool *out) {
  const tri_mesh_coordinates first = {0};
  tri_parts parts = {0};
  tri_weights *weights = NULL;
  TRI_TRY(tri_engine_parts_create(options, &first, device, &parts));
  tri_status status = tri_weights_create(parts.table, parts.buckets, config->precision, &weights);
  if (status == TRI_OK) status = reads_in_place(config, weights, out);
  tri_weights_destroy(weights);
  tri_parts_destroy(&parts);
  return status;
}

/* Plans the memory for the longest prompt. A prompt has at most one token per byte, one for the space that a tokenizer
 * puts before it, and those that the tokenizer begins texts with. */
tri_status tri_training_plan_samples(const tri_run_config *config, const tri_engine_options *options,
                                     tri_device *device, tri_runner_need *out) {
  const int64_t prompts = config->samples.num_prompts, count = tri_num_samples(config);
  const int64_t model = config->model.max_sequence;
  int64_t positions = 1;
  *out = (tri_runner_need){0};
  if (count == 0) return TRI_OK;
  for (int64_t i = 0; i < count; i++) {
    const char *text = i < prompts ? config->samples.prompts[i].text : config->samples.chat[i - prompts].text;
    const int64_t more =
        1 + TRI_MOST_BEGINNING + config->samples.tokens + (i < prompts ? 0 : TRI_SAMPLE_TEMPLATE_BYTES);
    const int64_t length = (int64_t)strlen(text) + more;
    if (length > positions) positions = length < model ? length : model;
  }
  const tri_runner_sizes sizes = tri_runner_sizes_for(count < BATCH ? count : BATCH, positions);
  bool in_place = false;
  TRI_TRY(plan_in_place(config, options, device, &in_place));
  return tri_runner_plan(&config->model, config->precision, &sizes, in_place, config->samples.tensor, device, out);
}

/* ---- the texts of a checkpoint ----------------------------------------------------------------------------------- */

typedef struct tri_samples {
  tri_generation_request request;
  char folder[TRI_PATH_BYTES];
  tri_sample_prompts prompts;
  tri_generation generation;
  tri_texts texts;
} tri_samples;

/* Encodes the prompts on the first rank. */
static tri_status begin_texts(const tri_run_config *config, tri_samples *s) {
  const tri_texts_request texts = {.prompts = s->prompts.list,
                                   .num_prompts = tri_num_samples(config),
                                   .batch = BATCH,
                                   .tokens = config->samples.tokens};
  s->texts.generation = &s->generation;
  return tri_generation_leads(&s->generation) ? tri_texts_begin(&s->generation, &texts, &s->texts) : TRI_OK;
}

static tri_status folder_of(const tri_run_config *config, int64_t step, char folder[TRI_PATH_BYTES]) {
  const int length = snprintf(folder, TRI_PATH_BYTES, "%s/checkpoints/step-%08ld", config->output, (long)step);
  return length < 0 || length >= TRI_PATH_BYTES ? tri_fail_internal("the path of a checkpoint") : TRI_OK;
}

/* COLLECTIVE over the ranks that generate. Prepares the texts and, unless the weights are moved later, loads the
 * weights. */
static tri_status open_texts(tri_training *t, int64_t step, weights_from from, tri_samples *s) {
  tri_run_config *config = t->config;
  if (tri_saver_writes(t->saver, s->folder) != step) TRI_TRY(folder_of(config, step, s->folder));
  TRI_TRY(tri_sample_prompts_make(config, t->data.tokenizer, &s->prompts));
  s->request = (tri_generation_request){
      .checkpoint = s->folder,
      .temperature = config->samples.temperature,
      .top_k = config->samples.top_k,
      .top_p = config->samples.top_p,
      .min_p = 0,
      .repetition_penalty = 1,
      .seed = config->samples.seed,
      .stops = {s->prompts.turn_end},
      .num_stops = s->prompts.turn_end[0] != '\0',
      .model = {.device = config->device, .precision = config->precision},
      .lent = t->device,
      .tensor = config->samples.tensor,
      .replicas = &t->samplers,
      .unmerged = true,
      .quiet = true,
  };
  switch (from) {
    case FROM_CHECKPOINT: break;
    case FROM_MEMORY_IN_PLACE:
      TRI_TRY(tri_engine_finish(t->engine));
      s->request.shared = tri_engine_weights(t->engine);
      break;
    case FROM_MEMORY_MOVED: s->request.without_weights = true; break;
  }
  tri_status status = tri_generation_open(&s->request, &s->generation);
  s->generation.step = step; /* the folder of a save in progress has no state.json with it */
  if (status == TRI_OK) status = begin_texts(config, s);
  TRI_TRY(tri_common_failure(&t->samplers.all, status));
  TRI_TRY(tri_texts_load(&s->texts));
  /* The generator may be kept for later checkpoints, and the files of this one may be removed before. */
  tri_merged_close(&s->generation.weights);
  return TRI_OK;
}

/* Prepares the texts of a later step for the generator that was opened at an earlier step. */
static tri_status reopen_texts(tri_training *t, int64_t step, tri_samples *s) {
  tri_runner_sizes same;
  tri_texts_release(&s->texts);
  s->generation.step = step;
  TRI_TRY(tri_engine_finish(t->engine));
  TRI_TRY(tri_generator_publish(s->generation.generator, TRI_PUBLISH_BETWEEN));
  TRI_TRY(begin_texts(t->config, s));
  return tri_texts_sizes(&s->texts, &same);
}

static tri_status write_line(const tri_samples *s, int64_t number, FILE *to) {
  json_t *line = tri_generation_json(&s->generation, &s->texts.list[number]);
  const char *message = s->prompts.messages[number];
  if (line != NULL && message != NULL) json_object_set_new(line, "message", json_string(message));
  return tri_json_write_line(to, line, "a sample");
}

/* Appends the texts that are not in the file. there[i]: whether prompt i has its text. */
static tri_status append_texts(const tri_samples *s, const char *path, const bool *there) {
  tri_status status = TRI_OK;
  FILE *to = fopen(path, "ae");
  if (to == NULL) return tri_fail(TRI_IO_FAILED, "cannot open %s for writing: %s", path, tri_write_fault(errno));
  for (int64_t i = 0; i < s->texts.count && status == TRI_OK; i++) {
    if (!there[i]) status = write_line(s, i, to);
  }
  const bool failed = ferror(to) != 0;
  if ((fclose(to) != 0 || failed) && status == TRI_OK) {
    status = tri_fail(TRI_IO_FAILED, "cannot write %s: %s", path, tri_write_fault(errno));
  }
  return status;
}

static void samples_close(tri_samples *s) {
  if (s == NULL) return;
  tri_texts_release(&s->texts);
  tri_generation_close(&s->generation);
  tri_sample_prompts_release(&s->prompts);
  tri_free(s);
}

void tri_training_close_samples(tri_training *t) {
  samples_close(t->samples);
  t->samples = NULL;
}

/* COLLECTIVE over the ranks that generate. Generates the texts of samples that are open; the first rank appends those
 * that are not in the file. `status`: status of opening them. *good: whether all texts were generated. */
static tri_status write_texts(tri_training *t, int64_t step, const bool *there, tri_status status, tri_samples *s,
                              bool *good) {
  char path[TRI_PATH_BYTES];
  TRI_TRY(tri_path_join(path, t->config->output, "samples.jsonl"));
  if (status == TRI_OK) status = tri_texts_write(&s->texts, NULL, NULL);
  *good = status == TRI_OK;
  if (!tri_training_is_rank0(t)) return TRI_OK;
  if (*good) return append_texts(s, path, there);
  tri_warn("there are no samples of step %ld: %s", (long)step, tri_status_message());
  return TRI_OK;
}

/* Opens the samples of a step; reuses the generator that was kept open, if it reads the weights in place. */
static tri_status open_samples(tri_training *t, int64_t step, weights_from from, tri_samples **out) {
  *out = t->samples;
  t->samples = NULL;
  if (*out != NULL && from == FROM_MEMORY_IN_PLACE) return reopen_texts(t, step, *out);
  samples_close(*out);
  TRI_TRY(tri_alloc("samples", 1, sizeof **out, out));
  return open_texts(t, step, from, *out);
}

/* COLLECTIVE over the ranks that generate. Writes samples with weights that need no other rank. A generator that reads
 * the engine's weights is kept open for the next checkpoint. */
static tri_status write_samples(tri_training *t, int64_t step, weights_from from, const bool *there) {
  tri_samples *s = NULL;
  const tri_record record = tri_record_make(TRI_RECORD_WORK, "write samples");
  const uint64_t ticket = tri_recorder_begin(&record);
  bool good = false;
  tri_status status = open_samples(t, step, from, &s);
  status = write_texts(t, step, there, status, s, &good);
  tri_recorder_end(ticket);
  if (good && from == FROM_MEMORY_IN_PLACE) t->samples = s;
  if (t->samples == NULL) samples_close(s);
  return status;
}

/* COLLECTIVE. Moves the weights to the ranks that generate, unless the texts could not be opened there, and writes
 * samples. */
static tri_status move_and_write(tri_training *t, int64_t step, const bool *there) {
  const tri_group *world = &t->mesh.world;
  const bool here = t->samples_here;
  tri_samples *s = NULL;
  bool opened = false, written = false;
  tri_status status = tri_common_status(world, here ? tri_alloc("samples", 1, sizeof *s, &s) : TRI_OK);
  tri_saved_error failed = {TRI_OK, ""};
  TRI_TRY(status);
  if (here) tri_error_save(&failed, open_texts(t, step, FROM_MEMORY_MOVED, s));
  opened = failed.status == TRI_OK;
  status = tri_broadcast(world, 0, sizeof opened, &opened);
  if (status == TRI_OK && opened) {
    tri_weights_target to = {.weights = NULL};
    if (here) to = tri_runner_target(s->generation.runner);
    status = tri_engine_send_weights(t->engine, TRI_POLICY_EVALUATED, here ? &to : NULL);
  }
  if (status == TRI_OK && here) status = write_texts(t, step, there, tri_saved_error_restore(&failed), s, &written);
  samples_close(s);
  return tri_common_status(world, status);
}

/* COLLECTIVE. Chooses the weights for samples of the checkpoint of `step`. */
static tri_status choose_weights(tri_training *t, int64_t step, weights_from *out) {
  bool in_place = false;
  *out = FROM_CHECKPOINT;
  if (step != t->progress.step) return TRI_OK;
  const tri_status status =
      tri_training_is_rank0(t) ? reads_in_place(t->config, tri_engine_weights(t->engine), &in_place) : TRI_OK;
  TRI_TRY(tri_first_rank_status(&t->mesh.world, status));
  TRI_TRY(tri_broadcast(&t->mesh.world, 0, sizeof in_place, &in_place));
  *out = in_place ? FROM_MEMORY_IN_PLACE : FROM_MEMORY_MOVED;
  return TRI_OK;
}

tri_status tri_training_sample(tri_training *t) {
  static const bool none[TRI_MOST_SAMPLE_PROMPTS] = {false};
  char folder[TRI_PATH_BYTES];
  const int64_t written = tri_saver_writes(t->saver, folder);
  const int64_t saved = written == t->progress.step ? written : tri_saver_newest(t->saver).step;
  weights_from from = FROM_CHECKPOINT;
  if (tri_num_samples(t->config) == 0 || saved <= t->sampled_step) return TRI_OK;
  t->sampled_step = saved;
  TRI_TRY(choose_weights(t, saved, &from));
  switch (from) {
    case FROM_CHECKPOINT:
    case FROM_MEMORY_IN_PLACE: break;
    case FROM_MEMORY_MOVED: return move_and_write(t, saved, none);
  }
  return tri_common_status(&t->mesh.world, t->samples_here ? write_samples(t, saved, from, none) : TRI_OK);
}

tri_status tri_observe_samples(tri_training *t, tri_made_step *made) {
  (void)made;
  /* A run that is asked to stop does so at once; the samples of its newest checkpoint are written when it is resumed.
   */
  return t->stopping && !tri_training_is_over(t) ? TRI_OK : tri_training_sample(t);
}

/* ---- resuming ---------------------------------------------------------------------------------------------------- */

/* State and results of reading the file of samples. */
typedef struct samples_look {
  const tri_sample_prompts *prompts;
  int64_t last, highest; /* last: step of the run; highest: highest step of a line, up to `last`, or -1 if there is no
                            such line */
  tri_file_writer *to;   /* file to which the kept lines are written; NULL: the lines are only read */
  bool drops, there[TRI_MOST_SAMPLE_PROMPTS]; /* whether a line is dropped; whether each prompt has a text of step
                                                 `highest` */
} samples_look;

static void note_text(samples_look *look, int64_t step, const json_t *line) {
  const json_int_t number = json_integer_value(json_object_get(line, "number"));
  const char *prompt = json_string_value(json_object_get(line, "prompt"));
  if (step > look->highest) memset(look->there, 0, sizeof look->there);
  if (step < look->highest) return;
  look->highest = step;
  if (number < 0 || number >= look->prompts->count || prompt == NULL) return;
  if (strcmp(prompt, look->prompts->list[number].text) == 0) look->there[number] = true;
}

/* Notes a line's text. Returns whether the line is kept. */
static bool keep_line(samples_look *look, const tri_line *text) {
  json_t *line = text->too_long ? NULL : json_loadb(text->text, text->bytes, JSON_ALLOW_NUL, NULL);
  const json_t *number = json_object_get(line, "step");
  const int64_t step = json_is_integer(number) ? (int64_t)json_integer_value(number) : -1;
  const bool stays = text->ended && step <= look->last;
  if (stays && step >= 0) note_text(look, step, line);
  look->drops |= !stays;
  json_decref(line);
  return stays;
}

static tri_status read_samples(samples_look *look, const char *path) {
  tri_lines *lines = NULL;
  tri_status status = TRI_OK;
  look->highest = -1;
  TRI_TRY(tri_lines_open(path, LONGEST_LINE_BYTES, &lines));
  for (bool there = true; status == TRI_OK && there;) {
    tri_line line;
    status = tri_lines_next_any(lines, &line, &there);
    if (status != TRI_OK || !there || !keep_line(look, &line) || look->to == NULL) continue;
    status = tri_file_writer_copy(look->to, path, line.first, line.end);
  }
  tri_lines_close(lines);
  return status;
}

static tri_status rewrite(samples_look *look, const char *path) {
  TRI_TRY(tri_file_writer_open(path, &look->to));
  return tri_file_writer_close(look->to, read_samples(look, path));
}

/* Returns whether a checkpoint's texts are missing: the checkpoint is newer than the newest one with texts, or it is
 * that one and has only some of its texts. If no checkpoint has texts, only those of the newest checkpoint count as
 * missing. */
static bool lacks_texts(const samples_look *look, int64_t step, bool newest) {
  bool whole = true;
  if (step > look->last || step < look->highest) return false;
  if (look->highest < 0) return newest;
  if (step > look->highest) return true;
  for (int64_t i = 0; i < look->prompts->count; i++) whole = whole && look->there[i];
  return !whole;
}

/* On the first rank: sends the step whose samples are written next to the other ranks that generate; -1: no further
 * step. */
static tri_status announce_step(const tri_training *t, int64_t step) {
  return tri_broadcast(&t->samplers.all, 0, sizeof step, &step);
}

/* On the other ranks that generate: writes samples of the steps that the first rank announces. */
static tri_status follow_steps(tri_training *t) {
  static const bool none[TRI_MOST_SAMPLE_PROMPTS] = {false};
  for (;;) {
    int64_t step = -1;
    TRI_TRY(tri_broadcast(&t->samplers.all, 0, sizeof step, &step));
    if (step < 0) return TRI_OK;
    TRI_TRY(write_samples(t, step, FROM_CHECKPOINT, none));
  }
}

static tri_status add_lacking(tri_training *t, const char *root, const samples_look *look) {
  static const bool none[TRI_MOST_SAMPLE_PROMPTS] = {false};
  tri_checkpoint_found *list = NULL;
  int64_t count = 0;
  if (look->prompts->count == 0) return TRI_OK;
  TRI_TRY(tri_checkpoint_list(root, &list, &count));
  tri_status status = TRI_OK;
  for (int64_t i = 0; i < count && status == TRI_OK; i++) {
    const int64_t step = list[i].step;
    if (!lacks_texts(look, step, i == count - 1)) continue;
    status = announce_step(t, step);
    if (status == TRI_OK) status = write_samples(t, step, FROM_CHECKPOINT, step == look->highest ? look->there : none);
  }
  tri_free(list);
  return status;
}

static tri_status resume_samples(tri_training *t, const tri_sample_prompts *prompts) {
  samples_look look = {.prompts = prompts, .last = t->progress.step, .highest = -1};
  char path[TRI_PATH_BYTES], root[TRI_PATH_BYTES];
  TRI_TRY(tri_path_join(path, t->config->output, "samples.jsonl"));
  TRI_TRY(tri_path_join(root, t->config->output, "checkpoints"));
  if (tri_path_exists(path)) TRI_TRY(read_samples(&look, path));
  if (look.drops) TRI_TRY(rewrite(&look, path));
  return add_lacking(t, root, &look);
}

tri_status tri_training_resume_samples(tri_training *t) {
  tri_sample_prompts *prompts = NULL;
  if (!tri_training_is_rank0(t)) return follow_steps(t);
  TRI_TRY(tri_alloc("the prompts of samples", 1, sizeof *prompts, &prompts));
  tri_status status = tri_sample_prompts_make(t->config, t->data.tokenizer, prompts);
  if (status == TRI_OK) status = resume_samples(t, prompts);
  tri_sample_prompts_release(prompts);
  tri_free(prompts);
  /* This ends follow_steps on the other ranks, also after a failure, whose status all ranks then agree on. */
  const tri_status announced = announce_step(t, -1);
  return status != TRI_OK ? status : announced;
}
