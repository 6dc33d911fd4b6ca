/* Generation: a sequence has the same tokens and probabilities, to the bit, together with any other sequences: with
 * arrivals, forks, continuations, cancelled sequences, small pools in which sequences are preempted, and any numbers of
 * rows and threads. */
#include "brute_likeliest.h"
#include "check.h"
#include "runner_weights.h"

#include "base/memory.h"
#include "base/random.h"
#include "generation/draft.h"
#include "generation/lookup.h"
#include "generation/scheduler.h"

#include <math.h>

enum { MOST_TEXTS = 24, MOST_TOKENS = 190, PROMPTS = 3, VOCAB = 61, POSITIONS = 150, MOST_BESIDE = 5 };

static tri_model make_model(tri_family family, int64_t window) {
  tri_model model = {.family = family,
                     .num_layers = 2,
                     .hidden_size = 32,
                     .num_heads = 4,
                     .num_kv_heads = family == TRI_FAMILY_LLAMA ? 2 : 4,
                     .ffn_size = 48,
                     .vocab_size = VOCAB,
                     .max_sequence = POSITIONS,
                     .window = window,
                     .norm_eps = 1e-5,
                     .init_std = 0.02,
                     .rope_theta = 10000,
                     .rope_scaling.factor = 1,
                     .attention_bias = family == TRI_FAMILY_GPT2,
                     .tied = true};
  if (family == TRI_FAMILY_GPT2) model.ffn_size = model.num_kv_heads = 0;
  CHECK_OK(tri_model_complete(&model));
  return model;
}

typedef struct world {
  tri_device *device;
  tri_runner *runner;
  tri_generator *generator;
} world;

static double uniform(uint64_t stream, uint64_t i) {
  return tri_random_uniform(tri_random_stream(5, TRI_RANDOM_TEST, stream), i);
}

static int64_t below(uint64_t stream, uint64_t i, int64_t end) { return (int64_t)(uniform(stream, i) * (double)end); }

/* `context`: the number of the version, an int; NULL: 0. */
static double drawn_weight(const void *context, int64_t number) {
  const uint64_t version = context == NULL ? 0 : (uint64_t) * (const int *)context;
  return (uniform(1 + 7000 * version, (uint64_t)number) - 0.5) * 0.8;
}

static world make_world(const char *kind, int threads, tri_dtype type, const tri_model *model,
                        const tri_runner_sizes *sizes) {
  world w = {0};
  CHECK_OK(tri_device_create(kind, threads, &w.device));
  CHECK_OK(tri_runner_create(model, type, sizes, NULL, NULL, (tri_lent_memory){0}, w.device, &w.runner));
  CHECK_OK(tri_generator_create(model, type, w.runner, &w.generator));
  CHECK_OK(write_runner_weights(w.runner, model, drawn_weight, NULL));
  return w;
}

static void free_world(world *w) {
  tri_generator_destroy(w->generator);
  tri_runner_destroy(w->runner);
  tri_device_destroy(w->device);
}

/* A text to generate: the request, and its results. */
typedef struct text {
  int64_t prompt, wanted, arrival, scored;
  uint64_t sample;
  int64_t cancelled; /* after that many tokens; 0: never */
  int32_t ids[MOST_TOKENS];
  tri_sequence *sequence;
  world *in;
  int32_t made[MOST_TOKENS];
  int64_t versions[MOST_TOKENS]; /* version of the weights that wrote each token */
  double log_probs[MOST_TOKENS], sampled[MOST_TOKENS], scores[MOST_TOKENS];
  int64_t beside; /* tri_sequence_options.scored_likeliest, up to MOST_BESIDE */
  tri_likely likeliest[MOST_TOKENS * MOST_BESIDE];
  int64_t count;
  tri_finish finish;
} text;

static tri_status add_token(void *context, tri_sequence *sequence, const tri_sampled *sampled, bool *stop) {
  text *t = context;
  (void)sequence;
  t->made[t->count] = sampled->id;
  t->versions[t->count] = sampled->version;
  t->log_probs[t->count] = sampled->log_prob;
  t->sampled[t->count++] = sampled->sampled_log_prob;
  *stop = sampled->id == 7;
  return TRI_OK;
}

static tri_status note_end(void *context, tri_sequence *sequence) {
  text *t = context;
  t->finish = tri_sequence_finish(sequence);
  tri_generator_release(t->in->generator, sequence);
  t->sequence = NULL;
  return TRI_OK;
}

/* Texts of samples 3 and 4 of each five have penalties of their own tokens; those of 4 also have biases. */
static tri_sequence_options options_of(text *t) {
  static const int32_t ends[] = {3};
  static const tri_logit_bias bias[] = {{11, 2}, {3, -100}, {40, 1.5}};
  return (tri_sequence_options){.sampling = {.temperature = t->sample % 3 == 0 ? 0 : 0.9,
                                             .top_k = t->sample % 3 == 1 ? 9 : 0,
                                             .top_p = 1,
                                             .repetition_penalty = t->sample % 2 == 0 ? 1 : 1.2,
                                             .presence_penalty = t->sample % 5 == 3 ? 0.8 : 0,
                                             .frequency_penalty = t->sample % 5 == 4 ? 0.5 : 0,
                                             .bias = bias,
                                             .num_bias = t->sample % 5 == 4 ? 3 : 0,
                                             .seed = 4,
                                             .prompt = (uint64_t)t->prompt,
                                             .sample = t->sample},
                                .ends = ends,
                                .num_ends = 1,
                                .wanted = t->wanted,
                                .requested = {.log_prob = true},
                                .scored = t->scored,
                                .scores = t->scores,
                                .scored_likeliest = t->beside,
                                .likeliest = t->likeliest,
                                .observer = {.context = t, .token = add_token, .done = note_end}};
}

