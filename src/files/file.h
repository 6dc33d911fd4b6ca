/* Whole files, directories and paths. Failures name the path and the system's reason. */
#ifndef TRI_FILES_FILE_H
#define TRI_FILES_FILE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TRI_PATH_BYTES = 4096 };

/* Reads a whole file into a new buffer, with a NUL after it (not counted). Fails with TRI_BAD_FILE if the file is
 * larger than limit_bytes; the size of a plain file is checked before it is read. out_bytes may be NULL. Release *out
 * with tri_free. */
tri_status tri_file_read(const char *path, size_t limit_bytes, char **out, size_t *out_bytes);

/* Reads a file as tri_file_read does, but only a plain file, since a pipe could block forever; fails with TRI_BAD_FILE
 * for other kinds. */
tri_status tri_file_read_plain(const char *path, size_t limit_bytes, char **out, size_t *out_bytes);
/* Reads an open file of any kind as tri_file_read does, and closes it in any case; `name` is for messages. */
tri_status tri_file_read_open(int file, const char *name, size_t limit_bytes, char **out, size_t *out_bytes);
/* Opens a plain file for reading; fails with TRI_BAD_FILE for other kinds. The caller closes *out. */
tri_status tri_file_open_plain(const char *path, int *out);
/* Returns the status for an errno of opening or mapping a file: TRI_BAD_FILE, or TRI_IO_FAILED or TRI_OUT_OF_MEMORY if
 * the file is not the cause (too many open files, no memory). */
tri_status tri_open_fault(int error);
/* Returns the kind of a path: "folder", "pipe", "socket", "device"; NULL for a plain file, or if the path does not
 * exist. */
const char *tri_path_odd_kind(const char *path);

/* tri_file_open_below opens a plain file below the folder `root`, in which others may write, for reading (the caller
 * closes *out); tri_file_read_below reads it as tri_file_read does. `root` itself may be a link. Below it no link is
 * followed, not even one that replaces a folder while the path is being opened. Both functions fail with TRI_BAD_FILE
 * if a part of the path is a link or missing. `relative` is "NAME/NAME/..."; they fail with TRI_BAD_USAGE if a part is
 * empty, "." or "..". */
tri_status tri_file_open_below(const char *root, const char *relative, int *out);
tri_status tri_file_read_below(const char *root, const char *relative, size_t limit_bytes, char **out,
                               size_t *out_bytes);
/* Opens a folder below `root` for reading (fdopendir), and follows no link, as tri_file_open_below; "" as `relative` is
 * the root. */
tri_status tri_folder_open_below(const char *root, const char *relative, int *out);
/* Opens the folder that contains `relative`, for openat and the like, and follows no link, as tri_file_open_below. Sets
 * *name to the last part of `relative`, a pointer into it. */
tri_status tri_folder_open_above(const char *root, const char *relative, int *out, const char **name);
struct stat;
/* Returns whether `relative` is a plain file below `root` (tri_file_open_below); if so, sets *out to its stat. */
bool tri_file_find_below(const char *root, const char *relative, struct stat *out);

/* Replaces a file atomically, so that a crash leaves either the old or the new content: a temporary file in the
 * same folder (files/temporary_name.h), fsync, rename, fsync of the folder. Fails with TRI_BAD_FILE if the path is a
 * folder, a device, a pipe or a socket. */
tri_status tri_file_replace(const char *path, const void *data, size_t bytes);

/* A file that will replace `path`, written at any offsets. */
typedef struct tri_file_replacement {
  int file;                       /* descriptor, open for writing */
  char path[TRI_PATH_BYTES];      /* final name */
  char temporary[TRI_PATH_BYTES]; /* name until the file is complete */
} tri_file_replacement;

/* LOCAL. Creates the new file under its temporary name; fails as tri_file_replace does. */
tri_status tri_file_begin_replacement(const char *path, tri_file_replacement *out);
/* LOCAL. Flushes, closes and renames the file, and flushes its folder. Removes the file if one of these steps fails, or
 * if `status`, the result of writing, is a failure; returns the failure. */
tri_status tri_file_end_replacement(tri_file_replacement *replacement, tri_status status);

/* Flushes the folder that contains `path` (fsync). */
tri_status tri_file_sync_folder(const char *path);

/* Replaces a file as tri_file_replace does, with text that is written piece by piece. After a failure later
 * writes are ignored, and tri_file_writer_close returns the failure. tri_file_writer_close renames the new file only if
 * all writes succeeded and `status`, the caller's own, is TRI_OK; otherwise the old content is kept. It releases the
 * writer in any case. */
typedef struct tri_file_writer tri_file_writer;
tri_status tri_file_writer_open(const char *path, tri_file_writer **out);
/* Appends formatted text. The writer fails with TRI_INTERNAL if the text has 64 KiB or more. */
void tri_file_writer_put(tri_file_writer *writer, const char *format, ...) TRI_PRINTF(2, 3);
/* Appends bytes [first, end) of a plain file at `path`. Returns the first failure of the writer, which includes
 * failures to open and read that file. */
tri_status tri_file_writer_copy(tri_file_writer *writer, const char *path, int64_t first, int64_t end);
/* Returns the first failure of a write so far. */
tri_status tri_file_writer_status(const tri_file_writer *writer);
tri_status tri_file_writer_close(tri_file_writer *writer, tri_status status);

/* LOCAL. Creates a file for writing under a name that other users could guess: an existing file or link of that name is
 * removed, and links are never followed. The caller closes *file. */
tri_status tri_file_create(const char *path, int *file);

/* LOCAL. Returns whether `path` is a link that another user may have made: it belongs to another user (not root), or
 * all users may write to `directory`. Writing through the link would write to a file that this
 * user chose. */
bool tri_path_is_planted(const char *directory, const char *path);

bool tri_path_exists(const char *path);
bool tri_path_is_directory(const char *path);

/* Creates a directory and the missing directories above it. It is not an error if the directory exists. */
tri_status tri_directory_create(const char *path);

/* LOCAL. Creates one directory with mode 0700 in a folder to which others may write. An existing directory is used, and
 * gets that mode, if it belongs to this user, is not a link, and no other user may write to it; otherwise fails with
 * TRI_IO_FAILED, which names the owner. */
tri_status tri_directory_create_private(const char *path);
/* Flushes a directory (fsync), so that created and renamed names in it survive a crash. */
tri_status tri_directory_sync(const char *path);
/* Removes a directory with all its contents. It is not an error if the directory does not exist. */
tri_status tri_directory_remove(const char *path);

/* Writes "DIRECTORY/NAME", or NAME if `directory` is ""; fails with TRI_BAD_USAGE if that is too long for `out`. */
tri_status tri_path_join(char out[TRI_PATH_BYTES], const char *directory, const char *name);
/* Writes `path` followed by `ending`; fails with TRI_BAD_USAGE if that is too long for `out`. */
tri_status tri_path_with(char out[TRI_PATH_BYTES], const char *path, const char *ending);
/* Returns the part of `path` below `root`: "" for the root itself, NULL if `path` is not below `root`. */
const char *tri_path_below(const char *root, const char *path);

#endif
