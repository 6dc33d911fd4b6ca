/* The choice of a row's experts (base/router.h), by a warp. The row's selection scores are in shared memory
 * (router_memory), and lane l has the scores l, l + WARP, ... A lane's mask `open` has a bit for each of its scores,
 * set while it can still be chosen. The steps of a row:
 *
 *   1. The selection score of each expert: sigmoid or softmax of its logit, plus its bias.
 *   2. With groups, the score of a group is the sum of its best_of_group best experts; the kept_groups best groups stay
 *      open. With a quota, each kept group has the same number of experts that may be chosen.
 *   3. The best open expert is chosen, `chosen` times.
 *   4. The weights are the scores without bias, normalised and scaled.
 *
 * Equal scores are ordered by index, so the choice does not depend on lanes. All lanes of a warp call choose_best,
 * choose_groups and open_experts, and the functions whose comments say "by a warp". */
#ifndef TRI_DEVICE_GPU_KERNELS_ROUTER_CHOICE_H
#define TRI_DEVICE_GPU_KERNELS_ROUTER_CHOICE_H

#include "device/gpu/kernels/primitives.h"
#include "device/gpu/kernels/router.h"

/* ---- scores ------------------------------------------------------------------------------------------------------ */

typedef struct statistics {
  wide most, sum; /* most: maximum of a row of logits. sum: sum of exp(logit - most) */
} statistics;

/* Computes the statistics of a row of logits, by a warp; each lane gets them. */
DEVICE statistics statistics_of(const wide *logits, int experts) {
  statistics s;
  s.most = -wide_infinity();
  s.sum = 0;
  for (int i = lane(); i < experts; i += WARP) s.most = logits[i] > s.most ? logits[i] : s.most;
  s.most = warp_maximum(s.most);
  for (int i = lane(); i < experts; i += WARP) s.sum += wide_exp(logits[i] - s.most);
  s.sum = warp_sum(s.sum);
  return s;
}

DEVICE wide softmax_of(const statistics *s, wide logit) { return wide_exp(logit - s->most) / s->sum; }

DEVICE wide score_of(const router_kind *kind, const statistics *s, wide logit) {
  return kind->sigmoid ? 1 / (1 + wide_exp(-logit)) : softmax_of(s, logit);
}

/* Returns the divisor that normalises all scores of a row, by a warp: 1 for a softmax, which is normalised. */
DEVICE wide sum_of_scores(const router_kind *kind, const wide *logits) {
  wide sum = 0;
  if (!kind->sigmoid) return 1;
  for (int i = lane(); i < kind->experts; i += WARP) sum += 1 / (1 + wide_exp(-logits[i]));
  return warp_sum(sum);
}

/* Returns the divisor of the chosen experts' scores; `sum` is their sum. */
DEVICE wide divisor_of(const router_kind *kind, wide sum) {
  if (!kind->normalised) return 1;
  return kind->sigmoid ? sum + (wide)1e-20 : sum;
}

/* ---- the best ---------------------------------------------------------------------------------------------------- */

typedef struct candidate {
  wide value;
  int index; /* index of the value; -1: no candidate */
} candidate;

/* Returns whether x comes before y: the larger one, or the first of equals. NaN comes before any number, so that it
 * shows in the weights. */
DEVICE int comes_before(candidate x, candidate y) {
  const int x_odd = x.value != x.value, y_odd = y.value != y.value;
  if (x.index < 0 || y.index < 0) return x.index >= 0;
  if (x_odd || y_odd) return x_odd && (!y_odd || x.index < y.index);
  return x.value > y.value || (x.value == y.value && x.index < y.index);
}

DEVICE candidate candidate_of(const wide *values, int index) {
  candidate c;
  c.value = index < 0 ? 0 : values[index];
  c.index = index;
  return c;
}

/* Returns the best of the open values[count] to all lanes of the warp, and closes it. A lane reads only elements that
 * it has written itself, so no barrier is needed. */
DEVICE candidate choose_best(const wide *values, int count, uint32_t *open) {
  candidate best = candidate_of(values, -1);
  for (int i = lane(), bit = 0; i < count; i += WARP, bit++) {
    const candidate own = candidate_of(values, i);
    if ((*open >> bit & 1u) != 0 && comes_before(own, best)) best = own;
  }
  for (int mask = WARP / 2; mask > 0; mask /= 2) {
    candidate other;
    other.value = shuffle_wide(best.value, mask);
    other.index = shuffle_int(best.index, mask);
    if (comes_before(other, best)) best = other;
  }
  if (best.index >= 0 && best.index % WARP == lane()) *open &= ~(1u << best.index / WARP);
  return best;
}

/* Returns the best of the values [first, end) that come after `last` in the order of comes_before; the best of all if
 * `last` has no index, and no candidate if no value is left. Called by single lanes. */
DEVICE candidate next_best(const wide *values, int first, int end, candidate last) {
  candidate best = candidate_of(values, -1);
  for (int i = first; i < end; i++) {
    const candidate own = candidate_of(values, i);
    if ((last.index < 0 || comes_before(last, own)) && comes_before(own, best)) best = own;
  }
  return best;
}

