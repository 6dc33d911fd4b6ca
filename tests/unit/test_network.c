/* Prices of collectives and messages compared with prices computed from lists of all ranks: a group is the list of the
 * ranks that agree on every axis outside the domain, and loads are counted port by port. */
#include "base/count.h"
#include "check.h"
#include "draws.h"
#include "mesh/domain.h"
#include "plan/network.h"

#include <math.h>
#include <string.h>

enum { LEVELS = TRI_CLUSTER_LINKS, MAX_RANKS = 20000, NUM_CASES = 2000, NUM_LARGE_CASES = 12, NUM_LONG_CASES = 40 };

typedef struct listed_group {
  int first;
  int64_t pieces[LEVELS];
  bool crosses[LEVELS], even[LEVELS];
  double lanes[LEVELS];
} listed_group;

/* All groups of a domain. The ranks of a group are first, next[first], next[next[first]], ... up to -1, ascending. */
typedef struct listing {
  int64_t num_ranks, size, num_groups;
  int next[MAX_RANKS], group_of[MAX_RANKS]; /* group_of: -1 if the rank is in no group */
  listed_group groups[MAX_RANKS];
  /* Loads, as in tri_group_survey; 0 at levels that no group crosses. */
  double rings[LEVELS], senders[LEVELS], partners[LEVELS], most_partners[LEVELS];
} listing;

static listing listed;      /* too large for a stack */
static tri_cluster cluster; /* the same */

static struct {
  int numbers;        /* numbers that were compared */
  int straddling;     /* domains with several kinds of groups */
  int64_t most_kinds; /* largest number of kinds of groups of a domain */
} seen;

/* ---- lists of ranks ---------------------------------------------------------------------------------------------- */

/* Makes lists from the key of each rank. Ranks with equal keys are a group; ranks with the key -1 are in no group.
 * Keys are below MAX_RANKS. */
static void list_by_keys(const int *keys, int64_t num_ranks) {
  static int last_of_key[MAX_RANKS], group_of_key[MAX_RANKS];
  for (int key = 0; key < MAX_RANKS; key++) last_of_key[key] = -1;
  listed.num_ranks = num_ranks;
  listed.num_groups = 0;
  for (int rank = 0; rank < num_ranks; rank++) {
    const int key = keys[rank];
    listed.next[rank] = -1;
    listed.group_of[rank] = -1;
    if (key < 0) continue;
    if (last_of_key[key] >= 0) {
      listed.next[last_of_key[key]] = rank;
    } else {
      group_of_key[key] = (int)listed.num_groups;
      memset(&listed.groups[listed.num_groups], 0, sizeof listed.groups[0]);
      listed.groups[listed.num_groups++].first = rank;
    }
    last_of_key[key] = rank;
    listed.group_of[rank] = group_of_key[key];
  }
  listed.size = 0;
  for (int rank = listed.groups[0].first; rank >= 0; rank = listed.next[rank]) listed.size++;
}

static void list_domain(const tri_mesh_shape *shape, tri_domain domain) {
  static int keys[MAX_RANKS];
  const bool folded = tri_domain_is_folded(domain);
  const int num_ranks = tri_mesh_num_ranks(shape);
  for (int rank = 0; rank < num_ranks; rank++) {
    const tri_mesh_coordinates place = tri_mesh_coordinates_of(shape, rank);
    keys[rank] = 0;
    for (int axis = 0; axis < TRI_NUM_AXES; axis++) {
      /* the expert mesh is a mesh of the ranks of one pipeline stage */
      const bool own = tri_axis_is_folded((tri_axis)axis) == folded || axis == TRI_AXIS_PIPELINE;
      if (!own || tri_domain_has(domain, (tri_axis)axis)) continue;
      keys[rank] =
          keys[rank] * tri_mesh_axis_size(shape, (tri_axis)axis) + tri_mesh_axis_at(shape, &place, (tri_axis)axis);
    }
  }
  list_by_keys(keys, num_ranks);
}

/* Lists the pairs of a rank of the first stage and the same rank of the last stage. */
static void list_ends(const tri_mesh_shape *shape) {
  static int keys[MAX_RANKS];
  const int num_ranks = tri_mesh_num_ranks(shape), stages = shape->size[TRI_AXIS_PIPELINE];
  for (int rank = 0; rank < num_ranks; rank++) {
    const tri_mesh_coordinates place = tri_mesh_coordinates_of(shape, rank);
    const int stage = place.at[TRI_AXIS_PIPELINE];
    keys[rank] = stage == 0 || stage == stages - 1 ? tri_mesh_stage_rank(shape, &place) : -1;
  }
  list_by_keys(keys, num_ranks);
}

