/* The files of a snapshot are /dev/shm/trireme-UID-OUTPUT/RUN/node-K/step-N/rank-R.
 *
 * OUTPUT is a hash of the path of the output. RUN is the name of the run (identity.h), since a later run may use the
 * same output; it removes the files of the earlier one. K is the number of the node, since tests divide one machine
 * into several nodes. N is the step, and R the rank whose state it is. An incomplete file has the suffix ".part".
 *
 * The header of a file has a hash of the configuration, the number of ranks and the data, the rank whose state it is,
 * the progress of the run, and a checksum of the rest. */
#include "recovery/snapshot.h"

#include "base/flight_recorder.h"
#include "base/log.h"
#include "base/memory.h"
#include "checkpoint/element_sum.h"
#include "comm/agreement.h"
#include "engine/checkpoint_map.h"
#include "files/write_fault.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MEMORY_FOLDER "/dev/shm"

enum { SNAPSHOT_TAG = 11, HEADER_BYTES = 256, MOST_STEPS = 4, BASE_BYTES = 128 };

/* A file begins with a header, which is padded to HEADER_BYTES bytes. */
typedef struct header {
  char magic[16];
  uint64_t signature;  /* hash of the configuration, the number of ranks, the corpus and the tokenizer (sign) */
  int64_t rank, bytes; /* rank whose state it is; bytes of the file, with the header */
  tri_progress progress;
  uint64_t sum; /* checksum of the bytes after the header (sum_of) */
} header;

static const char magic[16] = "trireme-memory-3";

struct tri_snapshots {
  tri_engine *engine;
  tri_checkpoint_map map;
  char base[BASE_BYTES];       /* folder of the snapshots of this output, with all runs and nodes */
  char folder[TRI_PATH_BYTES]; /* folder of this run and node */
  uint64_t signature;
  size_t bytes;      /* bytes of this rank's file */
  int64_t *sizes;    /* bytes of the file of each rank [world.size] */
  int64_t neighbour; /* rank that stores a copy of the file of this rank; -1: the job has one node */
};

/* A mapped file in shared memory. */
typedef struct mapped {
  char *begin;
  size_t bytes;
} mapped;

static const tri_group *world_of(const tri_snapshots *s) { return &tri_engine_mesh(s->engine)->world; }

/* ---- paths and neighbours ---------------------------------------------------------------------------------------- */

/* Returns the rank that stores a copy of the file of `rank`: with n ranks on the node of `rank`, the first of rank +
 * n, rank + n + 1, ... (modulo the number of ranks) that is on another node. Returns -1 if the job has one node. */
static int64_t neighbour_of(const tri_group *world, int64_t rank) {
  const int64_t size = world->size;
  const int node = tri_group_node_of(world, (int)rank);
  int64_t local = 0;
  for (int64_t r = 0; r < size; r++) local += tri_group_node_of(world, (int)r) == node ? 1 : 0;
  for (int64_t away = local; away < local + size; away++) {
    int64_t other = (rank + away) % size;
    if (tri_group_node_of(world, (int)other) != node) return other;
  }
  return -1;
}

/* Sets `base` to the folder of the snapshots of an output. */
static tri_status find_base(const char *output, char base[BASE_BYTES]) {
  char absolute[TRI_PATH_BYTES] = "";
  if (realpath(output, absolute) == NULL) {
    return tri_fail(TRI_IO_FAILED, "cannot find out where %s is: %s", output, strerror(errno));
  }
  uint64_t run = tri_element_sum(1, 0, (int64_t)strlen(absolute), absolute);
  snprintf(base, BASE_BYTES, "%s/trireme-%ld-%016" PRIx64, MEMORY_FOLDER, (long)getuid(), run);
  return TRI_OK;
}

/* Removes the snapshots in `folder` of all runs except `name` (NULL: of all runs, and the folder itself). No process
 * uses these snapshots, since this run holds the lock of the output. A failure is only logged. */
