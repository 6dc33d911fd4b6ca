/* The invariants: `.prepare-whole` with its list of members exists only after all members are on the disk, and until
 * all of them have been moved. Each step of moving may be repeated, and several processes may do it at once, because
 * moving a file that was already moved has no effect.
 *
 * The lock is a file, not the folder: flock on a file that is open for writing also works on NFS. Its owner removes the
 * file; a process that gets the lock checks that the locked file still has its name. On file systems without locks all
 * processes are trusted, but files that may belong to another process are not removed. */
#include "files/file_transaction.h"

#include "base/log.h"
#include "base/memory.h"
#include "files/file.h"
#include "files/write_fault.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TEMPORARY ".prepare-"
#define WHOLE TEMPORARY "whole"
#define LOCK TEMPORARY "lock"
#define MEMBERS "members"

enum { LONGEST_LIST_BYTES = 4096, NAME_BYTES = 64, PATIENCE_MS = 30000, PAUSE_MS = 20 };

const char *const tri_file_transaction_names[] = {"train.bin",
                                                  "train.idx",
                                                  "train.corpus.json",
                                                  "validation.bin",
                                                  "validation.idx",
                                                  "validation.corpus.json",
                                                  "tokenizer.json",
                                                  "train.mask",
                                                  "validation.mask",
                                                  "tokenizer_config.json",
                                                  "train.labels",
                                                  "validation.labels",
                                                  NULL};
enum { NUM_NAMES = sizeof tri_file_transaction_names / sizeof tri_file_transaction_names[0] - 1 };

/* Order of moving: a record is added before its corpus and removed after it, so that a copy of the folder in between
 * never has a corpus without the record that shows that the corpus is incomplete. */
static const int order[NUM_NAMES] = {2, 7, 10, 0, 1, 5, 8, 11, 3, 4, 9, 6};

struct tri_file_transaction {
  char folder[TRI_PATH_BYTES], temporary[TRI_PATH_BYTES];
  int lock; /* -1: not locked */
  bool folder_is_new;
};

/* ---- the lock ---------------------------------------------------------------------------------------------------- */

/* Result of locking: held by this process, or busy; if both are false, the file system has no locks. */
typedef struct lock_result {
  bool held, busy;
} lock_result;

static bool is_file_of(int file, const char *path) {
  struct stat own, there;
  return fstat(file, &own) == 0 && stat(path, &there) == 0 && own.st_dev == there.st_dev && own.st_ino == there.st_ino;
}

static tri_status try_lock(const char *folder, int *out, lock_result *result) {
  char path[TRI_PATH_BYTES];
  TRI_TRY(tri_path_join(path, folder, LOCK));
  for (;;) {
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0 && errno == EACCES) file = open(path, O_RDONLY | O_CLOEXEC); /* a file of another user */
    if (file < 0) {
      int reason = errno;
      tri_status status = tri_fail(TRI_IO_FAILED, "cannot write to the folder %s: %s", folder, tri_write_fault(reason));
      errno = reason;
      return status;
    }
    if (flock(file, LOCK_EX | LOCK_NB) == 0) {
      *result = (lock_result){.held = true};
    } else if (errno == EINTR) {
      close(file);
      continue;
    } else {
      *result = (lock_result){.busy = errno == EWOULDBLOCK};
    }
    if (result->held && !is_file_of(file, path)) { /* its owner removed it between the two calls */
      close(file);
      continue;
    }
    if (result->busy) {
      close(file);
      file = -1;
    }
    *out = file;
    return TRI_OK;
  }
}

static void unlock(const char *folder, int lock) {
  char path[TRI_PATH_BYTES];
  if (lock < 0) return;
  if (tri_path_join(path, folder, LOCK) == TRI_OK) unlink(path);
  close(lock);
}

/* ---- putting a generation in place ------------------------------------------------------------------------------- */

static int find_name(const char *name, size_t length) {
  for (int i = 0; i < NUM_NAMES; i++) {
    if (strlen(tri_file_transaction_names[i]) == length && memcmp(tri_file_transaction_names[i], name, length) == 0)
      return i;
  }
  return -1;
}

