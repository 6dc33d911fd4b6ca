/* Text output of `trireme plan` for one number of devices. */
#ifndef TRI_CLI_PLAN_REPORT_H
#define TRI_CLI_PLAN_REPORT_H

#include "options/plan_options.h"
#include "plan/search.h"

#include <stdio.h>

/* Prints the table of the answers and a report of the first answer: layout and speed, three alternatives, memory,
 * accuracy, money, and the keys that were searched. Searches with a rounder batch, too. */
tri_status tri_plan_report_best(const tri_plan_options *options, const tri_search_result *result);

/* Print parts of this report: the alternatives to the first answer, and the keys that were searched. */
void tri_plan_report_alternatives(const tri_search_result *result, FILE *to);
void tri_plan_report_searched(const tri_plan_options *options, const tri_search_result *result, FILE *to);

/* Prints the table of a Pareto front, with the accuracy and the keys that were searched. */
tri_status tri_plan_report_front(const tri_plan_options *options, const tri_search_result *result);

#endif
