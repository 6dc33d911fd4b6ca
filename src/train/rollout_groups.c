/* Samples and scores groups of completions at the same time: the commands of rewards score the groups that have ended
 * while other groups are still sampled. */
#include "train/reinforcement.h"

#include "base/clock.h"
#include "base/count.h"
#include "base/flight_recorder.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/stop.h"
#include "rollout/advantage.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* A group is being sampled, is being scored, or is accepted or dropped. */
typedef enum group_state { GROUP_SAMPLED, GROUP_SCORED, GROUP_DECIDED } group_state;

typedef struct group {
  tri_rollout_batch completions; /* one group; {0} if it was dropped */
  tri_command_item *items;       /* [rewards of the run, completions.size], for commands; NULL: not being scored */
  group_state state;
} group;

typedef struct group_run {
  tri_training *t;
  const tri_group_order *order;
  tri_rollout *rollout;
  group *list; /* [count], in the order in which they began */
  int64_t count, room;
  int64_t undecided, dropped;
  int64_t failed;   /* number of completions for which a command has not answered */
  int64_t judged;   /* number of decided groups among the first order->groups ones */
  bool has_verdict; /* whether a completion of the judged groups has a reward */
  bool waits;       /* whether all completions have ended, and the run waits for commands */
  uint64_t ticket;  /* record of the wait, if `waits` */
} group_run;

/* ---- one group --------------------------------------------------------------------------------------------------- */

static void release_items(group *g, int64_t rewards) {
  if (g->items != NULL) tri_reward_command_release(g->items, rewards * g->completions.size);
  tri_free(g->items);
  g->items = NULL;
}

static bool is_sampled(const group *g) {
  for (int64_t i = 0; i < g->completions.size; i++) {
    if (g->completions.list[i].finish == TRI_FINISH_NONE) return false;
  }
  return true;
}

/* Begins the next group. */
static tri_status begin_group(group_run *r) {
  TRI_TRY(tri_grow("groups of completions", sizeof *r->list, r->count, &r->room, &r->list));
  group *g = &r->list[r->count];
  *g = (group){.state = GROUP_SAMPLED};
  TRI_TRY(tri_rollout_batch_create(1, r->order->size, &g->completions));
  r->count++;
  r->undecided++;
  for (int64_t i = 0; i < r->order->size; i++) g->completions.list[i].sample = i;
  r->order->name(r->t, r->count - 1, &g->completions);
  return tri_rollout_add(r->rollout, g->completions.list, r->order->size);
}

/* ---- reasons to end the run -------------------------------------------------------------------------------------- */

/* Returns words for the state that is saved if the run stops while it scores completions: the state after the step
 * that is evaluated, if they are held-out ones, or the state before the batch. */
static const char *saved_state(const group_run *r) {
  return r->order->held_out ? "its state" : "the state before this batch";
}

/* Makes the run save its state and end with TRI_IO_FAILED. */
static void stop_run(const group_run *r, bool *stopped) {
  r->t->stop_status = TRI_IO_FAILED;
  *stopped = true;
}

/* Stops the run if commands have not answered for too many completions. */
static void check_failed(const group_run *r, bool *stopped) {
  const int64_t count = r->order->groups * r->order->size;
  const double most = r->t->config->rollout.max_failed;
  if (*stopped || (double)r->failed <= most * (double)count) return;
  tri_warn("the command of a reward has not answered for %" PRId64 " of %" PRId64
           " completions, more than rollout.max_failed %g, so the run saves %s and ends; look at %s/reward.log",
           r->failed, count, most, saved_state(r), r->t->config->output);
  stop_run(r, stopped);
}

/* Stops the run if no completion of a whole batch has a reward. */
static void check_verdicts(const group_run *r, bool *stopped) {
  if (*stopped || r->order->held_out || r->has_verdict || r->judged < r->order->groups) return;
  tri_warn("no reward has a verdict about any of %" PRId64
           " completions, so there is nothing to learn from; the run saves %s and ends: look at what the rewards, or "
           "the answers of the prompts, lack",
           r->order->groups * r->order->size, saved_state(r));
  stop_run(r, stopped);
}

/* ---- all groups -------------------------------------------------------------------------------------------------- */

/* Accepts or drops a group whose rewards are known. */
static void decide(group_run *r, int64_t index) {
  const tri_run_config *config = r->t->config;
  group *g = &r->list[index];
  tri_reinforcement_read_answers(r->t, &g->completions, g->items);
  release_items(g, config->num_rewards);
  tri_rollout_weigh_rewards(&g->completions, tri_reinforcement_of(r->t)->weights, config->num_rewards);
  const bool passes = r->order->passes == NULL || r->order->passes(r->t, &g->completions);
  for (int64_t i = 0; i < g->completions.size; i++) r->failed += g->completions.list[i].failed;
  if (index < r->order->groups) {
    r->judged++;
    r->has_verdict = r->has_verdict || !isnan(tri_rollout_group_reward(&g->completions, 0));
  }
  g->state = GROUP_DECIDED;
  r->undecided--;
  if (passes) return;
  r->dropped++;
  tri_rollout_batch_release(&g->completions);
}