static int64_t unit_of(int64_t l, int rank) {
  if (l < 0) return rank;
  return cluster.links[l].spans == 0 ? 0 : rank / cluster.links[l].spans;
}

static int64_t ports_of(int64_t l, int rank) { return rank / cluster.links[l].per; }

/* Sets pieces, even and lanes of a group at level l. */
static void list_units(listed_group *g, int64_t l) {
  int64_t least = INT64_MAX, most = 0, here = 0, at_ports = 0, least_at_ports = INT64_MAX;
  for (int rank = g->first; rank >= 0; rank = listed.next[rank]) {
    const int next = listed.next[rank];
    here++;
    at_ports++;
    if (next < 0 || unit_of(l, next) != unit_of(l, rank)) {
      g->pieces[l]++;
      least = tri_smaller(least, here);
      most = tri_larger(most, here);
      here = 0;
    }
    if (next < 0 || ports_of(l, next) != ports_of(l, rank)) {
      least_at_ports = tri_smaller(least_at_ports, at_ports);
      at_ports = 0;
    }
  }
  const tri_link *link = &cluster.links[l];
  const double part = (double)least_at_ports * (double)link->ports / (double)link->per;
  g->crosses[l] = (l == 0 ? listed.size : g->pieces[l - 1]) > g->pieces[l];
  g->even[l] = least == most;
  g->lanes[l] = fmin(fmax(1, part), (double)link->stripe);
}

/* Adds the ranks of a group to the loads of the ports of level l. */
static void add_to_ports(const listed_group *g, int64_t l, double *rings, double *senders, double *partners) {
  for (int rank = g->first, begin = rank; rank >= 0; rank = listed.next[rank]) {
    const int next = listed.next[rank];
    const int64_t ports = ports_of(l, rank);
    if (g->crosses[l] && (next < 0 || ports_of(l, next) != ports)) rings[ports]++;
    if (next >= 0 && unit_of(l - 1, next) != unit_of(l - 1, rank) && unit_of(l, next) == unit_of(l, rank)) {
      senders[ports]++;
    }
    if (next >= 0 && unit_of(l - 1, next) == unit_of(l - 1, rank)) continue;
    int64_t beside = 0; /* ranks of the group in this unit of level l - 1 */
    for (int member = begin; member != next; member = listed.next[member]) beside++;
    for (int member = begin; member != next; member = listed.next[member]) {
      const double others = (double)(listed.size - beside);
      partners[ports_of(l, member)] += others;
      listed.most_partners[l] = fmax(listed.most_partners[l], others);
    }
    begin = next;
  }
}

static void list_loads(int64_t l) {
  static double rings[MAX_RANKS], senders[MAX_RANKS], partners[MAX_RANKS];
  const int64_t num_ports = tri_divide_up(listed.num_ranks, cluster.links[l].per);
  bool crossed = false;
  for (int64_t p = 0; p < num_ports; p++) rings[p] = senders[p] = partners[p] = 0;
  listed.rings[l] = listed.senders[l] = listed.partners[l] = listed.most_partners[l] = 0;
  for (int64_t i = 0; i < listed.num_groups; i++) crossed = crossed || listed.groups[i].crosses[l];
  if (!crossed) return;
  for (int64_t i = 0; i < listed.num_groups; i++) add_to_ports(&listed.groups[i], l, rings, senders, partners);
  for (int64_t p = 0; p < num_ports; p++) {
    listed.rings[l] = fmax(listed.rings[l], rings[p]);
    listed.senders[l] = fmax(listed.senders[l], senders[p]);
    listed.partners[l] = fmax(listed.partners[l], partners[p]);
  }
}

static void list_links(void) {
  for (int64_t l = 0; l < cluster.num_links; l++) {
    for (int64_t i = 0; i < listed.num_groups; i++) {
      listed.groups[i].pieces[l] = 0;
      list_units(&listed.groups[i], l);
    }
    list_loads(l);
  }
}

/* ---- prices of the lists ----------------------------------------------------------------------------------------- */

static double port_rate(int64_t l) { return cluster.links[l].bandwidth * cluster.efficiency.link; }

static double flow_rate(int64_t l, double flows, double lanes) {
  const tri_link *link = &cluster.links[l];
  return fmin(port_rate(l) * (double)link->ports * link->share / flows, port_rate(l) * lanes);
}

