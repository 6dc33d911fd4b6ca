/* The log lines of a run before its first step. */
#include "train/train_internal.h"

#include "base/format.h"
#include "base/log.h"
#include "base/memory.h"
#include "checkpoint/folder.h"
#include "data/document_text.h"
#include "device/libraries.h"
#include "files/file.h"
#include "run/learning_rate.h"

#include <string.h>

enum { EXAMPLE_BYTES = 1000 };

/* Logs "19 steps = 2 epochs of 75 sequences". `more`: text to append, or "". */
static void log_epochs(const tri_training *t, double epochs, int64_t per_epoch, const char *more) {
  const long steps = (long)t->config->optimizer.steps;
  char count[32];
  snprintf(count, sizeof count, "%.3g", epochs);
  tri_log("%ld step%s = %s epoch%s of %ld sequence%s%s", steps, TRI_PLURAL(steps), count,
          strcmp(count, "1") == 0 ? "" : "s", (long)per_epoch, TRI_PLURAL(per_epoch), more);
}

/* Returns the number of samples of the whole run: the samples read so far, whatever the batch size was, and those of
 * the remaining steps. */
static int64_t samples_of_run(const tri_training *t) {
  const int64_t left = t->config->optimizer.steps - t->progress.step;
  return t->progress.samples + (left > 0 ? left * t->config->optimizer.global_batch : 0);
}

/* Logs each source's share and its epochs in the whole run, if there are several sources. */
static void announce_sources(const tri_training *t) {
  const tri_sampler *train = &t->data.train;
  const tri_mixture_shares *shares = &train->mixture.shares;
  for (int64_t k = 0; k < shares->num_sources && shares->num_sources > 1; k++) {
    char tokens[32];
    tri_log("  %6.2f %% of the sequences from %s: %s tokens, %.3g epochs in %ld step%s",
            100.0 * (double)shares->counts[k] / (double)shares->period, t->config->data.train[k].path,
            tri_format_count((double)tri_corpus_num_tokens(t->data.train_corpora[k]), tokens, sizeof tokens),
            tri_sampler_epochs(train, k, samples_of_run(t)), (long)t->config->optimizer.steps,
            TRI_PLURAL(t->config->optimizer.steps));
  }
}

/* Warns if the loss has a ratio for each sequence, but weights sequences by their lengths. */
static void warn_of_sequences(const tri_policy_config *policy) {
  switch (policy->loss_type) {
    case TRI_LOSS_TYPE_GRPO: return;
    case TRI_LOSS_TYPE_DAPO:
    case TRI_LOSS_TYPE_DR_GRPO:
    case TRI_LOSS_TYPE_CISPO: break;
  }
  tri_warn(
      "objective.importance_sampling_level sequence with this loss_type weights longer completions more; GSPO has "
      "loss_type grpo (objective.recipe: gspo)");
}

/* Logs the prompts and the batches that the run trains on. */
void tri_training_announce_reinforcement(const tri_training *t) {
  const tri_run_config *config = t->config;
  const tri_policy_config *policy = &config->objective.policy;
  const double updates = (double)(policy->num_iterations * policy->mini_batches);
  const tri_rollout_settings *r = &config->rollout;
  const tri_prompt_source *prompts = &t->data.prompts;
  switch (policy->level) {
    case TRI_RATIO_TOKEN: break;
    case TRI_RATIO_SEQUENCE: warn_of_sequences(policy); break;
  }
  if (prompts->skipped > 0) tri_log("%ld prompts are too long and left out (data.skip_long)", (long)prompts->skipped);
  tri_log("%ld prompts, %ld x %ld completions of up to %ld tokens a batch, %.2f epochs", (long)prompts->count,
          (long)r->prompts, (long)r->num_generations, (long)r->max_completion_length,
          (double)config->optimizer.steps / updates * (double)r->prompts / (double)prompts->count);
  if (tri_reference_is_kept(&t->config->optimizer.settings))
    tri_log("the reference of objective.beta is a copy of the initial weights, which each checkpoint has, too");
}

