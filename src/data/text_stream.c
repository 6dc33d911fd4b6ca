#include "data/text_stream.h"

#include "base/memory.h"
#include "files/file.h"
#include "files/file_kind.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

enum {
  READ_BYTES = 1 << 18,
  WINDOW_LOG_MAX = 31, /* as `zstd --long=31`; the window is allocated only if a file needs it */
};

struct tri_text_stream {
  char *path;
  int file;
  int64_t position;
  ZSTD_DStream *zstd;
  char *compressed; /* [READ_BYTES] */
  ZSTD_inBuffer pending;
  bool frame_open; /* whether a frame has begun and not ended, so that the file must not end here */
  bool holds_more; /* whether zstd filled the buffer and may have more without further input */
  bool started;    /* whether the beginning was checked for a byte order mark */
  bool ended;
};

static bool ends_in(const char *path, const char *suffix) {
  size_t length = strlen(path), suffix_length = strlen(suffix);
  return length >= suffix_length && strcasecmp(path + length - suffix_length, suffix) == 0;
}

static tri_status refuse_other_compression(const char *path) {
  static const char *const kinds[][2] = {{".gz", "gzip -dc"}, {".bz2", "bzip2 -dc"}, {".xz", "xz -dc"},
                                         {".lz4", "lz4 -dc"}, {".zip", "unzip -p"},  {".parquet", NULL}};
  char advice[TRI_ADVICE_BYTES];
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    if (!ends_in(path, kinds[i][0])) continue;
    if (kinds[i][1] == NULL) {
      return tri_fail(TRI_BAD_FILE, "%s: %s files are not read; %s", path, kinds[i][0], tri_table_advice(path, advice));
    }
    return tri_fail(TRI_BAD_FILE, "%s: of compressed files only .zst is read; convert it: %s %s | zstd > NAME.zst",
                    path, kinds[i][1], path);
  }
  return TRI_OK;
}

static tri_status open_file(const char *path, int *out_file, int64_t *out_bytes) {
  TRI_TRY(refuse_other_compression(path));
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return tri_fail(tri_open_fault(errno), "cannot open the input %s: %s", path, strerror(errno));
  struct stat facts;
  if (fstat(file, &facts) != 0) {
    int reason = errno;
    close(file);
    return tri_fail(TRI_BAD_FILE, "cannot look at the input %s: %s", path, strerror(reason));
  }
  if (S_ISDIR(facts.st_mode)) {
    close(file);
    return tri_fail(TRI_BAD_FILE, "the input %s is a directory; name the files in it, for example %s/*.txt", path,
                    path);
  }
  if (S_ISCHR(facts.st_mode) && !isatty(file)) { /* such as /dev/zero, which has no end */
    close(file);
    return tri_fail(TRI_BAD_FILE, "the input %s is a device, not a text", path);
  }
  *out_file = file;
  *out_bytes = S_ISREG(facts.st_mode) ? (int64_t)facts.st_size : 0;
  return TRI_OK;
}

tri_status tri_text_stream_check(const char *path, int64_t *out_bytes) {
  TRI_TRY(refuse_other_compression(path));
  struct stat facts;
  if (stat(path, &facts) == 0 && (S_ISFIFO(facts.st_mode) || S_ISSOCK(facts.st_mode))) {
    *out_bytes = 0; /* opening a pipe twice would lose its content */
    return TRI_OK;
  }
  int file = -1;
  TRI_TRY(open_file(path, &file, out_bytes));
  close(file);
  return TRI_OK;
}

