/* Creates groups: finds the node of each rank, the owner of each part on every node, and allocates the memory of the
 * collectives. */
#include "comm/comm.h"

#include "base/memory.h"
#include "comm/internal.h"

#include <string.h>

enum {
  BUFFER_BYTES = 256 * 1024,      /* smallest size of a shared staging buffer; each rank has two */
  SLOT_BYTES = 8 * 1024,          /* smallest size of the part of a staging buffer for one rank of the node */
  ROUND_BUDGET = 8 * 1024 * 1024, /* most bytes of partial sums that a rank sends, or receives, in a round, unless
                                     SMALLEST_MESSAGE makes them more */
  LARGEST_MESSAGE = 1024 * 1024,  /* most bytes of a message: larger ones are not faster, and cost memory */
  SMALLEST_MESSAGE = 16 * 1024,
};

/* ---- nodes and owners -------------------------------------------------------------------------------------------- */

/* The nodes of a group's ranks. */
typedef struct placement {
  int *nodes,  /* [size]: node of each rank */
      *locals, /* [size]: number of each rank on its node */
      *sizes;  /* [num_nodes]: number of ranks on each node */
  int num_nodes;
} placement;

/* Numbers the nodes in the order of their first ranks. ids[size]: equal for ranks of the same node, else different. */
static void place(const int *ids, int size, placement *out) {
  out->num_nodes = 0;
  for (int r = 0; r < size; r++) {
    int first = 0;
    while (ids[first] != ids[r]) first++;
    if (first == r) out->sizes[out->num_nodes] = 0;
    out->nodes[r] = first == r ? out->num_nodes++ : out->nodes[first];
    out->locals[r] = out->sizes[out->nodes[r]]++;
  }
}

/* Returns the local number of the rank that owns part r on a node. */
static int owner(const placement *where, int node, int r) {
  return where->nodes[r] == node ? where->locals[r] : where->locals[r] % where->sizes[node];
}

/* Returns the largest number of parts that a rank of the group owns. counts: scratch memory. */
static int most_owned(const placement *where, int size, int *counts) {
  int most = 0;
  for (int node = 0; node < where->num_nodes; node++) {
    memset(counts, 0, (size_t)size * sizeof *counts);
    for (int r = 0; r < size; r++) {
      int now = ++counts[owner(where, node, r)];
      if (now > most) most = now;
    }
  }
  return most;
}