static double with_protocols(double bytes_s, double hops_s) {
  double best = bytes_s + hops_s;
  for (int64_t p = 0; p < cluster.num_protocols; p++) {
    best = fmin(best, bytes_s / cluster.protocols[p].share + hops_s * cluster.protocols[p].latency);
  }
  return best;
}

static double late_s(double ranks) {
  const double sum = log(ranks) + 0.5772156649 + 1 / (2 * ranks) - 1 / (12 * ranks * ranks) - 1;
  double exact = 0;
  for (int n = 2; n <= (int)ranks; n++) exact += 1.0 / n;
  assert_true(fabs(sum - exact) < 1e-2);
  return cluster.efficiency.start * sum;
}

static double ring_rate(const listed_group *g, int64_t l, const tri_system *system) {
  return flow_rate(l, listed.rings[l], system->single_ring ? 1 : g->lanes[l]);
}

static double ring_or_tree_s(const listed_group *g, double passes, double bytes, const tri_system *system, bool tree) {
  const double n = (double)listed.size;
  double speed = INFINITY, hops_s = 0, before = n;
  for (int64_t l = 0; l < cluster.num_links; before = (double)g->pieces[l++]) {
    if (!g->crosses[l]) continue;
    const double after = (double)g->pieces[l];
    speed = fmin(speed, ring_rate(g, l, system));
    hops_s += (tree ? ceil(log2(before / after)) : before - after) * cluster.links[l].latency;
  }
  return with_protocols(passes * (tree ? bytes : bytes * (n - 1) / n) / speed, passes * hops_s);
}

/* Returns the seconds of hierarchical rings. A stage is as slow as the slowest of its levels, in bandwidth and in
 * latency. */
static double stages_s(const listed_group *g, double passes, double bytes, const tri_system *system) {
  const double n = (double)listed.size;
  double bytes_s = 0, hops_s = 0, begin = n, end = n, speed = INFINITY, latency = 0;
  for (int64_t l = 0; l < cluster.num_links; l++) {
    const tri_link *link = &cluster.links[l];
    if (!g->crosses[l]) continue;
    const double here = begin < n ? flow_rate(l, (double)link->per, (double)link->ports) : ring_rate(g, l, system);
    speed = fmin(speed, here);
    latency = fmax(latency, link->latency);
    end = (double)g->pieces[l];
    if (!g->even[l]) continue;
    const double ways = begin / end, part = bytes * begin / n; /* part: bytes of a device's part of the buffer */
    bytes_s += passes * (ways - 1) / ways * part / speed;
    hops_s += passes * (ways - 1) * latency;
    begin = end;
    speed = INFINITY;
    latency = 0;
  }
  assert_true(begin <= end); /* the outermost level connects all ranks */
  return with_protocols(bytes_s, hops_s);
}

static double exchange_s(double bytes) {
  const double part = bytes / (double)listed.size;
  double bytes_s = 0, hops_s = 0;
  for (int64_t l = 0; l < cluster.num_links; l++) {
    const tri_link *link = &cluster.links[l];
    if (listed.rings[l] <= 0) continue;
    const double ports = (double)link->ports, lanes = fmax(1, ports / (double)link->per);
    bytes_s = fmax(bytes_s, part * listed.partners[l] / (port_rate(l) * ports * link->share));
    bytes_s = fmax(bytes_s, part * listed.most_partners[l] / (port_rate(l) * lanes));
    hops_s = fmax(hops_s, link->latency);
  }
  return with_protocols(bytes_s, hops_s);
}

static double message_s(double bytes) {
  double slowest = 0;
  for (int64_t l = 0; l < cluster.num_links; l++) {
    if (listed.senders[l] <= 0) continue;
    slowest = fmax(slowest, bytes / flow_rate(l, listed.senders[l], 1) + cluster.links[l].latency);
  }
  return slowest;
}

static double group_s(const listed_group *g, tri_collective kind, double bytes, const tri_system *system) {
  const double passes = kind == TRI_COLLECTIVE_ALL_REDUCE ? 2 : 1;
  double best = ring_or_tree_s(g, passes, bytes, system, false);
  if (kind == TRI_COLLECTIVE_ALL_REDUCE) best = fmin(best, ring_or_tree_s(g, passes, bytes, system, true));
  return system->levels ? fmin(best, stages_s(g, passes, bytes, system)) : best;
}

