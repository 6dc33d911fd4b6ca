#include "options/option_rows.h"

#include "options/options.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

static int list_rows(const tri_option *rows, size_t base, bool hidden, int count,
                     tri_option_place out[TRI_MOST_OPTIONS]) {
  for (const tri_option *row = rows; row->kind != TRI_OPTION_END; row++) {
    if (row->kind == TRI_OPTION_GROUP) count = list_rows(row->rows, base + row->offset, hidden, count, out);
    if (row->name == NULL || row->hidden != hidden || count == TRI_MOST_OPTIONS) continue;
    out[count++] = (tri_option_place){row, base};
  }
  return count;
}

int tri_options_list(const tri_option *rows, tri_option_place out[TRI_MOST_OPTIONS], int *shown) {
  const int count = rows == NULL ? 0 : list_rows(rows, 0, false, 0, out);
  if (shown != NULL) *shown = count;
  return rows == NULL ? 0 : list_rows(rows, 0, true, count, out);
}

bool tri_option_has_value(const tri_option *row) {
  return row->kind != TRI_OPTION_FLAG && row->kind != TRI_OPTION_CALL;
}

bool tri_option_is_path(const tri_option *row) { return row->kind == TRI_OPTION_PATH || row->is_path; }

void tri_options_help(const tri_option *rows, const char *parts[], int *count) {
  for (const tri_option *row = rows; row != NULL && row->kind != TRI_OPTION_END; row++) {
    if (row->kind == TRI_OPTION_GROUP) tri_options_help(row->rows, parts, count);
    if (row->help != NULL && *count < TRI_MOST_OPTIONS) parts[(*count)++] = row->help;
  }
}

tri_status tri_option_set(const tri_option_place *option, const char *text, void *values) {
  const tri_option *row = option->row;
  if (row == NULL) return tri_fail_internal("an option without a row");
  char *own = (char *)values + option->base;
  void *to = own + row->offset;
  char shown[64] = {'-', row->letter};
  if (row->letter == 0) snprintf(shown, sizeof shown, "--%s", row->name);
  if (row->given > 0) *(bool *)(own + row->given - 1) = true;
  switch (row->kind) {
    case TRI_OPTION_FLAG: *(bool *)to = true; return TRI_OK;
    case TRI_OPTION_TEXT:
    case TRI_OPTION_PATH: *(const char **)to = text; return TRI_OK;
    case TRI_OPTION_INT: return tri_option_int(shown, text, row->least, row->most, to);
    case TRI_OPTION_LENGTH: return tri_option_length(shown, text, row->least, row->most, to);
    case TRI_OPTION_HOURS: return tri_option_hours(shown, text, row->low, row->high, to);
    case TRI_OPTION_DOUBLE: return tri_option_double(shown, text, row->low, row->high, to);
    case TRI_OPTION_BYTES: return tri_option_bytes(shown, text, to);
    case TRI_OPTION_READ:
    case TRI_OPTION_CALL: return row->read(own, text);
    case TRI_OPTION_END:
    case TRI_OPTION_GROUP:
    case TRI_OPTION_LINES: break;
  }
  return tri_fail_internal("a row without a value is not an option");
}

/* ---- getopt_long ------------------------------------------------------------------------------------------------- */

enum { FIRST_VALUE = 256 }; /* values that getopt_long returns for options are FIRST_VALUE + their index */

typedef struct reader {
  tri_option_place options[TRI_MOST_OPTIONS];
  int count, shown;
  struct option rows[TRI_MOST_OPTIONS + 1];
  char letters[2 * TRI_MOST_OPTIONS + 2];
} reader;

static void set_up(const tri_option *rows, reader *r) {
  size_t held = 1;
  *r = (reader){.letters = ":"};
  r->count = tri_options_list(rows, r->options, &r->shown);
  for (int i = 0; i < r->count; i++) {
    const tri_option *row = r->options[i].row;
    const bool value = tri_option_has_value(row);
    r->rows[i] = (struct option){row->name, value ? required_argument : no_argument, NULL, FIRST_VALUE + i};
    if (row->letter == 0) continue;
    r->letters[held++] = row->letter;
    if (value) r->letters[held++] = ':';
  }
}

static const tri_option_place *find_result(const reader *r, int result) {
  if (result >= FIRST_VALUE) return &r->options[result - FIRST_VALUE];
  for (int i = 0; i < r->count; i++) {
    if (r->options[i].row->letter == result) return &r->options[i];
  }
  return NULL;
}

static tri_status fault(const tri_option_table *table, int result, char **arguments, reader *r) {
  r->rows[r->shown] = (struct option){0}; /* drops the hidden options, so that they are not suggested */
  if (table->keys == NULL) return tri_option_fault(table->command, result, arguments, r->rows);
  return tri_option_fault_or_key(table->command, result, arguments, r->rows, table->keys, table->given_by);
}

tri_status tri_options_parse(const tri_option_table *table, int count, char **arguments, void *values, int *first) {
  reader r;
  set_up(table->rows, &r);
  optind = 1;
  opterr = 0;
  for (int result; (result = getopt_long(count, arguments, r.letters, r.rows, NULL)) != -1;) {
    const tri_option_place *option = find_result(&r, result);
    if (option == NULL) return fault(table, result, arguments, &r);
    TRI_TRY(tri_option_set(option, optarg, values));
  }
  *first = optind;
  return TRI_OK;
}
