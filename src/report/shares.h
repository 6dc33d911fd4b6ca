/* Shares of time of some steps, as written to the files of a run. */
#ifndef TRI_REPORT_SHARES_H
#define TRI_REPORT_SHARES_H

#include "timeline/timeline.h"

#include <jansson.h>

/* Returns an object with the shares by name: `compute` (without the optimizer and sampling), `optimizer`, `sampling`
 * (if it is not 0), exposed communication by axis, and `bubble`, which add up to 1; `hidden`: communication by axis
 * that is a part of compute; `steps` and `step_s`. The caller owns the object; NULL: out of memory. */
json_t *tri_shares_json(const tri_timeline_shares *shares);

#endif
