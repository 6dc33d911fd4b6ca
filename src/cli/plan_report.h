/* What `trireme plan` prints as text for one number of devices. */
#ifndef TRI_CLI_PLAN_REPORT_H
#define TRI_CLI_PLAN_REPORT_H

#include "options/plan_options.h"
#include "plan/search.h"

/* The table of the answers, and a report of the first of them: layout and speed, three alternatives, memory, accuracy,
 * money, and what was searched. It searches again for a rounder batch. */
tri_status tri_plan_report_best(const tri_plan_options *options, const tri_search_result *result);

/* The table of a Pareto front, with accuracy and what was searched. */
tri_status tri_plan_report_front(const tri_plan_options *options, const tri_search_result *result);

#endif
