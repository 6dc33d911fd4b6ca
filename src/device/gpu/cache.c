/* The folder of compiled kernels. A file has a header, its own name, and the image; the checksum in the header covers
 * the name and the image. A file is written under a temporary name and renamed, so readers see a whole file or none,
 * and ranks that write the same file at the same time do no harm. A damaged file counts as absent. */
#include "device/gpu/cache.h"

#include "base/memory.h"
#include "files/temporary_name.h"
#include "files/write_fault.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

static const size_t most_bytes = (size_t)1 << 28; /* maximum size of a file; a module has some hundred KiB */

/* The beginning of a file; the name and the image follow. The 128-bit checksum in sum_low and sum_high covers both. */
typedef struct header {
  char magic[8];
  uint64_t name_bytes, image_bytes, sum_low, sum_high;
} header;

static const char magic[8] = "tri-gpu";

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* Returns whether the bytes are a complete file of this name, and sets the offset and the length of its image. */
static bool check(const char *data, size_t bytes, const char *name, size_t *image, size_t *image_bytes) {
  header h;
  const size_t name_bytes = strlen(name);
  if (bytes < sizeof h) return false;
  memcpy(&h, data, sizeof h);
  bytes -= sizeof h;
  if (memcmp(h.magic, magic, sizeof magic) != 0 || h.name_bytes != name_bytes || bytes < name_bytes ||
      h.image_bytes != bytes - name_bytes || h.image_bytes == 0 || memcmp(data + sizeof h, name, name_bytes) != 0) {
    return false;
  }
  const XXH128_hash_t sum = XXH3_128bits(data + sizeof h, bytes);
  *image = sizeof h + name_bytes;
  *image_bytes = bytes - name_bytes;
  return sum.low64 == h.sum_low && sum.high64 == h.sum_high;
}

/* Returns whether the path is a regular file of acceptable size. Reading a pipe would block, and a huge file would fill
 * the memory. */
static bool is_file(const char *path) {
  struct stat facts;
  return stat(path, &facts) == 0 && S_ISREG(facts.st_mode) && (uint64_t)facts.st_size <= most_bytes;
}

bool tri_gpu_cache_read(const char *folder, const char *name, void **out, size_t *bytes) {
  char path[TRI_PATH_BYTES], *data = NULL;
  size_t held = 0, image = 0;
  if (tri_path_join(path, folder, name) != TRI_OK || !is_file(path)) return false;
  if (tri_file_read(path, most_bytes, &data, &held) != TRI_OK) return false;
  if (!check(data, held, name, &image, bytes)) {
    tri_free(data);
    return false;
  }
  memmove(data, data + image, *bytes); /* moved to the start, so that the image is aligned and released as a whole */
  *out = data;
  return true;
}

static int newer_first(const void *a, const void *b) { return strverscmp(*(char *const *)b, *(char *const *)a); }

/* Builds a pattern for glob; wildcard characters in the folder's name are escaped. Returns false if the pattern is too
 * long. */
static bool make_pattern(const char *folder, const char *beginning, const char *rest, char out[2 * TRI_PATH_BYTES]) {
  size_t used = 0;
  for (const char *at = folder; *at != '\0'; at++) {
    if (used + 2 >= (size_t)2 * TRI_PATH_BYTES) return false;
    if (strchr("*?[\\", *at) != NULL) out[used++] = '\\';
    out[used++] = *at;
  }
  const size_t room = (size_t)2 * TRI_PATH_BYTES - used;
  return snprintf(out + used, room, "/%s%s", beginning, rest) < (int)room;
}

bool tri_gpu_cache_find(const char *folder, const char *beginning, void **out, size_t *bytes) {
  char pattern[2 * TRI_PATH_BYTES];
  glob_t found;
  bool read = false;
  if (!make_pattern(folder, beginning, "*.image", pattern)) return false;
  if (glob(pattern, GLOB_NOSORT, NULL, &found) != 0) return false;
  qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, newer_first);
  for (size_t i = 0; i < found.gl_pathc && !read; i++)
    read = tri_gpu_cache_read(folder, strrchr(found.gl_pathv[i], '/') + 1, out, bytes);
  globfree(&found);
  return read;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Write an array, and a whole file (header, name and image). Return false and set errno if that fails. */
static bool write_all(int file, const void *data, size_t bytes) {
  const char *at = data;
  while (bytes > 0) {
    ssize_t put = write(file, at, bytes);
    if (put < 0 && errno == EINTR) continue;
    if (put == 0) errno = EIO;
    if (put <= 0) return false;
    at += put;
    bytes -= (size_t)put;
  }
  return true;
}

static bool write_file(int file, const char *name, const void *image, size_t bytes) {
  header h = {.name_bytes = strlen(name), .image_bytes = bytes};
  XXH3_state_t *hash = XXH3_createState();
  if (hash == NULL) {
    errno = ENOMEM;
    return false;
  }
  XXH3_128bits_reset(hash);
  XXH3_128bits_update(hash, name, h.name_bytes);
  XXH3_128bits_update(hash, image, bytes);
  const XXH128_hash_t sum = XXH3_128bits_digest(hash);
  XXH3_freeState(hash);
  memcpy(h.magic, magic, sizeof magic);
  h.sum_low = sum.low64;
  h.sum_high = sum.high64;
  return write_all(file, &h, sizeof h) && write_all(file, name, h.name_bytes) && write_all(file, image, bytes);
}

/* Writes to a temporary file with a unique name, then renames it; creates the folder. The file is not flushed to disk:
 * the checksum detects a torn file. */
tri_status tri_gpu_cache_write(const char *folder, const char *name, const void *image, size_t bytes) {
  char path[TRI_PATH_BYTES], temporary[TRI_PATH_BYTES];
  TRI_TRY(tri_directory_create(folder));
  TRI_TRY(tri_path_join(path, folder, name));
  TRI_TRY(tri_temporary_name(path, temporary));
  int file = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file < 0) return tri_fail(TRI_IO_FAILED, "cannot write %s: %s", temporary, tri_write_fault(errno));
  bool written = write_file(file, name, image, bytes);
  int reason = errno;
  written = close(file) == 0 && written;
  if (written && rename(temporary, path) == 0) return TRI_OK;
  if (written) reason = errno;
  (void)unlink(temporary);
  return tri_fail(TRI_IO_FAILED, "cannot write %s: %s", path, tri_write_fault(reason));
}