static void remove_other_runs(const char *folder, const char *name) {
  char path[TRI_PATH_BYTES];
  struct stat facts;
  /* any user can write to /dev/shm, and may have made a folder or a link of this name */
  bool ours = lstat(folder, &facts) == 0 && S_ISDIR(facts.st_mode) && facts.st_uid == getuid();
  DIR *directory = ours ? opendir(folder) : NULL;
  if (directory == NULL) return;
  for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
    if (entry->d_name[0] == '.' || (name != NULL && strcmp(entry->d_name, name) == 0)) continue;
    if (tri_path_join(path, folder, entry->d_name) != TRI_OK) continue;
    if (tri_directory_remove(path) != TRI_OK)
      tri_warn("an unneeded snapshot could not be removed: %s", tri_status_message());
  }
  closedir(directory);
  if (name == NULL) (void)rmdir(folder);
}

static tri_status find_folder(tri_snapshots *s, const char *output, const tri_identity *identity) {
  TRI_TRY(find_base(output, s->base));
  TRI_TRY(tri_directory_create_private(
      s->base)); /* private, since the name can be guessed and any user can write to /dev/shm */
  if (tri_comm_local_rank() == 0) remove_other_runs(s->base, identity->run);
  snprintf(s->folder, sizeof s->folder, "%s/%s/node-%d", s->base, identity->run, tri_comm_node_of(tri_comm_rank()));
  return TRI_OK;
}

static void step_folder(const tri_snapshots *s, int64_t step, char path[TRI_PATH_BYTES]) {
  snprintf(path, TRI_PATH_BYTES, "%.4000s/step-%08" PRId64, s->folder, step);
}

static tri_status create_step_folder(const tri_snapshots *s, int64_t step) {
  char path[TRI_PATH_BYTES];
  TRI_TRY(tri_directory_create_private(s->base));
  step_folder(s, step, path);
  return tri_directory_create(path);
}

static void file_path(const tri_snapshots *s, int64_t step, int64_t rank, bool part, char path[TRI_PATH_BYTES]) {
  snprintf(path, TRI_PATH_BYTES, "%.4000s/step-%08" PRId64 "/rank-%05" PRId64 "%s", s->folder, step, rank,
           part ? ".part" : "");
}

/* Returns whether this rank is the lowest one of its node, which does the work that a node does once. */
static bool is_first_of_node(const tri_snapshots *s) {
  const tri_group *world = world_of(s);
  int first = 0;
  while (tri_group_node_of(world, first) != tri_group_node_of(world, world->rank)) first++;
  return first == world->rank;
}

/* ---- mapped files ------------------------------------------------------------------------------------------------ */

static tri_status map_file(const char *path, bool create, size_t bytes, mapped *out) {
  int file = open(path, create ? O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC : O_RDONLY | O_CLOEXEC, 0600);
  struct stat facts;
  if (file < 0) return tri_fail(TRI_IO_FAILED, "cannot open %s: %s", path, strerror(errno));
  void *begin = MAP_FAILED;
  int fault = create ? posix_fallocate(file, 0, (off_t)bytes) : fstat(file, &facts) != 0 ? errno : 0;
  if (fault == 0) {
    if (!create) bytes = (size_t)facts.st_size;
    begin = mmap(NULL, bytes, create ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, file, 0);
    fault = begin == MAP_FAILED ? errno : 0;
  }
  close(file);
  if (fault != 0 && !create) return tri_fail(TRI_IO_FAILED, "cannot read %s: %s", path, strerror(fault));
  if (fault != 0) {
    return tri_fail(fault == ENOSPC ? TRI_OUT_OF_MEMORY : TRI_IO_FAILED,
                    "cannot store %zu bytes of a snapshot in %s: %s; turn checkpoint.snapshot_every off (0), or make "
                    "more room in %s",
                    bytes, path, fault == ENOSPC ? strerror(fault) : tri_write_fault(fault), MEMORY_FOLDER);
  }
  *out = (mapped){begin, bytes};
  return TRI_OK;
}

static void unmap(mapped *file) {
  if (file->begin != NULL) munmap(file->begin, file->bytes);
  *file = (mapped){0};
}

static uint64_t sum_of(const mapped *file) {
  return tri_element_sum(4, 0, (int64_t)((file->bytes - HEADER_BYTES) / 4), file->begin + HEADER_BYTES);
}

