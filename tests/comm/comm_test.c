/* Ranks that add, gather and send, beside sums made the plain way: started by mpiexec (cmake/tests.cmake).
 *
 *   comm_test               everything below
 *   comm_test huge          buffers beyond 2 GiB (two ranks, 9 GB)
 *   comm_test short         a message shorter than its receiver expects: TRI_COMM
 *   comm_test uneven        an all-to-all of parts shorter than their receiver expects: TRI_COMM
 *   comm_test mismatch      ranks that call different collectives: TRI_COMM on all
 *   comm_test abort         rank 1 gives up while the others wait: the job ends with a status that is not 0
 *   comm_test other-mpi     started by another MPI's mpiexec: TRI_COMM that says so */
#include "base/clock.h"
#include "base/memory.h"
#include "comm/collect.h"
#include "comm/mesh.h"
#include "comm_check.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static const tri_dtype TYPES[] = {TRI_FP32, TRI_BF16, TRI_FP64};

/* ---- one collective ---------------------------------------------------------------------------------------------- */

static void check_all_reduce(const members *m, tri_dtype type, int64_t count, uint64_t seed) {
  void *values = get_values((size_t)count * tri_dtype_bytes(type), seed);
  fill(m, type, seed, count, values);
  CHECK_OK(tri_all_reduce(&m->group, type, count, values));
  check_sums(m, type, seed, 0, count, values);
  drop_values(values);
}

/* The scattered sums, and all of them after gathering. */
static void check_scatter_gather(const members *m, tri_dtype type, int64_t count, uint64_t seed) {
  int64_t begins[65];
  void *values = get_values((size_t)count * tri_dtype_bytes(type), seed);
  random_begins(seed, m->group.size, count, begins);
  fill(m, type, seed, count, values);
  CHECK_OK(tri_reduce_scatter(&m->group, type, begins, values));
  check_sums(m, type, seed, begins[m->group.rank], begins[m->group.rank + 1], values);
  CHECK_OK(tri_all_gather(&m->group, type, begins, values));
  check_sums(m, type, seed, 0, count, values);
  drop_values(values);
}

static void check_maximum(const members *m, tri_dtype type, int64_t count, uint64_t seed) {
  void *values = get_values((size_t)count * tri_dtype_bytes(type), seed);
  fill(m, type, seed, count, values);
  if (count > 2 && m->group.rank == m->group.size / 2) store(type, values, 2, NAN);
  CHECK_OK(tri_all_maximum(&m->group, type, count, values));
  for (int64_t i = 0; i < count; i++) {
    double want = stored_value(m, type, seed, 0, i);
    for (int r = 1; r < m->group.size; r++) want = fmax(want, stored_value(m, type, seed, r, i));
    double have = load(type, values, i);
    CHECK(i == 2 ? isnan(have) : have == want, "element %lld: %g, not %g", (long long)i, have, want);
  }
  drop_values(values);
}

static void check_int64(const members *m, int64_t count, uint64_t seed) {
  int64_t *values = get_memory((size_t)count * sizeof *values);
  for (int64_t i = 0; i < count; i++) {
    values[i] = (int64_t)(hash(seed + (uint64_t)i * 64 + (uint64_t)m->job_ranks[m->group.rank]) >> 7);
  }
  CHECK_OK(tri_all_sum_int64(&m->group, count, values));
  for (int64_t i = 0; i < count; i++) {
    int64_t want = 0;
    for (int r = 0; r < m->group.size; r++) {
      want += (int64_t)(hash(seed + (uint64_t)i * 64 + (uint64_t)m->job_ranks[r]) >> 7);
    }
    CHECK(values[i] == want, "element %lld: %lld", (long long)i, (long long)values[i]);
  }
  free(values);
}

static void check_bytes(const members *m, size_t bytes, uint64_t seed) {
  int size = m->group.size;
  unsigned char *mine = get_memory(bytes);
  unsigned char *all = get_memory(bytes * (size_t)size);
  for (int root = 0; root < size; root++) {
    for (size_t i = 0; i < bytes; i++) mine[i] = m->group.rank == root ? (unsigned char)hash(seed + i) : 0;
    CHECK_OK(tri_broadcast(&m->group, root, bytes, mine));
    for (size_t i = 0; i < bytes; i++) CHECK(mine[i] == (unsigned char)hash(seed + i), "broadcast, byte %zu", i);
  }
  for (size_t i = 0; i < bytes; i++) mine[i] = (unsigned char)hash(seed + i + ((uint64_t)m->group.rank << 40));
  CHECK_OK(tri_gather_bytes(&m->group, bytes, mine, all));
  for (int r = 0; r < size; r++) {
    for (size_t i = 0; i < bytes; i++) {
      CHECK(all[(size_t)r * bytes + i] == (unsigned char)hash(seed + i + ((uint64_t)r << 40)), "gather, byte %zu", i);
    }
  }
  free(all);
  free(mine);
}

