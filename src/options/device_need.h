/* `plan --days 30 --tokens 1T`: the fewest devices that train these tokens in these days. */
#ifndef TRI_OPTIONS_DEVICE_NEED_H
#define TRI_OPTIONS_DEVICE_NEED_H

#include "options/device_range.h"

/* Finds the smallest number of devices that trains options->tokens tokens in at most `days` days, with failures if the
 * cluster's file has them, and prints the table of all numbers that were tried. Tries the options' range or list, in
 * this order, until a number suffices; without one, parts of a node and whole nodes, four numbers from each power of
 * two to the next. More devices do not always make a run shorter, so a number between two that were tried may
 * suffice, too. With `json` the list marks the number with `chosen`. Fails with TRI_BAD_LAYOUT or TRI_OUT_OF_MEMORY if
 * no number suffices; the message has the number with the shortest run. */
tri_status tri_device_need(const tri_plan_options *options, const tri_device_range *of, double days, int64_t *devices);

#endif
