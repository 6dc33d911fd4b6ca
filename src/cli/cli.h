/* The subcommands. Each subcommand is a tri_command and a row of the table in main.c. Its file is in src/cli/running/
 * if it needs MPI and kernels, otherwise in src/cli/. */
#ifndef TRI_CLI_CLI_H
#define TRI_CLI_CLI_H

#include "base/status.h"
#include "options/option_rows.h"

#include <stdbool.h>

typedef struct tri_command {
  const char *name;
  const char *summary; /* one line */
  /* The help of the command: first usage and description, then the help of the options, then the examples after an
   * empty line. */
  const char *usage;
  const tri_option
      *options; /* rows of its options, ended by an empty row, without --help; NULL: --help is its only option */
  const char *examples;
  bool holds_signals; /* whether the command starts with signals blocked (base/stop.h) and handles them itself */
  /* Runs the command. arguments[0] is the name of the command. Results go to standard output; all other output is
   * written with base/log.h. */
  tri_status (*run)(int count, char **arguments);
} tri_command;

extern const tri_command tri_command_board;
extern const tri_command tri_command_calibrate;
extern const tri_command tri_command_compare;
extern const tri_command tri_command_doctor;
extern const tri_command tri_command_eval;
extern const tri_command tri_command_export;
extern const tri_command tri_command_generate;
extern const tri_command tri_command_serve;
extern const tri_command tri_command_import;
extern const tri_command tri_command_inspect;
extern const tri_command tri_command_merge;
extern const tri_command tri_command_new;
extern const tri_command tri_command_plan;
extern const tri_command tri_command_prepare;
extern const tri_command tri_command_simulate;
extern const tri_command tri_command_train;
extern const tri_command tri_command_tune;
extern const tri_command tri_command_validate;

#endif
