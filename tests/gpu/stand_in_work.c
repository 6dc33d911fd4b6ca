#include "stand_in_work.h"

#include "stand_in.h"

#include <sys/mman.h>
#include <time.h>

int stand_in_broken;

/* ---- memory ------------------------------------------------------------------------------------------------------ */

enum { MOST_BLOCKS = 65536, ALIGNED = 512 };

typedef struct block {
  size_t begin, bytes;
} block;

/* `real` is where bytes lie; `shown` is as large, given out, and must not be touched. */
static char *real, *shown;
static size_t room, used;
static block blocks[MOST_BLOCKS]; /* in order of their places */
static int num_blocks;

bool stand_in_memory_open(size_t bytes) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  if (real != NULL) return true;
  real = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  shown = mmap(NULL, bytes, PROT_NONE, flags, -1, 0);
  room = bytes;
  return real != MAP_FAILED && shown != MAP_FAILED;
}

size_t stand_in_memory_used(void) { return used; }

bool stand_in_memory_is(const void *address) {
  const char *at = address;
  return shown != NULL && at >= shown && at < shown + room;
}

/* Allocates the first gap that is large enough. Old contents remain, and new memory is not zeroed. */
tri_cuda_address stand_in_memory_create(size_t bytes) {
  const size_t taken = (bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
  size_t begin = 0;
  int at = 0;
  if (num_blocks == MOST_BLOCKS) return 0;
  while (at < num_blocks && blocks[at].begin - begin < taken) {
    begin = blocks[at].begin + (blocks[at].bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
    at++;
  }
  if (begin > room || taken > room - begin) return 0;
  memmove(&blocks[at + 1], &blocks[at], (size_t)(num_blocks - at) * sizeof blocks[0]);
  blocks[at] = (block){begin, bytes};
  num_blocks++;
  used += bytes;
  memset(real + begin, 0xa5, bytes);
  return (uintptr_t)(shown + begin);
}

static int find(tri_cuda_address address) {
  const size_t place = (size_t)((uintptr_t)address - (uintptr_t)shown);
  for (int i = 0; i < num_blocks; i++) {
    if (place >= blocks[i].begin && place < blocks[i].begin + blocks[i].bytes) return i;
  }
  return -1;
}

bool stand_in_memory_range(tri_cuda_address of, tri_cuda_address *base, size_t *bytes) {
  const int i = find(of);
  if (i < 0) return false;
  *base = (uintptr_t)(shown + blocks[i].begin);
  *bytes = blocks[i].bytes;
  return true;
}

bool stand_in_memory_destroy(tri_cuda_address memory) {
  const int i = find(memory);
  if (i < 0 || (uintptr_t)(shown + blocks[i].begin) != memory) return false;
  used -= blocks[i].bytes;
  memset(real + blocks[i].begin, 0x5a, blocks[i].bytes);
  memmove(&blocks[i], &blocks[i + 1], (size_t)(num_blocks - i - 1) * sizeof blocks[0]);
  num_blocks--;
  return true;
}

/* Returns the host address of the bytes, or NULL if some of them are in no block. */
static char *reach(const void *address, size_t bytes) {
  tri_cuda_address base = 0;
  size_t there = 0;
  if (!stand_in_memory_is(address)) return (char *)(uintptr_t)address;
  if (!stand_in_memory_range((uintptr_t)address, &base, &there)) return NULL;
  if ((uintptr_t)address - base + bytes > there) return NULL;
  return real + ((const char *)address - shown);
}

/* ---- requested failures ------------------------------------------------------------------------------------------ */

int stand_in_told(const char *name) {
  static int calls;
  char of[64];
  int number = 0, code = 0;
  const char *word = stand_in_word("fail");
  if (word == NULL || sscanf(word, "%63[^:]:%d:%d", of, &number, &code) != 3 || strcmp(of, name) != 0) return 0;
  return ++calls == number ? code : 0;
}

/* ---- doing it ---------------------------------------------------------------------------------------------------- */

static int do_copy(const work *w) {
  for (size_t r = 0; r < w->rows; r++) {
    char *to = reach(w->to + r * w->to_pitch, w->row_bytes);
    const char *from = reach(w->from + r * w->from_pitch, w->row_bytes);
    if (to == NULL || from == NULL) return TRI_CUDA_ILLEGAL_ADDRESS;
    memmove(to, from, w->row_bytes);
  }
  return 0;
}

static int do_fill(const work *w) {
  char *to = reach(w->to, w->row_bytes);
  if (to == NULL) return TRI_CUDA_ILLEGAL_ADDRESS;
  memset(to, 0, w->row_bytes);
  return 0;
}

/* A kernel gets the places of what its arguments name. */
static int do_launch(const work *w) {
  static tri_emulator *emulator;
  _Alignas(16) char arguments[MOST_ARGUMENT_BYTES];
  tri_emulator_launch launch = w->launch;
  if (emulator == NULL && tri_emulator_create(STAND_IN_WARP, 1, &emulator) != TRI_OK) return TRI_GPU_OUT_OF_MEMORY;
  memcpy(arguments, w->arguments, w->argument_bytes);
  for (size_t at = 0; at + sizeof(void *) <= w->argument_bytes; at += sizeof(void *)) {
    void *word;
    memcpy(&word, arguments + at, sizeof word);
    if (!stand_in_memory_is(word)) continue;
    if (find((uintptr_t)word) < 0 && find((uintptr_t)word - 1) < 0) return TRI_CUDA_ILLEGAL_ADDRESS;
    word = real + ((char *)word - shown);
    memcpy(arguments + at, &word, sizeof word);
  }
  launch.arguments = arguments;
  if (tri_emulator_run(emulator, &launch) == TRI_OK) return 0;
  fprintf(stderr, "stand-in driver: %s\n", tri_status_message());
  return TRI_CUDA_LAUNCH_FAILED;
}

static int do_call(const work *w) {
  void *places[MOST_OPERANDS] = {NULL};
  for (int i = 0; i < MOST_OPERANDS; i++) {
    const stand_in_operand *o = &w->operands[i];
    if (o->at == NULL || o->bytes == 0) continue;
    places[i] = stand_in_memory_is(o->at) ? reach(o->at, o->bytes) : NULL;
    if (places[i] == NULL) return TRI_CUDA_ILLEGAL_ADDRESS;
  }
  w->function(places, w->arguments);
  return 0;
}

static int do_record(const work *w) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  w->event->time_s = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
  return 0;
}

static int do_work(const work *w) {
  const int told = w->kind == WORK_RECORD || w->kind == WORK_WAIT ? 0 : stand_in_told("work");
  if (told != 0) return told;
  switch (w->kind) {
    case WORK_COPY: return do_copy(w);
    case WORK_FILL: return do_fill(w);
    case WORK_LAUNCH: return do_launch(w);
    case WORK_CALL: return do_call(w);
    case WORK_WAIT: return stand_in_run(w->stream, w->place);
    case WORK_RECORD: return do_record(w);
  }
  return 0;
}

/* After a fault nothing more is done, and all of it counts as done. */
int stand_in_run(tri_gpu_stream_handle stream, unsigned long place) {
  while (stream->done < place && stream->first != NULL) {
    work *w = stream->first;
    const int error = stand_in_broken != 0 ? 0 : do_work(w);
    if (error != 0) stand_in_broken = error;
    stream->first = w->next;
    if (stream->first == NULL) stream->last = NULL;
    stream->done++;
    free(w);
  }
  return stand_in_broken;
}

int stand_in_queue(tri_gpu_stream_handle stream, const work *like) {
  work *own = malloc(sizeof *own);
  if (own == NULL) return TRI_GPU_OUT_OF_MEMORY;
  *own = *like;
  own->next = NULL;
  work **first = stream->recording != NULL ? &stream->recording->first : &stream->first;
  work **last = stream->recording != NULL ? &stream->recording->last : &stream->last;
  *(*last == NULL ? first : &(*last)->next) = own;
  *last = own;
  if (stream->recording != NULL) return 0;
  stream->queued++;
  return stand_in_number("late", 1) != 0 ? 0 : stand_in_run(stream, stream->queued);
}