/* Memory of different sizes, of no bytes too, on the first rank. */
static void check_collect(const members *m, int64_t most, uint64_t seed) {
  const int64_t bytes = (int64_t)(hash(seed + (uint64_t)m->group.rank) % (uint64_t)(most + 1));
  unsigned char *mine = get_memory((size_t)bytes);
  tri_collected found;
  for (int64_t i = 0; i < bytes; i++) mine[i] = (unsigned char)hash(seed + (uint64_t)i * 64 + (uint64_t)m->group.rank);
  CHECK_OK(tri_collect(&m->group, 9, bytes, mine, &found));
  CHECK((found.all == NULL) == (m->group.rank > 0) && (found.begins == NULL) == (m->group.rank > 0), "memory");
  for (int r = 0; r < m->group.size && m->group.rank == 0; r++) {
    const int64_t first = found.begins[r], end = found.begins[r + 1];
    CHECK(end - first == (int64_t)(hash(seed + (uint64_t)r) % (uint64_t)(most + 1)), "size of part %d", r);
    for (int64_t i = first; i < end; i++) {
      const unsigned char want = (unsigned char)hash(seed + (uint64_t)(i - first) * 64 + (uint64_t)r);
      CHECK(((unsigned char *)found.all)[i] == want, "part %d, byte %lld", r, (long long)(i - first));
    }
  }
  tri_collected_release(&found);
  free(mine);
}

/* With a byte behind the last. */
static void *get_parts(const members *m, const parts *p) {
  void *to = get_memory(got_bytes(m, p));
  memset(to, 0xee, got_bytes(m, p) + 1);
  return to;
}

static void check_all_to_all(const members *m, tri_dtype type, int64_t most, uint64_t seed) {
  parts p = plan_parts(m, type, most, seed);
  void *from = get_values(given_bytes(m, &p), seed), *to = get_parts(m, &p);
  fill_parts(m, &p, from);
  CHECK_OK(tri_all_to_all(&m->group, type, p.given, from, p.got, to));
  memset(from, 0xdd, given_bytes(m, &p)); /* this rank's again at once */
  check_parts(m, &p, to);
  CHECK(((uint8_t *)to)[got_bytes(m, &p)] == 0xee, "a byte behind the last");
  free(to);
  drop_values(from);
}

/* ---- groups ------------------------------------------------------------------------------------------------------ */

/* Whether a group of the same ranks in the same order was checked before: then all of its ranks say so. */
static bool was_checked(const members *m) {
  static uint64_t checked[256]; /* hashes of ranks */
  static int num_checked = 0;
  uint64_t ranks = 0;
  for (int r = 0; r < m->group.size; r++) ranks = hash(ranks ^ (uint64_t)(m->job_ranks[r] + 1));
  for (int i = 0; i < num_checked; i++) {
    if (checked[i] == ranks) return true;
  }
  CHECK(num_checked < 256, "%d groups", num_checked);
  checked[num_checked++] = ranks;
  return false;
}

/* Many meshes have groups of the same ranks: another one of those gets few counts, each with one type. */
static void check_group(tri_group group, bool large) {
  static const int64_t counts[] = {0, 1, 2, 3, 7, 31, 64, 511, 1000, 1025, 4099, 30011};
  members m = members_of(group);
  uint64_t seed = hash((uint64_t)group.size);
  const bool again = was_checked(&m);
  for (size_t c = again ? 1 : 0; c < sizeof counts / sizeof counts[0]; c += again ? 4 : 1) {
    for (int t = again ? (int)(c / 4) : 0; t < (again ? (int)(c / 4) + 1 : 3); t++, seed++) {
      check_all_reduce(&m, TYPES[t], counts[c], seed);
      check_scatter_gather(&m, TYPES[t], counts[c], seed);
      check_maximum(&m, TYPES[t], counts[c], seed);
      check_all_to_all(&m, TYPES[t], counts[c], seed);
    }
    check_all_to_all(&m, TRI_INT32, counts[c], seed);
    check_int64(&m, counts[c], seed);
    check_bytes(&m, (size_t)counts[c], seed);
    check_collect(&m, counts[c], seed);
    CHECK_OK(tri_barrier(&group));
  }
  /* Several pieces of the staging, and several rounds between nodes. */
  static const int64_t large_counts[] = {700001, 300007, 5000003};
  for (int c = 0; large && c < 3; c++) {
    check_all_reduce(&m, TYPES[c], large_counts[c], seed + 1);
    check_scatter_gather(&m, TYPES[(c + 1) % 3], large_counts[c] / 2, seed + 2);
    check_all_to_all(&m, TYPES[c], large_counts[c] / group.size, seed + 3);
  }
  if (large) check_bytes(&m, 1500001, seed);
}

/* The mesh of as many ranks as there are: 2 x 1 x 2 x 2 for eight. */
static tri_mesh_shape shape_of(int ranks) {
  if (ranks == 8) return (tri_mesh_shape){.size = {2, 1, 1, 2, 2}};
  if (ranks == 4) return (tri_mesh_shape){.size = {2, 1, 1, 1, 2}};
  return (tri_mesh_shape){.size = {1, 1, 1, ranks, 1}};
}

/* The ranks of a domain: those of the mesh whose place differs along its axes alone, and those of a stage in either
 * view, in the order of the mesh. */
