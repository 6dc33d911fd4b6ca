/* Writes at the disk's speed. With the page cache, writeback is started after every FLUSH_BYTES, so that the disk
 * begins to work early, and the flush at the end waits only for the last FLUSH_BYTES. Large pieces bypass the page
 * cache on file systems where that is not slower. Bypassing it is faster in a virtual machine, where getting new pages
 * from the host takes three times as long as writing to the disk. Network file systems keep their caches, which combine
 * writes to several servers.
 *
 * Space is not reserved: on ext4 a reserved file is written at half the speed (the file system converts each piece from
 * reserved to written), and a full disk is reported at a write as well. */
#include "checkpoint/output.h"

#include "base/format.h"
#include "base/memory.h"
#include "files/file.h"
#include "files/write_fault.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <xxhash.h>

#ifdef __linux__
#include <sys/vfs.h>
#endif

enum { PIECE_BYTES = 1 << 20, FLUSH_BYTES = 16 << 20, SECTOR_BYTES = 512 };

/* Computes the largest size that a file can reach: its present bytes and the free bytes of the disk. Returns false if
 * the system does not report them. */
static bool free_bytes(const char *path, double *out) {
  struct statvfs disk;
  struct stat facts;
  if (statvfs(path, &disk) != 0 || stat(path, &facts) != 0) return false;
  *out = (double)disk.f_bavail * (double)disk.f_frsize + 512.0 * (double)facts.st_blocks;
  return true;
}

/* Fails with the reason of a failed write; if the disk is full, with the needed and the free bytes. */
static tri_status write_failed(const char *path, uint64_t bytes, int reason) {
  char wanted[32], there[32];
  double room = 0;
  tri_format_bytes((double)bytes, wanted, sizeof wanted);
  if (reason == ENOSPC || reason == EDQUOT) {
    bool known = free_bytes(path, &room);
    return tri_fail(TRI_IO_FAILED,
                    "cannot write %s: %s; the file needs %s (%" PRIu64
                    " bytes) and there is room for %s; make room "
                    "there, or choose another folder (of a run: a lower `checkpoint.keep`, or another `output`)",
                    path, strerror(reason), wanted, bytes,
                    known ? tri_format_bytes(room, there, sizeof there) : "less");
  }
  if (reason == EFBIG) {
    return tri_fail(TRI_IO_FAILED, "cannot write %s: %s; the file needs %s (%" PRIu64 " bytes)", path,
                    tri_write_fault(reason), wanted, bytes);
  }
  return tri_fail(TRI_IO_FAILED, "cannot write %s: %s", path, tri_write_fault(reason));
}

tri_status tri_output_create(const char *path, uint64_t bytes, tri_output *out) {
  int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file < 0) {
    if (errno == ENOSPC || errno == EDQUOT) return write_failed(path, bytes, errno);
    return tri_fail(TRI_IO_FAILED, "cannot create %s: %s", path, strerror(errno));
  }
  *out = (tri_output){.file = file, .direct = -1, .path = path, .bytes = bytes};
  return TRI_OK;
}

int tri_open_direct(const char *path, int file, int mode) {
#if defined __linux__ && defined O_DIRECT
  enum { EXT4 = 0xEF53, XFS = 0x58465342 };
  struct statfs facts;
  if (fstatfs(file, &facts) == 0 && (facts.f_type == EXT4 || facts.f_type == XFS)) {
    return open(path, mode | O_CLOEXEC | O_DIRECT);
  }
#endif
  (void)path, (void)file, (void)mode;
  return -1;
}

bool tri_output_is_direct(const tri_output *output) { return output->direct >= 0; }

tri_status tri_output_open(const char *path, uint64_t bytes, tri_output *out) {
  int file = open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0) {
    return tri_fail(TRI_IO_FAILED, "cannot open %s, which the first rank has created: %s; all ranks must see `output`",
                    path, strerror(errno));
  }
  *out = (tri_output){.file = file, .direct = tri_open_direct(path, file, O_WRONLY), .path = path, .bytes = bytes};
  return TRI_OK;
}

tri_status tri_output_set_length(const tri_output *output, uint64_t bytes) {
  return ftruncate(output->file, (off_t)bytes) == 0 ? TRI_OK : write_failed(output->path, output->bytes, errno);
}

tri_status tri_output_put(const tri_output *output, uint64_t offset, const void *from, uint64_t bytes) {
  const char *data = from;
  while (bytes > 0) {
    ssize_t put = pwrite(output->file, data, (size_t)bytes, (off_t)offset);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return write_failed(output->path, output->bytes, errno);
    data += put;
    offset += (uint64_t)put;
    bytes -= (uint64_t)put;
  }
  return TRI_OK;
}