static double collective_s(tri_collective kind, double bytes, const tri_system *system) {
  double slowest = 0;
  if (listed.size <= 1) return 0;
  if (kind == TRI_COLLECTIVE_PASS) return message_s(bytes) + late_s(2);
  if (kind == TRI_COLLECTIVE_ALL_TO_ALL) {
    slowest = exchange_s(bytes);
  } else {
    for (int64_t i = 0; i < listed.num_groups; i++) {
      slowest = fmax(slowest, group_s(&listed.groups[i], kind, bytes, system));
    }
  }
  return slowest / system->link_share + late_s((double)listed.size);
}

/* ---- comparisons ------------------------------------------------------------------------------------------------- */

static bool is_kind(const listed_group *g, const tri_group_kind *kind) {
  for (int64_t l = 0; l < cluster.num_links; l++) {
    if (g->pieces[l] != kind->pieces[l]) return false;
    if (g->crosses[l] && (g->even[l] != kind->even[l] || fabs(g->lanes[l] - kind->lanes[l]) > 1e-12)) return false;
  }
  return true;
}

static bool near(double a, double b) { return fabs(a - b) <= 1e-12 * fmax(fabs(a), fabs(b)); }

static void describe(const char *what, int64_t l, double found, double expected, tri_group_extent e) {
  print_error("%s %ld: %.17g, expected %.17g; size %ld stride %ld ranks %ld\n", what, (long)l, found, expected,
              (long)e.size, (long)e.stride, (long)e.ranks);
  for (int64_t i = 0; i < cluster.num_links; i++) {
    const tri_link *link = &cluster.links[i];
    print_error("  spans %ld per %ld ports %ld stripe %ld share %g bandwidth %g latency %g\n", (long)link->spans,
                (long)link->per, (long)link->ports, (long)link->stripe, link->share, link->bandwidth, link->latency);
  }
}

static void expect(const char *what, int64_t l, double found, double expected, tri_group_extent e) {
  seen.numbers++;
  if (near(found, expected)) return;
  describe(what, l, found, expected, e);
  fail();
}

static void compare_kinds(const tri_group_survey *survey, tri_group_extent e) {
  bool used[TRI_GROUP_KINDS] = {false};
  for (int64_t i = 0; i < listed.num_groups; i++) {
    int64_t k = 0;
    while (k < survey->num_kinds && !is_kind(&listed.groups[i], &survey->kinds[k])) k++;
    if (k == survey->num_kinds) describe("no kind of group", i, 0, 0, e);
    assert_true(k < survey->num_kinds);
    used[k] = true;
  }
  for (int64_t k = 0; k < survey->num_kinds; k++) assert_true(used[k]);
}

static void compare_surveys(tri_group_extent e) {
  const tri_group_survey *survey = tri_group_survey_of(&cluster, e);
  for (int64_t l = 0; l < cluster.num_links; l++) {
    if (listed.rings[l] > 0 || survey->rings[l] > 0) {
      expect("rings", l, survey->rings[l], listed.rings[l], e);
      expect("partners", l, survey->partners[l], listed.partners[l], e);
      expect("most_partners", l, survey->most_partners[l], listed.most_partners[l], e);
    }
    expect("senders", l, survey->senders[l], listed.senders[l], e);
  }
  assert_true(survey->num_kinds < TRI_GROUP_KINDS); /* more kinds are merged */
  compare_kinds(survey, e);
  seen.straddling += survey->num_kinds > 1;
  seen.most_kinds = tri_larger(seen.most_kinds, survey->num_kinds);
}

static void compare_crossing(tri_group_extent e, int64_t devices) {
  const int64_t block = e.size * e.stride;
  int64_t period = block, crossing = 0, groups = 0, found_crossing = 0, found_groups = 0;
  while (period % devices != 0) period += block;
  for (int64_t i = 0; i < listed.num_groups; i++) {
    int last = listed.groups[i].first;
    while (listed.next[last] >= 0) last = listed.next[last];
    if (last >= period) continue;
    groups++;
    crossing += listed.groups[i].first / devices != last / devices;
  }
  tri_group_count_crossing(e, devices, &found_crossing, &found_groups);
  expect("crossing", devices, (double)found_crossing, (double)crossing, e);
  expect("groups", devices, (double)found_groups, (double)groups, e);
}

static tri_system draw_system(draws *d) {
  return (tri_system){.single_ring = toss(d), .levels = toss(d), .link_share = toss(d) ? 1 : 0.7};
}