static void check_domain(const tri_mesh *mesh, tri_domain domain) {
  members m = members_of(*tri_mesh_group(mesh, domain)), all = members_of(mesh->world);
  int found = 0;
  for (int rank = 0; rank < mesh->world.size; rank++) {
    tri_mesh_coordinates place = tri_mesh_coordinates_of(&mesh->shape, rank);
    bool belongs = true;
    for (int a = 0; a < TRI_NUM_AXES; a++) {
      tri_axis axis = (tri_axis)a;
      bool asked = axis == TRI_AXIS_PIPELINE || tri_axis_is_folded(axis) == tri_domain_is_folded(domain);
      if (!asked || tri_domain_has(domain, axis)) continue;
      belongs =
          belongs && tri_mesh_axis_at(&mesh->shape, &place, axis) == tri_mesh_axis_at(&mesh->shape, &mesh->place, axis);
    }
    if (!belongs) continue;
    CHECK(found < m.group.size && m.job_ranks[found] == all.job_ranks[rank], "%s, rank %d", m.group.name, found);
    CHECK(tri_mesh_world_rank(mesh, m.group.name, found) == rank, "%s, rank %d", m.group.name, found);
    CHECK(rank != mesh->world.rank || m.group.rank == found, "%s", m.group.name);
    found++;
  }
  CHECK(found == m.group.size && found == tri_mesh_group_size(mesh, m.group.name), "%s", m.group.name);
  if (tri_mesh_group(mesh, domain) == &mesh->groups[domain]) check_group(*tri_mesh_group(mesh, domain), false);
}

/* A rank that exchanges rows for experts waits for no other; gradients of experts go with others over the same ranks,
 * and what routers add up with what layers do. */
static void check_experts(const tri_mesh *mesh) {
  const tri_mesh_shape *shape = &mesh->shape;
  for (int d = 0; d < TRI_NUM_DOMAINS; d++) {
    bool other = d != TRI_DOMAIN_EXPERT && tri_domain_has_group((tri_domain)d);
    CHECK(!other || tri_mesh_group(mesh, (tri_domain)d) != tri_mesh_group(mesh, TRI_DOMAIN_EXPERT), "domain %d", d);
  }
  const tri_group *replicas = tri_mesh_group(mesh, TRI_DOMAIN_EXPERT_REPLICAS);
  bool same = replicas->size > 1 && tri_domains_are_same(shape, TRI_DOMAIN_EXPERT_REPLICAS, TRI_DOMAIN_REPLICAS);
  CHECK(same == (replicas == tri_mesh_group(mesh, TRI_DOMAIN_REPLICAS)), "%s", replicas->name);
  const tri_group *sequence = tri_mesh_group(mesh, TRI_DOMAIN_SEQUENCE);
  same = sequence->size > 1 && tri_domains_are_same(shape, TRI_DOMAIN_SEQUENCE, TRI_DOMAIN_TENSOR);
  CHECK(same == (sequence == tri_mesh_group(mesh, TRI_DOMAIN_TENSOR)), "%s", sequence->name);
}

static void check_mesh_of(const tri_group *parent, tri_mesh_shape shape) {
  tri_mesh mesh;
  CHECK_OK(tri_mesh_create(parent, &shape, &mesh));
  for (int d = 0; d < TRI_NUM_DOMAINS; d++) {
    tri_domain domain = (tri_domain)d;
    bool wanted = shape.expert > 0 || !tri_domain_is_of_experts(domain) || tri_domain_size(&shape, domain) == 1;
    if (wanted && tri_domain_has_group(domain)) check_domain(&mesh, domain);
  }
  /* One group for the same ranks, but for what layers wait for. */
  bool split = tri_domain_size(&shape, TRI_DOMAIN_CONTEXT) > 1;
  const tri_group *replicas = tri_mesh_group(&mesh, TRI_DOMAIN_REPLICAS);
  if (replicas->size > 1) {
    CHECK(replicas == tri_mesh_group(&mesh, TRI_DOMAIN_LOSS), "%s", replicas->name);
    CHECK((replicas == tri_mesh_group(&mesh, TRI_DOMAIN_BATCH)) == !split, "%s", replicas->name);
    CHECK(strcmp(replicas->name, split ? "replicas" : "data") == 0, "%s", replicas->name);
    CHECK(replicas != tri_mesh_group(&mesh, TRI_DOMAIN_CONTEXT_INNER), "%s", replicas->name);
    CHECK(replicas != tri_mesh_group(&mesh, TRI_DOMAIN_CONTEXT_OUTER), "%s", replicas->name);
  }
  if (shape.expert > 0) check_experts(&mesh);
  int stage = mesh.place.at[TRI_AXIS_PIPELINE], stages = shape.size[TRI_AXIS_PIPELINE];
  CHECK(mesh.tied.size == ((stage == 0 || stage == stages - 1) && stages > 1 ? 2 : 1), "%d", mesh.tied.size);
  check_group(mesh.tied, false);
  tri_mesh_destroy(&mesh);
}