/* Maps the file with the state of `rank`, and verifies its header and its checksum. */
static tri_status open_whole(const tri_snapshots *s, int64_t step, int64_t rank, mapped *out, header *head) {
  char path[TRI_PATH_BYTES];
  file_path(s, step, rank, false, path);
  TRI_TRY(map_file(path, false, 0, out));
  if (out->bytes >= HEADER_BYTES) memcpy(head, out->begin, sizeof *head);
  bool whole = out->bytes >= HEADER_BYTES && memcmp(head->magic, magic, sizeof magic) == 0 && head->rank == rank &&
               head->signature == s->signature && head->bytes == (int64_t)out->bytes && head->sum == sum_of(out);
  if (whole) return TRI_OK;
  unmap(out);
  return tri_fail(TRI_BAD_FILE, "%s is damaged, or of another run", path);
}

/* ---- setup ------------------------------------------------------------------------------------------------------- */

/* Sets s->signature to a hash of everything that the state depends on: the configuration of the run, its number of
 * ranks, and the fingerprints of its corpus and tokenizer. */
static tri_status sign(tri_snapshots *s, const tri_run_config *config, const tri_identity *identity) {
  char *text = NULL;
  TRI_TRY(tri_run_config_print(config, &text));
  s->signature = tri_element_sum(1, world_of(s)->size, (int64_t)strlen(text), text);
  s->signature += tri_element_sum(1, 1, (int64_t)sizeof identity->train, identity->train[0]);
  s->signature += tri_element_sum(1, 2, (int64_t)sizeof identity->tokenizer, identity->tokenizer);
  tri_free(text);
  return TRI_OK;
}

static tri_status snapshot_set_up(tri_snapshots *s, const tri_run_config *config, const tri_identity *identity) {
  const tri_group *world = world_of(s);
  TRI_TRY(find_folder(s, config->output, identity));
  TRI_TRY(sign(s, config, identity));
  TRI_TRY(tri_checkpoint_map_create(s->engine, TRI_CHECKPOINT_MAP_LOAD, &s->map));
  s->bytes = HEADER_BYTES + (tri_checkpoint_map_bytes(&s->map) + 7) / 8 * 8;
  s->neighbour = neighbour_of(world, world->rank);
  return tri_alloc("sizes of snapshots", (size_t)world->size, sizeof *s->sizes, &s->sizes);
}

tri_status tri_snapshots_create(tri_engine *engine, const tri_run_config *config, const tri_identity *identity,
                                tri_snapshots **out) {
  tri_snapshots *s = NULL;
  TRI_TRY(tri_alloc("snapshots", 1, sizeof *s, &s));
  s->engine = engine;
  tri_status status = tri_common_status(world_of(s), snapshot_set_up(s, config, identity));
  int64_t own = (int64_t)s->bytes;
  if (status == TRI_OK) status = tri_gather_bytes(world_of(s), sizeof own, &own, s->sizes);
  if (status != TRI_OK) {
    tri_snapshots_destroy(s);
    return status;
  }
  *out = s;
  return TRI_OK;
}

void tri_snapshots_destroy(tri_snapshots *s) {
  if (s == NULL) return;
  tri_checkpoint_map_release(&s->map);
  tri_free(s->sizes);
  tri_free(s);
}

/* ---- taking a snapshot ------------------------------------------------------------------------------------------- */

static tri_status snapshot_fill(const tri_snapshots *s, const tri_progress *progress, mapped *file) {
  TRI_TRY(tri_checkpoint_map_download(s->engine, &s->map, file->begin + HEADER_BYTES));
  header head = {.signature = s->signature,
                 .rank = world_of(s)->rank,
                 .bytes = (int64_t)s->bytes,
                 .progress = *progress,
                 .sum = sum_of(file)};
  memcpy(head.magic, magic, sizeof magic);
  memcpy(file->begin, &head, sizeof head);
  return TRI_OK;
}

/* A copy of the file of another rank, stored by this rank. */
typedef struct kept {
  int64_t rank;
  mapped file;
  tri_request *request;
} kept;

