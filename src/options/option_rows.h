/* Options of a command as rows. A row is all that is known of an option: its name, the kind and the member of its
 * value, its range, and its lines of the command's help. The parser, the help, manual pages, completion and error
 * messages use only the rows.
 *
 * A file that defines rows first defines TRI_OPTION_VALUES, the struct whose members get the values:
 *
 *     #define TRI_OPTION_VALUES arguments
 *     static const tri_option options[] = {
 *         {TRI_FLAG("json", json), .help = "  --json     one JSON document on standard output\n"},
 *         {TRI_INT("top-k", top_k, 0, 1 << 24), .help = "  --top-k K  sample from the K likeliest tokens\n"},
 *         {0}};
 */
#ifndef TRI_OPTIONS_OPTION_ROWS_H
#define TRI_OPTIONS_OPTION_ROWS_H

#include "base/status.h"
#include "config/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum tri_option_kind {
  TRI_OPTION_END,    /* not a row: ends the table */
  TRI_OPTION_FLAG,   /* bool, becomes true; takes no value */
  TRI_OPTION_TEXT,   /* const char * */
  TRI_OPTION_PATH,   /* const char *, in which `~/` is replaced by the home folder (cli/paths.h) */
  TRI_OPTION_INT,    /* int64_t, from `least` to `most` */
  TRI_OPTION_DOUBLE, /* double, from `low` to `high` */
  TRI_OPTION_BYTES,  /* size_t, a memory size above 0 */
  TRI_OPTION_READ,   /* `read` stores the value */
  TRI_OPTION_CALL,   /* `read` is called; takes no value, and `text` is NULL */
  TRI_OPTION_GROUP,  /* the rows of another table, whose values are the struct at `offset` */
  TRI_OPTION_LINES,  /* no option: lines of help between others */
} tri_option_kind;

typedef struct tri_option {
  const char *name; /* without dashes; NULL: GROUP and LINES */
  tri_option_kind kind;
  char letter;   /* short form, for "-n"; 0: none */
  bool is_path;  /* READ: its value is a path, as of PATH */
  bool hidden;   /* neither shown nor suggested: an option of another command, which `read` refuses */
  size_t offset; /* offset of the value in the struct */
  size_t given;  /* 1 + offset of a bool that becomes true if the option is given (TRI_GIVEN); 0: none */
  int64_t least, most;
  double low, high;
  tri_status (*read)(void *values, const char *text); /* gets the struct itself */
  const struct tri_option *rows;                      /* GROUP */
  const char *help; /* whole lines, "  --top-k K  ...\n"; NULL: the help of another row has them */
} tri_option;

/* The offset of a member, which must be of type TYPE. */
#define TRI_OPTION_MEMBER(MEMBER, TYPE)                                                                                \
  .offset = _Generic(((TRI_OPTION_VALUES *)0)->MEMBER, TYPE : offsetof(TRI_OPTION_VALUES, MEMBER))

#define TRI_FLAG(NAME, MEMBER) .name = NAME, .kind = TRI_OPTION_FLAG, TRI_OPTION_MEMBER(MEMBER, bool)
#define TRI_TEXT(NAME, MEMBER) .name = NAME, .kind = TRI_OPTION_TEXT, TRI_OPTION_MEMBER(MEMBER, const char *)
#define TRI_PATH(NAME, MEMBER) .name = NAME, .kind = TRI_OPTION_PATH, TRI_OPTION_MEMBER(MEMBER, const char *)
#define TRI_INT(NAME, MEMBER, LEAST, MOST)                                                                             \
  .name = NAME, .kind = TRI_OPTION_INT, TRI_OPTION_MEMBER(MEMBER, int64_t), .least = LEAST, .most = MOST
#define TRI_DOUBLE(NAME, MEMBER, LOW, HIGH)                                                                            \
  .name = NAME, .kind = TRI_OPTION_DOUBLE, TRI_OPTION_MEMBER(MEMBER, double), .low = LOW, .high = HIGH
#define TRI_BYTES(NAME, MEMBER) .name = NAME, .kind = TRI_OPTION_BYTES, TRI_OPTION_MEMBER(MEMBER, size_t)
#define TRI_READ(NAME, FUNCTION) .name = NAME, .kind = TRI_OPTION_READ, .read = FUNCTION
#define TRI_CALL(NAME, FUNCTION) .name = NAME, .kind = TRI_OPTION_CALL, .read = FUNCTION
#define TRI_GIVEN(MEMBER)                                                                                              \
  .given = 1 + _Generic(((TRI_OPTION_VALUES *)0)->MEMBER, bool : offsetof(TRI_OPTION_VALUES, MEMBER))
#define TRI_GROUP(MEMBER, TYPE, ROWS) .kind = TRI_OPTION_GROUP, TRI_OPTION_MEMBER(MEMBER, TYPE), .rows = ROWS
#define TRI_LINES(HELP) .kind = TRI_OPTION_LINES, .help = HELP

enum { TRI_MOST_OPTIONS = 96 };

/* An option of a command, also of its groups. */
typedef struct tri_option_place {
  const tri_option *row;
  size_t base; /* offset of the struct that has its member */
} tri_option_place;

/* Lists the options of a table and of its groups, in order, hidden ones last; returns their number, and the number of
 * those that are not hidden in *shown (may be NULL). */
int tri_options_list(const tri_option *rows, tri_option_place out[TRI_MOST_OPTIONS], int *shown);

/* Return whether an option takes a value, and whether the value is a path. */
bool tri_option_has_value(const tri_option *row);
bool tri_option_is_path(const tri_option *row);

/* Appends the lines of help of all rows to parts[*count], which has room for TRI_MOST_OPTIONS. */
void tri_options_help(const tri_option *rows, const char *parts[], int *count);

/* A command's options, for parsing. */
typedef struct tri_option_table {
  const char *command;
  const tri_option *rows;
  const tri_config_table *keys; /* keys that users take for options, or NULL */
  const char *given_by;         /* the option that takes these keys, "--set" */
} tri_option_table;

/* Parses the options of a command line; arguments[0] is the command. *values is a struct with defaults. The words that
 * are not options are moved to its end: arguments[*first], ..., arguments[count - 1]. TRI_BAD_USAGE names the option
 * and the one that was probably meant. */
tri_status tri_options_parse(const tri_option_table *table, int count, char **arguments, void *values, int *first);

/* Stores the value of one option; `text` is NULL if it takes none. *values is the struct of the whole table. */
tri_status tri_option_set(const tri_option_place *option, const char *text, void *values);

#endif