static void check_mesh(void) {
  const tri_group world = tri_group_world();
  tri_mesh mesh;
  int ranks = tri_comm_size();
  tri_mesh_shape wrong = {.size = {2, 1, 1, ranks, 1}};
  CHECK(tri_mesh_create(&world, &wrong, &mesh) == TRI_BAD_LAYOUT, "a mesh of twice the ranks");
  CHECK(strstr(tri_status_message(), "but the job has") != NULL, "%s", tri_status_message());
  check_mesh_of(&world, shape_of(ranks));
  check_mesh_of(&world, (tri_mesh_shape){.size = {1, ranks, 1, 1, 1}});
  check_mesh_of(&world, (tri_mesh_shape){.size = {1, 1, ranks, 1, 1}});
  if (ranks % 2 == 0) check_mesh_of(&world, (tri_mesh_shape){.size = {1, 1, 2, ranks / 2, 1}});
  if (ranks % 2 == 0) check_mesh_of(&world, (tri_mesh_shape){.size = {1, 2, ranks / 2, 1, 1}});
  if (ranks % 4 == 0) check_mesh_of(&world, (tri_mesh_shape){.size = {2, 1, 2, ranks / 4, 1}});
  for (int expert_tensor = 1; expert_tensor <= ranks; expert_tensor++) {
    int left = ranks / expert_tensor;
    if (ranks % expert_tensor != 0) continue;
    check_mesh_of(&world,
                  (tri_mesh_shape){.size = {1, 1, 1, ranks, 1}, .expert_tensor = expert_tensor, .expert = left});
    check_mesh_of(&world, (tri_mesh_shape){.size = {1, 1, ranks, 1, 1}, .expert_tensor = expert_tensor, .expert = 1});
    if (ranks % 2 != 0) continue;
    check_mesh_of(&world,
                  (tri_mesh_shape){.size = {2, 1, 1, ranks / 2, 1}, .expert_tensor = expert_tensor, .expert = left});
    if (left % 2 == 0)
      check_mesh_of(&world, (tri_mesh_shape){
                                .size = {1, 2, 1, ranks / 2, 1}, .expert_tensor = expert_tensor, .expert = left / 2});
    if (left % 2 == 0)
      check_mesh_of(&world, (tri_mesh_shape){
                                .size = {1, 1, 1, ranks / 2, 2}, .expert_tensor = expert_tensor, .expert = left / 2});
  }
}

/* Meshes of the first rank, and of the others; and of every second rank, backwards. */
static void check_meshes_of_groups(void) {
  const tri_group world = tri_group_world();
  const int rank = world.rank, colors[] = {rank == 0, rank % 2}, keys[] = {rank, -rank};
  for (int i = 0; i < 2; i++) {
    tri_group parent;
    CHECK_OK(tri_group_split(&world, "parent", colors[i], keys[i], &parent));
    for (int r = 0; r < parent.size; r++) {
      const bool same = tri_group_node_of(&parent, r) == tri_group_node_of(&parent, parent.rank);
      const members all = members_of(parent);
      CHECK(same == (tri_comm_node_of(all.job_ranks[r]) == tri_comm_node_of(rank)), "rank %d", r);
    }
    check_mesh_of(&parent, shape_of(parent.size));
    check_mesh_of(&parent, (tri_mesh_shape){.size = {1, parent.size, 1, 1, 1}});
    if (parent.size % 2 == 0) check_mesh_of(&parent, (tri_mesh_shape){.size = {1, 1, 2, parent.size / 2, 1}});
    tri_group_destroy(&parent);
  }
}

/* Ranks in the opposite order, and every second rank: nodes whose ranks are not neighbours, in groups of unequal
 * shares of the nodes. */
static void check_odd_groups(void) {
  tri_group world = tri_group_world();
  tri_group odd;
  int rank = tri_comm_rank();
  CHECK_OK(tri_group_split(&world, "backwards", 0, -rank, &odd));
  CHECK(odd.rank == odd.size - 1 - rank, "%d", odd.rank);
  check_group(odd, false);
  tri_group_destroy(&odd);
  CHECK_OK(tri_group_split(&world, "interleaved", 0, rank % 2 * 100 + rank, &odd));
  check_group(odd, false);
  tri_group_destroy(&odd);
  CHECK_OK(tri_group_split(&world, "uneven", rank == 2 ? 1 : 0, rank, &odd));
  check_group(odd, false);
  tri_group_destroy(&odd);
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static void check_ring(const members *m, size_t bytes) {
  enum { IN_FLIGHT = 4 };
  int size = m->group.size;
  int to = (m->group.rank + 1) % size;
  int from = (m->group.rank + size - 1) % size;
  tri_request *requests[2 * IN_FLIGHT];
  unsigned char *out[IN_FLIGHT], *in[IN_FLIGHT];
  for (int k = 0; k < IN_FLIGHT; k++) { /* two of each tag: they must stay in order */
    out[k] = get_memory(bytes);
    in[k] = get_memory(bytes);
    memset(out[k], m->group.rank * 16 + k + 1, bytes);
    memset(in[k], 0, bytes);
    CHECK_OK(tri_send_start(&m->group, to, k / 2, bytes, out[k], &requests[k]));
  }
  for (int k = IN_FLIGHT; k-- > 0;) { /* the tags in the other order */
    int message = k ^ 1;
    CHECK_OK(tri_receive_start(&m->group, from, message / 2, bytes, in[message], &requests[IN_FLIGHT + message]));
  }
  for (int k = 2 * IN_FLIGHT; k-- > 0;) CHECK_OK(tri_request_wait(&requests[k]));
  for (int k = 0; k < IN_FLIGHT; k++) {
    for (size_t i = 0; i < bytes; i++) CHECK(in[k][i] == from * 16 + k + 1, "message %d, byte %zu: %d", k, i, in[k][i]);
    free(in[k]);
    free(out[k]);
  }
}

/* Passes round the ring: every rank sends on what it received in the pass before, until its own bytes are back. */
static void check_passes(const members *m, size_t bytes) {
  const int size = m->group.size, own = m->group.rank, to = (own + 1) % size, from = (own + size - 1) % size;
  const size_t share = the_arena.bytes / 3 / 64 * 64;
  const bool fits = the_arena.begin != NULL && bytes <= share;
  char *buffers[2];
  tri_request *request;
  for (int b = 0; b < 2; b++) {
    buffers[b] = fits ? the_arena.begin + share * (size_t)b : get_memory(bytes);
  }
  for (size_t i = 0; i < bytes; i++) buffers[0][i] = (char)hash(i + ((uint64_t)own << 40));
  for (int turn = 1; turn <= size; turn++) {
    const char *have = buffers[turn % 2];
    CHECK_OK(
        tri_ring_pass_start(&m->group, to, bytes, buffers[1 - turn % 2], from, bytes, buffers[turn % 2], &request));
    CHECK((request == NULL) == (size == 1), "%d ranks", size);
    CHECK_OK(tri_comm_progress());
    CHECK_OK(tri_request_wait(&request));
    const int first = (own + size * size - turn) % size;
    for (size_t i = 0; i < bytes; i++) {
      CHECK(have[i] == (char)hash(i + ((uint64_t)first << 40)), "after %d passes, byte %zu", turn, i);
    }
  }
  for (int b = 0; b < 2 && !fits; b++) free(buffers[b]);
}

static void check_all_passes(const members *m) {
  tri_request *request = NULL;
  char data = 0;
  static const size_t sizes[] = {0, 1, 3001, 70001, 1500001};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) check_passes(m, sizes[i]);
  CHECK(tri_ring_pass_start(&m->group, m->group.size, 1, &data, 0, 1, &data, &request) == TRI_INTERNAL, "to no rank");
  CHECK(strstr(tri_status_message(), "pass over world: rank ") != NULL, "%s", tri_status_message());
}

