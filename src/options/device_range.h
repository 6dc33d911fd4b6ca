/* `--devices 512..2048`: prints a row for each number of devices. */
#ifndef TRI_OPTIONS_DEVICE_RANGE_H
#define TRI_OPTIONS_DEVICE_RANGE_H

#include "options/plan_options.h"
#include "plan/search.h"

/* The question that is answered for each number of devices. */
typedef struct tri_device_range {
  const char *title;   /* title of the table, such as "the best layout for each number of devices" */
  const char *nothing; /* text before the reason in a row without an answer, such as "no layout is valid and fits" */
  /* Finds a layout for a number of devices, and the layout's predicted step. If it fails with TRI_BAD_LAYOUT or
   * TRI_OUT_OF_MEMORY, the row shows the reason; any other failure ends the table. */
  tri_status (*answer)(void *context, int64_t devices, tri_answer *out);
  void *context;
} tri_device_range;

/* Prints a row for each number of devices in the options' range or list; with `json` prints a list with an object for
 * each. Checks all numbers before it asks the first question. */
tri_status tri_device_range_print(const tri_plan_options *options, const tri_device_range *of);

#endif
