/* Memory of a rank that the other ranks of its node can read.
 *
 * Pages of an anonymous file (memfd) replace the private pages at the same addresses. The other ranks open the file
 * through /proc/PID/fd, which the system allows to processes of the same user, and map it for reading. The last page of
 * the file contains a label with its owner, because in another container the same process number can belong to a
 * different process.
 *
 * The ranks that share a segment agree on its number, which is larger than those of all earlier segments of any of
 * them, and on `shared`. So two segments with the same number have no rank in common. A collective reads a buffer in
 * place only if all of its group's ranks of this node share the segment (tri_share_find), whichever group shared it. */
#include "base/loop_threads.h"
#include "base/memory.h"
#include "comm/internal.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct tri_segment {
  tri_segment *next;
  uint32_t number;   /* number of the segment, from 1 */
  const void *given; /* address that the caller of tri_comm_share passed */
  bool shared;       /* whether all ranks that share the segment have mapped the others' files */
  char *begin;       /* address of this rank's pages */
  size_t bytes;      /* bytes of this rank's pages */
  struct view {
    const char *begin;
    size_t bytes;
    size_t first, end; /* range of offsets that were read since the pages were last dropped */
    bool shares;       /* whether the rank shares the segment, perhaps with no bytes */
  } * views;           /* [local_size]: mappings of the files of the other ranks that share the segment */
};

enum { PIECE_BYTES = 1 << 22 };                     /* bytes of pages that a thread replaces at a time */
static const size_t MOST_LOOKED = (size_t)16 << 20; /* most bytes of others' memory that may be resident here */

/* The label of a rank's file: sent to the other ranks, and stored in the file. */
typedef struct label {
  int pid, file, rank;
  uint32_t number;
  uint64_t bytes; /* size of the file without the label's page */
} label;

/* ---- this rank's pages ------------------------------------------------------------------------------------------- */

/* Copies the contents of some pages to a piece of the file, and maps that piece at their address. Returns false if
 * the system refuses. (mremap would not do: MPI libraries that intercept changes of a process's mappings drop its
 * last argument.) */
static bool replace_piece(char *pages, size_t bytes, int file, off_t at) {
  const int access = PROT_READ | PROT_WRITE;
  void *copy = mmap(NULL, bytes, access, MAP_SHARED, file, at);
  if (copy == MAP_FAILED) return false;
#ifdef MADV_HUGEPAGE
  madvise(copy, bytes, MADV_HUGEPAGE); /* a hint: a refusal costs only speed */
#endif
  memcpy(copy, pages, bytes);
  bool placed = mmap(pages, bytes, access, MAP_SHARED | MAP_FIXED | MAP_POPULATE, file, at) == pages;
  munmap(copy, bytes);
  return placed;
}

/* Replaces all pages of a segment in pieces: each thread copies one piece at a time, which bounds the memory of the
 * copies and puts the pages near the threads that will use them. Returns whether all are replaced; if only some are,
 * the memory still works as before. */
static bool replace_pages(const tri_segment *segment, int file) {
  int64_t pieces = (int64_t)(segment->bytes / PIECE_BYTES + (segment->bytes % PIECE_BYTES != 0));
  int64_t replaced = 0;
#pragma omp parallel for schedule(static) num_threads(tri_loop_threads()) reduction(+ : replaced)
  for (int64_t i = 0; i < pieces; i++) {
    size_t at = (size_t)i * PIECE_BYTES;
    size_t bytes = segment->bytes - at < PIECE_BYTES ? segment->bytes - at : PIECE_BYTES;
    replaced += replace_piece(segment->begin + at, bytes, file, (off_t)at) ? 1 : 0;
  }
  return replaced == pieces;
}

/* Creates the file of a segment, and replaces the segment's pages by pages of the file. Returns the file's
 * descriptor, or -1 if the system does not allow that. */
static int make_file(const tri_segment *segment, const label *mine) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  int file = memfd_create("trireme", MFD_CLOEXEC);
  if (file < 0) return -1;
  label marked = *mine;
  marked.file = file;
  if (ftruncate(file, (off_t)(segment->bytes + page)) == 0 &&
      pwrite(file, &marked, sizeof marked, (off_t)segment->bytes) == (ssize_t)sizeof marked &&
      replace_pages(segment, file)) {
    return file;
  }
  close(file);
  return -1;
}

/* ---- the other ranks' pages -------------------------------------------------------------------------------------- */

