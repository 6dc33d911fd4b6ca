/* Joins and leaves the job that a launcher started. */
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/parent.h"
#include "comm/internal.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

static const double READER_WAIT_S = 2, /* longest wait for the reader of standard error */
    OTHERS_WAIT_S = 3;                 /* wait for the rank whose failure is the cause */

const char *tri_comm_library(void) {
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#if defined(OPEN_MPI)
  return "Open MPI " TEXT(OMPI_MAJOR_VERSION) "." TEXT(OMPI_MINOR_VERSION) "." TEXT(OMPI_RELEASE_VERSION);
#elif defined(I_MPI_VERSION)
  return "Intel MPI " I_MPI_VERSION;
#elif defined(MVAPICH2_VERSION)
  return "MVAPICH2 " MVAPICH2_VERSION;
#elif defined(CRAY_MPICH_VERSION)
  return "Cray MPICH " TEXT(CRAY_MPICH_VERSION);
#elif defined(MPICH_VERSION)
  return "MPICH " MPICH_VERSION;
#else
  return "an MPI of standard " TEXT(MPI_VERSION) "." TEXT(MPI_SUBVERSION);
#endif
}

/* ---- launchers --------------------------------------------------------------------------------------------------- */

/* The environment variables in which a launcher passes the number of ranks and a process's rank. The number alone is
 * not enough: Slurm sets SLURM_NTASKS also for a batch script, which runs once. Inner launchers come first in the
 * table, for example mpiexec inside a Slurm step. */
typedef struct launch {
  const char *size_name, *rank_name, *launcher;
} launch;

static const launch launchers[] = {
    {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "Open MPI's mpiexec"},
    {"MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", "MVAPICH's mpiexec"},
    {"PMI_SIZE", "PMI_RANK", "an mpiexec of MPICH's kind"},
    {"PALS_SIZE", "PALS_RANKID", "PALS"},
    {"FLUX_JOB_SIZE", "FLUX_TASK_RANK", "flux run"},
    {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "srun"},
    {"", "PMIX_RANK", "a launcher that speaks PMIx"},
};

/* Returns the integer in an environment variable, or -1. */
static long number_of(const char *name) {
  const char *text = *name != '\0' ? getenv(name) : NULL;
  if (text == NULL || *text == '\0') return -1;
  char *end;
  long value = strtol(text, &end, 10);
  return *end == '\0' ? value : -1;
}

/* Returns the first launcher whose variable for the rank is set, or NULL. Sets *size to the number of ranks, or to 0 if
 * that variable is not set. */
static const launch *find_launch(long *size, long *rank) {
  for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++) {
    long ranks = number_of(launchers[i].size_name);
    *rank = number_of(launchers[i].rank_name);
    if (*rank < 0) continue;
    *size = ranks > 0 ? ranks : 0;
    return &launchers[i];
  }
  return NULL;
}

bool tri_comm_is_started_alone(void) {
  long size, rank;
  return getenv(TRI_LAUNCHED) == NULL && (find_launch(&size, &rank) == NULL || size == 1);
}

void tri_comm_launched(int64_t *size, int64_t *rank) {
  long ranks = 0, mine = 0;
  const bool found = find_launch(&ranks, &mine) != NULL;
  *size = found ? ranks : 0;
  *rank = found ? mine : 0;
}

/* ---- joining ----------------------------------------------------------------------------------------------------- */

/* Reads TRIREME_RANKS_PER_NODE, with which tests divide one machine into several nodes. 0: all ranks on one node.
 * Fails with TRI_BAD_USAGE for an illegal value. */
static tri_status pretended_ranks_per_node(int *out) {
  const char *text = getenv("TRIREME_RANKS_PER_NODE");
  *out = 0;
  if (text == NULL || *text == '\0') return TRI_OK;
  long ranks = number_of("TRIREME_RANKS_PER_NODE");
  if (ranks < 1 || ranks > 1000000) {
    return tri_fail(TRI_BAD_USAGE, "TRIREME_RANKS_PER_NODE is `%s`; it is a number of ranks from 1 on", text);
  }
  *out = (int)ranks;
  return TRI_OK;
}

/* COLLECTIVE over the machine's ranks. Sets job->crowded to whether these ranks have fewer cores, all together, than
 * there are ranks. */
static tri_status find_crowding(void) {
  tri_job *job = tri_comm_job();
  cpu_set_t mine, all;
  CPU_ZERO(&mine);
  if (sched_getaffinity(0, sizeof mine, &mine) != 0)
    CPU_SET(0, &mine); /* the system has over 1024 cores; the cores are unknown, so the node counts as crowded */
  TRI_MPI("job", MPI_Allreduce(&mine, &all, (int)sizeof mine, MPI_BYTE, MPI_BOR, job->machine));
  job->crowded = CPU_COUNT(&all) < job->local_size;
  return TRI_OK;
}

/* COLLECTIVE over the job. Finds the machine's ranks, and the node of every rank. A node's number is the lowest rank
 * on it. */
