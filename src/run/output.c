#include "run/output.h"

#include "base/log.h"
#include "base/memory.h"
#include "comm/agreement.h"
#include "files/temporary_name.h"
#include "files/write_fault.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECKPOINTS "checkpoints"
#define METRICS "metrics.jsonl"
#define SAMPLES "samples.jsonl"

/* ---- moving files aside ------------------------------------------------------------------------------------------ */

/* Finds the first unused name ROOT.old-N. Files of another run, or of another branch of this one, must not be used by
 * this run; they are moved aside and not deleted. */
static tri_status free_name(const char *root, char to[TRI_PATH_BYTES]) {
  for (int number = 1;; number++) {
    int length = snprintf(to, TRI_PATH_BYTES, "%s.old-%d", root, number);
    if (length < 0 || length >= TRI_PATH_BYTES) return tri_fail(TRI_BAD_USAGE, "the path %s is too long", root);
    if (!tri_path_exists(to)) return TRI_OK;
  }
}

static tri_status move(const char *from, const char *to) {
  if (rename(from, to) == 0) return TRI_OK;
  return tri_fail(TRI_IO_FAILED, "cannot rename %s to %s: %s", from, to, tri_write_fault(errno));
}

/* Moves all checkpoints aside, with the metrics and samples of the run. Does nothing if the output has no folder of
 * checkpoints. The metrics and samples are first moved into the folder of the checkpoints, so that a single rename
 * moves everything. Logs the new path. */
static tri_status move_all_aside(const char *output, const char *root) {
  static const char *const courses[] = {METRICS, SAMPLES};
  char to[TRI_PATH_BYTES], course[TRI_PATH_BYTES], inside[TRI_PATH_BYTES];
  if (!tri_path_exists(root)) return TRI_OK;
  TRI_TRY(free_name(root, to));
  for (size_t i = 0; i < sizeof courses / sizeof courses[0]; i++) {
    TRI_TRY(tri_path_join(course, output, courses[i]));
    TRI_TRY(tri_path_join(inside, root, courses[i]));
    if (tri_path_exists(course)) TRI_TRY(move(course, inside));
  }
  TRI_TRY(move(root, to));
  tri_log("the checkpoints of an earlier run are now in %s", to);
  return TRI_OK;
}

/* Returns the step in the name of a checkpoint's folder; -1 for another name. */
static int64_t step_of(const char *name) {
  long step = -1;
  return sscanf(name, "step-%ld", &step) == 1 ? step : -1;
}

/* Moves checkpoints after `step` aside, because resuming from an older step begins a new branch. If it moves any, logs
 * their new folder. */
static tri_status move_later_aside(const char *root, int64_t step) {
  char to[TRI_PATH_BYTES] = "", from_path[TRI_PATH_BYTES], to_path[TRI_PATH_BYTES];
  DIR *directory = opendir(root);
  if (directory == NULL) return TRI_OK;
  tri_status status = TRI_OK;
  for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
    if (step_of(entry->d_name) <= step) continue;
    if (to[0] == '\0') {
      TRI_TRY_GOTO(free_name(root, to), done);
      TRI_TRY_GOTO(tri_directory_create(to), done);
      tri_log("checkpoints after step %ld are now in %s", (long)step, to);
    }
    TRI_TRY_GOTO(tri_path_join(from_path, root, entry->d_name), done);
    TRI_TRY_GOTO(tri_path_join(to_path, to, entry->d_name), done);
    TRI_TRY_GOTO(move(from_path, to_path), done);
  }
done:
  closedir(directory);
  return status;
}

/* Returns whether a folder is a direct child of root. */
static bool is_below(const char *folder, const char *root) {
  char real_folder[PATH_MAX], real_root[PATH_MAX];
  if (realpath(folder, real_folder) == NULL || realpath(root, real_root) == NULL) return false;
  size_t length = strlen(real_root);
  return strncmp(real_folder, real_root, length) == 0 && real_folder[length] == '/' &&
         strchr(real_folder + length + 1, '/') == NULL;
}

