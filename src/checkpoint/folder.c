/* Folders are made and removed by rename, so that a crash at any point leaves each checkpoint either whole under a name
 * that counts or in pieces under a name that does not:
 *
 *  save     .tmp-step-N-PID  --(all files flushed)-->  step-N
 *  replace  step-N  -->  .old-step-N-PID, then as above. Until the new folder has its name, the old one stays
 *           whole under `.old-`, where tri_checkpoint_newest finds it.
 *  remove   step-N  -->  .old-step-N-PID, COMPLETE removed, then the rest. Without COMPLETE the folder
 *           cannot be mistaken for a checkpoint.
 *
 * PID is the number of the writing process. It only distinguishes processes of one job: whether a process of another
 * host is alive cannot be known. One process at a time writes below a root (its output's lock, files/folder_lock.h), so
 * a folder with another process's number belongs to a process that has ended. */
#include "checkpoint/folder.h"

#include "base/log.h"
#include "base/memory.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/output.h"
#include "files/write_fault.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *prefix_of(tri_folder_kind kind) {
  switch (kind) {
    case TRI_FOLDER_FINAL: return "step-";
    case TRI_FOLDER_TEMPORARY: return ".tmp-step-";
    case TRI_FOLDER_OLD: return ".old-step-";
  }
  return "?";
}

tri_status tri_folder_path(const char *root, tri_folder_kind kind, int64_t step, char path[TRI_PATH_BYTES]) {
  char name[64];
  int length = snprintf(name, sizeof name, "%s%08" PRId64, prefix_of(kind), step);
  if (kind != TRI_FOLDER_FINAL) snprintf(name + length, sizeof name - (size_t)length, "-%ld", (long)getpid());
  return tri_path_join(path, root, name);
}

/* Parses a decimal number without a sign, and moves *text to its end. Returns false if there is no number, if it does
 * not fit, or if the next character is not `stop`. */
static bool parse_number(const char **text, char stop, int64_t *out) {
  char *end = NULL;
  if (**text < '0' || **text > '9') return false;
  errno = 0;
  *out = strtoll(*text, &end, 10);
  *text = end;
  return errno == 0 && *end == stop;
}

static bool parse_name(const char *name, tri_folder *out) {
  for (int kind = TRI_FOLDER_FINAL; kind <= TRI_FOLDER_OLD; kind++) {
    size_t prefix = strlen(prefix_of((tri_folder_kind)kind));
    if (strncmp(name, prefix_of((tri_folder_kind)kind), prefix) != 0 || strlen(name) >= sizeof out->name) continue;
    const char *rest = name + prefix;
    int64_t owner = 0;
    bool final = kind == TRI_FOLDER_FINAL;
    if (!parse_number(&rest, final ? '\0' : '-', &out->step)) return false;
    if (!final && (rest++, !parse_number(&rest, '\0', &owner))) return false;
    /* Accept only names as we write them: "step-100" is a copy that the user made. */
    int length = snprintf(out->name, sizeof out->name, "%s%08" PRId64, prefix_of((tri_folder_kind)kind), out->step);
    if (!final) snprintf(out->name + length, sizeof out->name - (size_t)length, "-%" PRId64, owner);
    if (strcmp(name, out->name) != 0) return false;
    out->kind = (tri_folder_kind)kind;
    return true;
  }
  return false;
}

static int compare_folders(const void *left, const void *right) {
  const tri_folder *a = left, *b = right;
  if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
  if (a->step != b->step) return a->step > b->step ? -1 : 1;
  return strcmp(a->name, b->name);
}

tri_status tri_folder_list_open(DIR *directory, tri_folder **out, int64_t *count) {
  tri_folder *list = NULL;
  int64_t held = 0, room = 0;
  tri_status status = TRI_OK;
  for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
    tri_folder folder;
    if (!parse_name(entry->d_name, &folder)) continue;
    TRI_TRY_GOTO(tri_grow("a list of checkpoints", sizeof *list, held, &room, &list), close_directory);
    list[held++] = folder;
  }
  if (held > 0) qsort(list, (size_t)held, sizeof *list, compare_folders);
  *out = list;
  *count = held;
  list = NULL;
close_directory:
  tri_free(list);
  closedir(directory);
  return status;
}

tri_status tri_folder_list(const char *root, tri_folder **out, int64_t *count) {
  DIR *directory = opendir(root);
  if (directory != NULL) return tri_folder_list_open(directory, out, count);
  if (errno != ENOENT) return tri_fail(TRI_BAD_FILE, "cannot look into %s: %s", root, strerror(errno));
  *out = NULL;
  *count = 0;
  return TRI_OK;
}