/* If the device refuses this alignment, this and all later pieces are written with the page cache. */
tri_status tri_output_put_direct(tri_output *output, uint64_t offset, const void *from, uint64_t bytes) {
  const char *data = from;
  while (bytes > 0 && output->direct >= 0) {
    ssize_t put = pwrite(output->direct, data, (size_t)bytes, (off_t)offset);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno != EINVAL) return write_failed(output->path, output->bytes, errno);
    if (put < 0 || put % SECTOR_BYTES != 0) {
      close(output->direct);
      output->direct = -1;
      put = put < 0 ? 0 : put;
    }
    data += put;
    offset += (uint64_t)put;
    bytes -= (uint64_t)put;
  }
  return tri_output_put(output, offset, data, bytes);
}

/* The call is only a hint to the system, so that its failure has no effect. */
void tri_output_start_writeback(const tri_output *output, uint64_t offset, uint64_t bytes) {
#ifdef SYNC_FILE_RANGE_WRITE
  (void)sync_file_range(output->file, (off_t)offset, (off_t)bytes, SYNC_FILE_RANGE_WRITE);
#else
  (void)output, (void)offset, (void)bytes;
#endif
}

tri_status tri_output_write(const tri_output *output, uint64_t offset, const void *data, uint64_t bytes,
                            uint64_t *checksum) {
  tri_status status = TRI_OK;
  XXH3_state_t *state = XXH3_createState();
  if (state == NULL) return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: a checksum");
  XXH3_64bits_reset(state);
  uint64_t flushed = 0;
  for (uint64_t done = 0; done < bytes;) {
    uint64_t piece = bytes - done < PIECE_BYTES ? bytes - done : PIECE_BYTES;
    const char *from = (const char *)data + done;
    if (checksum != NULL) XXH3_64bits_update(state, from, (size_t)piece);
    TRI_TRY_GOTO(tri_output_put(output, offset + done, from, piece), free_state);
    done += piece;
    if (done - flushed >= FLUSH_BYTES || done == bytes) {
      tri_output_start_writeback(output, offset + flushed, done - flushed);
      flushed = done;
    }
  }
  if (checksum != NULL) *checksum = XXH3_64bits_digest(state);
free_state:
  XXH3_freeState(state);
  return status;
}

tri_status tri_output_finish(tri_output *output) {
  tri_status status = TRI_OK;
  if (fsync(output->file) != 0) status = write_failed(output->path, output->bytes, errno);
  if (close(output->file) != 0 && status == TRI_OK) status = write_failed(output->path, output->bytes, errno);
  output->file = -1;
  tri_output_abandon(output);
  return status;
}

void tri_output_abandon(tri_output *output) {
  if (output->file >= 0) close(output->file);
  if (output->direct >= 0) close(output->direct);
  output->file = output->direct = -1;
}

tri_status tri_output_file(const char *path, const void *data, size_t bytes) {
  tri_output output = {.file = -1, .direct = -1};
  TRI_TRY(tri_output_create(path, bytes, &output));
  tri_status status = tri_output_write(&output, 0, data, bytes, NULL);
  if (status != TRI_OK) {
    tri_output_abandon(&output);
    return status;
  }
  return tri_output_finish(&output);
}

/* Copies the source up to its end, and adds to *bytes and to the checksum. */
static tri_status copy_pieces(int source, const char *from, const tri_output *output, char *buffer, XXH3_state_t *state,
                              uint64_t *bytes) {
  for (;;) {
    ssize_t got = read(source, buffer, PIECE_BYTES);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return tri_fail(TRI_BAD_FILE, "cannot read %s: %s", from, strerror(errno));
    if (got == 0) return TRI_OK;
    XXH3_64bits_update(state, buffer, (size_t)got);
    TRI_TRY(tri_output_put(output, *bytes, buffer, (uint64_t)got));
    *bytes += (uint64_t)got;
  }
}

tri_status tri_output_copy(const char *from, const char *path, uint64_t *bytes, uint64_t *checksum) {
  tri_status status = TRI_OK;
  char *buffer = NULL;
  tri_output output = {.file = -1, .direct = -1};
  uint64_t copied = 0;
  int source = -1;
  TRI_TRY(tri_file_open_plain(from, &source));
  XXH3_state_t *state = XXH3_createState();
  if (state == NULL) {
    status = tri_fail(TRI_OUT_OF_MEMORY, "out of memory: a checksum");
    goto close_source;
  }
  XXH3_64bits_reset(state);
  TRI_TRY_GOTO(tri_alloc("the buffer of a copy", PIECE_BYTES, 1, &buffer), free_state);
  TRI_TRY_GOTO(tri_output_create(path, 0, &output), free_buffer);
  TRI_TRY_GOTO(copy_pieces(source, from, &output, buffer, state, &copied), abandon_output);
  TRI_TRY_GOTO(tri_output_finish(&output), abandon_output);
  *bytes = copied;
  *checksum = XXH3_64bits_digest(state);
abandon_output:
  tri_output_abandon(&output);
free_buffer:
  tri_free(buffer);
free_state:
  XXH3_freeState(state);
close_source:
  close(source);
  return status;
}

uint64_t tri_checksum(const void *data, size_t bytes) { return XXH3_64bits(data, bytes); }
