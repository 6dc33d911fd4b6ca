/* `--devices 512..2048` and `plan --days 30`: a table with a row for each of several numbers of devices. */
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

enum { TRI_DEVICE_REASON_BYTES = 1024 };

/* A number of devices with its answer. */
typedef struct tri_device_row {
  int64_t devices;
  tri_status status;                    /* TRI_OK: `answer` is set; else TRI_BAD_LAYOUT or TRI_OUT_OF_MEMORY */
  char reason[TRI_DEVICE_REASON_BYTES]; /* error message of a row without an answer */
  tri_answer answer;
  double days; /* days for tri_plan_options.tokens, with failures; INFINITY: the run does not end; 0 without tokens */
  bool chosen; /* whether the row is marked in JSON as the answer to --days */
} tri_device_row;

/* Formats days: "never" if the number is infinite, else with one decimal, or three digits below 1 and from a million
 * on. Returns out. */
enum { TRI_DAYS_BYTES = 32 };
char *tri_format_days(double days, char out[TRI_DAYS_BYTES]);

/* Prints a row for each number of devices in the options' range or list; with `json` prints a list with an object for
 * each. Checks all numbers before it asks the first question. */
tri_status tri_device_range_print(const tri_plan_options *options, const tri_device_range *of);

/* Answers the question for a number of devices. Fails only if the answer fails with another status than
 * TRI_BAD_LAYOUT and TRI_OUT_OF_MEMORY. */
tri_status tri_device_range_ask(const tri_plan_options *options, const tri_device_range *of, int64_t devices,
                                tri_device_row *out);

/* Prints rows that are answered already. */
tri_status tri_device_range_print_rows(const tri_plan_options *options, const tri_device_range *of,
                                       const tri_device_row *rows, int64_t count);

/* Checks all numbers of the options' range or list (tri_plan_options_check_devices). */
tri_status tri_device_range_check(const tri_plan_options *options);

/* Returns the number of devices after `devices` in the options' range or list; INT64_MAX after a list. */
int64_t tri_device_range_next(const tri_plan_options *options, int64_t devices);

#endif