/* Prompts of a few kinds, some the same, some with the same beginning. */
static void draw_texts(text *texts, uint64_t seed) {
  memset(texts, 0, MOST_TEXTS * sizeof *texts);
  for (uint64_t i = 0; i < MOST_TEXTS; i++) {
    const int64_t kind = below(100 + seed, 10 * i, PROMPTS), length = 1 + below(100 + seed, 10 * i + 1, 140);
    texts[i].prompt = length;
    texts[i].wanted = 1 + below(100 + seed, 10 * i + 2, 40);
    texts[i].arrival = below(100 + seed, 10 * i + 3, 30);
    texts[i].sample = (uint64_t)below(100 + seed, 10 * i + 4, 5);
    texts[i].cancelled = uniform(100 + seed, 10 * i + 5) < 0.2 ? 1 + below(100 + seed, 10 * i + 6, 9) : 0;
    texts[i].scored = uniform(100 + seed, 10 * i + 7) < 0.3 ? below(100 + seed, 10 * i + 8, length) : 0;
    texts[i].beside = below(100 + seed, 10 * i + 9, MOST_BESIDE + 1);
    for (int64_t j = 0; j < length; j++) texts[i].ids[j] = (int32_t)below(200 + (uint64_t)kind, (uint64_t)j, VOCAB);
  }
}

static void run_alone(const char *kind, tri_dtype type, const tri_model *model, text *t) {
  const tri_runner_sizes sizes = tri_runner_sizes_for(1, POSITIONS);
  world w = make_world(kind, 1, type, model, &sizes);
  const tri_sequence_options options = options_of(t);
  t->in = &w;
  CHECK_OK(tri_generator_begin(w.generator, t->ids, t->prompt, &options, &t->sequence));
  CHECK_OK(tri_generator_run(w.generator));
  free_world(&w);
}

/* A proposer that knows the texts, and is wrong now and then. */
typedef struct knowing {
  const text *texts; /* [MOST_TEXTS], as they are alone */
  uint64_t asked;
} knowing;

static const text *find_text(const knowing *k, const tri_guess *g) {
  for (int i = 0; i < MOST_TEXTS; i++) {
    const text *t = &k->texts[i];
    const size_t made = (size_t)(g->count - t->prompt);
    if (g->count < t->prompt || g->count - t->prompt > t->count || t->sample != g->sampling->sample) continue;
    if (memcmp(t->ids, g->ids, (size_t)t->prompt * sizeof *t->ids) == 0 &&
        memcmp(t->made, g->ids + t->prompt, made * sizeof *t->made) == 0)
      return t;
  }
  return NULL;
}

static tri_status guess_knowing(void *context, tri_guess *guesses, int64_t count) {
  knowing *k = context;
  for (int64_t i = 0; i < count; i++) {
    tri_guess *g = &guesses[i];
    const text *t = find_text(k, g);
    const int64_t wanted = below(500, k->asked++, g->most + 1);
    for (g->found = 0; g->found < wanted; g->found++) {
      const int64_t at = t == NULL ? MOST_TOKENS : g->count - t->prompt + g->found;
      const bool wrong = at >= MOST_TOKENS || at >= t->count || uniform(501, k->asked++) < 0.2;
      g->out[g->found] = wrong ? (int32_t)below(502, k->asked, VOCAB + 1) : t->made[at];
    }
  }
  return TRI_OK;
}

/* Generates all texts in runs of few rows and few pages; each text begins when it arrives. By seed % 3 there are no
 * guesses, guesses from the texts that were generated alone, or guesses of a draft model, which is the model itself. */
static void run_together(const char *kind, tri_dtype type, const tri_model *model, text *texts, const text *alone,
                         uint64_t seed) {
  tri_runner_sizes sizes = tri_runner_sizes_for(1 + below(300, 10 * seed, 6), POSITIONS);
  sizes.rows = sizes.sequences + below(300, 10 * seed + 1, 90);
  sizes.logit_rows = sizes.sequences + below(300, 10 * seed + 2, sizes.rows - sizes.sequences + 1);
  sizes.pages = 3 + below(300, 10 * seed + 3, 8);
  world w = make_world(kind, 1 + (int)below(300, 10 * seed + 4, 3), type, model, &sizes), drafting = {0};
  knowing knows = {.texts = alone};
  tri_draft draft;
  bool more = true;
  if (seed % 3 == 1)
    tri_generator_set_proposer(w.generator, &(tri_proposer){.context = &knows, .guess = guess_knowing},
                               1 + (int64_t)seed % 7);
  if (seed % 3 == 2) {
    const tri_runner_sizes of_draft = tri_runner_sizes_for(sizes.sequences, POSITIONS - 20);
    drafting = make_world(kind, 1, type, model, &of_draft);
    draft = (tri_draft){drafting.generator, of_draft.positions, VOCAB};
    const tri_proposer proposer = tri_draft_proposer(&draft);
    tri_generator_set_proposer(w.generator, &proposer, 1 + (int64_t)seed % 5);
  }
  for (int64_t now = 0; more || now < 40; now++) {
    for (int i = 0; i < MOST_TEXTS; i++) {
      if (texts[i].arrival != now) continue;
      const tri_sequence_options options = options_of(&texts[i]);
      texts[i].in = &w;
      CHECK_OK(tri_generator_begin(w.generator, texts[i].ids, texts[i].prompt, &options, &texts[i].sequence));
    }
    CHECK_OK(tri_generator_step(w.generator, &more));
    for (int i = 0; i < MOST_TEXTS; i++) {
      text *t = &texts[i];
      if (t->sequence == NULL || t->cancelled == 0 || t->count < t->cancelled) continue;
      tri_generator_release(w.generator, t->sequence);
      t->sequence = NULL;
    }
  }
  const tri_generator_counts counts = tri_generator_count(w.generator);
  assert_int_equal(counts.sequences, 0);
  assert_int_equal(counts.free_pages, sizes.pages);
  assert_true(seed % 3 == 0 ? counts.guessed == 0 : counts.kept > 0 && counts.kept <= counts.guessed);
  free_world(&w);
  if (drafting.generator == NULL) return;
  assert_int_equal(tri_generator_count(drafting.generator).sequences, 0);
  free_world(&drafting);
}

