#include "base/file.h"

#include "base/format.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

tri_status tri_file_read(const char *path, size_t limit_bytes, char **out, size_t *out_bytes) {
  tri_status status = TRI_OK;
  char *data = NULL;
  size_t held = 0, room = 0;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return tri_fail(TRI_BAD_FILE, "cannot open %s: %s", path, strerror(errno));
  for (;;) {
    if (held + 1 >= room) {
      room = room == 0 ? 65536 : room * 2;
      TRI_TRY_GOTO(tri_realloc(path, room, 1, &data), close_file);
    }
    ssize_t got = read(file, data + held, room - held - 1);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      status = tri_fail(TRI_BAD_FILE, "cannot read %s: %s", path, strerror(errno));
      goto close_file;
    }
    if (got == 0) break;
    held += (size_t)got;
    if (held > limit_bytes) {
      char limit[32];
      status = tri_fail(TRI_BAD_FILE, "%s is larger than the %s that such a file may have", path,
                        tri_format_bytes((double)limit_bytes, limit, sizeof limit));
      goto close_file;
    }
  }
  data[held] = '\0';
  *out = data;
  data = NULL;
  if (out_bytes != NULL) *out_bytes = held;
close_file:
  tri_free(data);
  close(file);
  return status;
}

static tri_status write_all(int file, const char *path, const char *data, size_t bytes) {
  while (bytes > 0) {
    ssize_t put = write(file, data, bytes);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return tri_fail(TRI_IO_FAILED, "cannot write %s: %s", path, strerror(errno));
    data += put;
    bytes -= (size_t)put;
  }
  if (fsync(file) != 0) return tri_fail(TRI_IO_FAILED, "cannot flush %s to disk: %s", path, strerror(errno));
  return TRI_OK;
}

tri_status tri_file_replace(const char *path, const void *data, size_t bytes) {
  char temporary[TRI_PATH_BYTES];
  int length = snprintf(temporary, sizeof temporary, "%s.tmp.%ld", path, (long)getpid());
  if (length < 0 || (size_t)length >= sizeof temporary) return tri_fail(TRI_BAD_USAGE, "the path %s is too long", path);
  int file = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return tri_fail(TRI_IO_FAILED, "cannot create %s: %s", temporary, strerror(errno));
  tri_status status = write_all(file, temporary, data, bytes);
  if (close(file) != 0 && status == TRI_OK) {
    status = tri_fail(TRI_IO_FAILED, "cannot write %s: %s", temporary, strerror(errno));
  }
  if (status == TRI_OK && rename(temporary, path) != 0) {
    status = tri_fail(TRI_IO_FAILED, "cannot rename %s to %s: %s", temporary, path, strerror(errno));
  }
  if (status != TRI_OK) {
    unlink(temporary);
    return status;
  }
  char directory[TRI_PATH_BYTES];
  snprintf(directory, sizeof directory, "%s", path);
  char *slash = strrchr(directory, '/');
  if (slash == NULL) return tri_directory_sync(".");
  slash[slash == directory ? 1 : 0] = '\0';
  return tri_directory_sync(directory);
}

bool tri_path_exists(const char *path) {
  struct stat facts;
  return stat(path, &facts) == 0;
}

bool tri_path_is_directory(const char *path) {
  struct stat facts;
  return stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
}

tri_status tri_directory_create(const char *path) {
  char partial[TRI_PATH_BYTES];
  int length = snprintf(partial, sizeof partial, "%s", path);
  if (length < 0 || (size_t)length >= sizeof partial) return tri_fail(TRI_BAD_USAGE, "the path %s is too long", path);
  for (char *p = partial + 1;; p++) {
    if (*p != '/' && *p != '\0') continue;
    char kept = *p;
    *p = '\0';
    if (mkdir(partial, 0777) != 0 && !(errno == EEXIST && tri_path_is_directory(partial))) {
      return tri_fail(TRI_IO_FAILED, "cannot create the directory %s: %s", partial, strerror(errno));
    }
    *p = kept;
    if (kept == '\0') return TRI_OK;
  }
}

tri_status tri_directory_sync(const char *path) {
  int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return tri_fail(TRI_IO_FAILED, "cannot open the directory %s: %s", path, strerror(errno));
  int result = fsync(directory);
  int reason = errno;
  close(directory);
  /* Some file systems have no fsync for directories and say EINVAL; they order renames by themselves. */
  if (result != 0 && reason != EINVAL) {
    return tri_fail(TRI_IO_FAILED, "cannot flush the directory %s to disk: %s", path, strerror(reason));
  }
  return TRI_OK;
}

static int remove_entry(const char *path, const struct stat *facts, int kind, struct FTW *where) {
  (void)facts;
  (void)kind;
  (void)where;
  return remove(path);
}

tri_status tri_directory_remove(const char *path) {
  if (!tri_path_exists(path)) return TRI_OK;
  if (nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS) != 0) {
    return tri_fail(TRI_IO_FAILED, "cannot remove %s: %s", path, strerror(errno));
  }
  return TRI_OK;
}

tri_status tri_path_join(char out[TRI_PATH_BYTES], const char *directory, const char *name) {
  size_t length = strlen(directory);
  const char *between = length == 0 || directory[length - 1] == '/' ? "" : "/";
  int written = snprintf(out, TRI_PATH_BYTES, "%s%s%s", directory, between, name);
  if (written < 0 || written >= TRI_PATH_BYTES)
    return tri_fail(TRI_BAD_USAGE, "the path %s/%s is too long", directory, name);
  return TRI_OK;
}
