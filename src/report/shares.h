/* Where the time of some steps went, as the files of a run say it. */
#ifndef TRI_REPORT_SHARES_H
#define TRI_REPORT_SHARES_H

#include "timeline/timeline.h"

#include <jansson.h>

/* An object with the members of tri_timeline_shares by their names; hidden communication is a part of compute, and all
 * others together are 1. The caller owns it; NULL: out of memory. */
json_t *tri_shares_json(const tri_timeline_shares *shares);

#endif