static tri_status fail_step(const char *folder, const char *what, const char *name) {
  return tri_fail(TRI_IO_FAILED,
                  "cannot replace the corpus in %s (%s %s: %s); make sure that this user may write there, and run the "
                  "command again",
                  folder, what, name, tri_write_fault(errno));
}

/* Writes the path of the list of members to `list`, and sets *out to whether a generation has to be moved, which is so
 * if the list exists. The list is removed last, so that at most an empty folder remains. */
static tri_status find_list(const char *folder, char list[TRI_PATH_BYTES], bool *out) {
  TRI_TRY(tri_path_join(list, folder, WHOLE "/" MEMBERS));
  *out = tri_path_exists(list);
  return TRI_OK;
}

static tri_status fail_list(const char *list) {
  return tri_fail(TRI_BAD_FILE,
                  "%s is damaged; its folder has one part of a new corpus and the parent folder the other; make the "
                  "corpus again, in another folder",
                  list);
}

/* Returns whether a list of members is complete. Files that are not members are removed, so a truncated list must be
 * refused. */
static bool is_complete(const bool members[NUM_NAMES]) {
  bool train = members[0] && members[1] && members[2], tokenizer = members[6];
  /* A mask of the validation corpus needs that corpus, and a mask of the training corpus. */
  bool masks = !members[8] || (members[3] && members[7]);
  return train && tokenizer && masks && members[3] == members[4] && members[4] == members[5];
}

static tri_status read_members(const char *list, bool members[NUM_NAMES]) {
  char *text = NULL;
  size_t bytes = 0, at = 0;
  TRI_TRY(tri_file_read_plain(list, LONGEST_LIST_BYTES, &text, &bytes));
  memset(members, 0, NUM_NAMES * sizeof members[0]);
  while (at < bytes) {
    size_t length = strcspn(text + at, "\n");
    int which = find_name(text + at, length);
    if (which < 0 || text[at + length] != '\n') break;
    members[which] = true;
    at += length + 1;
  }
  tri_free(text);
  return at == bytes && is_complete(members) ? TRI_OK : fail_list(list);
}

/* Moves the members, and adds the number of moved files to *moved. Fails with TRI_BAD_FILE if a member is in neither
 * folder. */
static tri_status move_members(const char *folder, const char *whole, const bool members[NUM_NAMES], int *moved) {
  for (int k = 0; k < NUM_NAMES; k++) {
    const char *name = tri_file_transaction_names[order[k]];
    char from[TRI_PATH_BYTES], to[TRI_PATH_BYTES];
    if (!members[order[k]]) continue;
    TRI_TRY(tri_path_join(from, whole, name));
    TRI_TRY(tri_path_join(to, folder, name));
    if (rename(from, to) == 0) {
      (*moved)++;
    } else if (errno != ENOENT) { /* ENOENT: moved before */
      return fail_step(folder, "moving", name);
    } else if (!tri_path_exists(to)) {
      return tri_fail(
          TRI_BAD_FILE,
          "%s is gone, and it belonged to the corpus that was being put into %s; make the corpus again, into "
          "another folder",
          to, folder);
    }
  }
  return TRI_OK;
}

static tri_status remove_others(const char *folder, const bool members[NUM_NAMES]) {
  for (int k = NUM_NAMES - 1; k >= 0; k--) {
    char old[TRI_PATH_BYTES];
    if (members[order[k]]) continue;
    TRI_TRY(tri_path_join(old, folder, tri_file_transaction_names[order[k]]));
    if (unlink(old) != 0 && errno != ENOENT) {
      return fail_step(folder, "removing the old", tri_file_transaction_names[order[k]]);
    }
  }
  return TRI_OK;
}

