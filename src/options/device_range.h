/* `--devices 512..2048`: a row for each number of devices. */
#ifndef TRI_OPTIONS_DEVICE_RANGE_H
#define TRI_OPTIONS_DEVICE_RANGE_H

#include "options/plan_options.h"
#include "plan/search.h"

/* What each number is asked. */
typedef struct tri_device_range {
  const char *title;   /* "the best layout for each number of devices" */
  const char *nothing; /* before the reason, in a row without an answer: "no layout is valid and fits" */
  /* A layout for that many devices, and its predicted step. TRI_BAD_LAYOUT and TRI_OUT_OF_MEMORY are the reason of a
   * row without an answer; all else ends the table. */
  tri_status (*answer)(void *context, int64_t devices, tri_answer *out);
  void *context;
} tri_device_range;

/* Prints a row, or with `json` an object, for each number of the options' range; each number is checked before the
 * first is asked. */
tri_status tri_device_range_print(const tri_plan_options *options, const tri_device_range *of);

#endif