static tri_status create_kept(const tri_snapshots *s, int64_t step, kept *all, int64_t *count) {
  const tri_group *world = world_of(s);
  char path[TRI_PATH_BYTES];
  for (int64_t r = 0; r < world->size; r++) {
    if (neighbour_of(world, r) != world->rank) continue;
    file_path(s, step, r, true, path);
    all[*count].rank = r;
    TRI_TRY(map_file(path, true, (size_t)s->sizes[r], &all[*count].file));
    (*count)++;
  }
  return TRI_OK;
}

static tri_status exchange(const tri_snapshots *s, const mapped *own, kept *all, int64_t count) {
  const tri_group *world = world_of(s);
  tri_request *request = NULL;
  for (int64_t i = 0; i < count; i++) {
    TRI_TRY(tri_receive_start(world, (int)all[i].rank, SNAPSHOT_TAG, all[i].file.bytes, all[i].file.begin,
                              &all[i].request));
  }
  if (s->neighbour >= 0) {
    TRI_TRY(tri_send_start(world, (int)s->neighbour, SNAPSHOT_TAG, own->bytes, own->begin, &request));
  }
  for (int64_t i = 0; i < count; i++) TRI_TRY(tri_request_wait(&all[i].request));
  return tri_request_wait(&request);
}

static tri_status finish_file(const tri_snapshots *s, int64_t step, int64_t rank) {
  char part[TRI_PATH_BYTES], whole[TRI_PATH_BYTES];
  file_path(s, step, rank, true, part);
  file_path(s, step, rank, false, whole);
  if (rename(part, whole) == 0) return TRI_OK;
  return tri_fail(TRI_IO_FAILED, "cannot rename %s: %s", part, tri_write_fault(errno));
}

/* Lists the steps with files on this node, the newest first. Returns their number, at most MOST_STEPS. */
static int list_steps(const tri_snapshots *s, int64_t steps[MOST_STEPS]) {
  int count = 0;
  DIR *directory = opendir(s->folder);
  if (directory == NULL) return 0;
  for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
    int64_t step;
    if (sscanf(entry->d_name, "step-%" SCNd64, &step) != 1) continue;
    int at = count;
    while (at > 0 && steps[at - 1] < step) at--;
    if (at == MOST_STEPS) continue;
    if (count < MOST_STEPS) count++;
    memmove(steps + at + 1, steps + at, (size_t)(count - at - 1) * sizeof *steps);
    steps[at] = step;
  }
  closedir(directory);
  return count;
}

static void remove_others(const tri_snapshots *s, int64_t step) {
  int64_t steps[MOST_STEPS];
  char path[TRI_PATH_BYTES];
  int count = is_first_of_node(s) ? list_steps(s, steps) : 0;
  for (int i = 0; i < count; i++) {
    if (steps[i] == step) continue;
    step_folder(s, steps[i], path);
    if (tri_directory_remove(path) != TRI_OK) tri_warn("an old snapshot stays: %s", tri_status_message());
  }
}

static tri_status write_snapshot(tri_snapshots *s, const tri_progress *progress, mapped *own, kept *all,
                                 int64_t *count) {
  const tri_group *world = world_of(s);
  char path[TRI_PATH_BYTES];
  int64_t step = progress->step;
  tri_status status = create_step_folder(s, step);
  file_path(s, step, world->rank, true, path);
  if (status == TRI_OK) status = map_file(path, true, s->bytes, own);
  if (status == TRI_OK) status = create_kept(s, step, all, count);
  if (status == TRI_OK) status = snapshot_fill(s, progress, own);
  /* Agree before the exchange: a rank that failed sends no file, and its neighbour would wait for it forever. */
  TRI_TRY(tri_common_status(world, status));
  TRI_TRY(exchange(s, own, all, *count));
  status = finish_file(s, step, world->rank);
  for (int64_t i = 0; i < *count && status == TRI_OK; i++) status = finish_file(s, step, all[i].rank);
  return tri_common_status(world, status);
}