static bool view_file(const label *theirs, struct view *out) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", theirs->pid, theirs->file);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  label found;
  void *pages = MAP_FAILED;
  bool right = pread(file, &found, sizeof found, (off_t)theirs->bytes) == (ssize_t)sizeof found &&
               memcmp(&found, theirs, sizeof found) == 0;
  if (right && theirs->bytes > 0) pages = mmap(NULL, theirs->bytes, PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (pages != MAP_FAILED) *out = (struct view){.begin = pages, .bytes = theirs->bytes, .shares = true};
  return right && (theirs->bytes == 0 || pages != MAP_FAILED);
}

static void close_views(tri_segment *segment) {
  for (int l = 0; l < tri_comm_job()->local_size; l++) {
    struct view *view = &segment->views[l];
    if (view->begin != NULL) munmap((void *)(uintptr_t)view->begin, view->bytes);
    *view = (struct view){.shares = view->shares};
  }
}

/* COLLECTIVE over the group's ranks of this node. Maps the files of the other ranks. If that fails on any rank, all
 * ranks unmap them. all[num_local]: room for their labels. */
static tri_status exchange_views(const tri_group_impl *group, tri_segment *segment, const label *mine, label *all,
                                 bool *shared) {
  const int bytes = (int)sizeof *mine;
  TRI_MPI(group->name, MPI_Allgather(mine, bytes, MPI_BYTE, all, bytes, MPI_BYTE, group->node_comm));
  int fine = 1;
  for (int l = 0; l < group->num_local && fine; l++) {
    struct view *view = &segment->views[group->machine_ranks[l]];
    fine = all[l].file >= 0 && (l == group->local || view_file(&all[l], view));
  }
  int all_fine = 0;
  TRI_MPI(group->name, MPI_Allreduce(&fine, &all_fine, 1, MPI_INT, MPI_MIN, group->node_comm));
  if (!all_fine) close_views(segment);
  *shared = all_fine != 0;
  return TRI_OK;
}

/* ---- segments ---------------------------------------------------------------------------------------------------- */

static void remove_segment(tri_segment *segment) {
  tri_job *job = tri_comm_job();
  for (tri_segment **link = &job->shared; *link != NULL; link = &(*link)->next) {
    if (*link != segment) continue;
    *link = segment->next;
    break;
  }
  close_views(segment);
  tri_free(segment);
}

/* COLLECTIVE over the group's ranks of this node. Sets the number of the next segment that they share. */
static tri_status next_number(const tri_group_impl *group, uint32_t *out) {
  tri_job *job = tri_comm_job();
  uint32_t last = 0;
  TRI_MPI(group->name, MPI_Allreduce(&job->last_segment, &last, 1, MPI_UINT32_T, MPI_MAX, group->node_comm));
  *out = job->last_segment = last + 1;
  return TRI_OK;
}

/* Creates the segment of the whole pages that contain the given memory, and adds it to the job's list. */
static tri_status create_segment(const tri_group_impl *group, void *memory, size_t bytes, uint32_t number,
                                 tri_segment **out) {
  tri_job *job = tri_comm_job();
  tri_segment *segment = NULL;
  size_t views = (size_t)job->local_size * sizeof(struct view);
  TRI_TRY(tri_alloc("shared memory", 1, sizeof *segment + views, &segment));
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  uintptr_t lead = bytes > 0 ? (uintptr_t)memory % page : 0;
  segment->given = memory;
  segment->begin = (char *)memory - lead;
  segment->bytes = bytes > 0 ? (bytes + lead + page - 1) / page * page : 0;
  segment->views = (struct view *)(segment + 1);
  segment->number = number;
  for (int l = 0; l < group->num_local; l++) segment->views[group->machine_ranks[l]].shares = true;
  segment->next = job->shared;
  job->shared = segment;
  *out = segment;
  return TRI_OK;
}

