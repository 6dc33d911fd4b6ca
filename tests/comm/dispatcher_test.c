/* Sequences that the ranks of a group share (generation/dispatcher.h): the first rank plays a random schedule of verbs,
 * and then generates each part of each sequence again with a generator of its own, whose cache is empty. Tokens,
 * log-probabilities, scores and finishes must be equal to the bit, and in the end no rank may hold a sequence or a
 * page.
 */
#include "../unit/brute_likeliest.h"
#include "../unit/runner_weights.h"
#include "comm_check.h"

#include "base/memory.h"
#include "generation/dispatcher.h"

#include <math.h>
#include <time.h>

enum {
  VOCAB = 61,
  POSITIONS = 150,
  LONGEST = 140, /* tokens of a sequence of the schedule: no sequence slides */
  MOST_SAMPLED = 30,
  MOST_LIVE = 14,
  MOST_BESIDE = 3, /* likeliest tokens beside a scored one */
  OPERATIONS = 400,
  MOST_PARTS = 3 * OPERATIONS /* a begin, an extension and a fork for each operation */
};

/* ---- a rank ------------------------------------------------------------------------------------------------------ */

typedef struct world {
  tri_device *device;
  tri_runner *runner;
  tri_generator *generator;
} world;

static tri_model make_model(int64_t window) {
  tri_model model = {.family = TRI_FAMILY_LLAMA,
                     .num_layers = 2,
                     .hidden_size = 32,
                     .num_heads = 4,
                     .num_kv_heads = 2,
                     .ffn_size = 48,
                     .vocab_size = VOCAB,
                     .max_sequence = POSITIONS,
                     .window = window,
                     .norm_eps = 1e-5,
                     .init_std = 0.02,
                     .rope_theta = 10000,
                     .rope_scaling.factor = 1,
                     .tied = true};
  CHECK_OK(tri_model_complete(&model));
  return model;
}

static double drawn_weight(const void *context, int64_t number) {
  (void)context;
  return ((double)(hash((uint64_t)number) >> 11) * 0x1p-53 - 0.5) * 0.8;
}

