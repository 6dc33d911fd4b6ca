/* Discrete-event simulation of a step. A stage process stands for the ranks of one stage and goes through what they do,
 * each instruction with its time on a described machine; processes wait for each other's messages and where several
 * stages meet.
 *
 * There are two ways through a step, which say the same. One takes the stages' step programs instruction by instruction
 * and draws them (event_sim_program.c). The other takes their turns, forwards and backwards of micro-batches: what a
 * turn does between its messages is the same for all micro-batches but the first and the last, and priced once
 * (event_sim_turns.c). It is the faster by far; tests/unit/test_event_sim.c holds it to the first. */
#ifndef TRI_PLAN_EVENT_SIM_H
#define TRI_PLAN_EVENT_SIM_H

#include "plan/stages.h"

typedef struct tri_stage_process {
  const tri_stage_kind *kind;
  int stage;
  double now, stream; /* the rank's own clock; when its reductions and gathers are through */
  double host;        /* when the host has started all kernels until here: it may be ahead, or behind */
  double beside;      /* the cluster's */
  double *bucket_end; /* [buckets]: of the one under way */
  tri_step_time spent;
  int arrived;  /* at meetings of several stages: a bit for each that it has come to */
  bool blocked; /* the instruction that it is at cannot be done yet */
} tri_stage_process;

enum { TRI_MEET_TIED, TRI_MEET_NORM, TRI_MEETINGS }; /* of the tied pair, and of all stages */

typedef struct tri_event_sim {
  const tri_stages *stages;
  double met[TRI_MEETINGS];
  int64_t come[TRI_MEETINGS], expected[TRI_MEETINGS];
  tri_timeline *timeline; /* or NULL */
} tri_event_sim;

/* What a step of that many micro-batches takes, and where it goes, on average over the stages. */
typedef struct tri_step_sample {
  double step_s;
  tri_step_time time;
} tri_step_sample;

/* Looks at a step's middle: whether it repeats itself every `period` micro-batches, and what each period adds. If all
 * turns of as many micro-batches as are in flight at once come a period later than those of the period before, then so
 * do all that follow from them, as long as there are new ones. Of fewer it would not be known: a stage that is a little
 * slower may hold the others up once in many micro-batches. */
typedef struct tri_step_probe {
  int64_t first, count, period; /* looks at the micro-batches first, ..., first + count - 1 */
  bool settled;
  double step_s;      /* of a period */
  tri_step_time time; /* on average over the stages */
} tri_step_probe;

tri_status tri_event_sim_programs(const tri_stages *stages, int64_t micro_batches, tri_timeline *timeline,
                                  tri_step_sample *out);
/* `probe` may be NULL. */
tri_status tri_event_sim_turns(const tri_stages *stages, int64_t micro_batches, tri_step_probe *probe,
                               tri_step_sample *out);

/* ---- what both ways share ---------------------------------------------------------------------------------------- */

/* Whatever an instruction does to a walker; sets w->blocked where it has to wait for another stage: it is asked again.
 * Those of messages are event_sim_program.c's. */
typedef tri_status tri_event_sim_handler(tri_event_sim *walk, tri_stage_process *w, const tri_instruction *at);
#define TRI_EVENT_SIM_HANDLER(KIND, name, ...) tri_event_sim_handler tri_event_sim_##name;
TRI_INSTRUCTIONS(TRI_EVENT_SIM_HANDLER)
#undef TRI_EVENT_SIM_HANDLER
tri_event_sim_handler tri_event_sim_instruction;

tri_status tri_stage_process_create(tri_event_sim *walk, int64_t stage, tri_stage_process *out);
void tri_stage_process_release(tri_stage_process *w);

/* It communicates until `end`, of which it waits for others until `begin`. */
tri_status tri_event_sim_communicate(tri_event_sim *walk, tri_stage_process *w, const tri_instruction *at, double begin,
                                     double end);

/* The layout with its group of micro-batches, which a shorter step keeps. */
tri_layout tri_event_sim_layout(const tri_stages *stages);
/* What a stage's program is made of. */
tri_program_request tri_event_sim_program(const tri_layout *settled, const tri_stage_kind *kind, int64_t stage,
                                          int64_t micro_batches);

/* The step is over when the last stage is. `walkers` are `bytes` apart. */
tri_step_sample tri_event_sim_sum(const tri_stages *stages, void *walkers, size_t bytes);

enum { TRI_TIME_PARTS = sizeof(tri_step_time) / sizeof(double) };
static inline double *tri_time_parts(tri_step_time *time) { return &time->compute; }

/* The rank is busy for so long, which counts as `part` of what it has spent. */
static inline void tri_stage_process_work(tri_stage_process *w, double *part, double seconds) {
  w->now += seconds;
  *part += seconds;
}

/* It is until `end`, and waits for others until `begin`. */
static inline void tri_stage_process_wait(tri_stage_process *w, double *part, double begin, double end) {
  if (end <= w->now) return;
  double carried = end - (begin > w->now ? begin : w->now), waited = end - w->now - carried;
  *part += carried;
  w->spent.bubble += waited;
  w->now = end;
}

/* A collective beside it takes processors and memory bandwidth of the device until it is through. */
static inline double tri_stage_process_slowed(const tri_stage_process *w, double seconds) {
  double under_way = w->stream - w->now;
  if (under_way <= 0) return seconds;
  return seconds < under_way * w->beside ? seconds / w->beside : seconds + under_way * (1 - w->beside);
}

/* The host starts kernels in order, ahead of the device until it has to wait for something itself; where it is behind,
 * the device waits for its orders. Seconds until the device has computed. */
static inline double tri_stage_process_launch(tri_stage_process *w, tri_price price) {
  double seconds = tri_stage_process_slowed(w, price.compute_s);
  w->host += price.launch_s;
  double late = w->host - (w->now + seconds + tri_price_collectives_s(&price));
  return late > 0 ? seconds + late : seconds;
}

#endif