tri_status tri_comm_share(const tri_group *group, void *memory, size_t bytes, bool *shared) {
  tri_job *job = tri_comm_job();
  const tri_group_impl *of = group->impl;
  tri_segment *segment = NULL;
  label *all = NULL;
  uint32_t number = 0;
  *shared = false;
  if (of == NULL || of->num_local == 1) return TRI_OK;
  TRI_TRY(tri_comm_check());
  TRI_TRY(next_number(of, &number));
  TRI_TRY(create_segment(of, memory, bytes, number, &segment));
  tri_status status = tri_alloc("shared memory", (size_t)of->num_local, sizeof *all, &all);
  if (status != TRI_OK) goto remove;
  label mine;
  memset(&mine, 0, sizeof mine); /* padding included: labels are compared with memcmp */
  mine.pid = getpid();
  mine.rank = job->rank;
  mine.number = segment->number;
  mine.bytes = segment->bytes;
  mine.file = make_file(segment, &mine);
  status = exchange_views(of, segment, &mine, all, &segment->shared);
  if (mine.file >= 0) close(mine.file);
  if (status != TRI_OK) goto remove;
  *shared = segment->shared;
remove:
  tri_free(all);
  if (status != TRI_OK) remove_segment(segment);
  return status;
}

void tri_comm_unshare(void *memory) {
  for (tri_segment *segment = tri_comm_job()->shared; segment != NULL; segment = segment->next) {
    if (segment->given != memory) continue;
    remove_segment(segment);
    return;
  }
}

void tri_share_close(void) {
  while (tri_comm_job()->shared != NULL) remove_segment(tri_comm_job()->shared);
}

/* ---- reads ------------------------------------------------------------------------------------------------------- */

/* Returns whether all ranks of the group on this node share a segment. */
static bool all_share(const tri_segment *segment, const tri_group_impl *group) {
  for (int l = 0; l < group->num_local; l++) {
    if (!segment->views[group->machine_ranks[l]].shares) return false;
  }
  return segment->shared;
}

uint32_t tri_share_find(const tri_group_impl *group, const void *memory, size_t bytes, uint64_t *offset) {
  uintptr_t at = (uintptr_t)memory;
  for (const tri_segment *segment = tri_comm_job()->shared; segment != NULL; segment = segment->next) {
    uintptr_t begin = (uintptr_t)segment->begin;
    if (at < begin || at - begin > segment->bytes || bytes > segment->bytes - (at - begin)) continue;
    *offset = at - begin;
    return all_share(segment, group) ? segment->number : 0;
  }
  return 0;
}

const char *tri_share_look(uint32_t number, uint64_t offset, int local) {
  for (const tri_segment *segment = tri_comm_job()->shared; segment != NULL; segment = segment->next) {
    if (segment->number != number) continue;
    const char *begin = local == tri_comm_job()->local_rank ? segment->begin : segment->views[local].begin;
    return begin == NULL ? NULL : begin + offset;
  }
  return NULL;
}

/* Returns the mapping of another rank's file that contains an address, or NULL. */
static struct view *find_view(const char *at) {
  for (const tri_segment *segment = tri_comm_job()->shared; segment != NULL; segment = segment->next) {
    for (int l = 0; l < tri_comm_job()->local_size && segment->shared; l++) {
      struct view *view = &segment->views[l];
      if (view->begin != NULL && at >= view->begin && at < view->begin + view->bytes) return view;
    }
  }
  return NULL;
}

/* Drops the pages of other ranks' memory that this rank has read since the last call. */
static void let_go(void) {
  for (const tri_segment *segment = tri_comm_job()->shared; segment != NULL; segment = segment->next) {
    for (int l = 0; l < tri_comm_job()->local_size && segment->shared; l++) {
      struct view *view = &segment->views[l];
      if (view->end > view->first) {
        madvise((void *)(uintptr_t)(view->begin + view->first), view->end - view->first, MADV_DONTNEED);
      }
      view->first = view->end = 0;
    }
  }
  tri_comm_job()->looked_bytes = 0;
}

void tri_share_looking(const char *at, size_t bytes) {
  tri_job *job = tri_comm_job();
  struct view *view = find_view(at);
  if (view == NULL || bytes == 0) return;
  const size_t page = (size_t)sysconf(_SC_PAGESIZE), into = (size_t)(at - view->begin);
  const size_t first = into / page * page, end = (into + bytes + page - 1) / page * page;
  size_t from = view->end > 0 && view->first < first ? view->first : first, to = view->end > end ? view->end : end;
  const size_t more = (to - from) - (view->end - view->first);
  if (more == 0) return;
  if (job->looked_bytes + more > MOST_LOOKED) {
    let_go();
    from = first;
    to = end;
  }
  job->looked_bytes += (to - from) - (view->end - view->first);
  view->first = from;
  view->end = to;
#ifdef MADV_POPULATE_READ /* populates all pages at once, which is faster than one after the other */
  madvise((void *)(uintptr_t)(view->begin + first), end - first, MADV_POPULATE_READ);
#endif
}
