/* The step program: what one rank does in one training step, as a flat stream of instructions.
 *
 * The engine executes it, the simulator prices it and the memory plan lays it out; none of them knows a schedule. A
 * schedule is a pure function from (stages, stage, micro-batches) to the order of forwards and backwards (schedules.c);
 * everything else of a step is put around that here. */
#ifndef TRI_SCHEDULE_PROGRAM_H
#define TRI_SCHEDULE_PROGRAM_H

#include "base/status.h"
#include "schedule/layout.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum tri_instruction_kind {
  TRI_LOAD,            /* read the tokens of a micro-batch                                          */
  TRI_COUNT_LABELS,    /* sum the labels that count, over the global batch                          */
  TRI_PREPARE,         /* the parameters are new: pack weights                                      */
  TRI_FORWARD,         /* all operations of a micro-batch                                           */
  TRI_BACKWARD,        /* gradients of inputs and weights, operation by operation                   */
  TRI_BACKWARD_INPUT,  /* gradients of inputs alone: what an earlier stage waits for                */
  TRI_BACKWARD_WEIGHT, /* gradients of weights alone: may fill a bubble                             */
  TRI_CLIP,            /* the gradient's norm over the whole model, and the factor that clips it    */
  TRI_UPDATE,          /* the optimizer                                                             */
} tri_instruction_kind;

/* frame: which set of kept activations the micro-batch lives in between its forward and its backward. */
typedef struct tri_instruction {
  tri_instruction_kind kind;
  int32_t micro_batch, frame; /* -1 where the instruction has none */
} tri_instruction;

typedef struct tri_program {
  tri_instruction *instructions;
  int64_t num_instructions;
  int64_t num_micro_batches;
  int64_t num_frames;  /* micro-batches in flight at most */
  bool split_backward; /* inputs and weights apart: gradients live from one to the other */
} tri_program;

/* The program of the one rank of a layout whose dimensions are all 1. Release with tri_program_destroy. */
tri_status tri_program_create(const tri_layout *layout, int64_t num_micro_batches, tri_program **out);
void tri_program_destroy(tri_program *program);

const char *tri_instruction_name(tri_instruction_kind kind);

/* ---- schedules ------------------------------------------------------------------------------------------------- */

/* A growing stream; starts as {0}, release instructions with tri_free. */
typedef struct tri_stream {
  tri_instruction *instructions;
  int64_t count, capacity;
} tri_stream;

tri_status tri_stream_append(tri_stream *stream, tri_instruction_kind kind, int64_t micro_batch);

typedef struct tri_schedule {
  const char *name;
  bool split_backward;
  /* Appends the forwards and backwards of `stage` of `stages` in order. */
  tri_status (*stream)(int64_t stages, int64_t stage, int64_t micro_batches, tri_stream *out);
} tri_schedule;

/* The schedule of a kind, or NULL where this version has none (interleaved). */
const tri_schedule *tri_schedule_of(tri_schedule_kind kind);

#endif