tri_status tri_text_stream_open(const char *path, tri_text_stream **out) {
  tri_status status = TRI_OK;
  tri_text_stream *stream = NULL;
  int64_t bytes = 0;
  TRI_TRY(tri_alloc("an input file", 1, sizeof *stream, &stream));
  stream->file = -1;
  TRI_TRY_GOTO(tri_strdup(path, &stream->path), close_stream);
  TRI_TRY_GOTO(open_file(path, &stream->file, &bytes), close_stream);
  if (ends_in(path, ".zst")) {
    TRI_TRY_GOTO(tri_alloc("a buffer for reading", READ_BYTES, 1, &stream->compressed), close_stream);
    stream->pending.src = stream->compressed;
    stream->zstd = ZSTD_createDStream();
    if (stream->zstd == NULL) {
      status = tri_fail(TRI_OUT_OF_MEMORY, "out of memory: no room to decompress %s", path);
      goto close_stream;
    }
    ZSTD_DCtx_setParameter(stream->zstd, ZSTD_d_windowLogMax, WINDOW_LOG_MAX);
  }
  *out = stream;
  return TRI_OK;
close_stream:
  tri_text_stream_close(stream);
  return status;
}

void tri_text_stream_close(tri_text_stream *stream) {
  if (stream == NULL) return;
  ZSTD_freeDStream(stream->zstd);
  if (stream->file >= 0) close(stream->file);
  tri_free(stream->compressed);
  tri_free(stream->path);
  tri_free(stream);
}

int64_t tri_text_stream_position(const tri_text_stream *stream) { return stream->position; }

static tri_status read_some(tri_text_stream *stream, char *buffer, size_t bytes, size_t *got) {
  for (;;) {
    ssize_t some = read(stream->file, buffer, bytes);
    if (some < 0 && errno == EINTR) continue;
    if (some < 0) return tri_fail(TRI_BAD_FILE, "cannot read the input %s: %s", stream->path, strerror(errno));
    stream->position += some;
    *got = (size_t)some;
    return TRI_OK;
  }
}

static tri_status decompress_some(tri_text_stream *stream, char *buffer, size_t bytes, size_t *got) {
  ZSTD_outBuffer out = {buffer, bytes, 0};
  while (out.pos == 0) {
    if (stream->pending.pos == stream->pending.size && !stream->holds_more) {
      size_t some = 0;
      TRI_TRY(read_some(stream, stream->compressed, READ_BYTES, &some));
      if (some == 0) break;
      stream->pending.pos = 0;
      stream->pending.size = some;
    }
    size_t result = ZSTD_decompressStream(stream->zstd, &out, &stream->pending);
    if (ZSTD_isError(result)) {
      return tri_fail(TRI_BAD_FILE, "the input %s is damaged or not compressed with zstd: %s near byte %lld",
                      stream->path, ZSTD_getErrorName(result), (long long)stream->position);
    }
    stream->frame_open = result != 0;
    stream->holds_more = out.pos == out.size;
  }
  *got = out.pos;
  if (out.pos == 0 && (stream->frame_open || stream->position == 0)) {
    return tri_fail(TRI_BAD_FILE, "the input %s is truncated: its zstd data end at byte %lld in the middle of a frame",
                    stream->path, (long long)stream->position);
  }
  return TRI_OK;
}

static tri_status text_stream_fill(tri_text_stream *stream, char *buffer, size_t bytes, size_t *held) {
  while (*held < bytes && !stream->ended) {
    size_t some = 0;
    if (stream->zstd != NULL) {
      TRI_TRY(decompress_some(stream, buffer + *held, bytes - *held, &some));
    } else {
      TRI_TRY(read_some(stream, buffer + *held, bytes - *held, &some));
    }
    if (some == 0) stream->ended = true;
    *held += some;
  }
  return TRI_OK;
}

tri_status tri_text_stream_read(tri_text_stream *stream, char *buffer, size_t bytes, size_t *got) {
  size_t held = 0;
  TRI_TRY(text_stream_fill(stream, buffer, bytes, &held));
  if (!stream->started && held >= 3 && memcmp(buffer, "\xEF\xBB\xBF", 3) == 0) {
    held -= 3;
    memmove(buffer, buffer + 3, held);
    stream->started = true;
    TRI_TRY(text_stream_fill(stream, buffer, bytes, &held));
  }
  stream->started = true;
  *got = held;
  return TRI_OK;
}
