/* Writes all layouts that a search has simulated as a table for spreadsheets. */
#ifndef TRI_CLI_PLAN_CSV_H
#define TRI_CLI_PLAN_CSV_H

#include "plan/search.h"

#include <stdio.h>

typedef struct tri_plan_csv {
  const char *path;
  FILE *to; /* memory stream that writes to text[bytes] */
  char *text;
  size_t bytes;
} tri_plan_csv;

/* Checks that the file's folder exists (TRI_BAD_USAGE) and writes the first line. Then `request` passes each simulated
 * layout to the table. tri_plan_csv_close writes the file if the search succeeded; call it if and only if open
 * succeeded. */
tri_status tri_plan_csv_open(tri_plan_csv *csv, const char *path, tri_search_request *request);
tri_status tri_plan_csv_close(tri_plan_csv *csv, tri_status searched);

#endif
