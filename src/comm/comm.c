#include "comm/comm.h"

#include "base/memory.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tri_group_impl {
  MPI_Comm communicator;
};

struct tri_request {
  MPI_Request *parts;
  int count;
};

static bool joined;
static int own_rank, num_ranks = 1, local_rank, local_size = 1;
static char library[128] = "";

/* ---- the job ----------------------------------------------------------------------------------------------------- */

static tri_status mpi_check(int code, const char *what, const char *group) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  if (code == MPI_SUCCESS) return TRI_OK;
  MPI_Error_string(code, text, &length);
  return tri_fail(TRI_COMM, "%s over the %s ranks failed: %s", what, group, text);
}

/* Ranks that a launcher's environment promises; 1 where there is no launcher. */
static int promised_ranks(void) {
  static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_SIZE", "FLUX_JOB_SIZE", "SLURM_NTASKS"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    const char *value = getenv(names[i]);
    bool step = strcmp(names[i], "SLURM_NTASKS") != 0 || getenv("SLURM_STEP_ID") != NULL;
    if (value != NULL && step && atoi(value) > 0) return atoi(value);
  }
  return 1;
}

static tri_status find_neighbours(void) {
  MPI_Comm node;
  TRI_TRY(mpi_check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, own_rank, MPI_INFO_NULL, &node),
                    "finding the ranks of a node", "job's"));
  MPI_Comm_rank(node, &local_rank);
  MPI_Comm_size(node, &local_size);
  MPI_Comm_free(&node);
  return TRI_OK;
}

tri_status tri_comm_open(void) {
  int promised = promised_ranks(), provided = 0, length = 0;
  if (promised == 1 || joined) return TRI_OK;
  TRI_TRY(mpi_check(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided), "joining", "job's"));
  joined = true;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &own_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &num_ranks);
  if (num_ranks != promised) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    MPI_Get_library_version(version, &length);
    version[strcspn(version, ",\n")] = '\0';
    return tri_fail(
        TRI_COMM,
        "the launcher started %d ranks and MPI sees %d: the launcher is not that of the MPI this program was "
        "built with (%s); start it with `trireme train -n %d` or that MPI's own mpiexec",
        promised, num_ranks, version, promised);
  }
  return find_neighbours();
}

void tri_comm_close(void) {
  if (joined) MPI_Finalize();
  joined = false;
}

void tri_comm_abort(int exit_status) {
  if (joined) MPI_Abort(MPI_COMM_WORLD, exit_status);
}

int tri_comm_rank(void) { return own_rank; }
int tri_comm_size(void) { return num_ranks; }
int tri_comm_local_rank(void) { return local_rank; }
int tri_comm_local_size(void) { return local_size; }

const char *tri_comm_library(void) {
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  if (library[0] != '\0') return library;
  MPI_Get_library_version(version, &length);
  version[strcspn(version, ",\n")] = '\0';
  snprintf(library, sizeof library, "%.*s", (int)sizeof library - 1, version);
  return library;
}

/* ---- groups ------------------------------------------------------------------------------------------------------ */

tri_group tri_group_alone(const char *name) { return (tri_group){name, 0, 1, NULL}; }

tri_group tri_group_world(void) {
  static struct tri_group_impl world;
  if (num_ranks == 1) return tri_group_alone("world");
  world.communicator = MPI_COMM_WORLD;
  return (tri_group){"world", own_rank, num_ranks, &world};
}

tri_status tri_group_split(const tri_group *parent, const char *name, int color, int key, tri_group *out) {
  *out = tri_group_alone(name);
  if (parent->size == 1) return TRI_OK;
  MPI_Comm communicator;
  TRI_TRY(mpi_check(MPI_Comm_split(parent->impl->communicator, color, key, &communicator), "a split", parent->name));
  MPI_Comm_rank(communicator, &out->rank);
  MPI_Comm_size(communicator, &out->size);
  if (out->size == 1) {
    MPI_Comm_free(&communicator);
    return TRI_OK;
  }
  TRI_TRY(tri_alloc("a group of ranks", 1, sizeof *out->impl, &out->impl));
  out->impl->communicator = communicator;
  return TRI_OK;
}

void tri_group_destroy(tri_group *group) {
  if (group->impl == NULL || group->impl->communicator == MPI_COMM_WORLD) return;
  MPI_Comm_free(&group->impl->communicator);
  tri_free(group->impl);
  group->impl = NULL;
}

size_t tri_group_staging_bytes(const tri_group *group) {
  (void)group;
  return 0;
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

static float from_bf16(uint16_t bits) {
  uint32_t wide = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &wide, sizeof value);
  return value;
}

static uint16_t to_bf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u);
  return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* sum = part 0 + part 1 + ...; parts lie one behind the other. */
