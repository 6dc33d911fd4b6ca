/* Compares our collectives with the MPI library's own, on the same buffers and in turn:
 *
 *   mpiexec -n 2 build/bench_comm [LARGEST_MB [ROUNDS [NAME]]]
 *
 * All of them, or those whose names begin with NAME.
 * Once with private buffers, and once with ours where the ranks of the node see them (tri_comm_share).
 * All-to-alls give every rank an equal part, and passes go to the next rank. For comparison, memcpy of the same bytes
 * on all ranks at once (", copy") shows the rate of the memory.
 *
 * A row for each size: the library's and our rate (bytes of the buffer by seconds of the slowest rank, the median of
 * the rounds), the median of the ratios within a round, and the ratio of the best rounds, which says more where others
 * use the machine. */
#include "base/clock.h"
#include "comm/comm.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MOST_ROUNDS = 101 };

typedef struct job {
  tri_group world;
  int64_t count, *begins;
  float *values, *copy, *from;
} job;

static void require(int ok, const char *what) {
  if (ok) return;
  fprintf(stderr, "bench_comm: %s: %s\n", what, tri_status_message());
  tri_comm_abort(1);
  exit(1);
}

/* Each library function beside ours; both leave their result in place. */
static void mpi_all_reduce(const job *j) {
  MPI_Allreduce(MPI_IN_PLACE, j->copy, (int)j->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}
static void our_all_reduce(const job *j) {
  require(tri_all_reduce(&j->world, TRI_FP32, j->count, j->values) == TRI_OK, "all_reduce");
}
static void mpi_reduce_scatter(const job *j) {
  MPI_Reduce_scatter_block(MPI_IN_PLACE, j->copy, (int)(j->count / j->world.size), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}
static void our_reduce_scatter(const job *j) {
  require(tri_reduce_scatter(&j->world, TRI_FP32, j->begins, j->values) == TRI_OK, "reduce_scatter");
}
static void mpi_all_gather(const job *j) {
  MPI_Allgather(MPI_IN_PLACE, 0, MPI_FLOAT, j->copy, (int)(j->count / j->world.size), MPI_FLOAT, MPI_COMM_WORLD);
}
static void our_all_gather(const job *j) {
  require(tri_all_gather(&j->world, TRI_FP32, j->begins, j->values) == TRI_OK, "all_gather");
}
static void mpi_start_wait(const job *j) {
  MPI_Request request;
  MPI_Iallreduce(MPI_IN_PLACE, j->copy, (int)j->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}
static void our_start_wait(const job *j) {
  tri_request *request;
  require(tri_all_reduce_start(&j->world, TRI_FP32, j->count, j->values, &request) == TRI_OK, "start");
  require(tri_request_wait(&request) == TRI_OK, "wait");
}

static void mpi_all_to_all(const job *j) {
  const int part = (int)(j->count / j->world.size);
  MPI_Alltoall(j->from, part, MPI_FLOAT, j->copy, part, MPI_FLOAT, MPI_COMM_WORLD);
}
static void our_all_to_all(const job *j) {
  require(tri_all_to_all(&j->world, TRI_FP32, j->begins, j->values, j->begins, j->from) == TRI_OK, "all_to_all");
}
/* Copies the bytes that a rank reads in an all-to-all, from other ranks and from itself. */
static void copy_all(const job *j) { memcpy(j->copy, j->from, (size_t)j->count * sizeof(float)); }
static void mpi_pass(const job *j) {
  const int size = j->world.size, next = (j->world.rank + 1) % size, before = (j->world.rank + size - 1) % size;
  MPI_Sendrecv(j->from, (int)j->count, MPI_FLOAT, next, 1, j->copy, (int)j->count, MPI_FLOAT, before, 1, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
}
static void our_pass(const job *j) {
  const int size = j->world.size, next = (j->world.rank + 1) % size, before = (j->world.rank + size - 1) % size;
  const size_t bytes = (size_t)j->count * sizeof(float);
  tri_request *request;
  require(tri_ring_pass_start(&j->world, next, bytes, j->values, before, bytes, j->from, &request) == TRI_OK, "pass");
  require(tri_request_wait(&request) == TRI_OK, "wait");
}

static const struct {
  const char *name;
  void (*mpi)(const job *), (*our)(const job *);
} pairs[] = {
    {"all_reduce", mpi_all_reduce, our_all_reduce},
    {"reduce_scatter", mpi_reduce_scatter, our_reduce_scatter},
    {"all_gather", mpi_all_gather, our_all_gather},
    {"start, wait", mpi_start_wait, our_start_wait},
    {"all_to_all", mpi_all_to_all, our_all_to_all},
    {"all_to_all, copy", copy_all, our_all_to_all},
    {"pass", mpi_pass, our_pass},
    {"pass, copy", copy_all, our_pass},
};

/* Seconds a call takes on the slowest rank. */
static double time_calls(void (*call)(const job *), const job *j, int calls) {
  MPI_Barrier(MPI_COMM_WORLD);
  double begin = tri_clock_s();
  for (int i = 0; i < calls; i++) call(j);
  double mine = (tri_clock_s() - begin) / calls;
  double slowest;
  MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a;
  double y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *values, int count) {
  qsort(values, (size_t)count, sizeof *values, by_size);
  return values[count / 2];
}

static void measure(int pair, const char *where, const job *j, int rounds) {
  double ours[MOST_ROUNDS], theirs[MOST_ROUNDS], ratios[MOST_ROUNDS];
  double bytes = (double)j->count * sizeof(float);
  int calls = bytes > 4e6 ? 4 : bytes > 1e5 ? 30 : 300;
  time_calls(pairs[pair].mpi, j, 2);
  time_calls(pairs[pair].our, j, 2);
  for (int r = 0; r < rounds; r++) {
    memset(j->values, 0, (size_t)j->count * sizeof(float)); /* sums that grow for ever become slow infinities */
    memset(j->copy, 0, (size_t)j->count * sizeof(float));
    theirs[r] = time_calls(pairs[pair].mpi, j, calls);
    ours[r] = time_calls(pairs[pair].our, j, calls);
    ratios[r] = theirs[r] / ours[r];
  }
  double their = median(theirs, rounds); /* and sorted */
  double our = median(ours, rounds);
  if (j->world.rank != 0) return;
  printf("%-17s%-8s %8.0f KB %9.1f us %9.1f us %8.2f GB/s %8.2f GB/s %8.2fx %8.2fx\n", pairs[pair].name, where,
         bytes / 1024, their * 1e6, our * 1e6, bytes / their / 1e9, bytes / our / 1e9, median(ratios, rounds),
         theirs[0] / ours[0]);
  fflush(stdout);
}

static void measure_all(const char *where, const char *name, job *j, int64_t largest, int rounds) {
  for (size_t pair = 0; pair < sizeof pairs / sizeof pairs[0]; pair++) {
    if (strncmp(pairs[pair].name, name, strlen(name)) != 0) continue;
    for (int64_t count = 256; count <= largest; count *= 4) {
      j->count = count / j->world.size * j->world.size;
      for (int r = 0; r <= j->world.size; r++) j->begins[r] = j->count / j->world.size * r;
      measure((int)pair, where, j, rounds);
    }
  }
}

static float *map(size_t bytes) {
  void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require(pages != MAP_FAILED, "memory");
  memset(pages, 0, bytes);
  return pages;
}

int main(int argc, char **argv) {
  int64_t largest = (argc > 1 ? strtol(argv[1], NULL, 10) : 64) * 262144;
  int rounds = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 7;
  const char *name = argc > 3 ? argv[3] : "";
  size_t bytes = (size_t)largest * sizeof(float);
  bool shared;
  require(tri_comm_open() == TRI_OK, "start it with mpiexec");
  if (tri_comm_size() == 1) {
    fprintf(stderr, "bench_comm: start it with mpiexec -n 2\n");
    return 2;
  }
  job j = {.world = tri_group_world(), .values = map(bytes), .copy = map(bytes), .from = map(bytes)};
  j.begins = malloc((size_t)(j.world.size + 1) * sizeof *j.begins);
  require(j.begins != NULL && rounds > 0 && rounds <= MOST_ROUNDS, "memory, or rounds");
  if (j.world.rank == 0) {
    printf("%d ranks, %s\n%-25s %11s %12s %12s %13s %13s %9s %9s\n", j.world.size, tri_comm_library(), "", "bytes",
           "library", "Trireme", "library", "Trireme", "ratio", "of best");
  }
  measure_all("", name, &j, largest, rounds);
  require(tri_comm_share(&j.world, j.values, bytes, &shared) == TRI_OK, "share");
  if (j.world.rank == 0 && !shared) printf("SKIPPED: the system lets no rank see another's memory\n");
  if (shared) measure_all("shared", name, &j, largest, rounds);
  tri_comm_unshare(j.values);
  tri_comm_close();
  free(j.begins);
  return 0;
}