static tri_status move_in_place(const char *folder, int *moved) {
  char whole[TRI_PATH_BYTES], list[TRI_PATH_BYTES];
  bool members[NUM_NAMES], pending = false;
  TRI_TRY(tri_path_join(whole, folder, WHOLE));
  TRI_TRY(find_list(folder, list, &pending));
  if (!pending) return TRI_OK;
  tri_status status = read_members(list, members);
  if (status != TRI_OK)
    return tri_path_exists(list) ? status : TRI_OK; /* without locks another process may have finished the moves */
  TRI_TRY(move_members(folder, whole, members, moved));
  TRI_TRY(remove_others(folder, members));
  TRI_TRY(tri_directory_sync(folder)); /* the list is removed only after the moves are on the disk */
  if (unlink(list) != 0 && errno != ENOENT) return fail_step(folder, "removing", WHOLE "/" MEMBERS);
  rmdir(whole); /* if that fails, the folder has no list, and so no effect */
  return tri_directory_sync(folder);
}

/* Finishes the transaction of a killed process, if there are files to move, and logs this. The caller has the lock, or
 * the file system has no locks. */
static tri_status finish_locked(const char *folder) {
  int moved = 0;
  TRI_TRY(move_in_place(folder, &moved));
  if (moved > 0) {
    tri_log("%s: `trireme prepare` ended while it replaced the corpus; that is finished now", folder);
  }
  return TRI_OK;
}

/* ---- readers ----------------------------------------------------------------------------------------------------- */

tri_status tri_file_transaction_finish(const char *folder) {
  char list[TRI_PATH_BYTES];
  bool pending = false;
  TRI_TRY(find_list(folder, list, &pending));
  for (int waited_ms = 0; pending; waited_ms += PAUSE_MS) {
    lock_result result = {.busy = true};
    int lock = -1;
    if (try_lock(folder, &lock, &result) != TRI_OK) {
      return tri_fail(
          TRI_IO_FAILED,
          "%s has parts of two corpora: `trireme prepare` ended while it replaced the corpus, and this process cannot "
          "finish the replacement (%s); run the command as a user who may write to the folder",
          folder, strerror(errno));
    }
    if (!result.busy) {
      tri_status status = finish_locked(folder);
      unlock(folder, lock);
      return status;
    }
    if (waited_ms >= PATIENCE_MS) { /* moving is fast: the owner of the lock must be stopped */
      return tri_fail(
          TRI_BAD_FILE,
          "a `trireme prepare` has been putting a new corpus into %s for %d s; wait until it ends, or end it", folder,
          PATIENCE_MS / 1000);
    }
    nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000L}, NULL);
    pending = tri_path_exists(list);
  }
  return TRI_OK;
}

tri_status tri_file_transaction_finish_for(const char *path, const char *suffix) {
  char folder[TRI_PATH_BYTES], name[NAME_BYTES];
  const char *slash = strrchr(path, '/');
  const char *last = slash == NULL ? path : slash + 1;
  int length = snprintf(name, sizeof name, "%s%s", last, suffix);
  if (length < 0 || (size_t)length >= sizeof name || find_name(name, (size_t)length) < 0) return TRI_OK;
  if (slash == NULL) return tri_file_transaction_finish(".");
  snprintf(folder, sizeof folder, "%.*s", slash == path ? 1 : (int)(slash - path), path);
  return tri_file_transaction_finish(folder);
}

/* ---- writers ----------------------------------------------------------------------------------------------------- */

/* Returns whether a name is ".prepare-PID-N" or ".prepare-whole". It must be called after all complete generations have
 * been moved. */
static bool is_leftover(const char *name) {
  const char *rest = name + strlen(TEMPORARY);
  if (strncmp(name, TEMPORARY, strlen(TEMPORARY)) != 0) return false;
  return strcmp(name, WHOLE) == 0 || (*rest != '\0' && rest[strspn(rest, "0123456789-")] == '\0');
}

/* Removes files of killed processes. This process holds the lock, so no other one writes there; complete generations
 * are moved already. */
static void clear_leftovers(const char *folder) {
  DIR *directory = opendir(folder);
  if (directory == NULL) return;
  for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
    char path[TRI_PATH_BYTES];
    /* A failure only wastes disk space. */
    if (is_leftover(entry->d_name) && tri_path_join(path, folder, entry->d_name) == TRI_OK) {
      (void)tri_directory_remove(path);
    }
  }
  closedir(directory);
}

