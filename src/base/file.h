/* Whole files, directories and paths. Failures name the path and the system's reason. */
#ifndef TRI_BASE_FILE_H
#define TRI_BASE_FILE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TRI_PATH_BYTES = 4096 };

/* Reads a whole file into a new buffer with a NUL behind it (not counted). A file larger than limit_bytes is
 * TRI_BAD_FILE. Release *out with tri_free. */
tri_status tri_file_read(const char *path, size_t limit_bytes, char **out, size_t *out_bytes);

/* The same of what a program has written, which is a plain file: a pipe would be waited for, perhaps for ever. Anything
 * else is TRI_BAD_FILE. */
tri_status tri_file_read_plain(const char *path, size_t limit_bytes, char **out, size_t *out_bytes);
/* The same of an open file of any kind, which is closed; `name` is for messages. */
tri_status tri_file_read_open(int file, const char *name, size_t limit_bytes, char **out, size_t *out_bytes);
/* Opens a plain file for reading. */
tri_status tri_file_open_plain(const char *path, int *out);
/* What is there in place of a plain file: "folder", "pipe", "socket", "device"; NULL for a plain file and for nothing.
 */
const char *tri_path_odd_kind(const char *path);

/* What lies below a folder in which others may write. The folder itself may be named by a link; below it no link is
 * followed, in no part of the way, and none that takes a part's place while it is opened: TRI_BAD_FILE, as where
 * nothing is. `relative` is "NAME/NAME/..."; a part that is empty, "." or ".." is TRI_BAD_USAGE. */
tri_status tri_file_open_below(const char *root, const char *relative, int *out);
tri_status tri_file_read_below(const char *root, const char *relative, size_t limit_bytes, char **out,
                               size_t *out_bytes);
/* A folder to be read (fdopendir); `relative` may be "", which is the root. */
tri_status tri_folder_open_below(const char *root, const char *relative, int *out);
/* The folder in which something lies, for openat and its like, and the last part, which points into `relative`. */
tri_status tri_folder_open_above(const char *root, const char *relative, int *out, const char **name);
struct stat;
/* Whether a plain file is there, and what is known of it. */
bool tri_file_find_below(const char *root, const char *relative, struct stat *out);

/* Replaces a file so that after a crash either the old or the new content is there: temporary name beside it, fsync,
 * rename, fsync of the folder. A folder of that name is TRI_BAD_FILE. */
tri_status tri_file_replace(const char *path, const void *data, size_t bytes);

/* The temporary name under which such a file is written: PATH.tmp.PID. */
tri_status tri_file_replacement_name(const char *path, char out[TRI_PATH_BYTES]);

/* fsync of the directory in which a file lies. */
tri_status tri_file_sync_folder(const char *path);

/* Removes the temporary files that killed processes have left in a folder; only its one writer may call this. */
tri_status tri_file_clear_replacements(const char *directory);

/* The same for text that is too long to hold: it is written piece by piece. After a failure nothing more is written,
 * and closing says it. Closing puts the file in its place if all went well and if `status`, how the caller fared, is
 * TRI_OK; else the old content stays and the failure is returned. Releases the writer. */
typedef struct tri_file_writer tri_file_writer;
tri_status tri_file_writer_open(const char *path, tri_file_writer **out);
void tri_file_writer_put(tri_file_writer *writer, const char *format, ...) TRI_PRINTF(2, 3);
/* Bytes [first, end) of a plain file. */
tri_status tri_file_writer_copy(tri_file_writer *writer, const char *path, int64_t first, int64_t end);
tri_status tri_file_writer_status(const tri_file_writer *writer);
tri_status tri_file_writer_close(tri_file_writer *writer, tri_status status);

/* LOCAL. Opens a new file for writing, under a name that others could guess: what lies there, a link or a file of a
 * process that died, is removed and never followed. The caller closes *file. */
tri_status tri_file_create(const char *path, int *file);

/* LOCAL. Whether a link lies at a path in a folder that another user can have put there: the folder is open to all, or
 * the link is another user's (not root's). What is written through it goes where that user wants. */
bool tri_path_is_planted(const char *directory, const char *path);

bool tri_path_exists(const char *path);
bool tri_path_is_directory(const char *path);

/* Creates a directory and the missing ones above it; it is not an error if it exists. */
tri_status tri_directory_create(const char *path);

/* LOCAL. Creates one directory that only this user may use (0700), in a folder where others may write, too. One that
 * exists is taken if it is this user's, not a link, and writable by no other user: others could have made it first.
 * TRI_IO_FAILED names the owner. */
tri_status tri_directory_create_private(const char *path);
/* fsync of a directory, so that names made or renamed in it survive a crash. */
tri_status tri_directory_sync(const char *path);
/* Removes a directory and all below it; it is not an error if there is none. */
tri_status tri_directory_remove(const char *path);

/* "DIRECTORY/NAME" in a fixed buffer; too long a path is TRI_BAD_USAGE. */
tri_status tri_path_join(char out[TRI_PATH_BYTES], const char *directory, const char *name);
/* "PATHENDING", with the same rules. */
tri_status tri_path_with(char out[TRI_PATH_BYTES], const char *path, const char *ending);
/* What a path says behind a folder in which it lies, "" for the folder; NULL: it lies elsewhere. */
const char *tri_path_below(const char *root, const char *path);

#endif
