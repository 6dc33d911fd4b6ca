/* `plan --html FILE` and `simulate --html FILE`: a prediction as a page for readers who do not use the program. */
#ifndef TRI_CLI_PLAN_PAGE_H
#define TRI_CLI_PLAN_PAGE_H

#include "options/plan_options.h"
#include "plan/search.h"

/* Writes a page to `path`: the answer (layout, time, device-hours, energy, money), its grounds, pictures of the memory
 * and of the time of a step, and the alternatives. `result`: the search whose first answer is shown; NULL: there are no
 * alternatives. Fails with TRI_IO_FAILED if the file cannot be written. */
tri_status tri_plan_page_write(const tri_plan_options *options, const tri_simulation_request *request,
                               const tri_prediction *prediction, const tri_search_result *result, const char *path);

#endif