static void check_messages(void) {
  members m = members_of(tri_group_world());
  tri_request *request = NULL;
  CHECK_OK(tri_request_wait(&request));
  CHECK(tri_send_start(&m.group, m.group.size, 0, 0, &m, &request) == TRI_INTERNAL, "to a rank that there is not");
  CHECK(strstr(tri_status_message(), "does not exist") != NULL, "%s", tri_status_message());
  check_all_passes(&m);
  if (m.group.size == 1) return;
  check_ring(&m, 0);
  check_ring(&m, 1);
  check_ring(&m, 3000);
  check_ring(&m, 3000001);
}

/* ---- in the background ------------------------------------------------------------------------------------------- */

enum { JOBS = 8 };

/* Requests on one group: what was started, and what it must become. */
typedef struct background {
  members m;
  tri_request *requests[JOBS];
  void *values[JOBS];
  int64_t counts[JOBS], begins[JOBS][65];
  parts parts[JOBS]; /* of an all_to_all, which goes */
  void *to[JOBS];    /* here */
  uint64_t seed;
} background;

static tri_dtype job_type(int job) { return TYPES[job % 3]; }

/* A place of its own in the arena for each job of either group. */
static void *get_place(const background *b, int job, size_t bytes) {
  size_t share = the_arena.bytes / (2 * JOBS + 1) / 64 * 64;
  if (the_arena.begin == NULL || bytes > share) return get_memory(bytes);
  return the_arena.begin + share * (size_t)(2 * job + (b->seed % 2 != 0 ? 1 : 0));
}

static void start_job(background *b, int job) {
  const tri_group *group = &b->m.group;
  tri_dtype type = job_type(job);
  int64_t *begins = b->begins[job];
  if (job / 2 == 3) {
    parts *p = &b->parts[job];
    *p = plan_parts(&b->m, type, job % 2 == 0 ? 90000 : 900, b->seed + (uint64_t)job);
    b->values[job] = get_place(b, job, given_bytes(&b->m, p));
    b->to[job] = get_parts(&b->m, p);
    fill_parts(&b->m, p, b->values[job]);
    CHECK_OK(tri_all_to_all_start(group, type, p->given, b->values[job], p->got, b->to[job], &b->requests[job]));
    return;
  }
  b->counts[job] = (int64_t)(hash(b->seed + (uint64_t)job) % (job % 2 == 0 ? 90000 : 900));
  random_begins(b->seed + (uint64_t)job, group->size, b->counts[job], begins);
  b->values[job] = get_place(b, job, (size_t)b->counts[job] * tri_dtype_bytes(type));
  fill(&b->m, type, b->seed, b->counts[job], b->values[job]);
  if (job / 2 == 0) CHECK_OK(tri_all_reduce_start(group, type, b->counts[job], b->values[job], &b->requests[job]));
  if (job / 2 == 1) CHECK_OK(tri_reduce_scatter_start(group, type, begins, b->values[job], &b->requests[job]));
  if (job / 2 == 2) {
    CHECK_OK(tri_reduce_scatter(group, type, begins, b->values[job])); /* waits for what is under way, too */
    CHECK_OK(tri_all_gather_start(group, type, begins, b->values[job], &b->requests[job]));
  }
}