tri_status tri_output_make_room(const char *output, const char *folder, int64_t step) {
  char root[TRI_PATH_BYTES];
  TRI_TRY(tri_path_join(root, output, CHECKPOINTS));
  if (!is_below(folder, root)) return move_all_aside(output, root);
  TRI_TRY(move_later_aside(root, step));
  return tri_checkpoint_link_best(root);
}

/* ---- opening and locking ----------------------------------------------------------------------------------------- */

/* Files that a run writes in its output by way of temporary files. Some are replaced as a whole; metrics and samples
 * are rewritten when a run resumes, and then get further lines. */
static const char *const names[] = {"run.json",      "config.yaml",  METRICS,   SAMPLES,
                                    "products.json", "summary.json", "loss.svg"};
enum { NUM_NAMES = sizeof names / sizeof names[0] };

/* Removes incomplete files of killed runs. A failure is only a warning. */
static void clear(const char *output, const char *root) {
  for (size_t i = 0; i < NUM_NAMES; i++) {
    char path[TRI_PATH_BYTES];
    if (tri_path_join(path, output, names[i]) == TRI_OK) tri_temporary_clear(path);
  }
  if (tri_checkpoint_clear(root) == TRI_OK) return;
  tri_warn("something that a killed run has left stays: %s", tri_status_message());
}

/* Refuses folders and special files in place of the files that the run will write, before it trains. */
static tri_status check_files(const char *output) {
  for (size_t i = 0; i < NUM_NAMES; i++) {
    char path[TRI_PATH_BYTES];
    TRI_TRY(tri_path_join(path, output, names[i]));
    const char *kind = tri_path_odd_kind(path);
    if (kind != NULL) {
      return tri_fail(TRI_BAD_FILE, "%s is a %s, and the run writes a file there; move it away or remove it", path,
                      kind);
    }
  }
  return TRI_OK;
}

static tri_status take(const char *path, tri_run_output *out) {
  snprintf(out->path, sizeof out->path, "%s", path);
  out->made = !tri_path_exists(path);
  TRI_TRY(tri_directory_create(path));
  const tri_status status = tri_folder_lock_acquire(path, &out->lock);
  if (status != TRI_OK && out->made) (void)rmdir(path);
  return status;
}

tri_status tri_run_output_open(const tri_group *world, const tri_run_config *config, tri_run_output *out) {
  return tri_first_rank_status(world, world->rank == 0 ? take(config->output, out) : TRI_OK);
}

static tri_status begin(const char *output, bool anew) {
  char root[TRI_PATH_BYTES];
  TRI_TRY(check_files(output));
  TRI_TRY(tri_path_join(root, output, CHECKPOINTS));
  clear(output, root);
  return anew ? move_all_aside(output, root) : TRI_OK; /* before the run gets its new name */
}

tri_status tri_run_output_begin(const tri_group *world, const tri_run_config *config, bool anew,
                                tri_identity *identity) {
  TRI_TRY(tri_first_rank_status(world, world->rank == 0 ? begin(config->output, anew) : TRI_OK));
  return tri_identity_open(world, config, anew, identity);
}

void tri_run_output_close(tri_run_output *output) {
  if (output->lock == NULL) return;
  tri_folder_lock_release(output->lock);
  output->lock = NULL;
  if (output->made) (void)rmdir(output->path); /* fails if the folder is not empty */
}

tri_status tri_output_write_config(const tri_run_config *config) {
  char path[TRI_PATH_BYTES];
  char *text = NULL;
  TRI_TRY(tri_path_join(path, config->output, "config.yaml"));
  TRI_TRY(tri_run_config_print(config, &text));
  tri_status status = tri_file_replace(path, text, strlen(text));
  tri_free(text);
  return status;
}
