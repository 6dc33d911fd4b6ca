/* Offsets in a buffer equal offsets in the file modulo a page, so that all whole pages can bypass the page cache, if
 * the file system allows that (output.h). The partial pages at both ends, and short pieces, are written with the page
 * cache, because another rank may write the rest of such a page, and the system combines both. */
#include "checkpoint/stream.h"

#include "base/memory.h"
#include "base/thread.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/output.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum {
  PAGE = 4096,
  BUFFER_BYTES = (TRI_CHECKPOINT_BUFFER_BYTES - PAGE) / 2,
  DIRECT_BYTES = 64 << 10, /* smallest size of a write that bypasses the page cache */
  FLUSH_BYTES = 16 << 20   /* bytes written with the page cache before writeback is started */
};

typedef struct buffer {
  char *bytes;         /* [BUFFER_BYTES]: begins at a page */
  uint64_t base;       /* offset of bytes[0] in the file: a multiple of a page */
  uint64_t begin, end; /* range of the file in the buffer */
} buffer;

struct tri_stream {
  char *owned; /* allocation of the buffers; NULL: the caller owns them */
  buffer buffers[2];
  int filling; /* index of the buffer that the caller fills; the thread uses the other one while `writing` is true */

  tri_output output;
  char path[TRI_PATH_BYTES];
  uint64_t unsent_begin, unsent_end, unsent_bytes; /* range of the file, and number of bytes in it, that were written
                                                      with the page cache since writeback was last started */

  pthread_t thread;
  bool has_thread;         /* whether `thread` was started */
  pthread_mutex_t mutex;   /* protects `writing`, `ending` and `failure` */
  pthread_cond_t changed;  /* signals a change of `writing` or `ending` */
  bool writing, ending;    /* writing: whether the thread has a buffer to write; ending: whether the thread ends when
                              it has none */
  tri_saved_error failure; /* first failed write since the file was opened */
};

/* ---- the thread -------------------------------------------------------------------------------------------------- */

static tri_status write_cached(tri_stream *s, const buffer *from, uint64_t begin, uint64_t end) {
  if (begin == end) return TRI_OK;
  TRI_TRY(tri_output_put(&s->output, begin, from->bytes + (begin - from->base), end - begin));
  if (s->unsent_bytes == 0) s->unsent_begin = begin;
  s->unsent_end = end;
  s->unsent_bytes += end - begin;
  if (s->unsent_bytes < FLUSH_BYTES) return TRI_OK;
  tri_output_start_writeback(&s->output, s->unsent_begin, s->unsent_end - s->unsent_begin);
  s->unsent_bytes = 0;
  return TRI_OK;
}

static tri_status write_buffer(tri_stream *s, const buffer *from) {
  uint64_t first = (from->begin + PAGE - 1) / PAGE * PAGE, last = from->end / PAGE * PAGE;
  if (!tri_output_is_direct(&s->output) || last < first + DIRECT_BYTES) {
    return write_cached(s, from, from->begin, from->end);
  }
  TRI_TRY(write_cached(s, from, from->begin, first));
  TRI_TRY(tri_output_put_direct(&s->output, first, from->bytes + (first - from->base), last - first));
  return write_cached(s, from, last, from->end);
}

static void *work(void *argument) {
  tri_stream *s = argument;
  pthread_mutex_lock(&s->mutex);
  for (;;) {
    while (!s->writing && !s->ending) pthread_cond_wait(&s->changed, &s->mutex);
    if (!s->writing) break;
    bool good = s->failure.status == TRI_OK;
    const buffer *from = &s->buffers[1 - s->filling];
    pthread_mutex_unlock(&s->mutex);
    tri_status status = good ? write_buffer(s, from) : TRI_OK;
    pthread_mutex_lock(&s->mutex);
    tri_error_save(&s->failure, status);
    s->writing = false;
    pthread_cond_broadcast(&s->changed);
  }
  pthread_mutex_unlock(&s->mutex);
  return NULL;
}

/* ---- the caller -------------------------------------------------------------------------------------------------- */