static void compare(const text *got, const text *wanted) {
  const size_t count = (size_t)got->count;
  if (got->cancelled == 0) {
    assert_int_equal(got->count, wanted->count);
    assert_int_equal(got->finish, wanted->finish);
  }
  assert_true(got->count <= wanted->count);
  assert_memory_equal(got->made, wanted->made, count * sizeof *got->made);
  assert_memory_equal(got->log_probs, wanted->log_probs, count * sizeof *got->log_probs);
  assert_memory_equal(got->sampled, wanted->sampled, count * sizeof *got->sampled);
  if (got->count == 0) return;
  assert_memory_equal(got->scores, wanted->scores, sizeof got->scores);
  for (int64_t i = 0; i < got->scored * got->beside; i++) {
    assert_int_equal(got->likeliest[i].id, wanted->likeliest[i].id);
    assert_true(got->likeliest[i].log_prob == wanted->likeliest[i].log_prob);
  }
}

static void check_bits(const char *kind, tri_dtype type, tri_family family, int64_t window, uint64_t seed) {
  const tri_model model = make_model(family, window);
  text *texts = calloc(MOST_TEXTS, sizeof *texts), *alone = calloc(MOST_TEXTS, sizeof *alone);
  draw_texts(texts, seed);
  memcpy(alone, texts, MOST_TEXTS * sizeof *texts);
  for (int i = 0; i < MOST_TEXTS; i++) run_alone(kind, type, &model, &alone[i]);
  run_together(kind, type, &model, texts, alone, seed);
  for (int i = 0; i < MOST_TEXTS; i++) compare(&texts[i], &alone[i]);
  free(texts);
  free(alone);
}

static void test_bits(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < 6; seed++) {
    check_bits("cpu", TRI_FP32, TRI_FAMILY_GPT2, 0, seed);
    check_bits("cpu", TRI_BF16, TRI_FAMILY_LLAMA, seed % 2 == 0 ? 0 : 37, seed + 20);
  }
  check_bits("cpu:baseline", TRI_FP32, TRI_FAMILY_LLAMA, 50, 41);
  check_bits("reference", TRI_FP64, TRI_FAMILY_LLAMA, 0, 42);
}

/* ---- new weights ------------------------------------------------------------------------------------------------- */

enum { VERSIONS = 4, FIRST_VERSION = 1 /* of weights that have been written once */ };

/* Writes the weights of version number `version`, from 0 on, and publishes them. */
static void change_weights(world *w, const tri_model *model, int version, tri_publish_rule rule) {
  CHECK_OK(write_runner_weights(w->runner, model, drawn_weight, &version));
  CHECK_OK(tri_generator_publish(w->generator, rule));
  assert_int_equal(tri_runner_version(w->runner), version + FIRST_VERSION);
}

/* Compares each token with the one that a generator draws which has read only that version's weights, and the text so
 * far in one piece. */
static void check_versions(world *cold, const text *t, int version, int64_t *compared) {
  for (int64_t i = 0; i < t->count; i++) {
    text one = *t;
    if (t->versions[i] != version + FIRST_VERSION) continue;
    memcpy(one.ids + t->prompt, t->made, (size_t)i * sizeof *t->made);
    one.prompt = t->prompt + i;
    one.wanted = 1;
    one.scored = one.count = 0;
    one.in = cold;
    tri_sequence_options options = options_of(&one);
    options.sampling.prompt = (uint64_t)t->prompt;
    CHECK_OK(tri_generator_begin(cold->generator, one.ids, one.prompt, &options, &one.sequence));
    CHECK_OK(tri_generator_run(cold->generator));
    assert_int_equal(one.made[0], t->made[i]);
    assert_true(one.log_probs[0] == t->log_probs[i]);
    ++*compared;
  }
}

static void check_publishing(const char *kind, tri_dtype type, tri_family family, int64_t window, uint64_t seed) {
  const tri_model model = make_model(family, window);
  text *texts = calloc(MOST_TEXTS, sizeof *texts);
  tri_runner_sizes sizes = tri_runner_sizes_for(1 + below(600, 10 * seed, 6), POSITIONS);
  int64_t compared = 0, published[VERSIONS];
  sizes.pages = 3 + below(600, 10 * seed + 1, 8);
  world w = make_world(kind, 2, type, &model, &sizes);
  bool more = true;
  draw_texts(texts, seed);
  for (int i = 0; i < MOST_TEXTS; i++) { /* none slides: the cold generator could not repeat where */
    texts[i].sample %= 3;                /* to the cold generator, all tokens but one are given: no penalties */
    if (texts[i].wanted > POSITIONS - texts[i].prompt) texts[i].wanted = POSITIONS - texts[i].prompt;
  }
  for (int i = 1; i < VERSIONS; i++) published[i] = below(601, 10 * seed + (uint64_t)i, 60);
  for (int64_t now = 0, version = 0; more || now < 60; now++) {
    for (int i = 0; i < MOST_TEXTS; i++) {
      if (texts[i].arrival != now) continue;
      texts[i].cancelled = texts[i].scored = 0;
      texts[i].in = &w;
      const tri_sequence_options options = options_of(&texts[i]);
      CHECK_OK(tri_generator_begin(w.generator, texts[i].ids, texts[i].prompt, &options, &texts[i].sequence));
    }
    for (int i = 1; i < VERSIONS; i++) {
      if (published[i] != now) continue;
      const bool between = uniform(602, 10 * seed + (uint64_t)i) < 0.4;
      if (between) CHECK_OK(tri_generator_drain(w.generator));
      change_weights(&w, &model, (int)++version, between ? TRI_PUBLISH_BETWEEN : TRI_PUBLISH_READ_AGAIN);
    }
    CHECK_OK(tri_generator_step(w.generator, &more));
  }
  assert_int_equal(tri_generator_count(w.generator).free_pages, sizes.pages);
  free_world(&w);
  for (int version = 0; version < VERSIONS; version++) {
    const tri_runner_sizes alone = tri_runner_sizes_for(1, POSITIONS);
    world cold = make_world(kind, 1, type, &model, &alone);
    CHECK_OK(write_runner_weights(cold.runner, &model, drawn_weight, &version));
    for (int i = 0; i < MOST_TEXTS; i++) check_versions(&cold, &texts[i], version, &compared);
    free_world(&cold);
  }
  for (int i = 0; i < MOST_TEXTS; i++) compared -= texts[i].count;
  assert_int_equal(compared, 0); /* each token had one of the versions */
  free(texts);
}