static void finish_job(background *b, int job, bool by_testing) {
  bool done = !by_testing;
  while (!done) CHECK_OK(tri_request_test(b->requests[job], &done));
  CHECK_OK(tri_request_wait(&b->requests[job]));
  CHECK(b->requests[job] == NULL, "a request that was waited for");
  if (job / 2 == 3) {
    check_parts(&b->m, &b->parts[job], b->to[job]);
    free(b->to[job]);
    drop_values(b->values[job]);
    return;
  }
  bool scattered = job / 2 == 1;
  int rank = b->m.group.rank;
  check_sums(&b->m, job_type(job), b->seed, scattered ? b->begins[job][rank] : 0,
             scattered ? b->begins[job][rank + 1] : b->counts[job], b->values[job]);
  drop_values(b->values[job]);
}

/* Two groups at once, on each rank in an order of its own where that is allowed, with messages passing all the time. */
static void check_background(const tri_mesh *mesh, tri_domain one, tri_domain other, uint64_t seed) {
  background a = {.m = members_of(*tri_mesh_group(mesh, one)), .seed = seed};
  background b = {.m = members_of(*tri_mesh_group(mesh, other)), .seed = seed + 101};
  members world = members_of(mesh->world);
  bool swapped = hash(seed + (uint64_t)tri_comm_rank()) % 2 != 0;
  for (int job = 0; job < JOBS; job++) {
    if (job % 2 == 0 && world.group.size > 1) check_ring(&world, 70001);
    /* The blocking part of two of the jobs is a barrier, and barriers in two orders would wait for one another. */
    bool swap = swapped && job / 2 != 2;
    start_job(swap ? &b : &a, job);
    start_job(swap ? &a : &b, job);
    CHECK_OK(tri_comm_progress());
  }
  for (int i = 0; i < JOBS; i++) {
    int job = swapped ? JOBS - 1 - i : i;
    finish_job(swapped ? &a : &b, job, i == 1);
    finish_job(swapped ? &b : &a, job, i == 2);
  }
}

static void check_backgrounds(void) {
  const tri_group world = tri_group_world();
  tri_mesh mesh;
  tri_mesh_shape shape = shape_of(tri_comm_size());
  CHECK_OK(tri_mesh_create(&world, &shape, &mesh));
  for (uint64_t seed = 1; seed <= 6; seed++) {
    check_background(&mesh, TRI_DOMAIN_REPLICAS, TRI_DOMAIN_TENSOR, seed * 1000);
    check_background(&mesh, TRI_DOMAIN_PIPELINE, TRI_DOMAIN_REPLICAS, seed * 1002);
  }
  tri_mesh_destroy(&mesh);
}

/* ---- shared memory ----------------------------------------------------------------------------------------------- */

/* The same in memory that the ranks see, which keeps what it held. */
static void check_shared(void) {
  const size_t bytes = (size_t)48 << 20;
  bool shared;
  tri_group world = tri_group_world();
  char *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(pages != MAP_FAILED, "%zu bytes", bytes);
  for (size_t i = 0; i < bytes; i += 1000) pages[i] = (char)hash(i);
  /* Not whole pages, and nothing at all on one rank for a moment. */
  CHECK_OK(tri_comm_share(&world, pages, world.rank == 0 ? 0 : 1, &shared));
  tri_comm_unshare(pages);
  CHECK_OK(tri_comm_share(&world, pages + 128, bytes - 5000, &shared));
  for (size_t i = 0; i < bytes; i += 1000) CHECK(pages[i] == (char)hash(i), "byte %zu", i);
  CHECK(!shared || world.size > 1, "with no rank");
  const bool has_neighbour = world.size > 1 && tri_group_node_of(&world, 0) == tri_group_node_of(&world, 1);
  if (!shared && world.rank == 0 && has_neighbour) printf("SKIPPED: the system lets no rank see another's memory\n");
  the_arena = (arena){pages + 128, bytes - 5000};
  check_group(world, true);
  check_mesh();
  check_messages();
  check_backgrounds();
  the_arena = (arena){NULL, 0};
  tri_comm_unshare(pages + 128);
  CHECK_OK(tri_barrier(&world));
  munmap(pages, bytes);
}

static char *map_pages(size_t bytes) {
  char *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(pages != MAP_FAILED, "%zu bytes", bytes);
  return pages;
}

/* Memory that a part of the job shares, with other numbers of segments in its parts, and memory of the whole job. A
 * collective of all ranks in memory that only some of them see gives the same sums. */
static void check_shared_by_groups(void) {
  const size_t bytes = (size_t)48 << 20;
  const tri_group world = tri_group_world();
  tri_group part;
  bool shared;
  char *own = map_pages(bytes), *common = map_pages(bytes), *first = map_pages(4096);
  CHECK_OK(tri_group_split(&world, "part", world.rank % 2, world.rank, &part));
  if (world.rank % 2 == 0) CHECK_OK(tri_comm_share(&part, first, 4096, &shared));
  CHECK_OK(tri_comm_share(&part, own, bytes, &shared));
  CHECK(!shared || part.size > 1, "with no rank");
  the_arena = (arena){own, bytes};
  check_group(part, true);
  check_group(world, true);
  CHECK_OK(tri_comm_share(&world, common, bytes, &shared));
  the_arena = (arena){common, bytes};
  check_group(part, true);
  check_group(world, true);
  the_arena = (arena){NULL, 0};
  tri_comm_unshare(common);
  tri_comm_unshare(own);
  if (world.rank % 2 == 0) tri_comm_unshare(first);
  CHECK_OK(tri_barrier(&world));
  tri_group_destroy(&part);
  munmap(own, bytes);
  munmap(common, bytes);
  munmap(first, 4096);
}

