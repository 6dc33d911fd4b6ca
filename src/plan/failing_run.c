#include "plan/failing_run.h"

#include <math.h>
#include <stddef.h>

static const double seconds_of_hour = 3600;

tri_run_goodput tri_failing_run_goodput(const tri_failing_run *run) {
  const tri_failures *f = &run->keys;
  const double of_storage = f->storage_bandwidth > 0 ? f->storage_bandwidth : INFINITY;
  const double of_nodes = f->node_storage_bandwidth > 0 ? run->nodes * f->node_storage_bandwidth : INFINITY;
  const double writing = fmin(of_storage, of_nodes), written_s = run->checkpoint_bytes / writing;
  tri_run_goodput out = {.writing = writing,
                         .shared = of_storage < of_nodes,
                         .failures = {.between_s = f->node_mtbf_hours * seconds_of_hour / run->nodes,
                                      .restart_s = f->notice + f->restart,
                                      .stop_s = written_s}};
  if (f->copy_bandwidth > 0) {
    out.failures.stop_s = run->checkpoint_bytes / run->devices / f->copy_bandwidth;
    out.failures.behind_s = written_s;
  }
  out.interval_s = tri_best_interval(&out.failures);
  out.availability = tri_availability(out.failures.between_s, f->repair_hours * seconds_of_hour, f->spare_nodes);
  out.goodput = tri_goodput(&out.failures, out.interval_s) * out.availability;
  return out;
}

/* ---- advice ------------------------------------------------------------------------------------------------------ */

/* POOR: goodput below which there is advice. RECOVERED: share of the lost time that the best value of a key recovers
 * at least. NEAR: share of the best value's goodput that the advised value reaches. */
static const double POOR = 0.9, RECOVERED = 0.5, NEAR = 0.95;
enum { DOUBLINGS = 20 };

static double goodput_with_spare(const tri_failing_run *run, int64_t spare) {
  tri_failing_run other = *run;
  other.keys.spare_nodes = spare;
  return tri_failing_run_goodput(&other).goodput;
}

/* Sets *out to the least number of spare nodes with NEAR of the goodput of the largest number, and *best to that
 * goodput, if spare nodes recover enough. */
static void advise_spare(const tri_failing_run *run, double goodput, double *best, tri_goodput_advice *out) {
  const int64_t given = run->keys.spare_nodes;
  const int64_t most = run->nodes < (double)run->other_nodes ? (int64_t)run->nodes : run->other_nodes;
  if (run->keys.repair_hours == 0 || most <= given) return;
  const double highest = goodput_with_spare(run, most);
  if (!(highest - goodput >= RECOVERED * (1 - goodput))) return;
  int64_t low = given, high = most; /* `high` suffices, and `low` does not unless it is the given number */
  while (low + 1 < high) {
    const int64_t middle = low + (high - low) / 2;
    if (goodput_with_spare(run, middle) >= NEAR * highest) {
      high = middle;
    } else {
      low = middle;
    }
  }
  *best = highest;
  *out = (tri_goodput_advice){"spare_nodes", "", (double)high, (double)given, goodput_with_spare(run, high)};
}

/* A key with a number, and the power of two by which the number improves. */
typedef struct scaled_key {
  const char *name;
  const char *unit;
  size_t offset; /* offset of the number in tri_failures */
  double factor; /* 2 for a bandwidth, 0.5 for a duration */
} scaled_key;

static double goodput_scaled(const tri_failing_run *run, const scaled_key *key, int power) {
  tri_failing_run other = *run;
  double *number = (double *)((char *)&other.keys + key->offset);
  *number *= pow(key->factor, power);
  return tri_failing_run_goodput(&other).goodput;
}

/* Replaces *out by the advice for a key if this key's best value has a higher goodput than *best, which is set to that
 * goodput. */
static void advise_scaled(const tri_failing_run *run, const scaled_key *key, double goodput, double *best,
                          tri_goodput_advice *out) {
  const double given = *(const double *)((const char *)&run->keys + key->offset);
  const double most = given > 0 ? goodput_scaled(run, key, DOUBLINGS) : 0;
  if (!(most - goodput >= RECOVERED * (1 - goodput)) || most <= *best) return;
  int power = 1;
  while (power < DOUBLINGS && goodput_scaled(run, key, power) < NEAR * most) power++;
  *best = most;
  *out = (tri_goodput_advice){key->name, key->unit, given * pow(key->factor, power), given,
                              goodput_scaled(run, key, power)};
}

tri_goodput_advice tri_failing_run_advise(const tri_failing_run *run) {
  static const scaled_key keys[] = {
      {"storage_bandwidth", "B/s", offsetof(tri_failures, storage_bandwidth), 2},
      {"node_storage_bandwidth", "B/s", offsetof(tri_failures, node_storage_bandwidth), 2},
      {"copy_bandwidth", "B/s", offsetof(tri_failures, copy_bandwidth), 2},
      {"restart", "s", offsetof(tri_failures, restart), 0.5},
      {"notice", "s", offsetof(tri_failures, notice), 0.5},
  };
  const double goodput = tri_failing_run_goodput(run).goodput;
  tri_goodput_advice out = {.key = NULL};
  if (!(goodput < POOR)) return out;
  double best = 0;
  advise_spare(run, goodput, &best, &out);
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) advise_scaled(run, &keys[i], goodput, &best, &out);
  return out;
}