static void test_publishing(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < 4; seed++) {
    check_publishing("cpu", TRI_FP32, TRI_FAMILY_GPT2, 0, seed);
    check_publishing("cpu", TRI_BF16, TRI_FAMILY_LLAMA, seed % 2 == 0 ? 0 : 37, seed + 30);
  }
}

/* Weights that changed without a word, and new ones in the middle of a text that is to end with its own. */
static void test_publishing_is_checked(void **state) {
  (void)state;
  const tri_model model = make_model(TRI_FAMILY_GPT2, 0);
  const tri_runner_sizes sizes = tri_runner_sizes_for(2, POSITIONS);
  const int version = 1;
  const int32_t ids[] = {5, 6};
  const tri_sequence_options options = {.sampling = {.temperature = 1, .top_p = 1, .repetition_penalty = 1},
                                        .wanted = 9};
  world w = make_world("cpu", 1, TRI_FP32, &model, &sizes);
  tri_sequence *sequence = NULL;
  bool more = false;
  CHECK_OK(tri_generator_begin(w.generator, ids, 2, &options, &sequence));
  CHECK_OK(tri_generator_step(w.generator, &more));
  CHECK_OK(write_runner_weights(w.runner, &model, drawn_weight, &version));
  CHECK_FAILS(tri_generator_step(w.generator, &more), TRI_INTERNAL,
              "the cached keys are of weights of version 1, and the weights have version 2 by now");
  CHECK_FAILS(tri_generator_publish(w.generator, TRI_PUBLISH_BETWEEN), TRI_INTERNAL,
              "new weights are published while 1 sequences are in progress");
  CHECK_OK(tri_generator_publish(w.generator, TRI_PUBLISH_READ_AGAIN));
  CHECK_OK(tri_generator_run(w.generator));
  assert_int_equal(tri_sequence_sampled(sequence), 9);
  free_world(&w);
}

/* ---- forks and continuations ------------------------------------------------------------------------------------- */

/* A prompt that is read once and forked, and an answer that is continued, beside one piece. */
static void test_forks(void **state) {
  (void)state;
  const tri_model model = make_model(TRI_FAMILY_LLAMA, 0);
  for (int64_t length = 1; length < 140; length += length < 60 ? 23 : 1 + length % 5) {
    tri_runner_sizes sizes = tri_runner_sizes_for(3, POSITIONS);
    sizes.pages = length % 2 == 0 ? 9 : 4;
    world w = make_world("cpu", 2, TRI_FP32, &model, &sizes);
    text texts[4] = {{0}}, alone[4];
    tri_sequence *prompt = NULL;
    for (uint64_t i = 0; i < 4; i++) {
      texts[i] = (text){.prompt = length, .wanted = 9, .sample = i};
      for (int64_t j = 0; j < length; j++) texts[i].ids[j] = (int32_t)below(200, (uint64_t)j, VOCAB);
    }
    memcpy(alone, texts, sizeof texts);
    CHECK_OK(tri_generator_begin(w.generator, texts[0].ids, length, &(tri_sequence_options){0}, &prompt));
    CHECK_OK(tri_generator_run(w.generator));
    assert_int_equal(tri_sequence_finish(prompt), TRI_FINISH_READ);
    const int64_t read = tri_generator_count(w.generator).rows;
    for (int i = 0; i < 4; i++) {
      const tri_sequence_options options = options_of(&texts[i]);
      texts[i].in = &w;
      CHECK_OK(tri_generator_fork(w.generator, prompt, NULL, 0, &options, &texts[i].sequence));
    }
    CHECK_OK(tri_generator_run(w.generator));
    if (sizes.pages == 9) assert_true(tri_generator_count(w.generator).rows - read <= 4 * 9); /* none is read again */
    for (int i = 0; i < 4; i++) {
      run_alone("cpu", TRI_FP32, &model, &alone[i]);
      compare(&texts[i], &alone[i]);
    }
    /* The prompt goes on: with the first text's tokens, all of whose probabilities are asked for. */
    double scores[MOST_TOKENS] = {0};
    const text *first = &texts[0];
    if (first->count > 0) {
      CHECK_OK(tri_generator_extend(w.generator, prompt, first->made, first->count,
                                    &(tri_sequence_options){.scored = first->count, .scores = scores}));
      CHECK_OK(tri_generator_run(w.generator));
      assert_memory_equal(scores, first->log_probs, (size_t)first->count * sizeof *scores);
    }
    tri_generator_release(w.generator, prompt);
    free_world(&w);
  }
}