/* ---- what a watchdog sees ---------------------------------------------------------------------------------------- */

static atomic_bool watching = true;

/* Leaves a byte in the file when its rank is seen to wait for the message. */
static void *watch(void *path) {
  while (atomic_load(&watching)) {
    tri_comm_wait now = tri_comm_state();
    if (now.operation == NULL || strcmp(now.operation, "receive") != 0) continue;
    CHECK(strcmp(now.group, "world") == 0 && now.bytes == 4 && now.behind == 0, "%s", now.group);
    CHECK(now.since_s <= tri_clock_s(), "waiting since %g", now.since_s);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL && fputc('x', file) == 'x' && fclose(file) == 0, "%s", (char *)path);
    return NULL;
  }
  return NULL;
}

/* Rank 0 does not send before rank 1 is known to wait. */
static void check_watchdog(void) {
  tri_group world = tri_group_world();
  tri_request *request;
  char path[] = "/tmp/trireme-comm-test-XXXXXX";
  int data = 42;
  if (world.size == 1) return;
  if (world.rank == 0) CHECK(close(mkstemp(path)) == 0, "%s", path);
  CHECK_OK(tri_broadcast(&world, 0, sizeof path, path));
  CHECK(tri_comm_state().operation == NULL, "waits for nothing");
  if (world.rank == 0) {
    FILE *file;
    do {
      CHECK_OK(tri_comm_progress());
      file = fopen(path, "r");
      int first = fgetc(file);
      fclose(file);
      if (first == 'x') break;
    } while (true);
    CHECK_OK(tri_send_start(&world, 1, 5, sizeof data, &data, &request));
    CHECK_OK(tri_request_wait(&request));
    remove(path);
  } else if (world.rank == 1) {
    pthread_t thread;
    data = 0;
    CHECK(pthread_create(&thread, NULL, watch, path) == 0, "thread");
    CHECK_OK(tri_receive_start(&world, 0, 5, sizeof data, &data, &request));
    CHECK_OK(tri_request_wait(&request));
    atomic_store(&watching, false);
    pthread_join(thread, NULL);
    CHECK(data == 42 && tri_comm_state().operation == NULL, "%d", data);
  }
  CHECK_OK(tri_barrier(&world));
}

/* ---- waiting that costs little ----------------------------------------------------------------------------------- */

static double spent_s(void) {
  struct timespec time;
  CHECK(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time) == 0, "no clock");
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Rank 1 stays away for a second of the clock, and rank 0 gets none of the processor for it: what a wait costs is
 * bounded from above alone, so that a busy machine cannot spoil this. */
static void check_long_wait(void) {
  const struct timespec second = {1, 0};
  tri_group world = tri_group_world();
  if (world.size != 2) return;
  for (int by_message = 0; by_message < 2; by_message++) {
    tri_request *request = NULL;
    int data = 42;
    CHECK_OK(tri_barrier(&world));
    if (world.rank == 1) nanosleep(&second, NULL);
    double before_s = spent_s();
    if (by_message && world.rank == 1) CHECK_OK(tri_send_start(&world, 0, 8, sizeof data, &data, &request));
    if (by_message && world.rank == 0) CHECK_OK(tri_receive_start(&world, 1, 8, sizeof data, &data, &request));
    if (by_message)
      CHECK_OK(tri_request_wait(&request));
    else
      CHECK_OK(tri_barrier(&world));
    double took_s = spent_s() - before_s;
    CHECK(took_s < 0.4, "a second's wait took %g s of the processor", took_s);
  }
}

/* ---- modes ------------------------------------------------------------------------------------------------------- */

static void check_everything(void) {
  CHECK(tri_comm_local_size() == tri_comm_size() && tri_comm_local_rank() == tri_comm_rank(), "one machine");
  check_group(tri_group_world(), true);
  check_group(tri_group_alone("alone"), false);
  check_mesh();
  check_odd_groups();
  check_meshes_of_groups();
  check_messages();
  check_backgrounds();
  check_shared();
  check_shared_by_groups();
  check_watchdog();
  check_long_wait();
}