/* Logs the objective and the preferences that the run trains on. */
void tri_training_announce_preferences(const tri_training *t) {
  const tri_preference_source *source = &t->data.preferences;
  const char *noun = source->options.paired ? "pair" : "answer";
  const long units = (long)(source->num_units - source->left_out);
  const double step_units = (double)units / (double)source->per_epoch * (double)t->config->optimizer.global_batch;
  tri_log("objective %s: %ld %s%s in %ld sequence%s of %ld tokens, about %.0f %ss a step",
          tri_objective_config_name(&t->config->objective), units, noun, TRI_PLURAL(units), (long)source->per_epoch,
          TRI_PLURAL(source->per_epoch), (long)source->options.sequence, step_units, noun);
  if (source->left_out > 0) {
    tri_warn("%ld %s%s longer than a sequence of %ld tokens and left out (data.too_long: %s)", (long)source->left_out,
             noun, source->left_out == 1 ? " is" : "s are", (long)source->options.sequence,
             tri_run_config_too_long(source->options.too_long));
  }
  if (source->shortened > 0) {
    tri_log("%ld %s%s longer than a sequence: the beginning of the prompts is cut (data.too_long: truncate_prompt)",
            (long)source->shortened, noun, source->shortened == 1 ? " is" : "s are");
  }
  log_epochs(t, (double)samples_of_run(t) / (double)source->per_epoch, source->per_epoch, "");
}

/* Logs the length of the run in epochs, if there is only one source or the run file gives the epochs. */
static void announce_epochs(const tri_training *t) {
  const tri_sampler *train = &t->data.train;
  if (train->num_sources > 1 && t->config->optimizer.epochs == 0) return;
  char first[64] = "";
  if (train->sources[0].limited) snprintf(first, sizeof first, " (data.max_samples: the first of the corpus)");
  log_epochs(t, (double)samples_of_run(t) / (double)train->per_epoch, train->per_epoch, first);
}

/* ---- keys that change nothing ------------------------------------------------------------------------------------ */

static bool is_used(const tri_run_config *config, const char *optimizer) {
  for (int g = 0; g < TRI_NUM_GROUPS; g++) {
    const tri_parameter_group group = (tri_parameter_group)g;
    if (strcmp(tri_optimizer_of_group(&config->optimizer.settings, group)->name, optimizer) == 0) return true;
  }
  return false;
}

/* Returns whether a key belongs to the section of an optimizer ("optimizer.muon.") that the run does not use. */
static bool is_of_another(const tri_run_config *config, const char *key) {
#define OPTIMIZER(VALUE, NAME) #NAME,
  static const char *const names[] = {TRI_OPTIMIZERS(OPTIMIZER)};
#undef OPTIMIZER
  const char *section = "optimizer.";
  if (strncmp(key, section, strlen(section)) != 0) return false;
  const char *name = key + strlen(section);
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    const size_t length = strlen(names[i]);
    if (strncmp(name, names[i], length) == 0 && name[length] == '.') return !is_used(config, names[i]);
  }
  return false;
}

/* Warns of a key whose value is not the default, if it belongs to an optimizer that the run does not use. */
static void warn_of_unused_key(void *context, const tri_config_difference *difference) {
  if (!is_of_another(context, difference->key)) return;
  tri_warn("%s %s changes nothing: no group of parameters has that optimizer (optimizer.name)", difference->key,
           difference->right);
}

static void warn_of_unused_optimizers(const tri_run_config *config) {
  tri_run_config *plain = NULL;
  if (tri_alloc("a run with defaults", 1, sizeof *plain, &plain) != TRI_OK) return;
  *plain = *config;
  plain->optimizer.settings = *tri_optimizer_settings_default();
  tri_config_differences(tri_run_config_table(), plain, config, warn_of_unused_key, (void *)(uintptr_t)config);
  tri_free(plain);
}

/* Warns of keys that were set and have no effect because of other keys. */
static void announce_idle(const tri_training *t) {
  const tri_run_config *config = t->config;
  const tri_average_settings *average = &config->optimizer.settings.average,
                             *usual = &tri_optimizer_settings_default()->average;
  const double lr = config->optimizer.lr, min_lr = config->optimizer.min_lr;
  const int64_t steps = config->optimizer.steps;
  if (tri_run_config_rate(config, steps) != min_lr && min_lr > 0 && steps > config->optimizer.warmup) {
    tri_warn("optimizer.min_lr %g is not reached: with this optimizer.decay the rate of the last step is %g", min_lr,
             tri_run_config_rate(config, steps));
  }
  if (config->optimizer.decay == TRI_DECAY_WSD && steps > config->optimizer.warmup && lr > min_lr &&
      tri_run_config_rate(config, steps) == lr) {
    tri_warn("optimizer.decay_fraction %g of %ld steps is less than one step: the rate does not fall",
             config->optimizer.decay_fraction, (long)steps);
  }
  if (steps - t->progress.step == 1 && lr > 0 && tri_run_config_rate(config, steps) == 0) {
    tri_warn(
        "the learning rate of step %ld, the only one to come, is 0, and the step changes nothing: give more steps, "
        "optimizer.min_lr or optimizer.decay=constant",
        (long)steps);
  }
  if (average->every == 0 && (average->decay != usual->decay || average->after != usual->after))
    tri_warn("average.decay and average.after change nothing: with average.every 0 no average is kept");
  warn_of_unused_optimizers(config);
}

