#include "plan/network_groups.h"

#include "base/count.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The levels of a cluster, as far as the positions of groups depend on them. `spans` is INT64_MAX for all devices. */
typedef struct levels {
  int64_t count;
  int64_t spans[TRI_CLUSTER_LINKS], per[TRI_CLUSTER_LINKS];
  int64_t ports[TRI_CLUSTER_LINKS], stripe[TRI_CLUSTER_LINKS];
} levels;

static levels levels_of(const tri_cluster *cluster) {
  levels of;
  memset(&of, 0, sizeof of);
  of.count = cluster->num_links;
  for (int64_t l = 0; l < of.count; l++) {
    const tri_link *link = &cluster->links[l];
    of.spans[l] = link->spans == 0 ? INT64_MAX : link->spans;
    of.per[l] = link->per;
    of.ports[l] = link->ports;
    of.stripe[l] = link->stripe;
  }
  return of;
}

/* Returns the devices of a unit of the level within level l: one device for level 0. */
static int64_t spans_within(const levels *of, int64_t l) { return l == 0 ? 1 : of->spans[l - 1]; }

static int64_t divisor(int64_t a, int64_t b) {
  while (b != 0) {
    const int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

static int64_t multiple(int64_t a, int64_t b) { return a / divisor(a, b) * b; }

/* One group of an extent. */
typedef struct place {
  int64_t first, size, stride;
} place;

/* The ranks of a group in the units of a number of adjacent devices. */
typedef struct division {
  int64_t pieces, least, most; /* units with ranks of the group; smallest and largest number of ranks in one of them */
} division;

static division divide(place g, int64_t devices) {
  division found = {0, INT64_MAX, 0};
  if (g.stride >= devices) return (division){g.size, 1, 1};
  if (devices == INT64_MAX) return (division){1, g.size, g.size};
  for (int64_t at = g.first, left = g.size; left > 0;) {
    const int64_t end = (at / devices + 1) * devices;
    const int64_t here = tri_smaller(left, tri_divide_up(end - at, g.stride));
    found.pieces++;
    found.least = tri_smaller(found.least, here);
    found.most = tri_larger(found.most, here);
    at += here * g.stride;
    left -= here;
  }
  return found;
}

/* Returns whether two adjacent ranks of a group are in different units of `inner` devices, and in one unit of `outer`
 * devices. */
static bool crosses(place g, int64_t inner, int64_t outer) {
  if (g.stride >= outer || g.first / inner == (g.first + (g.size - 1) * g.stride) / inner) return false;
  for (int64_t i = 0, at = g.first; i + 1 < g.size; i++, at += g.stride) {
    if (at / inner != (at + g.stride) / inner && at / outer == (at + g.stride) / outer) return true;
  }
  return false;
}

static double lanes_of(const levels *of, int64_t l, int64_t least) {
  const double part = (double)least * (double)of->ports[l] / (double)of->per[l];
  const double lanes = part > 1 ? part : 1;
  return lanes < (double)of->stripe[l] ? lanes : (double)of->stripe[l];
}

static tri_group_kind kind_of(const levels *of, place g) {
  tri_group_kind kind;
  memset(&kind, 0, sizeof kind);
  for (int64_t l = 0; l < of->count; l++) {
    const division units = divide(g, of->spans[l]);
    const bool is_crossed = units.pieces < (l == 0 ? g.size : kind.pieces[l - 1]);
    kind.pieces[l] = units.pieces;
    kind.even[l] = !is_crossed || units.least == units.most;
    kind.lanes[l] = is_crossed ? lanes_of(of, l, divide(g, of->per[l]).least) : (double)of->stripe[l];
  }
  return kind;
}

/* ---- groups that all have the same kind -------------------------------------------------------------------------- */

/* Returns whether all groups of an extent divide alike over units of `devices` devices, equally many ranks in each. */
static bool is_aligned(tri_group_extent e, int64_t devices) {
  const int64_t block = e.size * e.stride;
  if (devices % block == 0 || e.stride % devices == 0) return true;
  return block % devices == 0 && devices % e.stride == 0;
}

static bool are_aligned(const levels *of, tri_group_extent e) {
  if (e.ranks % (e.size * e.stride) != 0) return false; /* some ranks are in no group */
  for (int64_t l = 0; l < of->count; l++) {
    const bool whole = spans_within(of, l) % of->per[l] == 0;
    if (e.ranks <= spans_within(of, l)) break; /* no group crosses this level */
    if (!whole || !is_aligned(e, of->per[l])) return false;
    if (e.ranks > of->spans[l] && !is_aligned(e, of->spans[l])) return false;
  }
  return true;
}

/* Returns the number of ranks of a group among `devices` adjacent devices, if the first of these is one of them. */
static int64_t members_within(tri_group_extent e, int64_t devices) {
  return tri_smaller(e.size, tri_divide_up(devices, e.stride));
}

/* Returns the kind of the groups of an extent that is aligned with all levels that its groups cross. */
static tri_group_kind kind_of_aligned(const levels *of, tri_group_extent e) {
  const int64_t block = e.size * e.stride;
  tri_group_kind kind;
  memset(&kind, 0, sizeof kind);
  for (int64_t l = 0, before = e.size; l < of->count; before = kind.pieces[l++]) {
    const int64_t spans = of->spans[l];
    const bool is_inside = block <= spans || e.ranks <= spans;
    kind.pieces[l] = is_inside ? 1 : e.stride >= spans ? e.size : block / spans;
    kind.even[l] = true;
    kind.lanes[l] = (double)of->stripe[l];
    if (kind.pieces[l] < before) kind.lanes[l] = lanes_of(of, l, members_within(e, of->per[l]));
  }
  return kind;
}

/* Surveys the groups of an aligned extent. Sets *kind, which *out refers to. */
static void survey_aligned(const levels *of, tri_group_extent e, tri_group_kind *kind, tri_group_survey *out) {
  *kind = kind_of_aligned(of, e);
  *out = (tri_group_survey){.kinds = kind, .num_kinds = 1};
  for (int64_t l = 0; l < of->count; l++) {
    if (kind->pieces[l] == (l == 0 ? e.size : kind->pieces[l - 1])) continue;
    const double per = (double)of->per[l];
    const double others = (double)e.size - (double)members_within(e, spans_within(of, l));
    out->rings[l] = per / (double)members_within(e, of->per[l]);
    out->senders[l] = (double)tri_smaller(e.stride, of->per[l]);
    out->partners[l] = per * others;
    out->most_partners[l] = others;
  }
}

/* ---- groups of several kinds ------------------------------------------------------------------------------------- */

/* Groups of an extent that have all kinds and all loads. The groups repeat after some blocks of size * stride ranks,
 * and the ranks of a long group after some ranks. Ranks that only repeat others are left out of `size`, and groups that
 * only repeat others out of `of.stride`. */
typedef struct sample {
  tri_group_extent of; /* the extent, its long stride shortened */
  int64_t size;        /* ranks of a group, some left out */
  int64_t left;        /* ranks of a group that are left out */
  int64_t blocks;      /* number of blocks */
  int64_t devices;     /* number of devices of the blocks */
  int64_t ranks;       /* number of ranks of the job, without the ones that are left out */
} sample;

static sample sample_of(const levels *of, tri_group_extent e) {
  int64_t period = 1;
  for (int64_t l = 0; l < of->count && period <= e.ranks; l++) {
    period = multiple(period, of->per[l]);
    if (period <= e.ranks && of->spans[l] < e.ranks) period = multiple(period, of->spans[l]);
  }
  if (e.stride >= 3 * period && e.ranks % (e.size * e.stride) == 0) {
    /* Adjacent ranks of a group stay more than a period apart, so they stay in different units. */
    const int64_t shorter = e.stride % period + 2 * period;
    e.ranks = e.ranks / e.stride * shorter;
    e.stride = shorter;
  }
  sample s = {.of = e, .size = e.size};
  const int64_t repeats = multiple(period, e.stride) / e.stride; /* ranks of a group until its positions repeat */
  if (e.size >= 4 * repeats) s.left = (e.size / repeats - 3) * repeats;
  s.size -= s.left;
  const int64_t block = s.size * e.stride, all = tri_divide_up(e.ranks, e.size * e.stride);
  s.blocks = period > e.ranks ? all : tri_smaller(all, multiple(block, period) / block);
  s.devices = s.blocks * block;
  s.ranks = e.ranks - all * s.left * e.stride;
  return s;
}

/* Returns the group of a device. */
static place group_at(const sample *s, int64_t device) {
  const int64_t block = s->size * s->of.stride;
  return (place){device / block * block + device % block % s->of.stride, s->size, s->of.stride};
}

static int64_t last_of(place g) { return g.first + (g.size - 1) * g.stride; }

static bool exists(const sample *s, place g) { return last_of(g) < s->ranks; }

static bool are_equal(const levels *of, const tri_group_kind *a, const tri_group_kind *b) {
  for (int64_t l = 0; l < of->count; l++) {
    if (a->pieces[l] != b->pieces[l] || a->even[l] != b->even[l]) return false;
    if (a->lanes[l] < b->lanes[l] || a->lanes[l] > b->lanes[l]) return false;
  }
  return true;
}

static void add_kind(const levels *of, const sample *s, place g, tri_group_kind kinds[TRI_GROUP_KINDS],
                     int64_t *num_kinds) {
  tri_group_kind kind = kind_of(of, g);
  for (int64_t l = 0; l < of->count && s->left > 0; l++) {
    /* The ranks that are left out fill whole units. */
    if (of->spans[l] >= s->of.ranks) continue;
    kind.pieces[l] += s->of.stride >= of->spans[l] ? s->left : s->left * s->of.stride / of->spans[l];
  }
  for (int64_t k = 0; k < *num_kinds; k++) {
    if (are_equal(of, &kinds[k], &kind)) return;
  }
  if (*num_kinds < TRI_GROUP_KINDS) {
    kinds[(*num_kinds)++] = kind;
    return;
  }
  /* The last kind becomes at least as slow as each of the others, if latencies do not decrease outwards. */
  tri_group_kind *last = &kinds[TRI_GROUP_KINDS - 1];
  for (int64_t l = 0; l < of->count; l++) {
    last->pieces[l] = tri_larger(last->pieces[l], kind.pieces[l]);
    last->even[l] = last->even[l] && kind.even[l];
    if (kind.lanes[l] < last->lanes[l]) last->lanes[l] = kind.lanes[l];
  }
}

/* Returns the number of ranks of a group in the unit of `devices` devices that contains a rank. */
static int64_t members_beside(place g, int64_t device, int64_t devices) {
  if (devices == INT64_MAX) return g.size;
  const int64_t begin = tri_larger(device / devices * devices, g.first);
  const int64_t end = tri_smaller((device / devices + 1) * devices - 1, last_of(g));
  return (end - g.first) / g.stride - tri_divide_up(begin - g.first, g.stride) + 1;
}

/* The devices at one set of ports of a level, and what goes through these ports. */
typedef struct port_load {
  int64_t rings, senders, partners;
} port_load;

static void add_device(const levels *of, const sample *s, int64_t l, int64_t device, port_load *load,
                       tri_group_survey *out) {
  const place g = group_at(s, device);
  const int64_t inner = spans_within(of, l), outer = of->spans[l], next = device + g.stride;
  if (!exists(s, g)) return;
  const int64_t before = device - g.stride;
  const bool is_first = before < g.first || before / of->per[l] != device / of->per[l];
  load->rings += is_first && crosses(g, inner, outer);
  load->senders += next <= last_of(g) && device / inner != next / inner && device / outer == next / outer;
  const int64_t others = g.size - members_beside(g, device, inner) + s->left;
  load->partners += others;
  if ((double)others > out->most_partners[l]) out->most_partners[l] = (double)others;
}

static void add_loads(const levels *of, const sample *s, int64_t l, tri_group_survey *out) {
  for (int64_t first = 0; first < s->devices; first += of->per[l]) {
    const int64_t end = tri_smaller(first + of->per[l], s->devices);
    port_load load = {0};
    for (int64_t device = first; device < end; device++) add_device(of, s, l, device, &load, out);
    if ((double)load.rings > out->rings[l]) out->rings[l] = (double)load.rings;
    if ((double)load.senders > out->senders[l]) out->senders[l] = (double)load.senders;
    if ((double)load.partners > out->partners[l]) out->partners[l] = (double)load.partners;
  }
}

/* Surveys the groups of any extent. Sets kinds[], which *out refers to. */
static void survey_all(const levels *of, tri_group_extent e, tri_group_kind kinds[TRI_GROUP_KINDS],
                       tri_group_survey *out) {
  const sample s = sample_of(of, e);
  const int64_t stride = s.of.stride, block = s.size * stride;
  *out = (tri_group_survey){.kinds = kinds};
  for (int64_t b = 0; b < s.blocks; b++) {
    for (int64_t i = 0; i < stride; i++) {
      const place g = {b * block + i, s.size, stride};
      if (exists(&s, g)) add_kind(of, &s, g, kinds, &out->num_kinds);
    }
  }
  for (int64_t l = 0; l < of->count; l++) add_loads(of, &s, l, out);
}

/* ---- surveys ----------------------------------------------------------------------------------------------------- */

/* The groups and levels of a survey. Surveys are kept, because groups of several kinds take long, and because a search
 * asks for the same ones again and again. */
typedef struct survey_key {
  tri_group_extent extent; /* size 0: empty */
  levels of;
} survey_key;

typedef struct aligned_survey {
  survey_key key;
  tri_group_kind kind;
  tri_group_survey survey;
} aligned_survey;

typedef struct kept_survey {
  survey_key key;
  tri_group_kind kinds[TRI_GROUP_KINDS];
  tri_group_survey survey;
} kept_survey;

enum { KEPT_ALIGNED = 128, KEPT_OTHERS = 64 };

typedef struct kept_surveys {
  aligned_survey aligned[KEPT_ALIGNED];
  kept_survey others[KEPT_OTHERS];
} kept_surveys;

static pthread_key_t kept_key; /* its values are the surveys of the threads, freed when the threads end */

static void make_kept_key(void) { (void)pthread_key_create(&kept_key, free); }

/* Returns the surveys that the calling thread keeps; NULL without memory. They are not a thread-local array, because
 * each new thread, planning or not, gets a copy of such an array; and not counted by tri_alloc, because they are kept
 * until the thread ends. */
static kept_surveys *kept_of_thread(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  static _Thread_local kept_surveys *kept;
  if (kept != NULL) return kept;
  pthread_once(&once, make_kept_key);
  kept = calloc(1, sizeof *kept);
  if (kept != NULL) (void)pthread_setspecific(kept_key, kept);
  return kept;
}

static bool has_key(const survey_key *key, const tri_cluster *cluster, tri_group_extent e) {
  if (key->extent.size != e.size || key->extent.stride != e.stride || key->extent.ranks != e.ranks) return false;
  if (key->of.count != cluster->num_links) return false;
  for (int64_t l = 0; l < cluster->num_links; l++) {
    const tri_link *link = &cluster->links[l];
    if (key->of.spans[l] != (link->spans == 0 ? INT64_MAX : link->spans) || key->of.per[l] != link->per) return false;
    if (key->of.ports[l] != link->ports || key->of.stripe[l] != link->stripe) return false;
  }
  return true;
}

const tri_group_survey *tri_group_survey_of(const tri_cluster *cluster, tri_group_extent e) {
  static _Thread_local kept_survey only; /* without memory */
  kept_surveys *kept = kept_of_thread();
  if (e.ranks == 0) e.ranks = e.size * e.stride;
  const uint64_t mixed = ((uint64_t)e.size * 0x9E3779B97F4A7C15u) ^ ((uint64_t)e.stride * 0xC2B2AE3D27D4EB4Fu) ^
                         ((uint64_t)e.ranks * 0x165667B19E3779F9u);
  aligned_survey *aligned = kept == NULL ? NULL : &kept->aligned[(mixed >> 32) % KEPT_ALIGNED];
  kept_survey *other = kept == NULL ? &only : &kept->others[(mixed >> 32) % KEPT_OTHERS];
  if (aligned != NULL && has_key(&aligned->key, cluster, e)) return &aligned->survey;
  if (has_key(&other->key, cluster, e)) return &other->survey;
  const survey_key key = {e, levels_of(cluster)};
  if (aligned != NULL && are_aligned(&key.of, e)) {
    aligned->key = key;
    survey_aligned(&key.of, e, &aligned->kind, &aligned->survey);
    return &aligned->survey;
  }
  other->key = key;
  survey_all(&key.of, e, other->kinds, &other->survey);
  return &other->survey;
}

void tri_group_count_crossing(tri_group_extent e, int64_t devices, int64_t *crossing, int64_t *groups) {
  const int64_t ranks = e.ranks == 0 ? e.size * e.stride : e.ranks, block = e.size * e.stride;
  const int64_t blocks = tri_smaller(tri_divide_up(ranks, block), multiple(block, devices) / block);
  *crossing = *groups = 0;
  for (int64_t b = 0; b < blocks; b++) {
    for (int64_t i = 0; i < e.stride; i++) {
      const place g = {b * block + i, e.size, e.stride};
      if (last_of(g) >= ranks) continue;
      *crossing += g.first / devices != last_of(g) / devices;
      ++*groups;
    }
  }
}
