/* The table of `eval` with several forms of the weights (--weights fp32,q8_0): a row for each form. */
#ifndef TRI_CLI_RUNNING_EVAL_WEIGHTS_H
#define TRI_CLI_RUNNING_EVAL_WEIGHTS_H

#include "engine/executor.h"
#include "engine/model_options.h"

enum { TRI_WEIGHTS_COLUMNS = 6 };

typedef struct tri_weights_row {
  double values[TRI_WEIGHTS_COLUMNS]; /* values of the table's columns; NAN: not computed */
  double bytes;                       /* bytes of the weights on this rank */
  double tokens, seconds;             /* tokens that were evaluated, and the time that this took */
} tri_weights_row;

typedef struct tri_weights_table {
  const char *columns[TRI_WEIGHTS_COLUMNS]; /* names of the columns, which are keys in JSON; NULL: unused */
  tri_weights_row rows[TRI_MOST_WEIGHTS_FORMS];
} tri_weights_table;

/* Returns the bytes of memory that the weights of an executor have on this rank. */
double tri_weights_row_bytes(const tri_executor *executor);

/* Prints the table, with a row for each form of the options, as text or as JSON: the object {"weights": [ROW...]}. */
tri_status tri_weights_table_print(const tri_weights_table *table, const tri_model_options *options, bool json);

#endif
