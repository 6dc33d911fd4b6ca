#include "checkpoint/named_folder.h"

#include "base/log.h"
#include "base/system.h"
#include "files/write_fault.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENDING ".tmp-"

/* Returns whether a name is LAST.tmp-MARK, or LAST.tmp-PID of older versions. */
static bool is_temporary(const char *name, const char *last) {
  const size_t bytes = strlen(last);
  if (strncmp(name, last, bytes) != 0 || strncmp(name + bytes, ENDING, sizeof ENDING - 1) != 0) return false;
  const char *mark = name + bytes + sizeof ENDING - 1;
  return *mark != '\0' && mark[strspn(mark, "0123456789abcdef")] == '\0';
}

static bool is_left(const char *path) {
  struct stat facts;
  if (lstat(path, &facts) != 0 || !S_ISDIR(facts.st_mode)) return false; /* links are not followed */
  return tri_folder_lock_is_left(path);
}

/* Removes temporary folders of killed processes. If one cannot be removed, it stays, with a warning. */
static void clear_left(const char *name) {
  char above[TRI_PATH_BYTES], path[TRI_PATH_BYTES];
  const char *slash = strrchr(name, '/'), *last = slash == NULL ? name : slash + 1;
  snprintf(above, sizeof above, "%.*s", slash == NULL ? 1 : (int)(slash - name) + (slash == name),
           slash == NULL ? "." : name);
  DIR *directory = opendir(above);
  if (directory == NULL) return;
  for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
    if (!is_temporary(entry->d_name, last) || tri_path_join(path, above, entry->d_name) != TRI_OK) continue;
    if (!is_left(path)) continue;
    if (tri_directory_remove(path) == TRI_OK) {
      tri_log("removed %s, which a killed process left behind", path);
    } else if (tri_path_exists(path)) {
      tri_warn("cannot remove %s, which a killed process left behind: %s", path, tri_status_message());
    }
  }
  closedir(directory);
}

tri_status tri_named_folder_check(const char *name) {
  static const char *const endings[] = {".gguf", ".bin", ".pt", ".pth", ".ckpt", ".safetensors", ".onnx"};
  size_t length = strlen(name);
  while (length > 1 && name[length - 1] == '/') length--;
  for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
    const size_t bytes = strlen(endings[i]);
    if (length <= bytes || strncasecmp(name + length - bytes, endings[i], bytes) != 0) continue;
    const char *how = strcmp(endings[i], ".gguf") == 0 ? "`trireme export` makes a GGUF file of it"
                      : strcmp(endings[i], ".safetensors") == 0
                          ? "its model.safetensors is that file"
                          : "PyTorch programs read it with from_pretrained(FOLDER)";
    return tri_fail(
        TRI_BAD_USAGE,
        "%s is the name of a file, and a Hugging Face folder is written; name a folder, %.*s for example: %s", name,
        (int)(length - bytes), name, how);
  }
  return TRI_OK;
}

tri_status tri_named_folder_begin(const char *name, tri_named_folder *out) {
  char ending[sizeof ENDING + TRI_UNIQUE_BYTES], mark[TRI_UNIQUE_BYTES];
  tri_named_folder made = {.lock = NULL};
  TRI_TRY(tri_path_with(made.name, name, ""));
  TRI_TRY(tri_system_unique(mark));
  snprintf(ending, sizeof ending, ENDING "%s", mark);
  TRI_TRY(tri_path_with(made.temporary, name, ending));
  clear_left(name);
  TRI_TRY(tri_directory_create(made.temporary));
  const tri_status status = tri_folder_lock_acquire(made.temporary, &made.lock);
  if (status == TRI_OK) *out = made;
  if (status != TRI_OK) (void)rmdir(made.temporary);
  return status;
}

static void unlock(tri_named_folder *folder) {
  tri_folder_lock_release(folder->lock);
  folder->lock = NULL;
}

/* The lock, which marks the folder as in use, is removed just before the folder gets its final name. */
tri_status tri_named_folder_finish(tri_named_folder *folder) {
  TRI_TRY(tri_directory_sync(folder->temporary));
  unlock(folder);
  if (rename(folder->temporary, folder->name) != 0) {
    return tri_fail(TRI_IO_FAILED, "cannot rename %s to %s: %s", folder->temporary, folder->name,
                    tri_write_fault(errno));
  }
  folder->temporary[0] = '\0';
  TRI_TRY(tri_directory_sync(folder->name));
  return tri_file_sync_folder(folder->name);
}

tri_status tri_named_folder_drop(tri_named_folder *folder) {
  if (folder->temporary[0] == '\0') return TRI_OK;
  unlock(folder);
  const tri_status status = tri_directory_remove(folder->temporary);
  folder->temporary[0] = '\0';
  return status;
}
