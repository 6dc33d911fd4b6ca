/* Predicts how fast a model would train on a machine that need not be available, and whether it fits into memory:
 * `trireme plan` and `trireme simulate`. */
#ifndef TRIREME_PLAN_H
#define TRIREME_PLAN_H

#include "trireme/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A question: the model to train, and the machine. */
typedef struct trireme_question trireme_question;

TRIREME_API trireme_status trireme_question_create(trireme_question **out);
TRIREME_API void trireme_question_destroy(trireme_question *question);

/* Sets a key of a question. Keys are the options of trireme-plan(1) without their dashes, with the same values:
 *
 *   required   "model", "cluster", "devices", "global-batch"
 *   optional   "sequence", "precision", "system", "tokens", "optimizer", "lengths", "packing", "expert-imbalance",
 *              "set"; for trireme_plan also "layout"
 *
 * "set" may be given several times; another key that is set again gets its new value. Models, clusters and systems are
 * names of presets or paths of files. The text is copied. */
TRIREME_API trireme_status trireme_question_set(trireme_question *question, const char *key, const char *value);

/* Predictions, the fastest first. */
typedef struct trireme_answers trireme_answers;

/* Finds the `top` fastest layouts that fit into memory. Fails with TRIREME_OUT_OF_MEMORY if no layout fits; the
 * message has the bytes that are lacking. */
TRIREME_API trireme_status trireme_plan(const trireme_question *question, int64_t top, trireme_answers **out);

/* Predicts a single layout, such as "tensor=4,pipeline=2", whether it fits or not. */
TRIREME_API trireme_status trireme_simulate(const trireme_question *question, const char *layout,
                                            trireme_answers **out);

TRIREME_API void trireme_answers_destroy(trireme_answers *answers);
TRIREME_API int64_t trireme_answers_count(const trireme_answers *answers);

typedef enum trireme_figure {
  TRIREME_STEP_SECONDS = 0,
  TRIREME_TOKENS_PER_SECOND = 1,
  TRIREME_TFLOPS_PER_DEVICE = 2, /* products of the model; in JSON `model_tflops_per_device` */
  TRIREME_MFU = 3,               /* the same as a share of the device's peak: `mfu` */
  TRIREME_BUBBLE = 4,            /* share of the step in which ranks wait for other ranks */
  TRIREME_PEAK_BYTES = 5,        /* bytes on the fullest device */
  TRIREME_FITS = 6,              /* 1 or 0 */
  /* Including recomputed products: in JSON `hardware_tflops_per_device` (formerly `tflops_per_device`), and `hfu`. */
  TRIREME_HARDWARE_TFLOPS_PER_DEVICE = 7,
  TRIREME_HFU = 8
} trireme_figure;

/* Returns a figure of answer number `index`, from 0; NaN if the answer or the figure does not exist. */
TRIREME_API double trireme_answers_figure(const trireme_answers *answers, int64_t index, trireme_figure figure);

/* Return the layout of an answer as trireme_simulate takes it, and the JSON text that `--json` prints for it,
 * without costs and failures of the run. Both are valid until the answers are destroyed; NULL if the answer does not
 * exist. */
TRIREME_API const char *trireme_answers_layout(const trireme_answers *answers, int64_t index);
TRIREME_API const char *trireme_answers_json(const trireme_answers *answers, int64_t index);

#ifdef __cplusplus
}
#endif

#endif