/* Computes the rewards by rules of a group that has been sampled, and gives its completions to the commands. */
static tri_status begin_scoring(group_run *r, int64_t index) {
  group *g = &r->list[index];
  g->state = GROUP_SCORED;
  TRI_TRY(tri_reinforcement_score_by_rules(r->t, &g->completions));
  TRI_TRY(tri_alloc("completions to score", (size_t)(r->t->config->num_rewards * g->completions.size), sizeof *g->items,
                    &g->items));
  TRI_TRY(tri_reinforcement_ask_commands(r->t, &g->completions, g->items));
  if (tri_reinforcement_has_answers(r->t, &g->completions, g->items)) decide(r, index); /* no reward is a command */
  return TRI_OK;
}

static tri_status advance_group(group_run *r, int64_t index) {
  const group *g = &r->list[index];
  switch (g->state) {
    case GROUP_SAMPLED: return is_sampled(g) ? begin_scoring(r, index) : TRI_OK;
    case GROUP_SCORED:
      if (tri_reinforcement_has_answers(r->t, &g->completions, g->items)) decide(r, index);
      break;
    case GROUP_DECIDED: break;
  }
  return TRI_OK;
}

/* Scores the groups that have been sampled, and decides the ones whose rewards are known. */
static tri_status advance(group_run *r, bool *stopped) {
  TRI_TRY(tri_reinforcement_attend_commands(r->t, r->waits));
  for (int64_t i = 0; i < r->count; i++) TRI_TRY(advance_group(r, i));
  check_failed(r, stopped);
  check_verdicts(r, stopped);
  return TRI_OK;
}

/* Notes whether the run now waits for commands, in the flight recorder as well. */
static void note_wait(group_run *r, bool waits) {
  const tri_record record = tri_record_make(TRI_RECORD_WORK, "score completions by a command");
  tri_recorder_beat();
  if (waits == r->waits) return;
  r->waits = waits;
  if (waits) r->ticket = tri_recorder_begin(&record);
  if (!waits) tri_recorder_end(r->ticket);
}

static tri_status run_groups(group_run *r, tri_group_result *out, bool *stopped) {
  const tri_group_order *order = r->order;
  for (bool sampling = false; !*stopped;) {
    const double begin_s = tri_clock_s();
    while (r->count < order->groups + tri_smaller(r->dropped, order->max_filtered)) TRI_TRY(begin_group(r));
    if (r->undecided == 0) break;
    TRI_TRY(tri_rollout_step(r->rollout, &sampling));
    note_wait(r, !sampling);
    const tri_status status = advance(r, stopped);
    if (status == TRI_IO_FAILED) {
      tri_warn("%s; the run saves %s and ends", tri_status_message(), saved_state(r));
      stop_run(r, stopped);
    } else {
      TRI_TRY(status);
    }
    *(sampling ? &out->rollout_s : &out->reward_s) += tri_clock_s() - begin_s;
    if (!order->held_out && tri_stop_asked())
      *stopped = true; /* An evaluation must not be cut short, because the
                          step's line of metrics contains its result. */
  }
  return *stopped ? tri_rollout_cancel(r->rollout) : TRI_OK;
}

/* Moves the accepted groups to one batch. */
static tri_status move_accepted(group_run *r, tri_rollout_batch *out) {
  const int64_t size = r->order->size;
  TRI_TRY(tri_rollout_batch_create(r->count - r->dropped, size, out));
  out->groups = 0;
  for (int64_t i = 0; i < r->count; i++) {
    group *g = &r->list[i];
    if (g->completions.list == NULL) continue; /* dropped */
    memcpy(out->list + out->groups++ * size, g->completions.list, (size_t)size * sizeof *out->list);
    memset(g->completions.list, 0, (size_t)size * sizeof *out->list);
  }
  return TRI_OK;
}

tri_status tri_reinforcement_run_groups(tri_training *t, const tri_group_order *order, tri_group_result *out,
                                        bool *stopped) {
  group_run r = {.t = t, .order = order};
  *stopped = false;
  *out = (tri_group_result){.rollout_s = 0};
  tri_status status = tri_rollout_create(&tri_reinforcement_of(t)->sampler, &r.rollout);
  if (status == TRI_OK) status = run_groups(&r, out, stopped);
  note_wait(&r, false);
  tri_reinforcement_drop_commands(t);
  if (status == TRI_OK && !*stopped) status = move_accepted(&r, &out->batch);
  out->begun = r.count;
  out->dropped = r.dropped;
  tri_rollout_destroy(r.rollout);
  for (int64_t i = 0; i < r.count; i++) {
    release_items(&r.list[i], t->config->num_rewards);
    tri_rollout_batch_release(&r.list[i].completions);
  }
  tri_free(r.list);
  return status;
}
