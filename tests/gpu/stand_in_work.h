/* The stand-in driver's streams: work is queued, and executed when a call waits for it. */
#ifndef TRI_TESTS_GPU_STAND_IN_WORK_H
#define TRI_TESTS_GPU_STAND_IN_WORK_H

#include "device/emulated/emulator.h"
#include "device/gpu/cuda_calls.h"

#include <stdbool.h>

enum { MOST_ARGUMENT_BYTES = 512, MOST_OPERANDS = 8 };

typedef enum work_kind { WORK_COPY, WORK_FILL, WORK_LAUNCH, WORK_CALL, WORK_WAIT, WORK_RECORD } work_kind;

/* Work of another library's: a function of the host's that gets the places of its operands. */
typedef struct stand_in_operand {
  const void *at; /* device memory; or NULL */
  size_t bytes;
} stand_in_operand;
typedef void stand_in_function(void *const operands[MOST_OPERANDS], const void *arguments);

typedef struct work {
  struct work *next;
  work_kind kind;
  /* copy and fill: rows of bytes */
  char *to;
  const char *from;
  size_t rows, row_bytes, to_pitch, from_pitch;
  /* call */
  stand_in_function *function;
  stand_in_operand operands[MOST_OPERANDS];
  /* launch; arguments: of a call, too */
  tri_emulator_launch launch;
  size_t argument_bytes;
  _Alignas(16) char arguments[MOST_ARGUMENT_BYTES];
  /* wait: for this place of another stream; record: into this event */
  struct tri_gpu_stream_object *stream;
  unsigned long place;
  struct tri_gpu_event_object *event;
} work;

struct tri_gpu_graph_object {
  work *first, *last;
};

struct tri_gpu_stream_object {
  work *first, *last;
  unsigned long queued, done;
  struct tri_gpu_graph_object *recording; /* or NULL */
  bool spoiled;                           /* the recording */
  struct tri_gpu_stream_object *next;     /* next one of the destroyed streams */
};

struct tri_gpu_event_object {
  struct tri_gpu_stream_object *stream; /* NULL: not recorded yet */
  unsigned long place;
  bool timed;
  double time_s;
};

/* Memory that is given out as addresses that only a kernel or a copy can use. */
bool stand_in_memory_open(size_t bytes);
tri_cuda_address stand_in_memory_create(size_t bytes); /* 0: full */
bool stand_in_memory_destroy(tri_cuda_address memory);
bool stand_in_memory_range(tri_cuda_address of, tri_cuda_address *base, size_t *bytes);
size_t stand_in_memory_used(void);
bool stand_in_memory_is(const void *address);

/* Adds a copy of the work; 0 or an error. */
int stand_in_queue(tri_gpu_stream_handle stream, const work *like);
/* For the other libraries: queues a call; operands end with a NULL. Not 0: no context, or no room. */
__attribute__((visibility("default"))) int stand_in_call(tri_gpu_stream_handle stream, stand_in_function *function,
                                                         const stand_in_operand operands[MOST_OPERANDS],
                                                         const void *arguments, size_t argument_bytes);
/* Does what is queued up to a place; 0 or the error of what failed, which stays. */
int stand_in_run(tri_gpu_stream_handle stream, unsigned long place);
/* The error that the GPU does not recover from; 0 before that. */
extern int stand_in_broken;
/* Returns the error with which the next piece of work must fail, or 0. */
int stand_in_told(const char *name);

#endif