static tri_status make_temporary(tri_file_transaction *generation) {
  for (int number = 0;; number++) {
    char name[NAME_BYTES];
    snprintf(name, sizeof name, TEMPORARY "%ld-%d", (long)getpid(), number);
    TRI_TRY(tri_path_join(generation->temporary, generation->folder, name));
    if (mkdir(generation->temporary, 0777) == 0) return TRI_OK;
    if (errno == EEXIST) continue; /* a process with this id on another host */
    int reason = errno;
    char path[TRI_PATH_BYTES];
    memcpy(path, generation->temporary, sizeof path);
    generation->temporary[0] = '\0';
    return tri_fail(TRI_IO_FAILED, "cannot create the folder %s: %s", path, tri_write_fault(reason));
  }
}

static tri_status generation_begin(tri_file_transaction *generation, const char *folder) {
  lock_result result = {.busy = true};
  int length = snprintf(generation->folder, sizeof generation->folder, "%s", folder);
  if (length < 0 || (size_t)length >= sizeof generation->folder) {
    return tri_fail(TRI_BAD_USAGE, "the path %s is too long", folder);
  }
  generation->folder_is_new = !tri_path_exists(folder);
  TRI_TRY(tri_directory_create(folder));
  TRI_TRY(try_lock(folder, &generation->lock, &result));
  if (result.busy) {
    generation->folder_is_new = false;
    return tri_fail(TRI_BAD_USAGE, "another `trireme prepare` is writing to %s", folder);
  }
  TRI_TRY(finish_locked(folder));
  if (result.held) clear_leftovers(folder);
  return make_temporary(generation);
}

tri_status tri_file_transaction_begin(const char *folder, tri_file_transaction **out) {
  tri_file_transaction *generation = NULL;
  TRI_TRY(tri_alloc("a corpus's folder", 1, sizeof *generation, &generation));
  generation->lock = -1;
  tri_status status = generation_begin(generation, folder);
  if (status == TRI_OK) *out = generation;
  if (status != TRI_OK) tri_file_transaction_destroy(generation);
  return status;
}

const char *tri_file_transaction_folder(const tri_file_transaction *generation) { return generation->temporary; }

static tri_status list_members(const tri_file_transaction *generation) {
  char path[TRI_PATH_BYTES], list[LONGEST_LIST_BYTES];
  size_t length = 0;
  for (int i = 0; i < NUM_NAMES; i++) {
    TRI_TRY(tri_path_join(path, generation->temporary, tri_file_transaction_names[i]));
    if (!tri_path_exists(path)) continue;
    length += (size_t)snprintf(list + length, sizeof list - length, "%s\n", tri_file_transaction_names[i]);
  }
  TRI_TRY(tri_path_join(path, generation->temporary, MEMBERS));
  return tri_file_replace(path, list, length); /* includes fsync of the folder with the members' names */
}

tri_status tri_file_transaction_commit(tri_file_transaction *generation) {
  char whole[TRI_PATH_BYTES];
  int moved = 0;
  TRI_TRY(tri_path_join(whole, generation->folder, WHOLE));
  TRI_TRY(list_members(generation));
  if (rename(generation->temporary, whole) != 0) {
    return tri_fail(TRI_IO_FAILED, "cannot rename %s to %s: %s", generation->temporary, whole, tri_write_fault(errno));
  }
  tri_status status = tri_directory_sync(generation->folder);
  if (status == TRI_OK) status = move_in_place(generation->folder, &moved);
  /* If nothing was moved, the old generation is kept. Otherwise the next process continues. */
  if (status == TRI_OK || moved > 0 || rename(whole, generation->temporary) != 0) generation->temporary[0] = '\0';
  return status;
}

void tri_file_transaction_destroy(tri_file_transaction *generation) {
  if (generation == NULL) return;
  if (generation->temporary[0] != '\0') (void)tri_directory_remove(generation->temporary);
  unlock(generation->folder, generation->lock);
  if (generation->folder_is_new) rmdir(generation->folder); /* fails if it is not empty */
  tri_free(generation);
}