static tri_status find_nodes(void) {
  tri_job *job = tri_comm_job();
  int pretended;
  TRI_TRY(pretended_ranks_per_node(&pretended));
  TRI_MPI("job", MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, job->rank, MPI_INFO_NULL, &job->machine));
  TRI_MPI("job", MPI_Comm_rank(job->machine, &job->local_rank));
  TRI_MPI("job", MPI_Comm_size(job->machine, &job->local_size));
  TRI_TRY(find_crowding());
  int *first = NULL;
  TRI_TRY(tri_alloc("ranks of this node", (size_t)job->local_size, sizeof *first, &first));
  TRI_MPI("job", MPI_Allgather(&job->rank, 1, MPI_INT, first, 1, MPI_INT, job->machine));
  int id = first[pretended > 0 ? job->local_rank / pretended * pretended : 0];
  tri_free(first);
  TRI_TRY(tri_alloc("nodes of the job's ranks", (size_t)job->size, sizeof(int), &job->node_of));
  TRI_MPI("job", MPI_Allgather(&id, 1, MPI_INT, job->node_of, 1, MPI_INT, MPI_COMM_WORLD));
  return TRI_OK;
}

static const char *own_launcher(void) {
#if defined(OPEN_MPI)
  return "Open MPI's mpiexec (on Debian mpiexec.openmpi)";
#else
  return "the mpiexec of that MPI (on Debian mpiexec.mpich)";
#endif
}

/* Fails because the launcher belongs to another MPI, so that MPI reports a size of 1 in every process. Sets the rank of
 * the job to the launcher's, so that only rank 0 prints the message. */
static tri_status other_launcher(const launch *by, long size, long rank) {
  tri_job *job = tri_comm_job();
  job->rank = (int)rank;
  return tri_fail(
      TRI_COMM,
      "%s started %ld ranks (%s), but they do not find one another: this binary is built with %s and was "
      "started by something that speaks another MPI's language. Start it with %s; under Slurm try srun --mpi=pmix "
      "or --mpi=pmi2; or build it with the other MPI (cmake -DTRIREME_MPI=openmpi or mpich)",
      by->launcher, size, by->size_name, tri_comm_library(), own_launcher());
}

/* Makes the kernel kill this rank when the launcher (`train -n`) ends in any way. */
static void die_with_launcher(void) {
  pid_t launcher = getppid();
  if (getenv(TRI_LAUNCHED) == NULL) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher) raise(SIGKILL); /* the launcher ended before the call */
}

static tri_status join(const launch *by, long size, long rank) {
  tri_job *job = tri_comm_job();
  int thread_level;
  die_with_launcher();
  TRI_MPI("job", MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &thread_level));
  job->joined = true;
  tri_parent_handle_crashes();
  TRI_MPI("job", MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  TRI_MPI("job", MPI_Comm_rank(MPI_COMM_WORLD, &job->rank));
  TRI_MPI("job", MPI_Comm_size(MPI_COMM_WORLD, &job->size));
  if (job->size == 1 && size > 1) return other_launcher(by, size, rank);
  if (thread_level < MPI_THREAD_FUNNELED) {
    return tri_fail(TRI_UNSUPPORTED,
                    "%s is built without support for threads (MPI_THREAD_FUNNELED); use one that has it",
                    tri_comm_library());
  }
  if (job->size == 1) return TRI_OK;
  TRI_TRY(find_nodes());
  MPI_Comm world;
  TRI_MPI("job", MPI_Comm_dup(MPI_COMM_WORLD, &world));
  TRI_TRY(tri_group_create(world, "world", &job->world));
  job->world.impl->of_job = true;
  return TRI_OK;
}

tri_status tri_comm_open(void) {
  long size, rank;
  const launch *by = find_launch(&size, &rank);
  if (by == NULL || size == 1) return TRI_OK;
  return join(by, size, rank);
}

void tri_comm_close(void) {
  tri_job *job = tri_comm_job();
  if (!job->joined) return;
  if (job->world.impl != NULL) {
    job->world.impl->of_job = false;
    tri_group_destroy(&job->world);
  }
  tri_group_free_retired();
  tri_share_close();
  tri_free(job->node_of);
  MPI_Finalize();
  *job = (tri_job){.size = 1, .local_size = 1, .world = {.name = "world", .size = 1}};
}

/* ---- failing ----------------------------------------------------------------------------------------------------- */

/* Flushes all output and, if standard error is a pipe, waits at most READER_WAIT_S until the pipe is empty, and 0.1
 * s more: a launcher may stop reading when it ends the job. */
static void wait_for_reader(void) {
  struct stat facts;
  int unread = 0;
  fflush(NULL);
  if (fstat(STDERR_FILENO, &facts) != 0 || !S_ISFIFO(facts.st_mode)) return;
  for (double end_s = tri_clock_s() + READER_WAIT_S; tri_clock_s() < end_s; tri_pause_s(0.01)) {
    if (ioctl(STDERR_FILENO, FIONREAD, &unread) != 0 || unread == 0) break;
  }
  tri_pause_s(0.1); /* gives the reader time to forward the text */
}

void tri_comm_abort(int exit_status) {
  tri_job *job = tri_comm_job();
  if (!job->joined || job->size == 1) return;
  wait_for_reader();
  MPI_Abort(MPI_COMM_WORLD, exit_status);
}

void tri_comm_fail(tri_status status) {
  tri_job *job = tri_comm_job();
  const char *why = tri_status_message();
  bool other = *why == '\0' || job->secondary; /* another rank ends the job, with its own message and status */
  bool heard = tri_log_failure(status, why);
  if (!heard && other && job->joined && job->size > 1) tri_pause_s(OTHERS_WAIT_S);
  tri_comm_abort(tri_status_exit(status));
}
