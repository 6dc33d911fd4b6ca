/* The facts of a run before it begins, for people and scripts: its length, its learning rate, its time and memory, and
 * where it begins. */
#ifndef TRI_TRAIN_RUN_FACTS_H
#define TRI_TRAIN_RUN_FACTS_H

#include "train/dry_run.h"
#include "train/train_internal.h"

#include <jansson.h>

/* Source of the time of a run. */
typedef enum tri_time_source {
  TRI_TIME_UNKNOWN,
  TRI_TIME_OF_STEPS, /* the median of the steps that the run in the same output has made */
  TRI_TIME_AT_PEAK,  /* a lower bound: the FLOPs of the run at the best known peak of the device */
} tri_time_source;

typedef struct tri_run_facts {
  const tri_training *training;
  int64_t ranks, rank; /* ranks of the job; the rank of `memory` */
  int64_t done_steps;  /* steps of the checkpoint with which the run begins; 0: none */
  int64_t per_epoch;   /* sequences, or prompts, of one pass over the data; 0: the data were not opened */
  double train_tokens; /* tokens of the corpora; 0: not opened, or prompts */
  double seconds;      /* time of the remaining steps */
  tri_time_source seconds_from;
  tri_dry_run_memory memory;        /* memory plan of `rank` */
  double available;                 /* bytes of this machine, or of the rank's device; 0: unknown */
  char begins[TRI_PATH_BYTES + 64]; /* checkpoint or folder with which the run begins; "": it begins with initial
                                       weights */
  char problem[512];                /* why the data were not opened; "": no problem */
} tri_run_facts;

/* LOCAL. Finds the facts. Opens the data of the run unless they are open, and sets the steps of a run of epochs; data
 * that cannot be opened are not an error. Writes nothing. `resume` is the value of --resume. */
tri_status tri_run_facts_find(tri_training *t, const char *resume, int64_t ranks, int64_t rank,
                              const tri_dry_run_memory *memory, tri_run_facts *out);

void tri_run_facts_print(const tri_run_facts *facts, FILE *to);

/* Returns a new JSON object; NULL if memory is exhausted. */
json_t *tri_run_facts_json(const tri_run_facts *facts);

#endif
