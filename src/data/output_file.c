#include "data/output_file.h"

#include "base/format.h"
#include "base/memory.h"
#include "files/file.h"
#include "files/write_fault.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 18 };

tri_status tri_output_file_create(const char *prefix, const char *suffix, tri_output_file *out) {
  tri_output_file output = TRI_OUTPUT_FILE_NONE;
  size_t length = strlen(prefix) + strlen(suffix) + 1;
  tri_status status = TRI_OK;
  TRI_TRY_GOTO(tri_alloc("a path", length, 1, &output.path), destroy_output);
  snprintf(output.path, length, "%s%s", prefix, suffix);
  TRI_TRY_GOTO(tri_alloc("a buffer for writing", BUFFER_BYTES, 1, &output.buffer), destroy_output);
  output.file = open(output.path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (output.file < 0) {
    status = tri_fail(TRI_IO_FAILED, "cannot create %s: %s", output.path, tri_write_fault(errno));
    goto destroy_output;
  }
  *out = output;
  return TRI_OK;
destroy_output:
  tri_output_file_destroy(&output);
  return status;
}

void tri_output_file_destroy(tri_output_file *output) {
  if (output->file >= 0) {
    close(output->file);
    unlink(output->path);
  }
  tri_free(output->path);
  tri_free(output->buffer);
  *output = TRI_OUTPUT_FILE_NONE;
}

static tri_status write_failed(const tri_output_file *output, int64_t written) {
  int reason = errno;
  char amount[32];
  tri_format_bytes((double)written, amount, sizeof amount);
  return tri_fail(TRI_IO_FAILED, "cannot write %s: %s; %s were written", output->path, tri_write_fault(reason), amount);
}

static tri_status write_through(tri_output_file *output, const char *data, size_t bytes, int64_t written) {
  while (bytes > 0) {
    ssize_t put = write(output->file, data, bytes);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return write_failed(output, written);
    data += put;
    bytes -= (size_t)put;
    written += put;
  }
  return TRI_OK;
}

static tri_status flush(tri_output_file *output) {
  TRI_TRY(write_through(output, output->buffer, output->held, output->bytes - (int64_t)output->held));
  output->held = 0;
  return TRI_OK;
}

tri_status tri_output_file_write(tri_output_file *output, const void *data, size_t bytes) {
  if (bytes > BUFFER_BYTES - output->held) TRI_TRY(flush(output));
  if (bytes >= BUFFER_BYTES) {
    TRI_TRY(write_through(output, data, bytes, output->bytes));
  } else {
    memcpy(output->buffer + output->held, data, bytes);
    output->held += bytes;
  }
  output->bytes += (int64_t)bytes;
  return TRI_OK;
}

tri_status tri_output_file_read(tri_output_file *output, int64_t offset, void *data, size_t bytes) {
  TRI_TRY(flush(output));
  char *to = data;
  while (bytes > 0) {
    ssize_t got = pread(output->file, to, bytes, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      return tri_fail(TRI_IO_FAILED, "cannot read %s at byte %" PRId64 ": %s", output->path, offset,
                      got == 0 ? "it has become shorter" : strerror(errno));
    }
    to += got;
    offset += got;
    bytes -= (size_t)got;
  }
  return TRI_OK;
}

tri_status tri_output_file_truncate(tri_output_file *output, int64_t bytes) {
  TRI_TRY(flush(output));
  if (ftruncate(output->file, bytes) != 0 || lseek(output->file, bytes, SEEK_SET) < 0) {
    return tri_fail(TRI_IO_FAILED, "cannot shorten %s: %s", output->path, tri_write_fault(errno));
  }
  output->bytes = bytes;
  return TRI_OK;
}

tri_status tri_output_file_sync(tri_output_file *output) {
  TRI_TRY(flush(output));
  if (fsync(output->file) != 0) return write_failed(output, output->bytes);
  return TRI_OK;
}

tri_status tri_output_file_rename(tri_output_file *output, const char *prefix, const char *suffix) {
  char name[TRI_PATH_BYTES];
  int length = snprintf(name, sizeof name, "%s%s", prefix, suffix);
  if (length < 0 || (size_t)length >= sizeof name) {
    return tri_fail(TRI_BAD_USAGE, "the path %s%s is too long", prefix, suffix);
  }
  if (rename(output->path, name) != 0) {
    return tri_fail(TRI_IO_FAILED, "cannot rename %s to %s: %s", output->path, name, tri_write_fault(errno));
  }
  close(output->file);
  output->file = -1;
  return TRI_OK;
}