static world make_world(const char *kind, tri_dtype type, const tri_model *model, const tri_runner_sizes *sizes) {
  world w = {0};
  CHECK_OK(tri_device_create(kind, 1, &w.device));
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

/* ---- parts of sequences ------------------------------------------------------------------------------------------ */

/* Verbs that the observer of a part calls at its end. */
typedef enum end_verb { END_NONE, END_RELEASE, END_EXTEND, END_FORK_AND_RELEASE, END_VERBS } end_verb;

typedef struct schedule schedule;

/* A part of a sequence, from its begin, fork or extension to its end. */
typedef struct part {
  schedule *of;
  int live; /* index in schedule.live */
  int32_t ids[POSITIONS];
  int64_t given; /* number of tokens at its begin, ids [given] */
  tri_sequence_options options;
  int64_t stopped; /* the observer stops it after that many tokens; 0: never */
  end_verb at_end;
  double scores[POSITIONS]; /* options.scores */
  tri_likely likeliest[POSITIONS * MOST_BESIDE];
  tri_sampled sampled[MOST_SAMPLED];
  int64_t count;
  tri_finish finish; /* NONE: it was released before its end */
  bool gone;         /* its sequence was released, or another part of it was begun */
} part;

typedef struct schedule {
  tri_dispatcher *dispatcher;
  uint64_t draws, seed;
  part *parts; /* [count] */
  int64_t count;
  struct {
    tri_sequence *sequence; /* NULL: unused */
    part *part;             /* the last one */
  } live[MOST_LIVE];
} schedule;

static int64_t below(schedule *s, int64_t end) { return (int64_t)(hash(s->seed * 7919 + ++s->draws) % (uint64_t)end); }

static tri_status note_token(void *context, tri_sequence *sequence, const tri_sampled *sampled, bool *stop) {
  part *p = context;
  CHECK(!p->gone && p->finish == TRI_FINISH_NONE, "a token of a part that has ended");
  CHECK(p->count < p->options.wanted, "a token too much");
  p->sampled[p->count++] = *sampled;
  CHECK(tri_sequence_sampled(sequence) == p->count, "%ld sampled tokens", (long)tri_sequence_sampled(sequence));
  *stop = p->count == p->stopped;
  return TRI_OK;
}

static void check_ids(const part *p, const tri_sequence *sequence) {
  int64_t count = 0;
  const int32_t *ids = tri_sequence_ids(sequence, &count);
  CHECK(count == p->given + p->count, "%ld tokens of %ld and %ld", (long)count, (long)p->given, (long)p->count);
  CHECK(memcmp(ids, p->ids, (size_t)p->given * sizeof *ids) == 0, "other tokens than given");
  for (int64_t i = 0; i < p->count; i++) CHECK(ids[p->given + i] == p->sampled[i].id, "token %ld", (long)i);
}

static void extend_live(schedule *s, int live);
static void fork_live(schedule *s, int live);
static void release_live(schedule *s, int live);

static int find_unused(const schedule *s) {
  for (int i = 0; i < MOST_LIVE; i++) {
    if (s->live[i].sequence == NULL) return i;
  }
  return -1;
}

static tri_status note_end(void *context, tri_sequence *sequence) {
  part *p = context;
  CHECK(!p->gone && p->finish == TRI_FINISH_NONE, "a second end");
  p->finish = tri_sequence_finish(sequence);
  CHECK(p->finish != TRI_FINISH_NONE, "an end without a reason");
  CHECK(!tri_sequence_has_slid(sequence), "a sequence that has slid");
  check_ids(p, sequence);
  if (p->at_end == END_EXTEND) extend_live(p->of, p->live);
  if (p->at_end == END_FORK_AND_RELEASE) fork_live(p->of, p->live);
  if (p->at_end == END_RELEASE || p->at_end == END_FORK_AND_RELEASE) release_live(p->of, p->live);
  return TRI_OK;
}

/* Asks for at least a token or a score, unless some of the last `more` tokens are surely not read yet. */
static void ask_for_something(schedule *s, tri_sequence_options *options, int64_t count, int64_t more) {
  if (options->wanted > 0 || options->scored > 0) return;
  if (more > 0 && below(s, 2) == 0) return; /* also 64 tokens that are cached */
  if (count < LONGEST) options->wanted = 1;
  if (count == LONGEST) options->scored = 1;
}

/* Draws the options of a part of a sequence that has `count` tokens, the last `more` of them new. */
static part *draw_part(schedule *s, int live, const int32_t *ids, int64_t count, int64_t more) {
  static const int32_t ends[] = {3, 17};
  static const tri_logit_bias bias[] = {{8, 3}, {50, -100}, {8, -1}, {22, 2}};
  part *p = &s->parts[s->count++];
  const int64_t room = LONGEST - count < MOST_SAMPLED ? LONGEST - count : MOST_SAMPLED;
  CHECK(s->count <= MOST_PARTS && room >= 0, "%ld parts", (long)s->count);
  *p = (part){.of = s, .live = live, .given = count, .at_end = below(s, 3) == 0 ? below(s, END_VERBS) : END_NONE};
  memcpy(p->ids, ids, (size_t)count * sizeof *ids);
  for (int i = 0; i < POSITIONS; i++) p->scores[i] = NAN;
  p->options = (tri_sequence_options){
      .sampling = {.temperature = below(s, 3) == 0 ? 0 : 0.9,
                   .top_k = below(s, 3) == 0 ? 9 : 0,
                   .top_p = below(s, 4) == 0 ? 0.8 : 1,
                   .repetition_penalty = below(s, 3) == 0 ? 1.2 : 1,
                   .presence_penalty = below(s, 4) == 0 ? 0.6 : 0,
                   .frequency_penalty = below(s, 4) == 0 ? 0.4 : 0,
                   .bias = bias,
                   .num_bias = below(s, 3) == 0 ? 1 + (int)below(s, 4) : 0,
                   .seed = 4,
                   .prompt = (uint64_t)below(s, 3),
                   .sample = (uint64_t)below(s, 5)},
      .ends = ends,
      .num_ends = (int)below(s, 3),
      .wanted = below(s, 6) == 0 ? 0 : below(s, room + 1),
      .requested = {.log_prob = below(s, 2) == 0, .likeliest = below(s, 3) == 0 ? 1 + below(s, 5) : 0},
      .scored = below(s, 3) == 0 ? below(s, count) : 0,
      .scores = p->scores,
      .scored_likeliest = below(s, MOST_BESIDE + 1),
      .likeliest = p->likeliest,
      .observer = {.context = p, .token = note_token, .done = note_end}};
  ask_for_something(s, &p->options, count, more);
  p->stopped = p->options.wanted > 0 && below(s, 3) == 0 ? 1 + below(s, p->options.wanted) : 0;
  if (s->live[live].part != NULL) s->live[live].part->gone = true;
  s->live[live].part = p;
  return p;
}

/* ---- the schedule ------------------------------------------------------------------------------------------------ */

/* Tokens of a few kinds, some with the same beginning, so that pages are found in the cache. */
static int64_t draw_ids(schedule *s, int64_t most, int32_t *ids) {
  const int64_t count = 1 + below(s, most), kind = below(s, 3);
  for (int64_t i = 0; i < count; i++)
    ids[i] = (int32_t)(hash((uint64_t)(kind * 1000 + (i < 70 ? 0 : kind) + i)) % VOCAB);
  return count;
}

static void begin_one(schedule *s) {
  int32_t ids[POSITIONS];
  const int live = find_unused(s);
  if (live < 0) return;
  const int64_t count = draw_ids(s, below(s, 3) == 0 ? LONGEST : 40, ids);
  s->live[live].part = NULL;
  const part *p = draw_part(s, live, ids, count, count);
  CHECK_OK(tri_dispatcher_begin(s->dispatcher, ids, count, &p->options, &s->live[live].sequence));
}

/* Copies the tokens of a sequence, and appends up to six. Returns their number, or 0 if there is no room. */
static int64_t append_ids(schedule *s, int live, int32_t *ids, int64_t *more) {
  int64_t count = 0;
  const int32_t *before = tri_sequence_ids(s->live[live].sequence, &count);
  *more = below(s, 7);
  if (count + *more > LONGEST) *more = 0;
  memcpy(ids, before, (size_t)count * sizeof *ids);
  for (int64_t i = 0; i < *more; i++) ids[count + i] = (int32_t)below(s, VOCAB);
  return count + *more;
}

static void extend_live(schedule *s, int live) {
  int32_t ids[POSITIONS];
  int64_t more = 0;
  const int64_t count = append_ids(s, live, ids, &more);
  const part *p = draw_part(s, live, ids, count, more);
  CHECK_OK(tri_dispatcher_extend(s->dispatcher, s->live[live].sequence, ids + count - more, more, &p->options));
}

static void fork_live(schedule *s, int live) {
  int32_t ids[POSITIONS];
  int64_t more = 0;
  const int to = find_unused(s);
  if (to < 0) return;
  const int64_t count = append_ids(s, live, ids, &more);
  s->live[to].part = NULL;
  const part *p = draw_part(s, to, ids, count, more);
  CHECK_OK(tri_dispatcher_fork(s->dispatcher, s->live[live].sequence, ids + count - more, more, &p->options,
                               &s->live[to].sequence));
}

static void rewind_live(schedule *s, int live) {
  int64_t count = 0;
  tri_sequence *sequence = s->live[live].sequence;
  tri_sequence_ids(sequence, &count);
  CHECK_OK(tri_dispatcher_rewind(s->dispatcher, sequence, 1 + below(s, count)));
  extend_live(s, live);
}

static void release_live(schedule *s, int live) {
  CHECK_OK(tri_dispatcher_release(s->dispatcher, s->live[live].sequence));
  s->live[live].part->gone = true;
  s->live[live].sequence = NULL;
  s->live[live].part = NULL;
}

static void run_to_the_end(schedule *s) {
  CHECK_OK(tri_dispatcher_run(s->dispatcher));
  for (int i = 0; i < MOST_LIVE; i++) {
    if (s->live[i].sequence == NULL) continue;
    CHECK(tri_sequence_finish(s->live[i].sequence) != TRI_FINISH_NONE, "a sequence in progress");
  }
}

/* Lets the other ranks return from tri_dispatcher_follow, and tells them whether to call it again. */
static void dismiss(schedule *s, bool again) {
  const tri_group all = tri_group_world();
  CHECK_OK(tri_dispatcher_dismiss(s->dispatcher));
  CHECK_OK(tri_broadcast(&all, 0, sizeof again, &again));
}

static void step_some(schedule *s) {
  bool more = false;
  for (int64_t i = below(s, 5); i >= 0; i--) CHECK_OK(tri_dispatcher_step(s->dispatcher, &more));
}

static void choose_verb(schedule *s) {
  const int live = (int)below(s, MOST_LIVE);
  const tri_sequence *sequence = s->live[live].sequence;
  const bool ended = sequence != NULL && tri_sequence_finish(sequence) != TRI_FINISH_NONE;
  switch (below(s, 8)) {
    case 0:
    case 1:
    case 2: begin_one(s); return;
    case 3:
      if (ended) fork_live(s, live);
      return;
    case 4:
      if (ended) extend_live(s, live);
      return;
    case 5:
      if (ended) rewind_live(s, live);
      return;
    case 6:
      if (sequence != NULL) CHECK_OK(tri_dispatcher_cancel(s->dispatcher, s->live[live].sequence));
      return;
    default:
      if (sequence != NULL) release_live(s, live);
      return;
  }
}

static void play(schedule *s) {
  for (int i = 0; i < OPERATIONS; i++) {
    choose_verb(s);
    if (below(s, 3) > 0) step_some(s);
    if (below(s, 60) == 0) CHECK_OK(tri_dispatcher_cancel_all(s->dispatcher));
    if (below(s, 90) > 0) continue;
    run_to_the_end(s);
    dismiss(s, true);
  }
  run_to_the_end(s);
  for (int i = 0; i < MOST_LIVE; i++) {
    if (s->live[i].sequence != NULL) release_live(s, i);
  }
  dismiss(s, false);
}

/* ---- the same alone ---------------------------------------------------------------------------------------------- */

static void compare_sampled(const part *p, const part *alone, int64_t i) {
  const tri_sampled *is = &p->sampled[i], *should = &alone->sampled[i];
  CHECK(is->id == should->id && is->version == should->version, "token %ld of %ld is %d, not %d", (long)i,
        (long)p->count, (int)is->id, (int)should->id);
  if (!p->options.requested.log_prob && p->options.requested.likeliest == 0) return;
  CHECK(is->log_prob == should->log_prob && is->entropy == should->entropy &&
            is->sampled_log_prob == should->sampled_log_prob,
        "token %ld: %.17g, not %.17g", (long)i, is->log_prob, should->log_prob);
  for (int64_t j = 0; j < p->options.requested.likeliest; j++) {
    CHECK(is->likeliest[j].id == should->likeliest[j].id && is->likeliest[j].log_prob == should->likeliest[j].log_prob,
          "token %ld, likeliest %ld", (long)i, (long)j);
  }
}

/* Generates the part again, up to its last token if it was cancelled or released. Returns whether it had any to
 * compare. */
static bool replay(tri_generator *generator, const part *p, part *alone) {
  const bool cut = p->finish == TRI_FINISH_NONE || p->finish == TRI_FINISH_CANCELLED;
  tri_sequence *sequence = NULL;
  if (cut && p->count == 0) return false;
  *alone = (part){.given = p->given, .options = p->options, .stopped = cut ? p->count : p->stopped};
  memcpy(alone->ids, p->ids, sizeof p->ids);
  alone->options.scores = alone->scores;
  alone->options.likeliest = alone->likeliest;
  alone->options.observer = (tri_sequence_observer){.context = alone, .token = note_token, .done = note_end};
  CHECK_OK(tri_generator_publish(generator, TRI_PUBLISH_READ_AGAIN)); /* so no page is found in the cache */
  CHECK_OK(tri_generator_begin(generator, p->ids, p->given, &alone->options, &sequence));
  CHECK_OK(tri_generator_run(generator));
  tri_generator_release(generator, sequence);
  return true;
}

static void compare_part(tri_generator *generator, const part *p) {
  static part alone;
  if (!replay(generator, p, &alone)) return;
  CHECK(p->count == alone.count, "%ld tokens, not %ld", (long)p->count, (long)alone.count);
  for (int64_t i = 0; i < p->count; i++) compare_sampled(p, &alone, i);
  if (p->finish == TRI_FINISH_NONE || p->finish == TRI_FINISH_CANCELLED) return;
  CHECK(p->finish == alone.finish, "%s, not %s", tri_finish_name(p->finish), tri_finish_name(alone.finish));
  for (int64_t i = 0; i < p->options.scored; i++)
    CHECK(p->scores[i] == alone.scores[i], "score %ld of %ld is %.17g, not %.17g, after %s", (long)i,
          (long)p->options.scored, p->scores[i], alone.scores[i], tri_finish_name(p->finish));
  for (int64_t i = 0; i < p->options.scored * p->options.scored_likeliest; i++)
    CHECK(p->likeliest[i].id == alone.likeliest[i].id && p->likeliest[i].log_prob == alone.likeliest[i].log_prob,
          "likeliest token %ld beside scored ones is %d, not %d", (long)i, (int)p->likeliest[i].id,
          (int)alone.likeliest[i].id);
}

static void compare_parts(const schedule *s, const char *kind, tri_dtype type, const tri_model *model) {
  const tri_runner_sizes sizes = tri_runner_sizes_for(1, POSITIONS);
  int64_t finishes[TRI_FINISH_FAILED + 1] = {0};
  world w = make_world(kind, type, model, &sizes);
  for (int64_t i = 0; i < s->count; i++) {
    compare_part(w.generator, &s->parts[i]);
    finishes[s->parts[i].finish]++;
  }
  for (tri_finish finish = TRI_FINISH_NONE; finish < TRI_FINISH_FAILED; finish++)
    CHECK(finishes[finish] > 0, "no part has finish %s", tri_finish_name(finish));
  free_world(&w);
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

static void follow(tri_dispatcher *dispatcher) {
  const tri_group all = tri_group_world();
  for (bool again = true; again;) {
    CHECK_OK(tri_dispatcher_follow(dispatcher));
    CHECK_OK(tri_broadcast(&all, 0, sizeof again, &again));
  }
}

static void check_nothing_is_held(const world *w, const tri_dispatcher *dispatcher, int64_t pages) {
  const tri_generator_counts own = tri_generator_count(w->generator), all = tri_dispatcher_count(dispatcher);
  CHECK(own.sequences == 0, "%ld sequences", (long)own.sequences);
  CHECK(own.free_pages == pages, "%ld pages of %ld are free", (long)own.free_pages, (long)pages);
  if (tri_comm_rank() > 0) return;
  CHECK(all.sequences == 0, "%ld sequences", (long)all.sequences);
  CHECK(all.free_pages == pages * tri_comm_size(), "%ld pages are free", (long)all.free_pages);
}

static void check_schedule(const char *kind, tri_dtype type, uint64_t seed) {
  const tri_group all = tri_group_world();
  const tri_model model = make_model(seed % 3 == 2 ? 70 : 0);
  tri_runner_sizes sizes = tri_runner_sizes_for(1 + (int64_t)(seed % 4), POSITIONS);
  sizes.pages = 4 + (int64_t)(seed % 5); /* few: sequences are preempted */
  sizes.rows = sizes.logit_rows = 20 + (int64_t)(seed % 3) * 40;
  world w = make_world(kind, type, &model, &sizes);
  schedule s = {.seed = seed, .parts = get_memory(MOST_PARTS * sizeof *s.parts)};
  tri_replicas replicas;
  CHECK_OK(tri_replicas_create(&all, 1, &model, NULL, &replicas));
  CHECK_OK(tri_dispatcher_create(&replicas, w.runner, w.generator, &s.dispatcher));
  CHECK(tri_dispatcher_replicas(s.dispatcher) == all.size, "%d", tri_dispatcher_replicas(s.dispatcher));
  if (all.rank == 0) {
    play(&s);
  } else {
    follow(s.dispatcher);
  }
  check_nothing_is_held(&w, s.dispatcher, sizes.pages);
  if (all.rank == 0) compare_parts(&s, kind, type, &model);
  tri_dispatcher_destroy(s.dispatcher);
  free_world(&w);
  free(s.parts);
}

/* Begins a sequence that occupies this rank, and one of `given` tokens on another rank, which is stopped after
 * `stopped`. Returns it when the other rank has generated all that it was asked for. */
static tri_sequence *stop_elsewhere(schedule *s, int64_t given, int64_t stopped, tri_sequence **here) {
  static part first, second;
  const int32_t ids[POSITIONS] = {5, 6, 7};
  bool more = true;
  tri_sequence *there = NULL;
  first = (part){.of = s, .given = 100, .options.wanted = MOST_SAMPLED};
  second = (part){.of = s, .given = given, .options.wanted = MOST_SAMPLED, .stopped = stopped};
  for (int i = 0; i < 2; i++) {
    part *p = i == 0 ? &first : &second;
    memcpy(p->ids, ids, sizeof ids);
    p->options.sampling.repetition_penalty = 1;
    p->options.observer = (tri_sequence_observer){.context = p, .token = note_token, .done = note_end};
    CHECK_OK(tri_dispatcher_begin(s->dispatcher, ids, p->given, &p->options, i == 0 ? here : &there));
  }
  CHECK_OK(tri_dispatcher_step(s->dispatcher, &more));
  nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL); /* the other rank goes on */
  CHECK_OK(tri_dispatcher_run(s->dispatcher));
  CHECK(second.finish == TRI_FINISH_STOP && second.count == stopped, "%s", tri_finish_name(second.finish));
  return there;
}

/* A sequence that was stopped on another rank, which may have sampled tokens beyond the positions by then. */
static void lead_to_positions(schedule *s, int64_t given) {
  const tri_sequence_options options = {.sampling.repetition_penalty = 1, .wanted = 1};
  tri_sequence *here = NULL, *there = stop_elsewhere(s, given, 10, &here), *again = NULL;
  const int32_t one = 4;
  int64_t count = 0;
  CHECK(tri_dispatcher_extend(s->dispatcher, there, &one, 1, &options) == TRI_UNSUPPORTED, "extended");
  CHECK(
      strstr(tri_status_message(), "stopped on another rank, where it may have grown beyond the 150 positions") != NULL,
      "%s", tri_status_message());
  CHECK(strstr(tri_status_message(), "begin it again with all of its tokens") != NULL, "%s", tri_status_message());
  const int32_t *ids = tri_sequence_ids(there, &count);
  CHECK(count == given + 10, "%ld tokens", (long)count);
  CHECK_OK(tri_dispatcher_begin(s->dispatcher, ids, count, &options, &again));
  CHECK_OK(tri_dispatcher_run(s->dispatcher));
  CHECK(tri_sequence_finish(again) == TRI_FINISH_LENGTH, "%s", tri_finish_name(tri_sequence_finish(again)));
  CHECK_OK(tri_dispatcher_release(s->dispatcher, here));
  CHECK_OK(tri_dispatcher_release(s->dispatcher, there));
  CHECK_OK(tri_dispatcher_release(s->dispatcher, again));
}

/* A sequence that was stopped on another rank, which went on within the positions: it continues as if the other rank
 * had stopped at once. */
static void lead_within_positions(schedule *s, const tri_model *model, int64_t given) {
  const tri_runner_sizes sizes = tri_runner_sizes_for(1, POSITIONS);
  const int32_t one = 4;
  static part p;
  tri_sequence *here = NULL, *there = stop_elsewhere(s, given, 10, &here);
  int64_t count = 0;
  const int32_t *ids = tri_sequence_ids(there, &count);
  p = (part){.of = s, .given = count + 1, .options.wanted = 8};
  memcpy(p.ids, ids, (size_t)count * sizeof *ids);
  p.ids[count] = one;
  p.options.sampling.repetition_penalty = 1;
  p.options.requested.log_prob = true;
  p.options.observer = (tri_sequence_observer){.context = &p, .token = note_token, .done = note_end};
  CHECK_OK(tri_dispatcher_extend(s->dispatcher, there, &one, 1, &p.options));
  CHECK_OK(tri_dispatcher_run(s->dispatcher));
  world w = make_world("cpu", TRI_FP32, model, &sizes);
  compare_part(w.generator, &p);
  free_world(&w);
  CHECK_OK(tri_dispatcher_release(s->dispatcher, here));
  CHECK_OK(tri_dispatcher_release(s->dispatcher, there));
}

static void check_positions(void) {
  const tri_group all = tri_group_world();
  const tri_model model = make_model(0);
  const tri_runner_sizes sizes = tri_runner_sizes_for(2, POSITIONS);
  world w = make_world("cpu", TRI_FP32, &model, &sizes);
  schedule s = {.seed = 0};
  tri_replicas replicas;
  CHECK_OK(tri_replicas_create(&all, 1, &model, NULL, &replicas));
  CHECK_OK(tri_dispatcher_create(&replicas, w.runner, w.generator, &s.dispatcher));
  if (all.rank == 0) {
    lead_to_positions(&s, POSITIONS - 10);
    lead_to_positions(&s, POSITIONS - 20); /* the other rank slides before it is stopped */
    lead_within_positions(&s, &model, 100);
    dismiss(&s, false);
  } else {
    follow(s.dispatcher);
  }
  check_nothing_is_held(&w, s.dispatcher, sizes.pages);
  tri_dispatcher_destroy(s.dispatcher);
  free_world(&w);
}

/* Scores tokens on two ranks with a slice of the model each. The slices of the vocabulary have the same embeddings, so
 * each logit occurs twice: the token of the first rank precedes that of the second. The second half of the tokens is
 * the most likely text after the first half. */
static void lead_tensor(world *w, const tri_model *model, tri_dtype type) {
  enum { HALF = 30, COUNT = 2 * HALF, MOST = 5 };
  const size_t row_bytes = VOCAB * tri_dtype_bytes(tri_dtype_wide(type));
  int32_t ids[COUNT];
  double scores[COUNT];
  tri_likely likeliest[COUNT * MOST];
  const void *logits = NULL;
  int64_t count = 0;
  tri_sequence *sequence = NULL;
  for (int i = 0; i < HALF; i++) ids[i] = (int32_t)(hash((uint64_t)i) % VOCAB);
  tri_sequence_options options = {.sampling.repetition_penalty = 1, .wanted = HALF};
  CHECK_OK(tri_generator_begin(w->generator, ids, HALF, &options, &sequence));
  CHECK_OK(tri_generator_run(w->generator));
  memcpy(ids, tri_sequence_ids(sequence, &count), sizeof ids);
  CHECK(count == COUNT, "%ld tokens", (long)count);
  tri_generator_release(w->generator, sequence);
  for (int64_t each = 1; each <= MOST; each += MOST - 1) {
    int64_t own = 0;
    options =
        (tri_sequence_options){.scored = COUNT - 1, .scores = scores, .scored_likeliest = each, .likeliest = likeliest};
    CHECK_OK(tri_generator_begin(w->generator, ids, COUNT, &options, &sequence));
    CHECK_OK(tri_generator_run(w->generator));
    tri_generator_release(w->generator, sequence);
    CHECK_OK(read_whole(w->runner, ids, COUNT, &logits));
    CHECK_OK(tri_generator_publish(w->generator, TRI_PUBLISH_READ_AGAIN)); /* cached pages were overwritten */
    for (int64_t i = 0; i < COUNT - 1; i++) {
      CHECK(likeliest_are_right((const char *)logits + (size_t)i * row_bytes, tri_dtype_wide(type), model->vocab_size,
                                ids[i + 1], scores[i], likeliest + i * each, each),
            "scored token %ld with %ld likeliest", (long)i, (long)each);
      own += likeliest[i * each].id == ids[i + 1];
    }
    CHECK(own >= HALF, "%ld scored tokens are the likeliest", (long)own);
  }
  CHECK_OK(tri_runner_dismiss(w->runner));
}

static void check_tensor(const char *kind, tri_dtype type) {
  const tri_group all = tri_group_world();
  const tri_model model = make_model(0);
  tri_runner_sizes sizes = tri_runner_sizes_for(1, POSITIONS);
  world w = {0};
  tri_replicas replicas;
  sizes.rows = sizes.logit_rows = 60;
  CHECK_OK(tri_replicas_create(&all, 2, &model, NULL, &replicas));
  CHECK_OK(tri_device_create(kind, 1, &w.device));
  CHECK_OK(tri_runner_create(&model, type, &sizes, NULL, tri_replicas_mesh(&replicas), (tri_lent_memory){0}, w.device,
                             &w.runner));
  CHECK_OK(write_runner_weights(w.runner, &model, drawn_weight, NULL));
  if (all.rank == 0) {
    CHECK_OK(tri_generator_create(&model, type, w.runner, &w.generator));
    lead_tensor(&w, &model, type);
  } else {
    CHECK_OK(tri_runner_follow(w.runner));
  }
  free_world(&w);
  tri_replicas_destroy(&replicas);
}

int main(void) {
  CHECK_OK(tri_comm_open());
  for (uint64_t seed = 1; seed <= 6; seed++) check_schedule("cpu", seed % 2 == 0 ? TRI_BF16 : TRI_FP32, seed);
  for (uint64_t seed = 7; seed <= 8; seed++) check_schedule("reference", TRI_FP64, seed);
  if (tri_comm_size() > 1) check_positions();
  if (tri_comm_size() == 2) check_tensor("cpu", TRI_FP32);
  if (tri_comm_size() == 2) check_tensor("reference", TRI_FP64);
  if (tri_comm_rank() == 0) printf("%d ranks, %s: as they should be\n", tri_comm_size(), tri_comm_library());
  tri_comm_close();
  CHECK(tri_memory_bytes() == 0, "%zu bytes were not given back", tri_memory_bytes());
  return 0;
}
