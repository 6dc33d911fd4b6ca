/* `trireme plan --devices 512..2048`: the best layout for each number of devices. */
#ifndef TRI_CLI_PLAN_RANGE_H
#define TRI_CLI_PLAN_RANGE_H

#include "cli/plan_options.h"

/* Prints a row, or with `json` an object, for each number of the options' range. A number for which no layout is legal
 * or fits says so in its row; all others fail. `request` is for the first number. */
tri_status tri_plan_range(const tri_plan_options *options, const tri_search_request *request);

#endif