tri_status tri_folder_retire(const char *root, int64_t step) {
  char path[TRI_PATH_BYTES], old[TRI_PATH_BYTES];
  TRI_TRY(tri_folder_path(root, TRI_FOLDER_FINAL, step, path));
  TRI_TRY(tri_folder_path(root, TRI_FOLDER_OLD, step, old));
  /* This process may have retired the same step before and failed to clear it. */
  if (tri_path_exists(old)) TRI_TRY(tri_directory_remove(old));
  if (rename(path, old) != 0)
    return tri_fail(TRI_IO_FAILED, "cannot rename %s to %s: %s", path, old, tri_write_fault(errno));
  return tri_directory_sync(root);
}

static tri_status remove_folder(const char *root, const char *name) {
  char path[TRI_PATH_BYTES], complete[TRI_PATH_BYTES];
  TRI_TRY(tri_path_join(path, root, name));
  TRI_TRY(tri_path_join(complete, path, TRI_FILE_COMPLETE));
  if (unlink(complete) == 0) {
    TRI_TRY(tri_directory_sync(path));
  } else if (errno != ENOENT && errno != ENOTDIR) {
    return tri_fail(TRI_IO_FAILED, "cannot remove %s: %s", complete, strerror(errno));
  }
  return tri_directory_remove(path);
}

bool tri_folder_has(const char *root, const tri_folder *folder, const char *mark) {
  char path[TRI_PATH_BYTES], inside[TRI_PATH_BYTES];
  return tri_path_join(path, root, folder->name) == TRI_OK && tri_path_join(inside, path, mark) == TRI_OK &&
         tri_path_exists(inside);
}

bool tri_folder_is_complete(const char *root, const tri_folder *folder) {
  return folder->kind == TRI_FOLDER_FINAL && tri_folder_has(root, folder, TRI_FILE_COMPLETE);
}

tri_status tri_folder_mark(const char *root, int64_t step, const char *mark) {
  char path[TRI_PATH_BYTES], inside[TRI_PATH_BYTES];
  TRI_TRY(tri_folder_path(root, TRI_FOLDER_FINAL, step, path));
  TRI_TRY(tri_path_join(inside, path, mark));
  if (tri_path_exists(inside)) return TRI_OK;
  TRI_TRY(tri_output_file(inside, "", 0));
  return tri_directory_sync(path);
}

bool tri_checkpoint_is_there(const char *root, int64_t step) {
  tri_folder final = {.kind = TRI_FOLDER_FINAL};
  snprintf(final.name, sizeof final.name, "%s%08" PRId64, prefix_of(TRI_FOLDER_FINAL), step);
  return tri_folder_is_complete(root, &final);
}

/* Returns whether a folder is left over and can be removed. A complete old folder may be the only copy of its step. */
static bool is_left_over(const char *root, const tri_folder *folder) {
  if (folder->kind != TRI_FOLDER_OLD) return folder->kind == TRI_FOLDER_TEMPORARY;
  return !tri_folder_has(root, folder, TRI_FILE_COMPLETE) || tri_checkpoint_is_there(root, folder->step);
}

/* Removes the folders of one kind; if `kind` is NULL, all folders that are left over. */
static tri_status remove_folders(const char *root, const tri_folder_kind *kind) {
  tri_folder *list = NULL;
  int64_t count = 0;
  TRI_TRY(tri_folder_list(root, &list, &count));
  tri_status status = TRI_OK;
  for (int64_t i = 0; i < count && status == TRI_OK; i++) {
    const bool wanted = kind != NULL ? list[i].kind == *kind : is_left_over(root, &list[i]);
    if (wanted) status = remove_folder(root, list[i].name);
  }
  tri_free(list);
  return status;
}

tri_status tri_folder_clear(const char *root, tri_folder_kind kind) { return remove_folders(root, &kind); }

tri_status tri_checkpoint_clear(const char *root) {
  TRI_TRY(remove_folders(root, NULL));
  return tri_checkpoint_link_best(root); /* a run may have been killed before it made the link */
}

/* Returns the newest complete folder of the list that is proven; NULL: none. */
static const tri_folder *newest_proven(const char *root, const tri_folder *list, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    if (tri_folder_is_complete(root, &list[i]) && tri_folder_has(root, &list[i], TRI_FILE_PROVEN)) return &list[i];
  }
  return NULL;
}

/* Returns the newest folder with the BEST mark, which is the best of all; NULL: none. */
static const tri_folder *newest_best(const char *root, const tri_folder *list, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    if (tri_folder_is_complete(root, &list[i]) && tri_folder_has(root, &list[i], TRI_FILE_BEST)) return &list[i];
  }
  return NULL;
}

/* Makes ROOT/best a link to `best`, the best checkpoint, for users; the mark decides which checkpoint that is. Removes
 * the link if `best` is NULL. The link is replaced by a rename, so that it exists at all times. A file or folder of
 * that name that is not a link is not changed. */
