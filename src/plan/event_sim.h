/* Discrete-event simulation of a step, or of its forwards alone (tri_stages.forward_only). A *stage process* stands for
 * the ranks of one stage. It executes their instructions, each with its time on a cluster. Processes wait for messages
 * from each other, and at collectives of several stages.
 *
 * There are two implementations with equal results. The first executes the step programs of the stages instruction by
 * instruction, and can write a timeline (event_sim_program.c). The second executes turns (event_sim_turns.c): a turn is
 * the forward or the backward of one micro-batch in one chunk. Apart from its messages, a turn has the same
 * instructions for all micro-batches but the first and the last, so these are priced only once. The second
 * implementation is much faster; tests/unit/test_event_sim.c compares the two. */
#ifndef TRI_PLAN_EVENT_SIM_H
#define TRI_PLAN_EVENT_SIM_H

#include "plan/stages.h"

/* The state of a stage process. Times are in seconds since the start of the step. */
typedef struct tri_stage_process {
  const tri_stage_kind *kind;
  int stage;          /* index of the stage */
  double now, stream; /* current time of the rank; time at which its reductions and gathers in progress end */
  double host;        /* time at which the host has launched all kernels so far; before or after `now` */
  double beside;      /* rate of a computation during a collective, as a share of its usual rate (tri_cluster.beside) */
  /* Times at which the last reduction and the last gather of each bucket end [buckets]; the duration of a collective
   * that does not overlap with computation. A bucket may be gathered while its reduction is in progress. */
  double *reduce_end, *gather_end;
  tri_step_time spent; /* seconds until `now`, by part of the step */
  int arrived;         /* bit m: the process has reached collective m (TRI_MEET_TIED, TRI_MEET_NORM) */
  bool blocked;        /* whether the current instruction waits for another stage */
} tri_stage_process;
/* Collectives of several stages: the gradient sum of a tied embedding, and the gradient norm. */
enum { TRI_MEET_TIED, TRI_MEET_NORM, TRI_MEETINGS };

/* The state that all stage processes share. */
typedef struct tri_event_sim {
  const tri_stages *stages;
  double met[TRI_MEETINGS]; /* latest time at which a stage has reached each collective of several stages */
  /* Numbers of stages that have reached each collective of several stages, and of stages that take part in it. */
  int64_t come[TRI_MEETINGS], expected[TRI_MEETINGS];
  tri_timeline *timeline; /* timeline to which events are added; NULL: none */
} tri_event_sim;

/* The time of a simulated step, and its parts on average over the stages. */
typedef struct tri_step_sample {
  double step_s;
  tri_step_time time;
} tri_step_sample;

/* A probe tests whether the middle of a step repeats every `period` micro-batches, and measures the time of a period.
 *
 * The begin of each turn is compared with that of the same turn one period before. The step repeats if the difference
 * is the same for all turns of as many micro-batches as are in flight. All later turns depend only on these turns, so
 * their difference is the same, too. It is not enough to compare fewer turns: a slightly slower stage may delay the
 * others once in many micro-batches. */
typedef struct tri_step_probe {
  /* Compared micro-batches: first .. first + count - 1; number of micro-batches of a period. */
  int64_t first, count, period;
  bool settled;       /* result: whether the step repeats */
  double step_s;      /* result: time of a period */
  tri_step_time time; /* result: parts of step_s, on average over the stages */
} tri_step_probe;

/* Simulates a step by the programs of its stages. Adds the events to `timeline`, which may be NULL. */
tri_status tri_event_sim_programs(const tri_stages *stages, int64_t micro_batches, tri_timeline *timeline,
                                  tri_step_sample *out);
/* Simulates a step by the turns of its stages. `probe`: input and result of the test whether the step repeats; may
 * be NULL. */
tri_status tri_event_sim_turns(const tri_stages *stages, int64_t micro_batches, tri_step_probe *probe,
                               tri_step_sample *out);
/* Computes a lower bound of the time of a step, or of its forwards, from the prices of its stages, without a
 * simulation. It holds for the results of both simulations, except for rounding. */
tri_status tri_event_sim_bound(const tri_stages *stages, double *out);

/* ---- shared by both implementations ------------------------------------------------------------------------------ */

