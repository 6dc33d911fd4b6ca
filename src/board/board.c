#include "base/log.h"
#include "base/memory.h"
#include "board/internal.h"
#include "checkpoint/folder.h"
#include "files/file.h"
#include "tune/store_peek.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Limits. A step takes about 64 bytes of memory, and four more bytes for each named number; so a step of a run with
 * many named numbers counts as several steps (tri_series_size). Limits are necessary because a line that was written in
 * order to fill memory may be only a dozen bytes long. */
enum {
  SLICE_BYTES = 4 << 20,
  MOST_SUMMARY_BYTES = 1 << 18,
  MOST_STEPS = 1 << 22,     /* maximum steps of one run */
  MOST_ALL_STEPS = 1 << 24, /* maximum steps of all runs together */
  MOST_CHECKPOINTS = 10000  /* checkpoints of a run; only the newest are kept */
};

/* Locks the board. A thread that unlocks a mutex can lock it again before the waiting threads wake up, so the reading
 * thread would starve the other threads. The second mutex, `next`, prevents that: the thread whose turn is next holds
 * it while it waits for `lock`. */
void tri_board_lock(tri_board *board) {
  pthread_mutex_lock(&board->next);
  pthread_mutex_lock(&board->lock);
  pthread_mutex_unlock(&board->next);
}

void tri_board_unlock(tri_board *board) { pthread_mutex_unlock(&board->lock); }

/* ---- creation ---------------------------------------------------------------------------------------------------- */

static tri_status add_folder(tri_board *board, const char *folder) {
  if (!tri_path_is_directory(folder)) {
    return tri_fail(TRI_BAD_FILE, "board: there is no folder %s; name outputs of runs, or a folder above them", folder);
  }
  char *whole = realpath(folder, NULL);
  if (whole == NULL) return tri_fail(TRI_BAD_FILE, "board: cannot find %s: %s", folder, strerror(errno));
  board->folders[board->num_folders++] = whole;
  return TRI_OK;
}

tri_status tri_board_create(const char *const *folders, int64_t count, tri_board **out) {
  tri_board *board = NULL;
  tri_status status = TRI_OK;
  TRI_TRY(tri_store_peek_prepare());
  TRI_TRY(tri_alloc("a board", 1, sizeof *board, &board));
  pthread_mutex_init(&board->next, NULL);
  pthread_mutex_init(&board->lock, NULL);
  TRI_TRY_GOTO(tri_alloc("a board", (size_t)count, sizeof *board->folders, &board->folders), destroy);
  for (int64_t i = 0; i < count; i++) TRI_TRY_GOTO(add_folder(board, folders[i]), destroy);
  *out = board;
  return TRI_OK;
destroy:
  tri_board_destroy(board);
  return status;
}

static void item_destroy(tri_board_item *item) {
  tri_series_release(&item->series);
  json_decref(item->summary);
  tri_free(item->checkpoints);
  tri_free(item);
}

void tri_board_destroy(tri_board *board) {
  if (board == NULL) return;
  for (int64_t i = 0; i < board->num_folders; i++) free(board->folders[i]);
  for (int64_t i = 0; i < board->num_items; i++) item_destroy(board->items[i]);
  tri_free(board->folders);
  tri_free(board->items);
  pthread_mutex_destroy(&board->lock);
  pthread_mutex_destroy(&board->next);
  tri_free(board);
}

/* ---- new and removed items --------------------------------------------------------------------------------------- */

/* Sets the displayed name of an item. If the board has only one folder, the name is the item's path below this folder.
 * If the board has several folders, or the item is the folder itself, the name is the path from the last part of the
 * folder's name on. */
static void name_item(const tri_board *board, tri_board_item *item) {
  const char *name = item->path;
  for (int64_t i = 0; i < board->num_folders; i++) {
    size_t bytes = strlen(board->folders[i]);
    if (strncmp(item->path, board->folders[i], bytes) != 0 || (item->path[bytes] != '/' && item->path[bytes] != '\0')) {
      continue;
    }
    bool below = board->num_folders == 1 && item->path[bytes] == '/';
    const char *last = strrchr(board->folders[i], '/');
    name = below ? item->path + bytes + 1 : item->path + (last == NULL ? 0 : last + 1 - board->folders[i]);
    break;
  }
  snprintf(item->name, sizeof item->name, "%s", name);
}

static tri_status board_add_item(tri_board *board, const tri_found *found) {
  tri_board_item *item = NULL;
  TRI_TRY(tri_grow("a board", sizeof *board->items, board->num_items, &board->room, &board->items));
  TRI_TRY(tri_alloc("a board", 1, sizeof *item, &item));
  item->kind = found->kind;
  item->root = found->root;
  snprintf(item->path, sizeof item->path, "%s", found->path);
  name_item(board, item);
  if (item->kind == TRI_FOUND_RUN) {
    item->series.root = item->root;
    item->series.most = MOST_STEPS;
    tri_status status = tri_path_join(item->series.path, tri_path_below(item->root, item->path), "metrics.jsonl");
    if (status != TRI_OK) {
      tri_free(item);
      return status;
    }
  }
  board->items[board->num_items++] = item;
  return TRI_OK;
}