/* A fork that is cancelled before it has read its first token still refers to the last page of its original. The
 * original is rewound and gets other tokens; then the fork continues from the tokens that it was begun with. */
static void test_rewound_under_a_fork(void **state) {
  (void)state;
  enum { LENGTH = 40, REWOUND = 10 };
  const tri_model model = make_model(TRI_FAMILY_LLAMA, 0);
  const tri_runner_sizes sizes = tri_runner_sizes_for(2, POSITIONS);
  const tri_sequence_options none = {0};
  world w = make_world("cpu", 1, TRI_FP32, &model, &sizes);
  tri_sequence *original = NULL, *fork = NULL;
  text forked = {.prompt = LENGTH, .wanted = 9, .sample = 1, .in = &w}, alone;
  for (int64_t j = 0; j < LENGTH; j++) forked.ids[j] = (int32_t)below(200, (uint64_t)j, VOCAB);
  alone = forked;
  CHECK_OK(tri_generator_begin(w.generator, forked.ids, LENGTH, &none, &original));
  CHECK_OK(tri_generator_run(w.generator));
  CHECK_OK(tri_generator_fork(w.generator, original, NULL, 0, &none, &fork));
  CHECK_OK(tri_generator_cancel(w.generator, fork));
  tri_generator_rewind(w.generator, original, REWOUND);
  CHECK_OK(tri_generator_extend(w.generator, original, (int32_t[30]){9, 8, 7}, 30, &none));
  CHECK_OK(tri_generator_run(w.generator));
  const tri_sequence_options options = options_of(&forked);
  CHECK_OK(tri_generator_extend(w.generator, fork, NULL, 0, &options));
  CHECK_OK(tri_generator_run(w.generator));
  run_alone("cpu", TRI_FP32, &model, &alone);
  compare(&forked, &alone);
  tri_generator_release(w.generator, original);
  free_world(&w);
}

/* ---- scored tokens ----------------------------------------------------------------------------------------------- */

static tri_status keep_sampled(void *context, tri_sequence *sequence, const tri_sampled *sampled, bool *stop) {
  (void)sequence;
  (void)stop;
  *(tri_sampled *)context = *sampled;
  return TRI_OK;
}

/* Scores the last tokens of ids[count], and compares their likeliest tokens with the logits [count, model->vocab_size].
 */
static void check_likeliest(world *w, const tri_model *model, tri_dtype type, const int32_t *ids, int64_t count,
                            int64_t scored, int64_t beside, const char *logits) {
  const size_t row_bytes = (size_t)model->vocab_size * tri_dtype_bytes(tri_dtype_wide(type));
  double scores[MOST_TOKENS], plain[MOST_TOKENS];
  tri_likely likeliest[MOST_TOKENS * TRI_MOST_LIKELY];
  tri_sampled next = {.id = -1};
  tri_sequence *s = NULL, *without = NULL;
  tri_sequence_options options = {.sampling = {.top_p = 1, .repetition_penalty = 1},
                                  .wanted = 1,
                                  .requested.likeliest = 2,
                                  .scored = scored,
                                  .scores = scores,
                                  .scored_likeliest = beside,
                                  .likeliest = likeliest,
                                  .observer = {.context = &next, .token = keep_sampled}};
  CHECK_OK(tri_generator_begin(w->generator, ids, count, &options, &s));
  options = (tri_sequence_options){.scored = scored, .scores = plain};
  CHECK_OK(tri_generator_begin(w->generator, ids, count, &options, &without));
  CHECK_OK(tri_generator_run(w->generator));
  assert_memory_equal(scores, plain, (size_t)scored * sizeof *scores);
  for (int64_t i = 0, at = count - scored; i < scored; i++, at++)
    assert_true(likeliest_are_right(logits + (size_t)(at - 1) * row_bytes, tri_dtype_wide(type), model->vocab_size,
                                    ids[at], scores[i], likeliest + i * beside, beside));
  assert_int_equal(next.id, next.likeliest[0].id);
  assert_true(next.log_prob == next.likeliest[0].log_prob);
  tri_generator_release(w->generator, s);
  tri_generator_release(w->generator, without);
}

/* The second half of the tokens is the most likely text after the first half, so each of these is its own likeliest. */
static void check_scored(const char *kind, tri_dtype type, int64_t vocab_size) {
  enum { HALF = 45, COUNT = 2 * HALF };
  tri_model model = make_model(TRI_FAMILY_LLAMA, 0);
  tri_runner_sizes sizes = tri_runner_sizes_for(2, POSITIONS), whole = tri_runner_sizes_for(1, POSITIONS);
  int32_t ids[COUNT];
  int64_t count = 0;
  const void *logits = NULL;
  tri_sequence *s = NULL;
  model.vocab_size = vocab_size;
  sizes.rows = 20; /* several steps */
  sizes.logit_rows = 17;
  whole.rows = whole.logit_rows = POSITIONS;
  world w = make_world(kind, 2, type, &model, &sizes), brute = make_world(kind, 1, type, &model, &whole);
  for (int64_t i = 0; i < HALF; i++) ids[i] = (int32_t)below(700, (uint64_t)i, vocab_size);
  const tri_sequence_options options = {.sampling = {.top_p = 1, .repetition_penalty = 1}, .wanted = HALF};
  CHECK_OK(tri_generator_begin(w.generator, ids, HALF, &options, &s));
  CHECK_OK(tri_generator_run(w.generator));
  const int32_t *all = tri_sequence_ids(s, &count);
  assert_int_equal(count, COUNT);
  memcpy(ids, all, sizeof ids);
  tri_generator_release(w.generator, s);
  CHECK_OK(read_whole(brute.runner, ids, COUNT, &logits));
  check_likeliest(&w, &model, type, ids, COUNT, COUNT - 1, 1, logits);
  check_likeliest(&w, &model, type, ids, COUNT, COUNT - 1, 5, logits);
  check_likeliest(&w, &model, type, ids, COUNT, 30, TRI_MOST_LIKELY, logits);
  free_world(&w);
  free_world(&brute);
}