static void sum_parts(tri_dtype type, int parts, int64_t count, const void *all, void *sum) {
  for (int64_t i = 0; i < count; i++) {
    if (type == TRI_FP64) {
      double total = ((const double *)all)[i];
      for (int p = 1; p < parts; p++) total += ((const double *)all)[p * count + i];
      ((double *)sum)[i] = total;
    } else if (type == TRI_FP32) {
      float total = ((const float *)all)[i];
      for (int p = 1; p < parts; p++) total += ((const float *)all)[p * count + i];
      ((float *)sum)[i] = total;
    } else {
      float total = from_bf16(((const uint16_t *)all)[i]);
      for (int p = 1; p < parts; p++) total += from_bf16(((const uint16_t *)all)[p * count + i]);
      ((uint16_t *)sum)[i] = to_bf16(total);
    }
  }
}

/* ---- collectives ------------------------------------------------------------------------------------------------- */

enum { PIECE_ELEMENTS = 1 << 20 };

/* Elements [first, end) of every part go to the part's rank, which adds them up. */
static tri_status scatter_piece(const tri_group *group, tri_dtype type, const int64_t *begins, int64_t at, void *values,
                                char *all) {
  size_t element = tri_dtype_bytes(type);
  int size = group->size;
  int64_t own = begins[group->rank + 1] - begins[group->rank] - at;
  own = own < 0 ? 0 : own > PIECE_ELEMENTS ? PIECE_ELEMENTS : own;
  int *numbers = NULL;
  TRI_TRY(tri_alloc("a collective", 4 * (size_t)size, sizeof *numbers, &numbers));
  MPI_Aint base = 0;
  for (int r = 0; r < size; r++) {
    int64_t length = begins[r + 1] - begins[r] - at;
    length = length < 0 ? 0 : length > PIECE_ELEMENTS ? PIECE_ELEMENTS : length;
    numbers[r] = (int)(length * (int64_t)element);
    numbers[2 * size + r] = (int)(own * (int64_t)element);
    numbers[3 * size + r] = (int)(own * (int64_t)element) * r;
  }
  (void)base;
  MPI_Request *requests = NULL;
  tri_status status = tri_alloc("a collective", 2 * (size_t)size, sizeof *requests, &requests);
  for (int r = 0; r < size && status == TRI_OK; r++) {
    status = mpi_check(MPI_Irecv(all + (size_t)numbers[3 * size + r], numbers[2 * size + r], MPI_BYTE, r, 7,
                                 group->impl->communicator, &requests[r]),
                       "a sum", group->name);
  }
  for (int r = 0; r < size && status == TRI_OK; r++) {
    status = mpi_check(MPI_Isend((char *)values + (size_t)(begins[r] + at) * element, numbers[r], MPI_BYTE, r, 7,
                                 group->impl->communicator, &requests[size + r]),
                       "a sum", group->name);
  }
  if (status == TRI_OK) status = mpi_check(MPI_Waitall(2 * size, requests, MPI_STATUSES_IGNORE), "a sum", group->name);
  if (status == TRI_OK && own > 0) {
    sum_parts(type, size, own, all, (char *)values + (size_t)(begins[group->rank] + at) * element);
  }
  tri_free(requests);
  tri_free(numbers);
  return status;
}

tri_status tri_reduce_scatter(const tri_group *group, tri_dtype type, const int64_t *begins, void *values) {
  if (group->size == 1) return TRI_OK;
  char *all = NULL;
  int64_t longest = 0;
  for (int r = 0; r < group->size; r++) {
    if (begins[r + 1] - begins[r] > longest) longest = begins[r + 1] - begins[r];
  }
  TRI_TRY(tri_alloc("a collective", (size_t)group->size * PIECE_ELEMENTS, tri_dtype_bytes(type), &all));
  tri_status status = TRI_OK;
  for (int64_t at = 0; at < longest && status == TRI_OK; at += PIECE_ELEMENTS) {
    status = scatter_piece(group, type, begins, at, values, all);
  }
  tri_free(all);
  return status;
}

tri_status tri_all_gather(const tri_group *group, tri_dtype type, const int64_t *begins, void *values) {
  size_t element = tri_dtype_bytes(type);
  for (int r = 0; r < group->size && group->size > 1; r++) {
    TRI_TRY(tri_broadcast(group, r, (size_t)(begins[r + 1] - begins[r]) * element,
                          (char *)values + (size_t)begins[r] * element));
  }
  return TRI_OK;
}

tri_status tri_all_reduce(const tri_group *group, tri_dtype type, int64_t count, void *values) {
  if (group->size == 1) return TRI_OK;
  int64_t *begins = NULL;
  TRI_TRY(tri_alloc("a collective", (size_t)group->size + 1, sizeof *begins, &begins));
  for (int r = 0; r <= group->size; r++) begins[r] = tri_part_begin(count, group->size, r);
  tri_status status = tri_reduce_scatter(group, type, begins, values);
  if (status == TRI_OK) status = tri_all_gather(group, type, begins, values);
  tri_free(begins);
  return status;
}