/* ---- groups ------------------------------------------------------------------------------------------------------ */

/* A warp's shared memory. choice[experts]: selection scores. groups[groups]: scores of groups, and later the selection
 * score of each last_of_group. chosen[chosen]: scores of the chosen experts. last_of_group[groups]: the last expert of
 * the group that may be chosen (GROUP_DROPPED: none may; GROUP_WHOLE: all may). */
typedef struct router_memory {
  wide *choice, *groups, *chosen;
  int32_t *last_of_group;
} router_memory;

enum { GROUP_DROPPED = -1, GROUP_WHOLE = -2 };

/* Divides the shared memory of a warp, from `at` on, into the arrays of router_memory. */
DEVICE router_memory memory_of_warp(void *at, const router_kind *kind) {
  router_memory m;
  m.choice = (wide *)at;
  m.groups = m.choice + kind->experts;
  m.chosen = m.groups + kind->groups;
  m.last_of_group = (int32_t *)(void *)(m.chosen + kind->chosen);
  return m;
}

/* Returns the sum of the best_of_group best scores of a group, computed by one lane. */
DEVICE wide group_score(const router_kind *kind, const wide *choice, int group) {
  const int width = kind->experts / kind->groups;
  candidate one = candidate_of(choice, -1);
  wide sum = 0;
  for (int i = 0; i < kind->best_of_group; i++) {
    one = next_best(choice, group * width, (group + 1) * width, one);
    sum += one.value;
  }
  return sum;
}

/* Finds the last expert within the quota of a kept group, and stores it in last_of_group, and its score in groups.
 * Computed by one lane. */
DEVICE void set_quota(const router_kind *kind, const router_memory *m, int group) {
  const int width = kind->experts / kind->groups;
  candidate one = candidate_of(m->choice, -1);
  for (int i = 0; i < kind->chosen / kind->kept_groups; i++)
    one = next_best(m->choice, group * width, (group + 1) * width, one);
  m->groups[group] = one.value;
  m->last_of_group[group] = one.index;
}

/* Chooses the kept groups, and sets last_of_group, by a warp. Lane l has groups l, l + WARP, ... The caller
 * synchronises the warp before and after. */
DEVICE void choose_groups(const router_kind *kind, const router_memory *m) {
  uint32_t open = ~0u;
  for (int g = lane(); g < kind->groups; g += WARP) m->groups[g] = group_score(kind, m->choice, g);
  for (int i = 0; i < kind->kept_groups; i++) choose_best(m->groups, kind->groups, &open);
  for (int g = lane(), bit = 0; g < kind->groups; g += WARP, bit++) {
    if ((open >> bit & 1u) != 0) {
      m->last_of_group[g] = GROUP_DROPPED;
    } else if (kind->quota) {
      set_quota(kind, m, g);
    } else {
      m->last_of_group[g] = GROUP_WHOLE;
    }
  }
}

/* Returns whether an expert's group is kept, and the expert within its quota. */
DEVICE int may_be_chosen(const router_kind *kind, const router_memory *m, int expert) {
  const int group = expert / (kind->experts / kind->groups);
  candidate last;
  last.index = m->last_of_group[group];
  if (last.index == GROUP_DROPPED) return 0;
  if (last.index == GROUP_WHOLE) return 1;
  last.value = m->groups[group];
  return !comes_before(last, candidate_of(m->choice, expert));
}

/* Returns the bits of the lane's experts that may be chosen, by a warp. With groups, has two barriers of the warp. */
DEVICE uint32_t open_experts(const router_kind *kind, const router_memory *m) {
  uint32_t open = 0;
  if (kind->groups == 1) return ~0u;
  warp_barrier(); /* makes the selection scores visible to all lanes */
  choose_groups(kind, m);
  warp_barrier();
  for (int i = lane(), bit = 0; i < kind->experts; i += WARP, bit++) open |= (uint32_t)may_be_chosen(kind, m, i) << bit;
  return open;
}

/* ---- a row ------------------------------------------------------------------------------------------------------- */

/* Computes, by a warp, experts[chosen] and weights[chosen] of a row. */
DEVICE void route_row(const router_kind *kind, const router_memory *m, const wide *logits, const wide *bias,
                      int32_t *experts, wide *weights) {
  const statistics s = statistics_of(logits, kind->experts);
  wide sum = 0;
  for (int i = lane(); i < kind->experts; i += WARP)
    m->choice[i] = score_of(kind, &s, logits[i]) + (bias == 0 ? 0 : bias[i]);
  uint32_t open = open_experts(kind, m);
  for (int j = 0; j < kind->chosen; j++) {
    const int best = choose_best(m->choice, kind->experts, &open).index;
    const wide score = score_of(kind, &s, logits[best]);
    sum += score;
    if (j % WARP != lane()) continue;
    experts[j] = best;
    m->chosen[j] = score;
  }
  const wide by = divisor_of(kind, sum);
  for (int j = lane(); j < kind->chosen; j += WARP) weights[j] = (wide)kind->scale * m->chosen[j] / by;
  warp_barrier(); /* all lanes are done with this row */
}

#endif