/* Executes an instruction in a stage process. If the process has to wait for another stage, sets w->blocked; the
 * caller tries the same instruction again later. The handlers of messages are in event_sim_program.c. */
typedef tri_status tri_event_sim_handler(tri_event_sim *walk, tri_stage_process *w, const tri_instruction *at);
#define TRI_EVENT_SIM_HANDLER(KIND, name, ...) tri_event_sim_handler tri_event_sim_##name;
TRI_INSTRUCTIONS(TRI_EVENT_SIM_HANDLER)
#undef TRI_EVENT_SIM_HANDLER
tri_event_sim_handler tri_event_sim_instruction;

tri_status tri_stage_process_create(tri_event_sim *walk, int64_t stage, tri_stage_process *out);
void tri_stage_process_release(tri_stage_process *w);

/* Makes the process take part in communication from the time `begin` to the time `end`, and advances it to `end`.
 * Until `begin` it waits for other stages. */
tri_status tri_event_sim_communicate(tri_event_sim *walk, tri_stage_process *w, const tri_instruction *at, double begin,
                                     double end);

/* Returns the layout of the request with micro_batch_group set to the group that its whole step has. A simulated step
 * with fewer micro-batches then has the same schedule, only shorter, if its number of micro-batches leaves the same
 * remainder when it is divided by the group (tri_schedule_settle). */
tri_layout tri_event_sim_layout(const tri_stages *stages);
/* Returns the request for the program of a stage in a step of that many micro-batches. `settled`: result of
 * tri_event_sim_layout. */
tri_program_request tri_event_sim_program(const tri_stages *stages, const tri_layout *settled, int64_t stage,
                                          int64_t micro_batches);

/* Executes a stage process until it ends or waits for another stage. Sets *moved if it has executed anything. */
typedef tri_status tri_stage_process_run(tri_event_sim *walk, tri_stage_process *w, bool *moved);
/* Runs all stage processes in turn until none of them can continue. `walkers`: an array with a struct of `bytes`
 * bytes for each stage, whose first member is a tri_stage_process. */
tri_status tri_event_sim_run(tri_event_sim *walk, void *walkers, size_t bytes, tri_stage_process_run *run);

/* Returns the result of a step, which ends when its last stage ends. `walkers`, `bytes`: as in tri_event_sim_run. */
tri_step_sample tri_event_sim_sum(const tri_stages *stages, void *walkers, size_t bytes);

/* Returns the members of a tri_step_time as an array [TRI_TIME_PARTS]. */
enum { TRI_TIME_PARTS = sizeof(tri_step_time) / sizeof(double) };
static inline double *tri_time_parts(tri_step_time *time) { return &time->compute; }

/* Advances the process by `seconds` of work, and adds them to *part, a member of w->spent. */
static inline void tri_stage_process_work(tri_stage_process *w, double *part, double seconds) {
  w->now += seconds;
  *part += seconds;
}

/* Advances the process to the time `end`. The time until `begin` counts as bubble; the rest is added to *part, a
 * member of w->spent. */
static inline void tri_stage_process_wait(tri_stage_process *w, double *part, double begin, double end) {
  if (end <= w->now) return;
  double carried = end - (begin > w->now ? begin : w->now), waited = end - w->now - carried;
  *part += carried;
  w->spent.bubble += waited;
  w->now = end;
}

/* Returns the seconds that a computation takes. They are more than `seconds` while a reduction or gather is in
 * progress, which leaves the share w->beside of the device. */
static inline double tri_stage_process_slowed(const tri_stage_process *w, double seconds) {
  double under_way = w->stream - w->now;
  if (under_way <= 0) return seconds;
  return seconds < under_way * w->beside ? seconds / w->beside : seconds + under_way * (1 - w->beside);
}

/* Returns the seconds until the device has done the computation of `price`, and adds the launch times to w->host. The
 * host launches kernels in order, usually ahead of the device. If it has not launched them all when the computation and
 * its collectives would have ended, the device waits, and the seconds include this wait. */
static inline double tri_stage_process_launch(tri_stage_process *w, tri_price price) {
  double seconds = tri_stage_process_slowed(w, price.compute_s);
  w->host += price.launch_s;
  double late = w->host - (w->now + seconds + tri_price_collectives_s(&price));
  return late > 0 ? seconds + late : seconds;
}

#endif