/* Compares everything about the groups of `listed`, which have the extent e. */
static void compare(draws *d, tri_group_extent e) {
  static const tri_collective collectives[] = {TRI_COLLECTIVE_ALL_REDUCE, TRI_COLLECTIVE_ALL_GATHER,
                                               TRI_COLLECTIVE_REDUCE_SCATTER, TRI_COLLECTIVE_ALL_TO_ALL,
                                               TRI_COLLECTIVE_PASS};
  const double bytes = pick_scale(d, 2, 10);
  list_links();
  compare_surveys(e);
  compare_crossing(e, pick(d, 1, 12));
  for (size_t i = 0; i < sizeof collectives / sizeof collectives[0]; i++) {
    const tri_system system = draw_system(d);
    const double found = tri_network_collective(&cluster, collectives[i], bytes, e, &system);
    expect("collective", (int64_t)collectives[i], found, collective_s(collectives[i], bytes, &system), e);
  }
  expect("message", 0, tri_network_message(&cluster, bytes, e), message_s(bytes), e);
}

/* ---- random cases ------------------------------------------------------------------------------------------------ */

static int64_t draw_divisor(draws *d, int64_t of) {
  int64_t found = 0;
  do found = pick(d, 1, tri_smaller(of, 24));
  while (of % found != 0);
  return found;
}

static int64_t draw_per(draws *d, int64_t inner) {
  switch (pick(d, 0, 3)) {
    case 0: return draw_divisor(d, inner);
    case 1: return inner * pick(d, 2, 4);
    default: return inner;
  }
}

static void draw_cluster(draws *d) {
  static const int factors[] = {2, 2, 2, 3, 4, 5, 6, 8, 8, 12};
  int64_t inner = 1;
  cluster = (tri_cluster){.num_links = pick(d, 1, 4), .num_protocols = pick(d, 0, 2)};
  cluster.efficiency.link = toss(d) ? 1 : 0.8;
  cluster.efficiency.start = toss(d) ? 0 : 2e-5;
  for (int64_t l = 0; l < cluster.num_links; l++) {
    tri_link *link = &cluster.links[l];
    const int64_t spans = inner * factors[pick(d, 0, 9)];
    link->spans = l + 1 < cluster.num_links ? spans : 0;
    link->per = draw_per(d, inner);
    link->ports = toss(d) ? link->per : pick(d, 1, 2 * link->per);
    link->stripe = pick(d, 1, link->ports);
    link->share = toss(d) ? 1 : 0.3;
    link->bandwidth = pick_scale(d, 9, 12);
    link->latency = toss(d) ? pick_scale(d, -7, -4) : 0;
    inner = spans;
  }
  for (int64_t p = 0; p < cluster.num_protocols; p++) {
    cluster.protocols[p].share = p == 0 ? 0.25 : 0.9;
    cluster.protocols[p].latency = p == 0 ? 0.2 : 0.5;
  }
}

static tri_mesh_shape draw_shape(draws *d, int64_t least, int64_t most) {
  static const int sizes[] = {1, 1, 1, 2, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12};
  tri_mesh_shape shape;
  do {
    for (int axis = 0; axis < TRI_NUM_MESH_AXES; axis++) shape.size[axis] = sizes[pick(d, 0, 13)];
    if (pick(d, 0, 3) == 0) shape.size[TRI_AXIS_DATA] *= (int)pick(d, 2, 100);
  } while (tri_mesh_num_ranks(&shape) > most || tri_mesh_num_ranks(&shape) < least);
  const int64_t stage = tri_mesh_stage_ranks(&shape);
  shape.expert_tensor = (int)draw_divisor(d, stage);
  shape.expert = (int)draw_divisor(d, stage / shape.expert_tensor);
  return shape;
}

/* Compares all domains of a mesh on `cluster`, and the pairs of ranks that have tied embeddings. */
static void compare_domains(draws *d, const tri_mesh_shape *shape) {
  const int stages = shape->size[TRI_AXIS_PIPELINE];
  for (int domain = 0; domain < TRI_NUM_DOMAINS; domain++) {
    if (tri_domain_size(shape, (tri_domain)domain) == 1) continue;
    const tri_group_extent e = tri_network_extent(shape, (tri_domain)domain);
    list_domain(shape, (tri_domain)domain);
    assert_int_equal(e.size, listed.size);
    assert_int_equal(e.ranks, listed.num_ranks);
    compare(d, e);
  }
  if (stages == 1) return;
  list_ends(shape);
  compare(d, (tri_group_extent){2, (int64_t)(stages - 1) * tri_mesh_stage_ranks(shape), listed.num_ranks});
}