/* Warns if the best evaluation so far has no checkpoint, because the run did not keep best checkpoints before,
 * or continues another run. */
static void announce_best(const tri_training *t) {
  const tri_progress *progress = &t->progress;
  char root[TRI_PATH_BYTES], path[TRI_PATH_BYTES];
  if (!t->config->checkpoint.best || progress->best_step == 0) return;
  if (tri_path_join(root, t->config->output, "checkpoints") != TRI_OK) return;
  if (tri_path_join(path, root, TRI_LINK_BEST) != TRI_OK || tri_path_exists(path)) return;
  switch (t->config->evaluation.metric) {
    case TRI_BEST_BY_LOSS:
      tri_warn(
          "the lowest validation loss so far, %.4f after step %ld, has no checkpoint here: %s will point to the first "
          "with a lower one",
          progress->best_loss, (long)progress->best_step, path);
      return;
    case TRI_BEST_BY_ACCURACY:
      tri_warn(
          "the best accuracy so far, %.2f %% after step %ld, has no checkpoint here: %s will point to the first with a "
          "better one",
          100 * progress->best_accuracy, (long)progress->best_step, path);
      return;
    case TRI_BEST_BY_REWARD:
      tri_warn(
          "the best validation reward so far, %.4f after step %ld, has no checkpoint here: %s will point to the first "
          "with a better one",
          progress->best_accuracy, (long)progress->best_step, path);
      return;
  }
}

/* Warns if the validation text is also trained on, under any name, because its loss then says nothing about other text.
 */
static void announce_held_out(const tri_training *t) {
  const tri_identity *identity = &t->identity;
  for (int64_t k = 0; k < t->config->data.num_train && identity->validation[0] != '\0'; k++) {
    if (strcmp(identity->train[k], identity->validation) != 0) continue;
    tri_warn(
        "%s has the same content as %s, which the run trains on, so its loss does not measure other "
        "text",
        t->task->held_out_key, t->config->data.train[k].path);
    return;
  }
}

/* Logs what happens to documents that are longer than a sequence. */
static void announce_too_long(const tri_training *t) {
  const tri_sampler *train = &t->data.train;
  long documents = 0, too_long = 0, left_out = 0, unlearnt = 0;
  for (int64_t k = 0; k < train->mixture.shares.num_sources; k++) {
    const tri_pieces *pieces = &train->sources[k].pieces;
    documents += (long)pieces->documents;
    too_long += (long)pieces->too_long;
    left_out += (long)pieces->left_out;
    unlearnt += (long)pieces->unlearnt;
  }
  if (too_long == 0) return;
  const char *rule = tri_run_config_too_long(t->config->data.too_long);
  tri_log("%ld of %ld documents are longer than a sequence of %ld tokens (data.too_long: %s): %ld tokens are left out",
          too_long, documents, (long)train->sequence, rule, left_out);
  if (unlearnt == 0) return;
  tri_warn(
      "%ld of these %s truncated before anything that is learnt, and teach%s nothing; raise data.sequence, or leave "
      "them "
      "out with data.too_long: drop",
      unlearnt, unlearnt == 1 ? "is" : "are", unlearnt == 1 ? "es" : "");
}

/* Logs how documents are packed into sequences, and whether they are masked. Logs nothing for windows of joined
 * documents without a mask. */
static void announce_documents(const tri_training *t) {
  const tri_sampler *train = &t->data.train;
  bool packed = t->config->data.packing == TRI_PACKING_DOCUMENTS;
  const char *masked = train->masked ? "documents do not see each other (data.documents: masked)" : "";
  double tokens = 0;
  if (!packed && train->masked) tri_log("%s", masked);
  if (!packed) return;
  announce_too_long(t);
  for (int64_t k = 0; k < train->mixture.shares.num_sources; k++) {
    tokens += (double)tri_packing_tokens(train->sources[k].pieces.packing);
  }
  tri_log("documents packed into %ld sequence%s of %ld tokens, %.2f %% of it padding%s%s", (long)train->per_epoch,
          TRI_PLURAL(train->per_epoch), (long)train->sequence,
          100.0 * (1.0 - tokens / ((double)train->per_epoch * (double)train->sequence)), train->masked ? "; " : "",
          masked);
}

/* Warns if the ignored token is the end-of-text token. Padding often has this id, and then ends of documents cannot be
 * distinguished from it. */