tri_status tri_stream_create(void *buffers, tri_stream **out) {
  tri_stream *s = NULL;
  TRI_TRY(tri_alloc("a stream to a file", 1, sizeof *s, &s));
  s->output = (tri_output){.file = -1, .direct = -1};
  pthread_mutex_init(&s->mutex, NULL);
  pthread_cond_init(&s->changed, NULL);
  tri_status status = TRI_OK;
  if (buffers == NULL) {
    TRI_TRY_GOTO(tri_alloc("the buffers of a save", TRI_CHECKPOINT_BUFFER_BYTES, 1, &s->owned), destroy_stream);
    buffers = s->owned;
  }
  char *first = (char *)buffers + (PAGE - (uintptr_t)buffers % PAGE) % PAGE;
  for (int i = 0; i < 2; i++) s->buffers[i].bytes = first + (size_t)i * BUFFER_BYTES;
  TRI_TRY_GOTO(tri_thread_start("the thread that writes", work, s, &s->thread), destroy_stream);
  s->has_thread = true;
  *out = s;
  return TRI_OK;
destroy_stream:
  tri_stream_destroy(s);
  return status;
}

void tri_stream_destroy(tri_stream *s) {
  if (s == NULL) return;
  pthread_mutex_lock(&s->mutex);
  s->ending = true;
  pthread_cond_broadcast(&s->changed);
  pthread_mutex_unlock(&s->mutex);
  if (s->has_thread) pthread_join(s->thread, NULL);
  tri_output_abandon(&s->output);
  pthread_cond_destroy(&s->changed);
  pthread_mutex_destroy(&s->mutex);
  tri_free(s->owned);
  tri_free(s);
}

tri_status tri_stream_open(tri_stream *s, const char *path, uint64_t bytes) {
  snprintf(s->path, sizeof s->path, "%s", path);
  TRI_TRY(tri_output_open(s->path, bytes, &s->output));
  s->failure.status = TRI_OK;
  s->unsent_bytes = 0;
  s->buffers[s->filling].begin = s->buffers[s->filling].end = 0;
  return TRI_OK;
}

/* Waits until the thread has written its buffer, and returns the status of its writes. */
static tri_status settle(tri_stream *s) {
  pthread_mutex_lock(&s->mutex);
  while (s->writing) pthread_cond_wait(&s->changed, &s->mutex);
  pthread_mutex_unlock(&s->mutex);
  return tri_saved_error_restore(&s->failure);
}

/* Waits for the thread, then passes it the filled buffer, and the other one to the caller. Returns the status of
 * earlier writes. */
static tri_status hand_over(tri_stream *s) {
  TRI_TRY(settle(s));
  if (s->buffers[s->filling].end == s->buffers[s->filling].begin) return TRI_OK;
  pthread_mutex_lock(&s->mutex);
  s->filling = 1 - s->filling;
  s->writing = true;
  pthread_cond_broadcast(&s->changed);
  pthread_mutex_unlock(&s->mutex);
  s->buffers[s->filling].begin = s->buffers[s->filling].end = 0;
  return TRI_OK;
}

tri_status tri_stream_put(tri_stream *s, uint64_t offset, const void *data, uint64_t bytes) {
  const char *from = data;
  while (bytes > 0) {
    buffer *to = &s->buffers[s->filling];
    bool empty = to->begin == to->end;
    if (!empty && (to->end != offset || to->end == to->base + BUFFER_BYTES)) {
      TRI_TRY(hand_over(s));
      continue;
    }
    if (empty) {
      to->base = offset / PAGE * PAGE;
      to->begin = to->end = offset;
    }
    uint64_t room = to->base + BUFFER_BYTES - offset, some = bytes < room ? bytes : room;
    memcpy(to->bytes + (offset - to->base), from, (size_t)some);
    to->end += some;
    from += some;
    offset += some;
    bytes -= some;
  }
  return TRI_OK;
}

tri_status tri_stream_close(tri_stream *s) {
  tri_status status = hand_over(s);
  if (status == TRI_OK) status = settle(s);
  if (status == TRI_OK) return tri_output_finish(&s->output);
  tri_output_abandon(&s->output);
  return status;
}