static tri_status link_best(const char *root, const tri_folder *best) {
  char path[TRI_PATH_BYTES], beside[TRI_PATH_BYTES], now[64] = "";
  TRI_TRY(tri_path_join(path, root, TRI_LINK_BEST));
  TRI_TRY(tri_path_join(beside, root, "." TRI_LINK_BEST));
  const ssize_t length = readlink(path, now, sizeof now - 1);
  if (length < 0 && errno != ENOENT) return TRI_OK; /* not a link: the user's own file */
  if (length < 0 && best == NULL) return TRI_OK;
  if (best == NULL && unlink(path) != 0) return tri_fail(TRI_IO_FAILED, "cannot remove %s: %s", path, strerror(errno));
  if (best == NULL || strcmp(now, best->name) == 0) return TRI_OK;
  (void)unlink(beside); /* a killed process may have left it */
  if (symlink(best->name, beside) == 0 && rename(beside, path) == 0) return tri_directory_sync(root);
  return tri_fail(TRI_IO_FAILED, "cannot make the link %s: %s", path, tri_write_fault(errno));
}

tri_status tri_checkpoint_link_best(const char *root) {
  tri_folder *list = NULL;
  int64_t count = 0;
  TRI_TRY(tri_folder_list(root, &list, &count));
  if (link_best(root, newest_best(root, list, count)) != TRI_OK) {
    tri_warn("the best checkpoint has the mark " TRI_FILE_BEST " alone: %s", tri_status_message());
  }
  tri_free(list);
  return TRI_OK;
}

/* Retires the complete checkpoints of `list` that tri_folder_keep does not keep. The newest proven one is kept because
 * a checkpoint that a diverging run saved just before its weights were found to be ruined must not replace the last one
 * that is known to be good. */
static tri_status retire_all_but(const char *root, int64_t newest_step, int64_t keep, const tri_folder *list,
                                 int64_t count) {
  const tri_folder *proven = newest_proven(root, list, count), *best = newest_best(root, list, count);
  int64_t kept = 1; /* the checkpoint of newest_step */
  for (int64_t i = 0; i < count; i++) {
    const tri_folder *folder = &list[i];
    if (!tri_folder_is_complete(root, folder) || folder->step == newest_step || folder == proven) {
      kept += folder == proven && folder->step != newest_step;
      continue;
    }
    if (folder == best) {
      kept += kept < keep; /* the best counts among the newest */
      continue;
    }
    bool disproved = tri_folder_has(root, folder, TRI_FILE_DISPROVED);
    if (!disproved && kept++ < keep) continue;
    TRI_TRY(tri_folder_retire(root, folder->step));
  }
  return TRI_OK;
}

tri_status tri_folder_keep(const char *root, int64_t newest_step, int64_t keep) {
  TRI_TRY(tri_checkpoint_link_best(root)); /* the link is changed before the checkpoint to which it points is removed */
  if (keep > 0) {
    tri_folder *list = NULL;
    int64_t count = 0;
    TRI_TRY(tri_folder_list(root, &list, &count));
    tri_status status = retire_all_but(root, newest_step, keep, list, count);
    tri_free(list);
    TRI_TRY(status);
  }
  return tri_folder_clear(root, TRI_FOLDER_OLD);
}

tri_status tri_checkpoint_prove(const char *root, int64_t step, int64_t keep) {
  TRI_TRY(tri_folder_mark(root, step, TRI_FILE_PROVEN));
  return tri_folder_keep(root, step, keep);
}

tri_status tri_checkpoint_disprove(const char *root, int64_t step) {
  return tri_folder_mark(root, step, TRI_FILE_DISPROVED);
}

tri_status tri_checkpoint_newest_proven(const char *root, char path[TRI_PATH_BYTES]) {
  tri_folder *list = NULL;
  int64_t count = 0;
  TRI_TRY(tri_folder_list(root, &list, &count));
  const tri_folder *found = newest_proven(root, list, count);
  tri_status status = found == NULL ? TRI_OK : tri_path_join(path, root, found->name);
  if (found == NULL) path[0] = '\0';
  tri_free(list);
  return status;
}

tri_status tri_checkpoint_list(const char *root, tri_checkpoint_found **out, int64_t *count) {
  tri_folder *list = NULL;
  tri_checkpoint_found *found = NULL;
  int64_t folders = 0, held = 0;
  TRI_TRY(tri_folder_list(root, &list, &folders));
  tri_status status = tri_alloc("a list of checkpoints", (size_t)folders, sizeof *found, &found);
  for (int64_t i = folders - 1; i >= 0 && status == TRI_OK; i--) { /* each kind has its highest step first */
    if (!tri_folder_is_complete(root, &list[i]) || tri_folder_has(root, &list[i], TRI_FILE_DISPROVED)) continue;
    found[held].step = list[i].step;
    status = tri_path_join(found[held++].path, root, list[i].name);
  }
  tri_free(list);
  if (status == TRI_OK) *out = found, *count = held;
  if (status != TRI_OK) tri_free(found);
  return status;
}