static void announce_ignored(const tri_training *t) {
  const int64_t ignored = t->config->data.ignore_token;
  if (ignored < 0 || ignored != t->data.end_of_text) return;
  tri_warn(
      "data.ignore_token %ld is the tokenizer's end-of-text token: where documents end is not learnt, and generated "
      "texts will not end by themselves; pad with another token, or set data.ignore_token to -1",
      (long)ignored);
}

/* Warns of a long run with trireme-test. Its results are the same, but it is not the program that is installed,
 * packaged and measured. */
static void announce_program(const tri_training *t) {
  enum { MANY_STEPS = 1000 };
  const int64_t steps = t->config->optimizer.steps - t->progress.step;
  if (!tri_device_has_kinds_for_tests() || steps < MANY_STEPS) return;
  tri_warn(
      "this is trireme-test, which is for tests of its devices `guarded` and `emulated`; train %ld steps with trireme",
      (long)steps);
}

static double tokens_to_train_on(const tri_training *t) {
  double tokens = 0;
  for (int64_t k = 0; k < t->config->data.num_train; k++) {
    tokens += (double)tri_corpus_num_tokens(t->data.train_corpora[k]);
  }
  return tokens;
}

/* Logs a shortened warm-up, the sequences of an evaluation whose length the run file gives in batches, and the effect
 * of --stop-at; then the length of the run, with a lower bound of its time from the devices' peak, because no step was
 * timed yet. */
static void announce_length(const tri_training *t) {
  const tri_run_config *config = t->config;
  const int64_t steps = config->optimizer.steps - t->progress.step;
  char tokens[32], seconds[32];
  if (config->optimizer.warmup_asked > 0) {
    tri_log("this run has %ld step%s, fewer than the warm-up of %ld; warm-up is shortened to %ld",
            (long)config->optimizer.steps, TRI_PLURAL(config->optimizer.steps), (long)config->optimizer.warmup_asked,
            (long)config->optimizer.warmup);
  }
  if (config->evaluation.batches_asked > 0 && t->data.validation.per_epoch > 0) {
    tri_log(
        "evaluation.batches %ld: an evaluation reads %ld sequence%s; `evaluation.sequences: %ld` says "
        "the same under every layout",
        (long)config->evaluation.batches_asked, (long)config->evaluation.sequences,
        TRI_PLURAL(config->evaluation.sequences), (long)config->evaluation.sequences);
  }
  if (t->stop_at > config->optimizer.steps) {
    tri_warn("--stop-at %ld: this run has %ld step%s, and ends with the last of them", (long)t->stop_at,
             (long)config->optimizer.steps, TRI_PLURAL(config->optimizer.steps));
  } else if (t->stop_at > 0 && t->stop_at < config->optimizer.steps) {
    tri_log("this command ends after step %ld of %ld (--stop-at)", (long)t->stop_at, (long)config->optimizer.steps);
  }
  if (!(t->peak_flops > 0) || tri_training_has_small_products(t) || t->data.prompts.count > 0) return;
  const double all = (double)steps * (double)config->optimizer.global_batch * (double)config->data.sequence;
  tri_log("%ld step%s of %s tokens in all: at least %s, at that peak", (long)steps, TRI_PLURAL(steps),
          tri_format_count(all, tokens, sizeof tokens),
          tri_format_seconds(tri_training_work_flops(t) / t->peak_flops, seconds, sizeof seconds));
}

/* Logs if gradients are accumulated whole: ZeRO 2 and 3 shard them only in steps of one micro-batch (buckets.h). */
static void announce_whole_gradients(const tri_training *t) {
  const tri_layout *layout = &t->config->layout;
  const int64_t micro_batches = tri_layout_micro_batches(layout, t->config->optimizer.global_batch);
  if (layout->zero < 2 || micro_batches == 1) return;
  tri_log("layout.zero %ld does not shard gradients here: with %ld micro-batches a step they are accumulated whole%s",
          (long)layout->zero, (long)micro_batches, layout->zero == 2 ? ", so it is the same as zero 1" : "");
}

void tri_training_announce_text(const tri_training *t) {
  announce_sources(t);
  announce_documents(t);
  announce_epochs(t);
}

/* Returns the corpus of a run of conversations or preferences; NULL for other runs. */
static const tri_corpus *marked_corpus(const tri_training *t) {
  const tri_corpus *train = t->data.train_corpora[0];
  if (t->data.preferences.corpus != NULL) return t->data.preferences.corpus;
  return train != NULL && tri_corpus_has_mask(train) ? train : NULL;
}