static void test_likeliest_beside_scored(void **state) {
  (void)state;
  check_scored("cpu", TRI_FP32, VOCAB);
  check_scored("cpu", TRI_BF16, VOCAB);
  check_scored("cpu", TRI_FP32, 3); /* fewer tokens than requested */
  check_scored("reference", TRI_FP64, VOCAB);
}

/* ---- windows ----------------------------------------------------------------------------------------------------- */

/* If every layer has a window, the pages before the window are freed: long texts are generated with few pages, forked
 * and continued. */
static void test_windows_give_pages_back(void **state) {
  (void)state;
  enum { LONG = 700, WINDOW = 70, ROWS = 20 };
  tri_model model = make_model(TRI_FAMILY_LLAMA, WINDOW);
  int32_t ids[LONG], expected[2][60];
  model.max_sequence = LONG;
  for (int i = 0; i < LONG; i++) ids[i] = (int32_t)below(600, (uint64_t)i, VOCAB);
  for (int small = 0; small < 2; small++) {
    tri_runner_sizes sizes = tri_runner_sizes_for(2, LONG);
    sizes.rows = ROWS;
    sizes.logit_rows = 12;
    const int64_t few = tri_schedule_pages(LONG, TRI_PAGE_ROWS, WINDOW, ROWS);
    assert_int_equal(few, 3);
    if (small) sizes.pages = few + 2;
    world w = make_world("cpu", 1, TRI_FP32, &model, &sizes);
    tri_sequence *first = NULL, *second = NULL;
    const tri_sequence_options options = {.sampling = {.temperature = 1, .top_p = 1, .repetition_penalty = 1},
                                          .wanted = 30};
    CHECK_OK(tri_generator_begin(w.generator, ids, 600, &options, &first));
    CHECK_OK(tri_generator_run(w.generator));
    CHECK_OK(tri_generator_fork(w.generator, first, ids, 5, &options, &second));
    CHECK_OK(tri_generator_extend(w.generator, first, ids + 9, 2, &options));
    CHECK_OK(tri_generator_run(w.generator));
    tri_generator_rewind(w.generator, first, 500); /* earlier pages are freed, so their tokens are read again */
    CHECK_OK(tri_generator_extend(w.generator, first, ids, 1, &options));
    CHECK_OK(tri_generator_run(w.generator));
    tri_sequence *sequences[] = {first, second};
    for (int i = 0; i < 2; i++) {
      int64_t count = 0;
      const int32_t *all = tri_sequence_ids(sequences[i], &count);
      if (small) {
        assert_memory_equal(expected[i], all + count - 60, sizeof expected[i]);
      } else {
        memcpy(expected[i], all + count - 60, sizeof expected[i]);
      }
      tri_generator_release(w.generator, sequences[i]);
    }
    assert_int_equal(tri_generator_count(w.generator).free_pages, sizes.pages);
    free_world(&w);
  }
}

/* ---- guesses ----------------------------------------------------------------------------------------------------- */

static void test_lookup(void **state) {
  (void)state;
  static const int32_t ids[] = {1, 2, 3, 4, 5, 2, 3, 6, 7, 1, 2, 3}, new[] = {1, 2, 3, 4, 5}, same[] = {8, 8, 8};
  int32_t out[TRI_MOST_GUESSES];
  assert_int_equal(tri_lookup(ids, 12, 3, out), 3); /* 1 2 3 stood at the beginning; 2 3 later, too */
  assert_memory_equal(out, ((int32_t[]){4, 5, 2}), 12);
  assert_int_equal(tri_lookup(ids, 7, 16, out), 4); /* all tokens after the first 2 3 */
  assert_memory_equal(out, ((int32_t[]){4, 5, 2, 3}), 16);
  assert_int_equal(tri_lookup(new, 5, 4, out), 0);
  assert_int_equal(tri_lookup(same, 3, 4, out), 1);
  assert_int_equal(tri_lookup(same, 1, 4, out), 0);
}

/* The policy uses the faster way, and sometimes tries the slower one. */
static void test_policy(void **state) {
  (void)state;
  for (int faster = 0; faster < 2; faster++) {
    tri_guess_policy policy = {0};
    int64_t with = 0, without = 0;
    for (int i = 0; i < 5000; i++) {
      const bool guesses = tri_guess_policy_guesses(&policy);
      with += guesses;
      without += !guesses;
      tri_guess_policy_note(&policy, guesses ? 2 : 1, guesses && !faster ? 2.1 : 1);
    }
    assert_true(faster ? without < 350 && without > 200 : with < 350 && with > 200);
  }
}

static tri_status note_finish(void *context, tri_sequence *sequence) {
  *(tri_finish *)context = tri_sequence_finish(sequence);
  return TRI_OK;
}

/* ---- bad input --------------------------------------------------------------------------------------------------- */