static void compare_drawn(draws *d, int64_t least, int64_t most) {
  const tri_mesh_shape shape = draw_shape(d, least, most);
  draw_cluster(d);
  compare_domains(d, &shape);
}

static void as_the_lists(void **state) {
  (void)state;
  draws d = {.key = tri_random_stream(20, TRI_RANDOM_TEST, 0)};
  for (int i = 0; i < NUM_CASES; i++) compare_drawn(&d, 2, i % 8 == 0 ? 3000 : 600);
  for (int i = 0; i < NUM_LARGE_CASES; i++) compare_drawn(&d, 3000, MAX_RANKS);
  print_message("%d numbers, %d domains with several kinds of groups, at most %ld kinds\n", seen.numbers,
                seen.straddling, (long)seen.most_kinds);
  assert_true(seen.straddling > 1000 && seen.most_kinds > 10);
}

/* A stride or a group far longer than a period of positions is shortened in surveys. */
static void long_strides_and_groups(void **state) {
  (void)state;
  static const tri_mesh_shape shapes[] = {{.size = {1, 1, 7, 270, 3}, .expert_tensor = 1, .expert = 1},
                                          {.size = {7, 1, 1, 1400, 2}, .expert = 7},
                                          {.size = {3, 5, 1, 1201, 1}, .expert = 5, .expert_tensor = 3},
                                          {.size = {11, 3, 59, 1, 5}, .expert = 59}};
  draws d = {.key = tri_random_stream(20, TRI_RANDOM_TEST, 1)};
  for (int i = 0; i < NUM_LONG_CASES; i++) {
    draw_cluster(&d);
    compare_domains(&d, &shapes[i % 4]);
  }
}

/* ---- by hand ----------------------------------------------------------------------------------------------------- */

static void groups_that_cross_nodes(void **state) {
  (void)state;
  static const struct {
    tri_group_extent groups;
    int64_t node, crossing, all;
  } cases[] = {
      {{3, 1, 96}, 8, 2, 8}, /* ranks 6 to 8 and 15 to 17 of 24 */
      {{3, 1, 12}, 8, 1, 4}, /* a job that ends before positions repeat */
      {{3, 1, 96}, 6, 0, 2}, /* 3 divides 6 */
      {{6, 1, 96}, 8, 2, 4}, /* ranks 6 to 11 and 12 to 17 of 24 */
      {{3, 2, 96}, 8, 4, 8}, /* ranks 6, 8, 10 and 7, 9, 11; ranks 12, 14, 16 and 13, 15, 17 */
      {{2, 8, 96}, 8, 8, 8}, /* one rank in each node */
      {{8, 1, 0}, 8, 0, 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    int64_t crossing = 0, groups = 0;
    tri_group_count_crossing(cases[i].groups, cases[i].node, &crossing, &groups);
    assert_int_equal(crossing, cases[i].crossing);
    assert_int_equal(groups, cases[i].all);
  }
}

/* Groups of 3 on nodes of 8: a ring carries two thirds of the buffer over each link, and makes two hops. */
static void groups_of_three_on_dgx_h100(void **state) {
  (void)state;
  static const tri_system system = {.levels = true, .link_share = 1};
  const double bytes = 4096.0 * 12288 * 2, late = 20e-6 * (1.0 / 2 + 1.0 / 3);
  CHECK_OK(tri_cluster_load("dgx-h100", &cluster));
  const double inside =
      tri_network_collective(&cluster, TRI_COLLECTIVE_ALL_GATHER, bytes, (tri_group_extent){3, 1, 6}, &system);
  const double across =
      tri_network_collective(&cluster, TRI_COLLECTIVE_ALL_GATHER, bytes, (tri_group_extent){3, 1, 96}, &system);
  /* 0.199 ms at 337.5 GB/s, and 1.79 ms at the 37.5 GB/s of one port */
  assert_true(fabs(inside - (bytes * 2 / 3 / 337.5e9 + 2 * 3.4e-6 + late)) < 1e-7);
  assert_true(fabs(across - (bytes * 2 / 3 / 37.5e9 + 3.4e-6 + 14e-6 + late)) < 1e-7);
  assert_true(fabs(bytes * 2 / 3 / 337.5e9 - 0.199e-3) < 1e-6 && fabs(bytes * 2 / 3 / 37.5e9 - 1.79e-3) < 1e-6);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(as_the_lists),
      cmocka_unit_test(long_strides_and_groups),
      cmocka_unit_test(groups_that_cross_nodes),
      cmocka_unit_test(groups_of_three_on_dgx_h100),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