static void check_huge(void) {
  tri_group world = tri_group_world();
  const int64_t count = ((int64_t)1 << 29) + 5; /* of floats: 2 GiB and 20 bytes */
  float *values = get_memory((size_t)count * sizeof *values);
  for (int64_t i = 0; i < count; i++) values[i] = (float)(i % 1021 + world.rank);
  CHECK_OK(tri_all_reduce(&world, TRI_FP32, count, values));
  float offset = (float)world.size * (float)(world.size - 1) / 2;
  for (int64_t i = 0; i < count; i++) {
    CHECK(values[i] == (float)(i % 1021 * world.size) + offset, "element %lld", (long long)i);
  }
  tri_request *request;
  size_t bytes = (size_t)count * sizeof *values;
  if (world.rank == 0) {
    for (int64_t i = 0; i < count; i++) values[i] = (float)(i % 997);
    CHECK_OK(tri_send_start(&world, 1, 0, bytes, values, &request));
    CHECK_OK(tri_request_wait(&request));
  } else if (world.rank == 1) {
    CHECK_OK(tri_receive_start(&world, 0, 0, bytes, values, &request));
    CHECK_OK(tri_request_wait(&request));
  }
  CHECK_OK(tri_broadcast(&world, 1, bytes, values));
  for (int64_t i = 0; i < count; i++) CHECK(values[i] == (float)(i % 997), "element %lld", (long long)i);
  /* A part of more than 2 GiB from rank 0 to rank 1, and one number back. */
  const int64_t much[] = {0, 0, count}, little[] = {0, 1, 1};
  float *other = get_memory(bytes);
  if (world.rank == 0) {
    CHECK_OK(tri_all_to_all(&world, TRI_FP32, much, values, (int64_t[]){0, 0, 1}, other));
  } else {
    CHECK_OK(tri_all_to_all(&world, TRI_FP32, little, values, (int64_t[]){0, count, count}, other));
    for (int64_t i = 0; i < count; i++) CHECK(other[i] == (float)(i % 997), "element %lld", (long long)i);
  }
  free(other);
  free(values);
}

static void check_short(void) {
  tri_group world = tri_group_world();
  tri_request *request;
  char data[4] = {0};
  if (world.rank == 0) {
    CHECK_OK(tri_send_start(&world, 1, 3, 3, data, &request));
    CHECK_OK(tri_request_wait(&request));
  } else if (world.rank == 1) {
    CHECK_OK(tri_receive_start(&world, 0, 3, 4, data, &request));
    CHECK(tri_request_wait(&request) == TRI_COMM, "a short message");
    CHECK(strstr(tri_status_message(), "world: rank 0 sent 3 bytes with tag 3 to rank 1, which expects 4") != NULL,
          "%s", tri_status_message());
    CHECK(tri_barrier(&world) == TRI_COMM, "once it failed, nothing goes on");
  }
}

static void check_mismatch(void) {
  tri_group world = tri_group_world();
  static float values[5000];
  tri_status status = world.rank == 0 ? tri_all_reduce(&world, TRI_FP32, 5000, values) : tri_barrier(&world);
  CHECK(status == TRI_COMM, "%d", (int)status);
  const char *text = world.rank == 0 ? "is in collective 1, barrier of 8 bytes, but rank 0 in collective 1, all_reduce"
                                     : "rank 0 is in collective 1, all_reduce of 20000 bytes, but rank 1 in";
  CHECK(strstr(tri_status_message(), text) != NULL, "%s", tri_status_message());
}

/* Rank 1 is given less than it expects; and a rank that cannot be right about its own part. */
static void check_uneven(void) {
  tri_group world = tri_group_world();
  static const int64_t from[2][3] = {{0, 5, 8}, {0, 2, 3}}, to[2][3] = {{0, 5, 7}, {0, 4, 5}};
  float given[8] = {0}, got[8];
  tri_status status = tri_all_to_all(&world, TRI_FP32, from[world.rank], given, from[1 - world.rank], got);
  CHECK(status == TRI_INTERNAL && strstr(tri_status_message(), "bytes to itself") != NULL, "%s", tri_status_message());
  status = tri_all_to_all(&world, TRI_FP32, from[world.rank], given, to[world.rank], got);
  if (world.rank == 0) {
    CHECK_OK(status);
  } else {
    CHECK(status == TRI_COMM && strstr(tri_status_message(),
                                       "collective 1, all_to_all, rank 0 gives 12 bytes to rank "
                                       "1, which expects 16") != NULL,
          "%s", tri_status_message());
    CHECK(tri_barrier(&world) == TRI_COMM, "once it failed, nothing goes on");
  }
}

static int other_mpi(void) {
  tri_status status = tri_comm_open();
  bool told = status == TRI_COMM && strstr(tri_status_message(), "TRIREME_MPI") != NULL;
  if (!told) fprintf(stderr, "other-mpi: status %d: %s\n", (int)status, tri_status_message());
  tri_comm_close();
  return told ? 0 : 1;
}

int main(int argc, char **argv) {
  const char *mode = argc > 1 ? argv[1] : "";
  if (strcmp(mode, "other-mpi") == 0) return other_mpi();
  CHECK_OK(tri_comm_open());
  if (strcmp(mode, "huge") == 0) {
    check_huge();
  } else if (strcmp(mode, "short") == 0) {
    check_short();
  } else if (strcmp(mode, "uneven") == 0) {
    check_uneven();
  } else if (strcmp(mode, "mismatch") == 0) {
    check_mismatch();
  } else if (strcmp(mode, "abort") == 0) {
    tri_group world = tri_group_world();
    if (world.rank == 1) tri_comm_abort(7);
    CHECK_OK(tri_barrier(&world));
  } else {
    check_everything();
  }
  if (tri_comm_rank() == 0) printf("%d ranks, %s: as they should be\n", tri_comm_size(), tri_comm_library());
  tri_comm_close();
  bool whole = *mode == '\0' || strcmp(mode, "huge") == 0; /* what failed keeps what it held */
  CHECK(!whole || tri_memory_bytes() == 0, "%zu bytes were not given back", tri_memory_bytes());
  return 0;
}