tri_status tri_all_maximum(const tri_group *group, tri_dtype type, int64_t count, void *values) {
  if (group->size == 1) return TRI_OK;
  return mpi_check(MPI_Allreduce(MPI_IN_PLACE, values, (int)count, type == TRI_FP64 ? MPI_DOUBLE : MPI_FLOAT, MPI_MAX,
                                 group->impl->communicator),
                   "a maximum", group->name);
}

tri_status tri_all_sum_int64(const tri_group *group, int64_t count, int64_t *values) {
  if (group->size == 1) return TRI_OK;
  return mpi_check(MPI_Allreduce(MPI_IN_PLACE, values, (int)count, MPI_INT64_T, MPI_SUM, group->impl->communicator),
                   "a sum of whole numbers", group->name);
}

tri_status tri_broadcast(const tri_group *group, int root, size_t bytes, void *data) {
  const size_t most = (size_t)1 << 30;
  for (size_t at = 0; at < bytes && group->size > 1; at += most) {
    size_t count = bytes - at < most ? bytes - at : most;
    TRI_TRY(mpi_check(MPI_Bcast((char *)data + at, (int)count, MPI_BYTE, root, group->impl->communicator),
                      "a broadcast", group->name));
  }
  return TRI_OK;
}

tri_status tri_gather_bytes(const tri_group *group, size_t bytes, const void *mine, void *all) {
  memcpy((char *)all + (size_t)group->rank * bytes, mine, bytes);
  if (group->size == 1) return TRI_OK;
  return mpi_check(
      MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, (int)bytes, MPI_BYTE, group->impl->communicator),
      "a gather", group->name);
}

tri_status tri_barrier(const tri_group *group) {
  if (group->size == 1) return TRI_OK;
  return mpi_check(MPI_Barrier(group->impl->communicator), "a barrier", group->name);
}

/* ---- in the background ------------------------------------------------------------------------------------------- */

tri_status tri_reduce_scatter_start(const tri_group *group, tri_dtype type, const int64_t *begins, void *values,
                                    tri_request **out) {
  *out = NULL;
  return tri_reduce_scatter(group, type, begins, values);
}

tri_status tri_all_reduce_start(const tri_group *group, tri_dtype type, int64_t count, void *values,
                                tri_request **out) {
  *out = NULL;
  return tri_all_reduce(group, type, count, values);
}

tri_status tri_all_gather_start(const tri_group *group, tri_dtype type, const int64_t *begins, void *values,
                                tri_request **out) {
  *out = NULL;
  return tri_all_gather(group, type, begins, values);
}

enum { MESSAGE_BYTES = 1 << 30 };

static tri_status message_start(const tri_group *group, int peer, int tag, size_t bytes, void *data, bool send,
                                tri_request **out) {
  int count = (int)((bytes + MESSAGE_BYTES - 1) / MESSAGE_BYTES);
  tri_request *request = NULL;
  TRI_TRY(tri_alloc("a message", 1, sizeof *request, &request));
  *out = request;
  TRI_TRY(tri_alloc("a message", (size_t)count + 1, sizeof *request->parts, &request->parts));
  for (int i = 0; i < count; i++) {
    size_t at = (size_t)i * MESSAGE_BYTES, size = bytes - at < MESSAGE_BYTES ? bytes - at : MESSAGE_BYTES;
    int code = send ? MPI_Isend((char *)data + at, (int)size, MPI_BYTE, peer, tag, group->impl->communicator,
                                &request->parts[i])
                    : MPI_Irecv((char *)data + at, (int)size, MPI_BYTE, peer, tag, group->impl->communicator,
                                &request->parts[i]);
    TRI_TRY(mpi_check(code, "a message", group->name));
    request->count++;
  }
  return TRI_OK;
}

tri_status tri_send_start(const tri_group *group, int to, int tag, size_t bytes, const void *data, tri_request **out) {
  return message_start(group, to, tag, bytes, (void *)(uintptr_t)data, true, out);
}

tri_status tri_receive_start(const tri_group *group, int from, int tag, size_t bytes, void *data, tri_request **out) {
  return message_start(group, from, tag, bytes, data, false, out);
}

tri_status tri_request_wait(tri_request **request) {
  tri_request *at = *request;
  if (at == NULL) return TRI_OK;
  tri_status status = mpi_check(MPI_Waitall(at->count, at->parts, MPI_STATUSES_IGNORE), "a message", "pipeline");
  tri_free(at->parts);
  tri_free(at);
  *request = NULL;
  return status;
}

tri_status tri_request_test(tri_request *request, bool *done) {
  int flag = 1;
  *done = true;
  if (request == NULL) return TRI_OK;
  TRI_TRY(mpi_check(MPI_Testall(request->count, request->parts, &flag, MPI_STATUSES_IGNORE), "a message", "pipeline"));
  *done = flag != 0;
  return TRI_OK;
}

tri_status tri_comm_progress(void) {
  int flag = 0;
  if (!joined) return TRI_OK;
  return mpi_check(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE), "progress",
                   "job's");
}