tri_status tri_snapshots_make(tri_snapshots *s, const tri_progress *progress) {
  mapped own = {0};
  kept *all = NULL;
  int64_t count = 0;
  tri_record record = tri_record_make(TRI_RECORD_WORK, "take a snapshot");
  uint64_t ticket = tri_recorder_begin(&record);
  tri_status status = tri_alloc("the snapshots of neighbours", (size_t)world_of(s)->size, sizeof *all, &all);
  status = tri_common_status(world_of(s), status);
  if (status == TRI_OK) status = write_snapshot(s, progress, &own, all, &count);
  for (int64_t i = 0; i < count; i++) unmap(&all[i].file);
  unmap(&own);
  tri_free(all);
  tri_recorder_end(ticket);
  if (status == TRI_OK) remove_others(s, progress->step);
  return status;
}

/* ---- finding a snapshot ------------------------------------------------------------------------------------------ */

/* Sets giver[r] to the rank that sends rank r its part of a step: r itself if its node has the part; -1 if no node
 * has it. `has` [size, size]: has[q * size + r] is set if the node of rank q has the part of rank r. */
static void find_givers(const unsigned char *has, int64_t size, int64_t *giver) {
  for (int64_t r = 0; r < size; r++) {
    giver[r] = has[r * size + r] ? r : -1;
    for (int64_t q = 0; q < size && giver[r] < 0; q++) giver[r] = has[q * size + r] ? q : -1;
  }
}

/* COLLECTIVE. Sets giver[world.size] (find_givers), and *whole to whether the part of every rank is on some node. */
static tri_status find_parts(const tri_snapshots *s, int64_t step, int64_t *giver, bool *whole) {
  const tri_group *world = world_of(s);
  int64_t size = world->size;
  unsigned char *mine = NULL, *all = NULL;
  tri_status status = TRI_OK;
  TRI_TRY_GOTO(tri_alloc("who has a snapshot", (size_t)size, 1, &mine), done);
  TRI_TRY_GOTO(tri_alloc("who has a snapshot", (size_t)(size * size), 1, &all), done);
  for (int64_t r = 0; r < size; r++) {
    char path[TRI_PATH_BYTES];
    file_path(s, step, r, false, path);
    mine[r] = tri_path_exists(path);
  }
  TRI_TRY_GOTO(tri_gather_bytes(world, (size_t)size, mine, all), done);
  find_givers(all, size, giver);
  *whole = true;
  for (int64_t r = 0; r < size; r++) *whole = *whole && giver[r] >= 0;
done:
  tri_free(all);
  tri_free(mine);
  return status;
}

tri_status tri_snapshots_find(tri_snapshots *s, int64_t *step) {
  const tri_group *world = world_of(s);
  int64_t mine[MOST_STEPS] = {-1, -1, -1, -1}, *all = NULL, *giver = NULL, below = INT64_MAX;
  tri_status status = TRI_OK;
  *step = -1;
  (void)list_steps(s, mine);
  TRI_TRY_GOTO(tri_alloc("steps of snapshots", (size_t)world->size, sizeof mine, &all), done);
  TRI_TRY_GOTO(tri_alloc("who has a snapshot", (size_t)world->size, sizeof *giver, &giver), done);
  TRI_TRY_GOTO(tri_gather_bytes(world, sizeof mine, mine, all), done);
  for (bool whole = false; !whole;) {
    int64_t next = -1;
    for (int64_t i = 0; i < world->size * MOST_STEPS; i++) {
      if (all[i] < below && all[i] > next) next = all[i];
    }
    if (next < 0) break;
    TRI_TRY_GOTO(find_parts(s, next, giver, &whole), done);
    if (whole) *step = next;
    below = next;
  }
done:
  tri_free(giver);
  tri_free(all);
  return status;
}

/* ---- loading a snapshot ------------------------------------------------------------------------------------------ */

/* COLLECTIVE. Loads the part of this rank after all ranks have verified theirs, so that a damaged part changes the
 * engine of no rank. */
static tri_status load_own(tri_snapshots *s, int64_t step, tri_progress *progress) {
  const tri_group *world = world_of(s);
  mapped file = {0};
  header head;
  tri_status status = tri_common_failure(world, open_whole(s, step, world->rank, &file, &head));
  if (status == TRI_OK) {
    status = tri_common_failure(world, tri_checkpoint_map_upload(s->engine, &s->map, file.begin + HEADER_BYTES));
  }
  if (status == TRI_OK) *progress = head.progress;
  unmap(&file);
  return status;
}