static tri_board_item *board_find(const tri_board *board, const tri_found *found) {
  for (int64_t i = 0; i < board->num_items; i++) {
    tri_board_item *item = board->items[i];
    if (item->kind == found->kind && strcmp(item->path, found->path) == 0) return item;
  }
  return NULL;
}

static tri_status board_merge(tri_board *board, const tri_found_list *found) {
  for (int64_t i = 0; i < board->num_items; i++) board->items[i]->gone = true;
  for (int64_t i = 0; i < found->count; i++) {
    tri_board_item *item = board_find(board, &found->items[i]);
    if (item != NULL) item->gone = false;
    if (item == NULL) TRI_TRY(board_add_item(board, &found->items[i]));
  }
  board->looked = true;
  return TRI_OK;
}

/* ---- files of a run ---------------------------------------------------------------------------------------------- */

/* Returns a number that changes with the file; 0 if there is no such file. */
static int64_t version_of(const char *root, const char *relative) {
  struct stat now;
  if (!tri_file_find_below(root, relative, &now)) return 0;
  uint64_t mixed =
      (uint64_t)now.st_size * 1000003 + (uint64_t)now.st_mtim.tv_sec * 1009 + (uint64_t)now.st_mtim.tv_nsec;
  return (int64_t)(mixed & 0xFFFFFFFFFFFF); /* at most 48 bits, which JavaScript represents exactly */
}

/* Computes the path of a run's file, relative to the item's root. */
static tri_status place_in(const tri_board_item *item, const char *name, char relative[TRI_PATH_BYTES]) {
  return tri_path_join(relative, tri_path_below(item->root, item->path), name);
}

static bool stat_in(const tri_board_item *item, const char *name, struct stat *out) {
  char relative[TRI_PATH_BYTES];
  return place_in(item, name, relative) == TRI_OK && tri_file_find_below(item->root, relative, out);
}

static double seconds_since(struct timespec then) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (double)(now.tv_sec - then.tv_sec) + 1e-9 * (double)(now.tv_nsec - then.tv_nsec);
}

/* Returns a run's summary; NULL if there is none, or if it cannot be read now. */
static json_t *read_summary(const tri_board_item *item) {
  char relative[TRI_PATH_BYTES], *text = NULL;
  size_t bytes = 0;
  if (place_in(item, "summary.json", relative) != TRI_OK) return NULL;
  if (tri_file_read_below(item->root, relative, MOST_SUMMARY_BYTES, &text, &bytes) != TRI_OK) return NULL;
  json_t *summary = json_loadb(text, bytes, 0, NULL);
  tri_free(text);
  if (json_is_object(summary)) return summary;
  json_decref(summary);
  return NULL;
}

static void update_summary(tri_board_item *item) {
  struct stat now = {0};
  bool is_there = stat_in(item, "summary.json", &now);
  bool same =
      now.st_mtim.tv_sec == item->summary_changed.tv_sec && now.st_mtim.tv_nsec == item->summary_changed.tv_nsec;
  if (is_there && same && item->summary != NULL) return;
  json_decref(item->summary);
  item->summary = is_there ? read_summary(item) : NULL;
  item->summary_changed = now.st_mtim;
}

static tri_status list_checkpoints(const tri_board_item *item, tri_folder **out, int64_t *count) {
  char relative[TRI_PATH_BYTES];
  int file = -1;
  TRI_TRY(place_in(item, "checkpoints", relative));
  TRI_TRY(tri_folder_open_below(item->root, relative, &file));
  DIR *directory = fdopendir(file);
  if (directory != NULL) return tri_folder_list_open(directory, out, count);
  close(file);
  return tri_fail(TRI_IO_FAILED, "cannot look into %s: %s", relative, strerror(errno));
}

static bool has_mark(const tri_board_item *item, const tri_folder *folder, const char *mark) {
  char inside[TRI_PATH_BYTES];
  struct stat about;
  int length = snprintf(inside, sizeof inside, "checkpoints/%s/%s", folder->name, mark);
  return length > 0 && stat_in(item, inside, &about);
}

static void update_checkpoints(tri_board_item *item) {
  tri_folder *folders = NULL;
  int64_t count = 0, kept = 0;
  tri_board_checkpoint *checkpoints = NULL;
  if (list_checkpoints(item, &folders, &count) != TRI_OK) count = 0;
  if (count > MOST_CHECKPOINTS) count = MOST_CHECKPOINTS; /* complete folders come first, the newest first among them */
  if (tri_alloc("names of checkpoints", (size_t)count, sizeof *checkpoints, &checkpoints) == TRI_OK) {
    for (int64_t i = 0; i < count; i++) {
      if (folders[i].kind != TRI_FOLDER_FINAL || !has_mark(item, &folders[i], TRI_FILE_COMPLETE)) continue;
      checkpoints[kept++] = (tri_board_checkpoint){.step = folders[i].step,
                                                   .best = has_mark(item, &folders[i], TRI_FILE_BEST),
                                                   .proven = has_mark(item, &folders[i], TRI_FILE_PROVEN)};
    }
    tri_free(item->checkpoints);
    item->checkpoints = checkpoints;
    item->num_checkpoints = kept;
  }
  tri_free(folders);
}

