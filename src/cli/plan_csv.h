/* A table of all layouts that a search has simulated, for spreadsheets. */
#ifndef TRI_CLI_PLAN_CSV_H
#define TRI_CLI_PLAN_CSV_H

#include "plan/search.h"

#include <stdio.h>

typedef struct tri_plan_csv {
  const char *path;
  FILE *to; /* writes to text[bytes] */
  char *text;
  size_t bytes;
} tri_plan_csv;

/* Checks that the folder is there, and writes the first line: TRI_BAD_USAGE. Then `request` tells each layout to the
 * table. After the search tri_plan_csv_close writes the file if it went well; call it exactly when open went well. */
tri_status tri_plan_csv_open(tri_plan_csv *csv, const char *path, tri_search_request *request);
tri_status tri_plan_csv_close(tri_plan_csv *csv, tri_status searched);

#endif