/* Verifies the parts that this rank will send to others. Called before any rank sends. */
static tri_status check_given(const tri_snapshots *s, int64_t step, const int64_t *giver) {
  const tri_group *world = world_of(s);
  for (int64_t r = 0; r < world->size; r++) {
    mapped file = {0};
    header head;
    if (r == world->rank || giver[r] != world->rank) continue;
    TRI_TRY(open_whole(s, step, r, &file, &head));
    unmap(&file);
  }
  return TRI_OK;
}

static tri_status give(const tri_snapshots *s, int64_t step, int64_t to) {
  mapped file = {0};
  header head;
  tri_request *request = NULL;
  TRI_TRY(open_whole(s, step, to, &file, &head));
  tri_status status = tri_send_start(world_of(s), (int)to, SNAPSHOT_TAG, file.bytes, file.begin, &request);
  if (status == TRI_OK) status = tri_request_wait(&request);
  unmap(&file);
  return status;
}

/* Creates a file on this node for the part of this rank, if only another node has it (`wanted`). The part is received
 * into this file, and load_own loads it from there. */
static tri_status make_room(const tri_snapshots *s, int64_t step, bool wanted, mapped *out) {
  char path[TRI_PATH_BYTES];
  if (!wanted) return TRI_OK;
  TRI_TRY(create_step_folder(s, step));
  file_path(s, step, world_of(s)->rank, true, path);
  return map_file(path, true, s->bytes, out);
}

static tri_status get(const tri_snapshots *s, int64_t from, const mapped *file) {
  tri_request *request = NULL;
  TRI_TRY(tri_receive_start(world_of(s), (int)from, SNAPSHOT_TAG, file->bytes, file->begin, &request));
  return tri_request_wait(&request);
}

/* COLLECTIVE. Sends each rank its part if its node does not have it. All ranks create their files before any rank
 * sends: if a receiver could not create its file, the sender would wait forever. A rank renames its received file
 * after the last exchange: if the rename failed before, the rank would not send to the ranks that wait for it. */
static tri_status hand_round(tri_snapshots *s, int64_t step, const int64_t *giver) {
  const tri_group *world = world_of(s);
  const bool wanted = giver[world->rank] != world->rank;
  mapped own = {0};
  tri_status status = tri_common_failure(world, make_room(s, step, wanted, &own));
  for (int64_t r = 0; r < world->size && status == TRI_OK; r++) {
    if (giver[r] == r) continue;
    if (r == world->rank) status = get(s, giver[r], &own);
    if (giver[r] == world->rank && status == TRI_OK) status = give(s, step, r);
  }
  if (status == TRI_OK && wanted) status = finish_file(s, step, world->rank);
  unmap(&own);
  return status;
}

tri_status tri_snapshots_load(tri_snapshots *s, int64_t step, tri_progress *progress) {
  const tri_group *world = world_of(s);
  int64_t *giver = NULL;
  bool whole = false;
  TRI_TRY(tri_alloc("who has a snapshot", (size_t)world->size, sizeof *giver, &giver));
  tri_status status = find_parts(s, step, giver, &whole);
  if (status == TRI_OK) status = tri_common_failure(world, check_given(s, step, giver));
  if (status == TRI_OK) status = hand_round(s, step, giver);
  tri_free(giver);
  status = tri_common_failure(world, status);
  if (status == TRI_OK) status = load_own(s, step, progress);
  if (status == TRI_OK) tri_engine_parameters_changed(s->engine);
  return status;
}

/* Removes the folders node-K of all K, since this machine may have had another number in an earlier start. */
void tri_snapshots_remove(const tri_snapshots *s) {
  if (is_first_of_node(s)) remove_other_runs(s->base, NULL);
}

void tri_snapshots_forget(const char *output) {
  char base[BASE_BYTES];
  if (tri_comm_local_rank() == 0 && find_base(output, base) == TRI_OK) remove_other_runs(base, NULL);
}
