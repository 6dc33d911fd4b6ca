/* Shares of time of some steps, as written to the files of a run. */
#ifndef TRI_REPORT_SHARES_H
#define TRI_REPORT_SHARES_H

#include "timeline/timeline.h"

#include <jansson.h>

/* Returns an object with the members of tri_timeline_shares by name; hidden communication is a part of compute, and all
 * others add up to 1. The caller owns it; NULL: out of memory. */
json_t *tri_shares_json(const tri_timeline_shares *shares);

#endif
