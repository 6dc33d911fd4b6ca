/* Options of a command as rows. A row has all facts about an option: its name, the kind of its value, the member that
 * gets the value, its range, and its lines of the command's help. The parser, the help, manual pages, completion and
 * error messages use only the rows.
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
  TRI_OPTION_END,    /* no option: the end of the table */
  TRI_OPTION_FLAG,   /* bool that becomes true; the option takes no value */
  TRI_OPTION_TEXT,   /* const char * */
  TRI_OPTION_PATH,   /* const char *, in which `~/` is replaced by the home folder (cli/paths.h) */
  TRI_OPTION_INT,    /* int64_t, from `least` to `most` */
  TRI_OPTION_LENGTH, /* int64_t, from `least` to `most`, in tokens: 4k is 4096 */
  TRI_OPTION_DOUBLE, /* double, from `low` to `high` */
  TRI_OPTION_BYTES,  /* size_t, a memory size above 0 */
  TRI_OPTION_HOURS,  /* double, from `low` to `high`, in hours: 100d is 2400 */
  TRI_OPTION_READ,   /* the function `read` stores the value */
  TRI_OPTION_CALL,   /* the function `read` is called with the text NULL; the option takes no value */
  TRI_OPTION_GROUP,  /* no option: the rows of another table, whose values are in the struct at `offset` */
  TRI_OPTION_LINES,  /* no option: lines of help between other rows */
} tri_option_kind;

typedef struct tri_option {
  const char *name; /* name without dashes; NULL for GROUP and LINES */
  tri_option_kind kind;
  char letter;   /* letter of the short form, such as 'n' of "-n"; 0: no short form */
  bool is_path;  /* READ only: whether the value is a path, like that of PATH */
  bool hidden;   /* whether the option is neither shown nor suggested: it is an option of another command, and `read`
                    refuses it */
  size_t offset; /* offset of the value in the struct */
  size_t given;  /* 1 + offset of a bool that becomes true if the option is given (TRI_GIVEN); 0: none */
  int64_t least, most;
  double low, high;
  tri_status (*read)(void *values, const char *text); /* READ and CALL: parses and stores the value; `values` is the
                                                         struct of the row's table, not a member of it */
  const struct tri_option *rows;                      /* GROUP only: rows of the other table */
  const char *help; /* whole lines, such as " --top-k K ...\n"; NULL: the help of another row has the lines of this
                       option, too */
} tri_option;

/* The offset of a member, which must be of type TYPE. */
#define TRI_OPTION_MEMBER(MEMBER, TYPE)                                                                                \
  .offset = _Generic(((TRI_OPTION_VALUES *)0)->MEMBER, TYPE : offsetof(TRI_OPTION_VALUES, MEMBER))

#define TRI_FLAG(NAME, MEMBER) .name = NAME, .kind = TRI_OPTION_FLAG, TRI_OPTION_MEMBER(MEMBER, bool)
#define TRI_TEXT(NAME, MEMBER) .name = NAME, .kind = TRI_OPTION_TEXT, TRI_OPTION_MEMBER(MEMBER, const char *)
#define TRI_PATH(NAME, MEMBER) .name = NAME, .kind = TRI_OPTION_PATH, TRI_OPTION_MEMBER(MEMBER, const char *)
#define TRI_INT(NAME, MEMBER, LEAST, MOST)                                                                             \
  .name = NAME, .kind = TRI_OPTION_INT, TRI_OPTION_MEMBER(MEMBER, int64_t), .least = LEAST, .most = MOST
#define TRI_LENGTH(NAME, MEMBER, LEAST, MOST)                                                                          \
  .name = NAME, .kind = TRI_OPTION_LENGTH, TRI_OPTION_MEMBER(MEMBER, int64_t), .least = LEAST, .most = MOST
#define TRI_HOURS(NAME, MEMBER, LOW, HIGH)                                                                             \
  .name = NAME, .kind = TRI_OPTION_HOURS, TRI_OPTION_MEMBER(MEMBER, double), .low = LOW, .high = HIGH
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

/* An option of a command or of one of the command's groups. */
typedef struct tri_option_place {
  const tri_option *row;
  size_t base; /* offset, in the struct of the command, of the struct whose member gets the value */
} tri_option_place;

/* Lists the options of a table and of its groups, in order, with hidden options at the end. Returns the number of
 * options. Sets *shown, unless it is NULL, to the number of options that are not hidden. */
int tri_options_list(const tri_option *rows, tri_option_place out[TRI_MOST_OPTIONS], int *shown);

/* tri_option_has_value returns whether an option takes a value; tri_option_is_path returns whether this value is a
 * path. */
bool tri_option_has_value(const tri_option *row);
bool tri_option_is_path(const tri_option *row);

/* Appends the lines of help of all rows to `parts`, from parts[*count] on, and adds the number of appended parts to
 * *count. `parts` must have room for TRI_MOST_OPTIONS parts; parts beyond this number are dropped. */
void tri_options_help(const tri_option *rows, const char *parts[], int *count);

/* A command's options, for parsing. */
typedef struct tri_option_table {
  const char *command;
  const tri_option *rows;
  const tri_config_table *keys; /* keys that users may type as options by mistake; NULL if there are none */
  const char *given_by;         /* name of the option that takes these keys, such as "--set" */
} tri_option_table;

/* Parses the options of a command line. arguments[0] is the command. *values is a struct that has the defaults. Moves
 * the words that are not options to the end: arguments[*first], ..., arguments[count - 1]. Fails with TRI_BAD_USAGE if
 * an option is not valid; the message names the option, and the option that was probably meant. */
tri_status tri_options_parse(const tri_option_table *table, int count, char **arguments, void *values, int *first);

/* Stores the value of an option in *values, the struct of the whole table. `text` is NULL if the option takes no
 * value. */
tri_status tri_option_set(const tri_option_place *option, const char *text, void *values);

#endif