static int64_t version_in(const tri_board_item *item, const char *name) {
  char relative[TRI_PATH_BYTES];
  return place_in(item, name, relative) == TRI_OK ? version_of(item->root, relative) : 0;
}

static void update_config(tri_board_item *item) {
  char relative[TRI_PATH_BYTES];
  const int64_t version = version_in(item, "config.yaml");
  if (version == item->config) return;
  item->config = version;
  item->planned = 0;
  item->objective[0] = '\0';
  if (place_in(item, "config.yaml", relative) != TRI_OK) return;
  tri_board_read_config(item->root, relative, &item->planned, item->objective);
}

static void update_failures(tri_board_item *item) {
  struct stat about = {0};
  char relative[TRI_PATH_BYTES];
  const int64_t version = version_in(item, "failures.txt");
  if (version == item->failures) return;
  item->failures = version;
  item->reason[0] = '\0';
  if (!stat_in(item, "failures.txt", &about)) return;
  item->failed = about.st_mtim;
  if (place_in(item, "failures.txt", relative) == TRI_OK) tri_board_reason(item->root, relative, item->reason);
}

static void update_run(tri_board_item *item) {
  struct stat lock = {0};
  update_summary(item);
  update_checkpoints(item);
  item->locked = stat_in(item, "LOCK", &lock);
  item->touched = lock.st_mtim;
  update_config(item);
  update_failures(item);
  item->samples = version_in(item, "samples.jsonl");
  double quiet = seconds_since(item->series.changed), touched = item->locked ? seconds_since(lock.st_mtim) : quiet;
  item->quiet_s = touched < quiet ? touched : quiet;
}

/* Reads an item's files again. The version of a timeline is that of its JSON file; the version of a study includes that
 * of the store's write-ahead log. */
static void update_item(tri_board_item *item) {
  const char *relative = tri_path_below(item->root, item->path);
  char log[TRI_PATH_BYTES];
  switch (item->kind) {
    case TRI_FOUND_RUN: update_run(item); break;
    case TRI_FOUND_STUDY:
      item->version = version_of(item->root, relative);
      if (tri_path_with(log, relative, "-wal") == TRI_OK) item->version ^= version_of(item->root, log);
      break;
    case TRI_FOUND_TIMELINE: item->version = version_of(item->root, relative); break;
  }
}

tri_status tri_board_look(tri_board *board) {
  tri_found_list found = {0};
  tri_status status = TRI_OK;
  for (int64_t i = 0; i < board->num_folders && status == TRI_OK; i++) {
    status = tri_found_below(board->folders[i], &found);
  }
  if (status == TRI_OK) {
    tri_board_lock(board);
    status = board_merge(board, &found);
    tri_board_unlock(board);
  }
  tri_found_release(&found);
  for (int64_t i = 0; status == TRI_OK && i < board->num_items; i++) {
    tri_board_lock(board); /* one item at a time, so that requests are answered in between */
    if (!board->items[i]->gone) update_item(board->items[i]);
    tri_board_unlock(board);
  }
  return status;
}

/* Warns that a run or the board is full, unless *said is set, and sets *said. The page shows how much is not read. */
static void warn_of_full(bool *said, const char *who, int64_t steps) {
  if (!*said) {
    tri_warn("%s: the board holds %" PRId64 " steps, and no more: what follows is not shown; name fewer folders", who,
             steps);
  }
  *said = true;
}

bool tri_board_read(tri_board *board) {
  bool any = false;
  int64_t held = 0;
  for (int64_t i = 0; i < board->num_items; i++) held += tri_series_size(&board->items[i]->series);
  for (int64_t i = 0; i < board->num_items; i++) {
    tri_board_item *item = board->items[i];
    bool more = false;
    if (item->gone || item->kind != TRI_FOUND_RUN) continue;
    if (held >= MOST_ALL_STEPS) {
      warn_of_full(&board->said_full, "all runs", held);
      break;
    }
    held -= tri_series_size(&item->series);
    tri_board_lock(board);
    (void)tri_series_read(&item->series, SLICE_BYTES,
                          &more); /* if the file cannot be read now, the series is unchanged */
    tri_board_unlock(board);
    held += tri_series_size(&item->series);
    if (tri_series_is_full(&item->series)) warn_of_full(&item->said_full, item->name, item->series.count);
    any = any || more;
  }
  return any;
}