static void test_refusals(void **state) {
  (void)state;
  const tri_model model = make_model(TRI_FAMILY_GPT2, 0);
  tri_runner_sizes sizes = tri_runner_sizes_for(2, POSITIONS);
  sizes.pages = 1;
  world w = make_world("cpu", 1, TRI_FP32, &model, &sizes);
  tri_sequence *s = NULL;
  const int32_t ids[70] = {0}, beyond[] = {1, VOCAB};
  CHECK_FAILS(tri_generator_begin(w.generator, ids, 70, &(tri_sequence_options){.wanted = 9}, &s), TRI_BAD_USAGE,
              "a sequence of 70 tokens and 9 to be written takes 2 pages of 64 positions, and the cache has 1");
  CHECK_FAILS(tri_generator_begin(w.generator, beyond, 2, &(tri_sequence_options){.wanted = 9}, &s), TRI_BAD_USAGE,
              "token 1 is 61, and the model's vocabulary has 0 to 60");
  CHECK_FAILS(tri_generator_begin(w.generator, ids, 0, &(tri_sequence_options){.wanted = 9}, &s), TRI_BAD_USAGE,
              "a sequence of no tokens");
  CHECK_FAILS(tri_generator_begin(w.generator, ids, 5, &(tri_sequence_options){.scored = 5}, &s), TRI_BAD_USAGE,
              "5 tokens of 5 cannot be scored");
  CHECK_FAILS(
      tri_generator_begin(w.generator, ids, 5, &(tri_sequence_options){.scored = 1, .scored_likeliest = 21}, &s),
      TRI_BAD_USAGE, "21 likeliest tokens were requested for each scored one, and 0 to 20 are possible");
  const tri_logit_bias outside = {VOCAB, 1}, endless = {4, -INFINITY};
  CHECK_FAILS(
      tri_generator_begin(w.generator, ids, 5,
                          &(tri_sequence_options){.sampling = {.bias = &outside, .num_bias = 1}, .wanted = 1}, &s),
      TRI_BAD_USAGE, "a bias of token 61, and the model's vocabulary has 0 to 60");
  CHECK_FAILS(
      tri_generator_begin(w.generator, ids, 5,
                          &(tri_sequence_options){.sampling = {.bias = &endless, .num_bias = 1}, .wanted = 1}, &s),
      TRI_BAD_USAGE, "token 4 has a bias of -inf, which is not finite");
  CHECK_FAILS(tri_generator_begin(w.generator, ids, 5,
                                  &(tri_sequence_options){.sampling.presence_penalty = NAN, .wanted = 1}, &s),
              TRI_BAD_USAGE, "a presence penalty of nan");
  assert_null(s);
  /* What cannot be continued stays as it was. */
  CHECK_OK(tri_generator_begin(w.generator, ids, 60, &(tri_sequence_options){0}, &s));
  CHECK_OK(tri_generator_run(w.generator));
  CHECK_FAILS(tri_generator_extend(w.generator, s, ids, 9, &(tri_sequence_options){.wanted = 1}), TRI_BAD_USAGE,
              "a sequence of 69 tokens and 1 to be written takes 2 pages of 64 positions");
  int64_t count = 0;
  tri_sequence_ids(s, &count);
  assert_int_equal(count, 60);
  CHECK_OK(tri_generator_extend(w.generator, s, ids, 2,
                                &(tri_sequence_options){.sampling.repetition_penalty = 1, .wanted = 2}));
  CHECK_OK(tri_generator_run(w.generator));
  assert_int_equal(tri_sequence_sampled(s), 2);
  tri_generator_release(w.generator, s);
  assert_int_equal(tri_generator_count(w.generator).sequences, 0);
  assert_int_equal(tri_generator_count(w.generator).free_pages, 1);
  free_world(&w);
}

/* When a sequence is cancelled, its observer is called and its tokens are kept; it can be continued. */
static void test_cancelled(void **state) {
  (void)state;
  const tri_model model = make_model(TRI_FAMILY_GPT2, 0);
  const tri_runner_sizes sizes = tri_runner_sizes_for(1, POSITIONS);
  world w = make_world("cpu", 1, TRI_FP32, &model, &sizes);
  tri_finish told[2] = {0};
  tri_sequence *s[2];
  const int32_t ids[] = {1, 2, 3};
  bool more = false;
  for (int i = 0; i < 2; i++) { /* the second waits for a place */
    const tri_sequence_options options = {
        .sampling.repetition_penalty = 1, .wanted = 9, .observer = {.context = &told[i], .done = note_finish}};
    CHECK_OK(tri_generator_begin(w.generator, ids, 3, &options, &s[i]));
  }
  CHECK_OK(tri_generator_step(w.generator, &more));
  CHECK_OK(tri_generator_step(w.generator, &more));
  CHECK_OK(tri_generator_cancel_all(w.generator));
  CHECK_OK(tri_generator_step(w.generator, &more));
  assert_false(more);
  assert_int_equal(told[0], TRI_FINISH_CANCELLED);
  assert_int_equal(told[1], TRI_FINISH_CANCELLED);
  assert_int_equal(tri_sequence_sampled(s[0]), 2);
  assert_int_equal(tri_sequence_sampled(s[1]), 0);
  CHECK_OK(tri_generator_extend(w.generator, s[1], ids, 1,
                                &(tri_sequence_options){.sampling.repetition_penalty = 1, .wanted = 2}));
  CHECK_OK(tri_generator_run(w.generator));
  assert_int_equal(tri_sequence_finish(s[1]), TRI_FINISH_LENGTH);
  for (int i = 0; i < 2; i++) tri_generator_release(w.generator, s[i]);
  free_world(&w);
}

/* Generates one token for each of `count` sequences of `length` tokens. */
static void write_one_each(world *w, int64_t count, int64_t length) {
  enum { MOST = 16 };
  const int32_t ids[MOST] = {0};
  tri_sequence *sequences[MOST];
  for (int64_t i = 0; i < count; i++)
    CHECK_OK(tri_generator_begin(w->generator, ids, length,
                                 &(tri_sequence_options){.sampling = {.repetition_penalty = 1.2}, .wanted = 1},
                                 &sequences[i]));
  CHECK_OK(tri_generator_run(w->generator));
  for (int64_t i = 0; i < count; i++) tri_generator_release(w->generator, sequences[i]);
}

