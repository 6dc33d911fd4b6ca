/* Writes all layouts that a search has simulated to a table for spreadsheets. */
#ifndef TRI_CLI_PLAN_CSV_H
#define TRI_CLI_PLAN_CSV_H

#include "plan/search.h"

#include <stdio.h>

/* A table that is open for writing. */
typedef struct tri_plan_csv {
  const char *path;
  FILE *to; /* stream that writes to the memory text[bytes] */
  char *text;
  size_t bytes;
} tri_plan_csv;

/* tri_plan_csv_open checks that the file's folder exists, and fails with TRI_BAD_USAGE if not. It writes the first line
 * to memory, and sets *request so that the search passes each simulated layout to the table. `path` and *csv must stay
 * valid until the table is closed. Both functions fail with TRI_OUT_OF_MEMORY if the memory of the table cannot grow.
 * tri_plan_csv_close writes the file if `searched`, the status of the search, is TRI_OK; it returns this status or its
 * own failure. Call it if and only if tri_plan_csv_open succeeded. */
tri_status tri_plan_csv_open(tri_plan_csv *csv, const char *path, tri_search_request *request);
tri_status tri_plan_csv_close(tri_plan_csv *csv, tri_status searched);

#endif