static void fill_owners(tri_group_impl *group, const placement *where) {
  int filled = 0;
  for (int l = 0; l < group->num_local; l++) {
    group->owned_begin[l] = filled;
    for (int r = 0; r < group->size; r++) {
      if (owner(where, group->node, r) == l) group->owned_parts[filled++] = r;
    }
  }
  group->owned_begin[group->num_local] = filled;
  for (int r = 0, l = 0; r < group->size; r++) {
    if (where->nodes[r] == group->node) group->local_ranks[l++] = r;
    if (where->locals[r] == owner(where, where->nodes[r], group->rank)) group->peers[where->nodes[r]] = r;
  }
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static tri_status allocate_exchange(tri_group_impl *group, int most) {
  size_t bytes = ROUND_BUDGET / (size_t)(most > group->num_nodes ? most : group->num_nodes);
  bytes = bytes > LARGEST_MESSAGE ? LARGEST_MESSAGE : bytes < SMALLEST_MESSAGE ? SMALLEST_MESSAGE : bytes;
  group->round_bytes = bytes / TRI_CACHE_LINE * TRI_CACHE_LINE;
  size_t owned = (size_t)(group->owned_begin[group->local + 1] - group->owned_begin[group->local]);
  size_t messages = owned + (size_t)group->num_nodes;
  for (int i = 0; i < 2; i++) {
    TRI_TRY(tri_alloc("partial sums for other nodes", owned, group->round_bytes, &group->send[i]));
    TRI_TRY(tri_alloc("messages", messages, sizeof(MPI_Request), &group->values_moving[i].requests));
  }
  TRI_TRY(tri_alloc("partial sums of other nodes", (size_t)group->num_nodes, group->round_bytes, &group->receive));
  return tri_alloc("messages", messages, sizeof(MPI_Request), &group->sums_moving.requests);
}

static tri_status allocate_tables(tri_group_impl *group) {
  size_t locals = (size_t)group->num_local;
  size_t nodes = (size_t)group->num_nodes;
  TRI_TRY(tri_alloc("a group's nodes", (size_t)group->size, sizeof(int), &group->nodes));
  TRI_TRY(tri_alloc("a group's ranks", locals, sizeof(int), &group->local_ranks));
  TRI_TRY(tri_alloc("a group's ranks", locals, sizeof(int), &group->machine_ranks));
  TRI_TRY(tri_alloc("a group's buffers", locals, sizeof(char *), &group->theirs));
  TRI_TRY(tri_alloc("a group's owners", locals + 1, sizeof(int), &group->owned_begin));
  TRI_TRY(tri_alloc("a group's owners", (size_t)group->size, sizeof(int), &group->owned_parts));
  TRI_TRY(tri_alloc("a group's nodes", nodes, sizeof(int), &group->peers));
  TRI_TRY(tri_alloc("a group's staging", locals, sizeof(tri_staging), &group->staging));
  TRI_TRY(tri_alloc("a group's walks", 2 * locals + 1, sizeof(tri_owned_walk), &group->walks));
  TRI_TRY(tri_alloc("a group's terms", locals > nodes ? locals : nodes, sizeof(void *), &group->terms));
  return tri_alloc("a group's parts", (size_t)group->size + 1, sizeof(int64_t), &group->begins);
}

static tri_status lay_out(tri_group_impl *group, const placement *where, int *counts) {
  group->num_nodes = where->num_nodes;
  group->node = where->nodes[group->rank];
  group->num_local = where->sizes[group->node];
  group->local = where->locals[group->rank];
  size_t slots = (size_t)group->num_local * SLOT_BYTES;
  group->buffer_bytes = group->num_local == 1 ? 0 : slots > BUFFER_BYTES ? slots : BUFFER_BYTES;
  TRI_TRY(allocate_tables(group));
  memcpy(group->nodes, where->nodes, (size_t)group->size * sizeof *group->nodes);
  fill_owners(group, where);
  return group->num_nodes > 1 ? allocate_exchange(group, most_owned(where, group->size, counts)) : TRI_OK;
}

/* COLLECTIVE over the group. Finds the node of every rank of the group and the rank's number there, and fills the
 * group's tables. */
static tri_status find_places(tri_group_impl *group) {
  int *numbers = NULL;
  size_t size = (size_t)group->size;
  const tri_job *job = tri_comm_job();
  TRI_TRY(tri_alloc("places of ranks", 5 * size, sizeof *numbers, &numbers));
  placement where = {numbers + size, numbers + 2 * size, numbers + 3 * size, 0};
  int code = MPI_Allgather(&job->node_of[job->rank], 1, MPI_INT, numbers, 1, MPI_INT, group->messages);
  tri_status status = code == MPI_SUCCESS ? TRI_OK : tri_comm_mpi_failed(code, "MPI_Allgather", group->name);
  if (status == TRI_OK) {
    place(numbers, group->size, &where);
    status = lay_out(group, &where, numbers + 4 * size);
  }
  tri_free(numbers);
  return status;
}

/* ---- groups ------------------------------------------------------------------------------------------------------ */

static void free_tables(tri_group_impl *group) {
  for (int i = 0; i < 2; i++) {
    tri_free(group->send[i]);
    tri_free(group->values_moving[i].requests);
  }
  tri_free(group->receive);
  tri_free(group->sums_moving.requests);
  void *tables[] = {group->nodes,       group->local_ranks, group->machine_ranks, group->owned_begin,
                    group->owned_parts, group->peers,       group->staging,       group->walks,
                    group->terms,       group->theirs,      group->begins};
  for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) tri_free(tables[i]);
}

/* COLLECTIVE over the group. Frees its MPI objects and the group itself. */
static void free_handles(tri_group_impl *group) {
  tri_window_destroy(group);
  MPI_Comm *communicators[] = {&group->messages, &group->exchange, &group->node_comm};
  for (int i = 0; i < 3; i++) {
    if (*communicators[i] != MPI_COMM_NULL) MPI_Comm_free(communicators[i]);
  }
  tri_free(group);
}