/* Many texts, a third of them cancelled: slots, pages and memory are as they were. */
static void test_nothing_is_left(void **state) {
  (void)state;
  enum { ALL = 10000, WAITING = 20, SIDE_BY_SIDE = 8, ROWS = 10 };
  const tri_model model = make_model(TRI_FAMILY_GPT2, 0);
  tri_runner_sizes sizes = tri_runner_sizes_for(SIDE_BY_SIDE, POSITIONS);
  sizes.pages = 14;
  sizes.rows = sizes.logit_rows = ROWS;
  const size_t before = tri_memory_bytes();
  world w = make_world("cpu", 1, TRI_FP32, &model, &sizes);
  text *texts = calloc(WAITING, sizeof *texts);
  int64_t begun = 0;
  bool more = true;
  /* The device keeps a plan of the products of each number of rows, and of logits; the host's sampler its memory. */
  for (int64_t rows = 1; rows <= ROWS; rows++) write_one_each(&w, 1, rows);
  for (int64_t rows = 1; rows <= SIDE_BY_SIDE; rows++) write_one_each(&w, rows, 1);
  const size_t first = tri_memory_bytes();
  while (more || begun < ALL) {
    for (int i = 0; i < WAITING && begun < ALL; i++) {
      text *t = &texts[i];
      if (t->sequence != NULL) continue;
      *t = (text){.prompt = 1 + below(400, (uint64_t)begun, begun % 4 == 0 ? 120 : 10),
                  .wanted = 1 + below(401, (uint64_t)begun, 6),
                  .sample = (uint64_t)begun,
                  .in = &w};
      if (begun % 3 == 0) t->cancelled = 1 + below(403, (uint64_t)begun, t->wanted);
      for (int64_t j = 0; j < t->prompt; j++) t->ids[j] = (int32_t)below(402, (uint64_t)(begun + j), VOCAB);
      const tri_sequence_options options = options_of(t);
      CHECK_OK(tri_generator_begin(w.generator, t->ids, t->prompt, &options, &t->sequence));
      begun++;
    }
    CHECK_OK(tri_generator_step(w.generator, &more));
    for (int i = 0; i < WAITING; i++) {
      if (texts[i].sequence == NULL || texts[i].cancelled == 0 || texts[i].count < texts[i].cancelled) continue;
      tri_generator_release(w.generator, texts[i].sequence);
      texts[i].sequence = NULL;
    }
  }
  const tri_generator_counts counts = tri_generator_count(w.generator);
  assert_int_equal(counts.sequences, 0);
  assert_int_equal(counts.free_pages, sizes.pages);
  assert_int_equal(tri_memory_bytes(), first);
  free(texts);
  free_world(&w);
  assert_int_equal(tri_memory_bytes(), before);
}

/* Steps after the first ones allocate nothing, neither for a while nor for good: with a block that makes what is held
 * the most that ever was, any allocation would be a new peak. Tokens stay in the room of a sequence's list, which
 * doubles. */
static void test_a_token_allocates_nothing(void **state) {
  (void)state;
  enum { SIDE_BY_SIDE = 4, PROMPT = 20, FIRST = 10, WANTED = 60 };
  for (int family = 0; family < 2; family++) {
    const tri_model model = make_model(family == 0 ? TRI_FAMILY_GPT2 : TRI_FAMILY_LLAMA, 0);
    const tri_runner_sizes sizes = tri_runner_sizes_for(SIDE_BY_SIDE, POSITIONS);
    world w = make_world("cpu", 2, family == 0 ? TRI_FP32 : TRI_BF16, &model, &sizes);
    tri_sequence *sequences[SIDE_BY_SIDE] = {NULL};
    void *block = NULL;
    bool more = true;
    for (int i = 0; i < SIDE_BY_SIDE; i++) {
      const tri_sequence_options options = {.sampling = {.temperature = i % 2 == 0 ? 0 : 0.9,
                                                         .top_k = i == 1 ? 9 : 0,
                                                         .top_p = i == 3 ? 0.8 : 1,
                                                         .repetition_penalty = i < 2 ? 1 : 1.2,
                                                         .sample = (uint64_t)i},
                                            .wanted = WANTED,
                                            .requested = {.log_prob = true, .likeliest = 3}};
      int32_t ids[PROMPT] = {i};
      CHECK_OK(tri_generator_begin(w.generator, ids, PROMPT, &options, &sequences[i]));
    }
    for (int step = 0; step < FIRST; step++) CHECK_OK(tri_generator_step(w.generator, &more));
    CHECK_OK(tri_alloc("a block", tri_memory_peak_bytes() - tri_memory_bytes(), 1, &block));
    const size_t peak = tri_memory_peak_bytes();
    assert_int_equal(tri_memory_bytes(), peak);
    while (more) CHECK_OK(tri_generator_step(w.generator, &more));
    assert_int_equal(tri_memory_peak_bytes(), peak);
    assert_int_equal(tri_memory_bytes(), peak);
    for (int i = 0; i < SIDE_BY_SIDE; i++) {
      assert_int_equal(tri_sequence_sampled(sequences[i]), WANTED);
      tri_generator_cancel(w.generator, sequences[i]);
    }
    tri_free(block);
    free_world(&w);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bits),
      cmocka_unit_test(test_publishing),
      cmocka_unit_test(test_publishing_is_checked),
      cmocka_unit_test(test_forks),
      cmocka_unit_test(test_rewound_under_a_fork),
      cmocka_unit_test(test_likeliest_beside_scored),
      cmocka_unit_test(test_windows_give_pages_back),
      cmocka_unit_test(test_lookup),
      cmocka_unit_test(test_policy),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_cancelled),
      cmocka_unit_test(test_nothing_is_left),
      cmocka_unit_test(test_a_token_allocates_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
