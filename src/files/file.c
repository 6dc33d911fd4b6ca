#include "files/file.h"

#include "base/format.h"
#include "base/memory.h"
#include "files/temporary_name.h"
#include "files/write_fault.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static tri_status too_large(const char *path, size_t limit_bytes) {
  char limit[32];
  return tri_fail(TRI_BAD_FILE, "%s is larger than the %s that such a file may have", path,
                  tri_format_bytes((double)limit_bytes, limit, sizeof limit));
}

/* Sets *room to the first size of the buffer. For a plain file this is the size of the file plus two bytes: one for the
 * NUL, and one to find the end. If the size is unknown (in /proc it is 0), *room is 64 KiB. Fails if a plain file is
 * too large. */
static tri_status first_room(int file, const char *path, size_t limit_bytes, size_t *room) {
  struct stat facts;
  const bool known = fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_size > 0;
  if (known && (uint64_t)facts.st_size > limit_bytes) return too_large(path, limit_bytes);
  *room = known ? (size_t)facts.st_size + 2 : 65536;
  return TRI_OK;
}

tri_status tri_file_read_open(int file, const char *path, size_t limit_bytes, char **out, size_t *out_bytes) {
  tri_status status = TRI_OK;
  char *data = NULL;
  size_t held = 0, room = 0, first = 0;
  TRI_TRY_GOTO(first_room(file, path, limit_bytes, &first), close_file);
  for (;;) {
    if (held + 1 >= room) {
      room = room == 0 ? first : room * 2;
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
      status = too_large(path, limit_bytes);
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

tri_status tri_open_fault(int error) {
  if (error == EMFILE || error == ENFILE) return TRI_IO_FAILED;
  return error == ENOMEM ? TRI_OUT_OF_MEMORY : TRI_BAD_FILE;
}

static tri_status cannot_open(const char *path) {
  return tri_fail(tri_open_fault(errno), "cannot open %s: %s", path, strerror(errno));
}

tri_status tri_file_read(const char *path, size_t limit_bytes, char **out, size_t *out_bytes) {
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return cannot_open(path);
  return tri_file_read_open(file, path, limit_bytes, out, out_bytes);
}

static const char *odd_kind(mode_t mode) {
  if (S_ISREG(mode)) return NULL;
  if (S_ISDIR(mode)) return "folder";
  if (S_ISFIFO(mode)) return "pipe";
  return S_ISSOCK(mode) ? "socket" : "device";
}

const char *tri_path_odd_kind(const char *path) {
  struct stat facts;
  return stat(path, &facts) == 0 ? odd_kind(facts.st_mode) : NULL;
}

/* Checks the kind before opening, since opening a device may have effects, and after opening, since the file may have
 * been replaced. */
tri_status tri_file_open_plain(const char *path, int *out) {
  struct stat facts;
  int file = -1;
  const char *kind = tri_path_odd_kind(path);
  if (kind == NULL) {
    file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) return cannot_open(path);
    if (fstat(file, &facts) == 0) kind = odd_kind(facts.st_mode);
  }
  if (kind == NULL) {
    *out = file;
    return TRI_OK;
  }
  if (file >= 0) close(file);
  return tri_fail(TRI_BAD_FILE, "%s is a %s, not a plain file", path, kind);
}

tri_status tri_file_read_plain(const char *path, size_t limit_bytes, char **out, size_t *out_bytes) {
  int file = -1;
  TRI_TRY(tri_file_open_plain(path, &file));
  return tri_file_read_open(file, path, limit_bytes, out, out_bytes);
}

/* ---- reading where others may write ------------------------------------------------------------------------------ */

static bool is_part(const char *name, size_t length) {
  return length > 0 && length <= NAME_MAX && !(name[0] == '.' && (length == 1 || (length == 2 && name[1] == '.')));
}

static tri_status cannot_open_below(const char *root, const char *relative) {
  const char *reason = errno == ELOOP ? "a link, which is not followed here" : strerror(errno);
  return tri_fail(tri_open_fault(errno), "cannot open %s/%s: %s", root, relative, reason);
}

/* Opens one part of the path at a time, because O_NOFOLLOW only applies to the last part. Folders need not be readable.
 */
tri_status tri_folder_open_above(const char *root, const char *relative, int *out, const char **name) {
  char part[NAME_MAX + 1];
  int folder = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return cannot_open(root);
  for (const char *at = relative;; at++) {
    size_t length = strcspn(at, "/");
    if (!is_part(at, length)) {
      close(folder);
      return tri_fail(TRI_BAD_USAGE, "%s is not a path below a folder", relative);
    }
    if (at[length] == '\0') {
      *out = folder;
      *name = at;
      return TRI_OK;
    }
    snprintf(part, sizeof part, "%.*s", (int)length, at);
    int next = openat(folder, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), reason = errno;
    close(folder);
    errno = reason;
    if (next < 0) return cannot_open_below(root, relative);
    folder = next;
    at += length;
  }
}

tri_status tri_folder_open_below(const char *root, const char *relative, int *out) {
  const char *name = NULL;
  int above = -1;
  if (relative[0] == '\0') {
    *out = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *out < 0 ? cannot_open(root) : TRI_OK;
  }
  TRI_TRY(tri_folder_open_above(root, relative, &above, &name));
  *out = openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  tri_status status = *out < 0 ? cannot_open_below(root, relative) : TRI_OK;
  close(above);
  return status;
}

bool tri_file_find_below(const char *root, const char *relative, struct stat *out) {
  const char *name = NULL;
  int above = -1;
  if (tri_folder_open_above(root, relative, &above, &name) != TRI_OK) return false;
  bool found = fstatat(above, name, out, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(out->st_mode);
  close(above);
  return found;
}

/* Opens the plain file `name` in the open folder `above` for reading, without following a link; `root` and `relative`
 * are for messages. Checks the kind before and after opening, as tri_file_open_plain does. */
static tri_status open_in(int above, const char *name, const char *root, const char *relative, int *out) {
  struct stat facts;
  const char *kind = NULL;
  int file = -1;
  if (fstatat(above, name, &facts, AT_SYMLINK_NOFOLLOW) != 0) return cannot_open_below(root, relative);
  if (!S_ISLNK(facts.st_mode)) kind = odd_kind(facts.st_mode);
  if (kind == NULL) {
    file = openat(above, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0) return cannot_open_below(root, relative);
    if (fstat(file, &facts) == 0) kind = odd_kind(facts.st_mode);
  }
  if (kind == NULL) {
    *out = file;
    return TRI_OK;
  }
  if (file >= 0) close(file);
  return tri_fail(TRI_BAD_FILE, "%s/%s is a %s, not a plain file", root, relative, kind);
}

tri_status tri_file_open_below(const char *root, const char *relative, int *out) {
  const char *name = NULL;
  int above = -1;
  TRI_TRY(tri_folder_open_above(root, relative, &above, &name));
  tri_status status = open_in(above, name, root, relative, out);
  close(above);
  return status;
}

tri_status tri_file_read_below(const char *root, const char *relative, size_t limit_bytes, char **out,
                               size_t *out_bytes) {
  char path[TRI_PATH_BYTES];
  int file = -1;
  TRI_TRY(tri_path_join(path, root, relative));
  TRI_TRY(tri_file_open_below(root, relative, &file));
  return tri_file_read_open(file, path, limit_bytes, out, out_bytes);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static tri_status write_all(int file, const char *path, const char *data, size_t bytes) {
  while (bytes > 0) {
    ssize_t put = write(file, data, bytes);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return tri_fail(TRI_IO_FAILED, "cannot write %s: %s", path, tri_write_fault(errno));
    data += put;
    bytes -= (size_t)put;
  }
  return TRI_OK;
}

tri_status tri_file_create(const char *path, int *file) {
  const int how = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  *file = open(path, how, 0666);
  if (*file < 0 && errno == EEXIST && unlink(path) == 0) *file = open(path, how, 0666);
  if (*file < 0) return tri_fail(TRI_IO_FAILED, "cannot create %s: %s", path, tri_write_fault(errno));
  return TRI_OK;
}

tri_status tri_file_begin_replacement(const char *path, tri_file_replacement *out) {
  const char *kind = tri_path_odd_kind(path);
  TRI_TRY(tri_temporary_name(path, out->temporary));
  if (kind != NULL) {
    return tri_fail(TRI_BAD_FILE,
                    "%s is a %s, and a file has to be written there; choose another name, or move it away", path, kind);
  }
  snprintf(out->path, sizeof out->path, "%s", path);
  return tri_file_create(out->temporary, &out->file);
}

tri_status tri_file_sync_folder(const char *path) {
  char directory[TRI_PATH_BYTES];
  snprintf(directory, sizeof directory, "%s", path);
  char *slash = strrchr(directory, '/');
  if (slash == NULL) return tri_directory_sync(".");
  slash[slash == directory ? 1 : 0] = '\0';
  return tri_directory_sync(directory);
}

tri_status tri_file_end_replacement(tri_file_replacement *r, tri_status status) {
  if (status == TRI_OK && fsync(r->file) != 0) {
    status = tri_fail(TRI_IO_FAILED, "cannot flush %s to disk: %s", r->temporary, tri_write_fault(errno));
  }
  if (close(r->file) != 0 && status == TRI_OK) {
    status = tri_fail(TRI_IO_FAILED, "cannot write %s: %s", r->temporary, tri_write_fault(errno));
  }
  if (status == TRI_OK && rename(r->temporary, r->path) != 0) {
    status = tri_fail(TRI_IO_FAILED, "cannot rename %s to %s: %s", r->temporary, r->path, tri_write_fault(errno));
  }
  if (status != TRI_OK) {
    unlink(r->temporary);
    return status;
  }
  return tri_file_sync_folder(r->path);
}

tri_status tri_file_replace(const char *path, const void *data, size_t bytes) {
  tri_file_replacement r;
  TRI_TRY(tri_file_begin_replacement(path, &r));
  return tri_file_end_replacement(&r, write_all(r.file, r.temporary, data, bytes));
}

enum { WRITER_BYTES = 1 << 16 };

struct tri_file_writer {
  tri_file_replacement to;
  tri_status status; /* the first failure */
  size_t held;
  char buffer[WRITER_BYTES];
};

tri_status tri_file_writer_open(const char *path, tri_file_writer **out) {
  tri_file_writer *writer = NULL;
  TRI_TRY(tri_alloc(path, 1, sizeof *writer, &writer));
  tri_status status = tri_file_begin_replacement(path, &writer->to);
  if (status == TRI_OK) *out = writer;
  if (status != TRI_OK) tri_free(writer);
  return status;
}

static void flush_writer(tri_file_writer *writer) {
  if (writer->status == TRI_OK) {
    writer->status = write_all(writer->to.file, writer->to.temporary, writer->buffer, writer->held);
  }
  writer->held = 0;
}

void tri_file_writer_put(tri_file_writer *writer, const char *format, ...) {
  for (int attempt = 0; attempt < 2 && writer->status == TRI_OK; attempt++) {
    size_t room = sizeof writer->buffer - writer->held;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(writer->buffer + writer->held, room, format, arguments);
    va_end(arguments);
    if (length >= 0 && (size_t)length < room) {
      writer->held += (size_t)length;
      return;
    }
    flush_writer(writer);
  }
  if (writer->status == TRI_OK) {
    writer->status = tri_fail_internal("a piece of %s is longer than %d bytes", writer->to.path, WRITER_BYTES);
  }
}

tri_status tri_file_writer_copy(tri_file_writer *writer, const char *path, int64_t first, int64_t end) {
  int file = -1;
  if (first >= end) return TRI_OK;
  const tri_status opened = tri_file_open_plain(path, &file);
  if (opened != TRI_OK) {
    if (writer->status == TRI_OK) writer->status = opened;
    return opened;
  }
  flush_writer(writer);
  while (writer->status == TRI_OK && first < end) {
    const size_t most = end - first < WRITER_BYTES ? (size_t)(end - first) : WRITER_BYTES;
    const ssize_t got = pread(file, writer->buffer, most, (off_t)first);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      writer->status =
          tri_fail(TRI_BAD_FILE, "cannot read %s: %s", path, got == 0 ? "it has become shorter" : strerror(errno));
      break;
    }
    writer->held = (size_t)got;
    flush_writer(writer);
    first += got;
  }
  close(file);
  return writer->status;
}

tri_status tri_file_writer_status(const tri_file_writer *writer) { return writer->status; }

tri_status tri_file_writer_close(tri_file_writer *writer, tri_status status) {
  if (status == TRI_OK) flush_writer(writer);
  if (writer->status != TRI_OK) status = writer->status;
  status = tri_file_end_replacement(&writer->to, status);
  tri_free(writer);
  return status;
}

/* ---- paths ------------------------------------------------------------------------------------------------------- */

bool tri_path_is_planted(const char *directory, const char *path) {
  struct stat link, folder;
  if (lstat(path, &link) != 0 || !S_ISLNK(link.st_mode)) return false;
  if (link.st_uid != 0 && link.st_uid != geteuid()) return true;
  return stat(directory, &folder) != 0 || (folder.st_mode & S_IWOTH) != 0;
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
      return tri_fail(TRI_IO_FAILED, "cannot create the directory %s: %s", partial, tri_write_fault(errno));
    }
    *p = kept;
    if (kept == '\0') return TRI_OK;
  }
}

tri_status tri_directory_create_private(const char *path) {
  struct stat facts = {0};
  if (mkdir(path, 0700) != 0 && errno != EEXIST) {
    return tri_fail(TRI_IO_FAILED, "cannot create the directory %s: %s", path, tri_write_fault(errno));
  }
  int directory = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  bool found = directory >= 0 ? fstat(directory, &facts) == 0 : lstat(path, &facts) == 0;
  bool own = directory >= 0 && found && facts.st_uid == geteuid() && (facts.st_mode & (S_IWGRP | S_IWOTH)) == 0 &&
             fchmod(directory, 0700) == 0;
  if (directory >= 0) close(directory);
  if (own) return TRI_OK;
  return tri_fail(TRI_IO_FAILED,
                  "%s is not a private folder of this user (%ld): it is %s of user %ld with the mode %04o; another "
                  "user may have made it, so it is not used; remove it, or ask an administrator to",
                  path, (long)geteuid(),
                  S_ISLNK(facts.st_mode)   ? "a link"
                  : S_ISDIR(facts.st_mode) ? "a folder"
                                           : "a file",
                  (long)facts.st_uid, (unsigned)(facts.st_mode & 07777));
}

tri_status tri_directory_sync(const char *path) {
  int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return tri_fail(TRI_IO_FAILED, "cannot open the directory %s: %s", path, strerror(errno));
  int result = fsync(directory);
  int reason = errno;
  close(directory);
  /* Some file systems do not support fsync of directories (EINVAL); they order renames themselves. */
  if (result != 0 && reason != EINVAL) {
    return tri_fail(TRI_IO_FAILED, "cannot flush the directory %s to disk: %s", path, tri_write_fault(reason));
  }
  return TRI_OK;
}

static int remove_entry(const char *path, const struct stat *facts, int kind, struct FTW *where) {
  (void)facts;
  (void)kind;
  (void)where;
  return remove(path) == 0 || errno == ENOENT ? 0 : -1; /* another process may be removing the same directory */
}

tri_status tri_directory_remove(const char *path) {
  if (!tri_path_exists(path)) return TRI_OK;
  if (nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS) != 0 && errno != ENOENT) {
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

tri_status tri_path_with(char out[TRI_PATH_BYTES], const char *path, const char *ending) {
  int written = snprintf(out, TRI_PATH_BYTES, "%s%s", path, ending);
  if (written < 0 || written >= TRI_PATH_BYTES)
    return tri_fail(TRI_BAD_USAGE, "the path %s%s is too long", path, ending);
  return TRI_OK;
}

const char *tri_path_below(const char *root, const char *path) {
  size_t length = strlen(root);
  if (strncmp(root, path, length) != 0) return NULL;
  if (length > 0 && root[length - 1] == '/') return path + length;
  if (path[length] != '/' && path[length] != '\0') return NULL;
  return path + length + (path[length] == '/');
}