void tri_group_free_retired(void) {
  tri_job *job = tri_comm_job();
  while (job->retired != NULL) {
    tri_group_impl *group = job->retired;
    job->retired = group->next_busy;
    free_handles(group);
  }
}

/* Puts a group on the list of destroyed groups. Freeing its MPI objects is collective, and a rank that fails destroys
 * its groups while the others go on; so they are freed at the end of a job in which no rank failed. */
static void retire(tri_group_impl *group) {
  tri_job *job = tri_comm_job();
  free_tables(group);
  group->next_busy = job->retired;
  job->retired = group;
}

/* COLLECTIVE over the group. Returns TRI_OK if all ranks of the group call it with TRI_OK. Otherwise fails on every
 * rank, with the rank's own status or, if that is TRI_OK, with TRI_COMM, so that no rank continues alone. */
static tri_status agree(const tri_group_impl *group, tri_status status) {
  int mine = status == TRI_OK ? 1 : 0;
  int all = 0;
  TRI_MPI(group->name, MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, group->messages));
  if (status != TRI_OK || all != 0) return status;
  return tri_fail(TRI_COMM, "%s: another rank of the group failed to make it; see the error message of that rank",
                  group->name);
}

static tri_status connect(tri_group_impl *group) {
  if (group->num_nodes > 1) TRI_MPI(group->name, MPI_Comm_dup(group->messages, &group->exchange));
  TRI_MPI(group->name, MPI_Comm_split(group->messages, group->node, group->rank, &group->node_comm));
  const tri_job *job = tri_comm_job();
  TRI_MPI(group->name, MPI_Allgather(&job->local_rank, 1, MPI_INT, group->machine_ranks, 1, MPI_INT, group->node_comm));
  return tri_window_create(group);
}

tri_status tri_group_create(MPI_Comm comm, const char *name, tri_group *out) {
  tri_group_impl *group = NULL;
  tri_status status = tri_alloc("a group", 1, sizeof *group, &group);
  if (status != TRI_OK) return status; /* the few hundred bytes are not freed, because the caller ends the job */
  *group = (tri_group_impl){
      .name = name, .messages = comm, .exchange = MPI_COMM_NULL, .node_comm = MPI_COMM_NULL, .window = MPI_WIN_NULL};
  MPI_Comm_rank(comm, &group->rank);
  MPI_Comm_size(comm, &group->size);
  TRI_TRY_GOTO(agree(group, find_places(group)), retire_group);
  TRI_TRY_GOTO(agree(group, connect(group)), retire_group);
  *out = (tri_group){.name = name, .rank = group->rank, .size = group->size, .impl = group};
  return TRI_OK;
retire_group:
  retire(group);
  return status;
}

tri_group tri_group_alone(const char *name) { return (tri_group){.name = name, .size = 1}; }

int tri_group_node_of(const tri_group *group, int rank) { return group->impl == NULL ? 0 : group->impl->nodes[rank]; }

tri_group tri_group_world(void) { return tri_comm_job()->world; }

tri_status tri_group_split(const tri_group *parent, const char *name, int color, int key, tri_group *out) {
  if (parent->impl == NULL) {
    *out = tri_group_alone(name);
    return TRI_OK;
  }
  TRI_TRY(tri_comm_check());
  MPI_Comm comm;
  int size;
  TRI_MPI(name, MPI_Comm_split(parent->impl->messages, color, key, &comm));
  TRI_MPI(name, MPI_Comm_size(comm, &size));
  if (size > 1) return tri_group_create(comm, name, out);
  TRI_MPI(name, MPI_Comm_free(&comm));
  *out = tri_group_alone(name);
  return TRI_OK;
}

void tri_group_destroy(tri_group *group) {
  if (group->impl != NULL && !group->impl->of_job) retire(group->impl);
  *group = tri_group_alone(group->name);
}

size_t tri_group_staging_bytes(const tri_group *group) {
  const tri_group_impl *impl = group->impl;
  if (impl == NULL) return 0;
  size_t shared = impl->num_local > 1 ? tri_window_bytes(impl) : 0;
  if (impl->num_nodes == 1) return shared;
  size_t owned = (size_t)(impl->owned_begin[impl->local + 1] - impl->owned_begin[impl->local]);
  return shared + (2 * owned + (size_t)impl->num_nodes) * impl->round_bytes;
}