/* Logs the end of a document's text, up to EXAMPLE_BYTES, which contains the last answer. */
static tri_status log_example(const tri_corpus *corpus, const tri_tokenizer *tokenizer, int64_t document,
                              const char *name) {
  static const tri_learnt_marks marks = {"[[", "]]"};
  const int64_t first = tri_corpus_document(corpus, document), end = tri_corpus_document(corpus, document + 1);
  char *text = NULL;
  size_t bytes = 0, begin = 0;
  TRI_TRY(tri_document_text(corpus, tokenizer, first, end - first, &marks, &text, &bytes));
  if (bytes > EXAMPLE_BYTES) begin = bytes - EXAMPLE_BYTES;
  while (begin < bytes && ((unsigned char)text[begin] & 0xC0) == 0x80) begin++; /* inside of a character */
  tri_log("%s, with the learnt text in [[ ]]: %s%.*s", name, begin > 0 ? "... " : "", (int)(bytes - begin),
          text == NULL ? "" : text + begin);
  tri_free(text);
  return TRI_OK;
}

/* Logs the first conversation or pair of a run that begins, so that a wrong template or mask is seen. A failure is not
 * reported: the run reads the same tokens, and reports it. */
static void announce_example(const tri_training *t) {
  const tri_corpus *corpus = marked_corpus(t);
  tri_tokenizer *tokenizer = NULL;
  if (corpus == NULL || t->progress.step > 0 || !t->config->data.show_example || t->data.tokenizer[0] == '\0') return;
  if (tri_tokenizer_create(t->data.tokenizer, &tokenizer) != TRI_OK) return;
  switch (tri_corpus_preferences(corpus)) {
    case TRI_PREFERENCES_NONE: (void)log_example(corpus, tokenizer, 0, "the first example"); break;
    case TRI_PREFERENCES_LABELS: (void)log_example(corpus, tokenizer, 0, "the first answer"); break;
    case TRI_PREFERENCES_PAIRS:
      if (log_example(corpus, tokenizer, 0, "the first chosen answer") == TRI_OK)
        (void)log_example(corpus, tokenizer, 1, "the first rejected answer");
      break;
  }
  tri_tokenizer_destroy(tokenizer);
}

char *tri_training_describe_layout(const tri_run_config *config, int64_t ranks, char *buffer, size_t bytes) {
  const tri_layout *layout = &config->layout;
  const long micro_batches = (long)tri_layout_micro_batches(layout, config->optimizer.global_batch);
  snprintf(buffer, bytes,
           "%ld ranks: tensor %ld x pipeline %ld x context %ld x data %ld, zero %ld, %ld micro-batch%s a step",
           (long)ranks, (long)layout->tensor, (long)layout->pipeline, (long)layout->context, (long)layout->data,
           (long)layout->zero, micro_batches, micro_batches == 1 ? "" : "es");
  return buffer;
}

void tri_training_announce(const tri_training *t) {
  const tri_run_config *config = t->config;
  const tri_parameter_table *table = tri_engine_parameters(t->engine);
  char parameters[32], bytes[32], tokens[32], peak[32], now[32], device[128], title[TRI_RUN_TITLE_BYTES];
  tri_run_config_title(config, title, sizeof title);
  tri_log("%s: %s parameters, %s on %s", title,
          tri_format_count((double)table->num_values, parameters, sizeof parameters), tri_dtype_name(config->precision),
          tri_device_describe(t->device, device, sizeof device));
  if (t->mesh.world.size > 1) {
    char text[256];
    tri_log("%s", tri_training_describe_layout(config, t->mesh.world.size, text, sizeof text));
    announce_whole_gradients(t);
  }
  char rate[96] = "no memory left to measure the peak with";
  if (t->peak_flops > 0) {
    tri_format_flops(t->peak_flops, peak, sizeof peak);
    snprintf(rate, sizeof rate, "peak %s measured", peak);
  }
  if (t->peak_flops > t->measured_flops && t->measured_flops > 0) {
    snprintf(rate, sizeof rate, "peak %s measured before (now %s)", peak,
             tri_format_flops(t->measured_flops, now, sizeof now));
  }
  char data[64] = "";
  if (t->data.train_corpora[0] != NULL)
    snprintf(data, sizeof data, "%s tokens to train on, ",
             tri_format_count(tokens_to_train_on(t), tokens, sizeof tokens));
  tri_log("%s%s of memory, %s", data, tri_format_bytes((double)t->predicted_bytes, bytes, sizeof bytes), rate);
  announce_length(t);
  t->task->announce(t);
  announce_held_out(t);
  announce_idle(t);
  announce_best(t);
  announce_ignored(t);
  announce_program(t);
  announce_example(t);
}
