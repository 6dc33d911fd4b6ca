/* Prints tables: a whole configuration as YAML, and the list of keys for users. */
#include "base/count_list.h"
#include "base/memory.h"
#include "config/config.h"
#include "config/config_value.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { COMMENT_COLUMN = 34, LINE_BYTES = 16384 };

/* ---- values as YAML ---------------------------------------------------------------------------------------------- */

/* Returns whether a text needs no quotes, because it looks like a path or a name. */
static bool is_plain(const char *text) {
  static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  static const char more[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./+";
  const tri_yaml as_scalar = {.kind = TRI_YAML_SCALAR, .text = text};
  bool begins = text[0] == '/' || text[0] == '.' || (text[0] != '\0' && strchr(letters, text[0]) != NULL);
  return begins && text[strspn(text, more)] == '\0' && !tri_yaml_is_null(&as_scalar);
}

static void format_string(const char *text, char *buffer, size_t bytes) {
  if (is_plain(text)) {
    snprintf(buffer, bytes, "%s", text);
    return;
  }
  size_t held = 0;
  buffer[held++] = '"';
  for (; *text != '\0' && held + 4 < bytes; text++) {
    static const char controls[] = "\n\r\t", letters[] = "nrt";
    const char *control = strchr(controls, *text);
    if (*text == '"' || *text == '\\' || control != NULL) buffer[held++] = '\\';
    buffer[held++] = control == NULL ? *text : letters[control - controls];
  }
  buffer[held++] = '"';
  buffer[held] = '\0';
}

static const char *word_of(const tri_config_key *key, const void *at) {
  int value = 0;
  memcpy(&value, at, sizeof value);
  for (const tri_config_word *word = key->words; word->name != NULL; word++) {
    if (word->value == value) return word->name;
  }
  return "";
}

static void format_numbers(const tri_config_key *key, const void *at, char *buffer, size_t bytes) {
  char text[32];
  size_t held = (size_t)snprintf(buffer, bytes, "[");
  for (size_t i = 0; i < key->bytes / sizeof(double); i++) {
    double number = 0;
    memcpy(&number, (const char *)at + i * sizeof number, sizeof number);
    if (number == 0) break;
    held += (size_t)snprintf(buffer + held, bytes - held, "%s%s", i == 0 ? "" : ", ",
                             tri_config_format_double(number, text));
  }
  snprintf(buffer + held, bytes - held, "]");
}

static void format_counts(const void *at, char *buffer, size_t bytes) {
  const tri_count_list *list = NULL;
  memcpy(&list, at, sizeof list);
  tri_count_list_text(list, buffer, bytes);
}

static void format_value(const tri_config_key *key, const void *at, char *buffer, size_t bytes) {
  int64_t whole = 0;
  uint64_t seed = 0;
  double numbers[2] = {0, 0};
  char first[32];
  char second[32];
  switch (key->type) {
    case TRI_CONFIG_INT:
    case TRI_CONFIG_AUTO:
      memcpy(&whole, at, sizeof whole);
      if (key->type == TRI_CONFIG_AUTO && whole == 0) {
        snprintf(buffer, bytes, "auto");
      } else {
        snprintf(buffer, bytes, "%" PRId64, whole);
      }
      break;
    case TRI_CONFIG_SEED:
      memcpy(&seed, at, sizeof seed);
      snprintf(buffer, bytes, "%" PRIu64, seed);
      break;
    case TRI_CONFIG_DOUBLE:
      memcpy(numbers, at, sizeof numbers[0]);
      snprintf(buffer, bytes, "%s", tri_config_format_double(numbers[0], first));
      break;
    case TRI_CONFIG_PAIR:
      memcpy(numbers, at, sizeof numbers);
      snprintf(buffer, bytes, "[%s, %s]", tri_config_format_double(numbers[0], first),
               tri_config_format_double(numbers[1], second));
      break;
    case TRI_CONFIG_NUMBERS: format_numbers(key, at, buffer, bytes); break;
    case TRI_CONFIG_COUNTS: format_counts(at, buffer, bytes); break;
    case TRI_CONFIG_BOOL: snprintf(buffer, bytes, "%s", *(const bool *)at ? "true" : "false"); break;
    case TRI_CONFIG_STRING:
    case TRI_CONFIG_PATH: format_string(at, buffer, bytes); break;
    case TRI_CONFIG_CHOICE: snprintf(buffer, bytes, "%s", word_of(key, at)); break;
    case TRI_CONFIG_LIST:
    case TRI_CONFIG_SECTION: buffer[0] = '\0'; break;
  }
}

char *tri_config_value_text(const tri_config_key *key, const void *at, char *buffer, size_t bytes) {
  format_value(key, at, buffer, bytes);
  return buffer;
}

static const tri_config_key *find_of(const tri_config_key *list, const char *name) {
  const tri_config_key *key = list->table->keys;
  while (strcmp(key->name, name) != 0) key++;
  return key;
}

/* Returns the key whose value alone can be written in place of an entry of a list. */
static const tri_config_key *find_plain(const tri_config_key *list) { return find_of(list, list->plain); }

/* Prints an entry of a list that is written as a mapping. */
static void print_pair(const tri_config_key *list, const char *entry, int indent, FILE *to) {
  char name[LINE_BYTES], value[LINE_BYTES];
  const tri_config_key *of_name = find_of(list, list->keyed), *of_value = find_plain(list);
  format_value(of_name, entry + of_name->offset, name, sizeof name);
  format_value(of_value, entry + of_value->offset, value, sizeof value);
  fprintf(to, "%*s%s: %s\n", indent, "", name, value);
}

static void print_in_line(const tri_config_table *table, const char *values, int indent, FILE *to) {
  char value[LINE_BYTES];
  fprintf(to, "%*s- {", indent, "");
  for (size_t i = 0; i < table->num_keys; i++) {
    format_value(&table->keys[i], values + table->keys[i].offset, value, sizeof value);
    fprintf(to, "%s%s: %s", i == 0 ? "" : ", ", table->keys[i].name, value);
  }
  fprintf(to, "}\n");
}

/* Returns whether a key is optional and its value, a whole number or double, is 0, which means that the key is not
 * given. */
static bool is_absent(const tri_config_key *key, const char *at) {
  static const char zero[sizeof(double)];
  return key->optional && memcmp(at, zero, sizeof zero) == 0;
}

/* Returns whether a key has its default. The default of a `derived` key that is not optional is not known here, so the
 * function returns true for each value of such a key. Returns false for a key without a default. */
static bool has_default(const tri_config_key *key, const char *at) {
  char value[LINE_BYTES];
  if (key->optional) return is_absent(key, at);
  if (key->fallback == NULL) return key->derived != NULL;
  if (key->type == TRI_CONFIG_STRING || key->type == TRI_CONFIG_PATH) return strcmp(at, key->fallback) == 0;
  format_value(key, at, value, sizeof value);
  return strcmp(value, key->fallback) == 0;
}

/* Returns whether the value of the key `plain` can be written in place of an entry: all other keys have their
 * defaults. */
static bool is_plain_entry(const tri_config_key *list, const char *entry) {
  for (size_t i = 0; i < list->table->num_keys; i++) {
    const tri_config_key *key = &list->table->keys[i];
    if (key != find_plain(list) && !has_default(key, entry + key->offset)) return false;
  }
  return true;
}

static bool follows_another(const tri_config_key *key, const char *values) {
  double other = 0;
  if (key->follows != 0) memcpy(&other, values + key->follows, sizeof other);
  return other != 0;
}

/* Prints a section. In an entry of a list (`dash`) a dash replaces the last two blanks before the first key. */
static void print_section(const tri_config_table *table, const char *values, int indent, bool dash, FILE *to) {
  char value[LINE_BYTES];
  for (size_t i = 0; i < table->num_keys; i++) {
    const tri_config_key *key = &table->keys[i];
    const char *at = values + key->offset;
    if (is_absent(key, at)) continue;
    format_value(key, at, value, sizeof value);
    int64_t entries = 0;
    if (key->type == TRI_CONFIG_LIST) entries = *(const int64_t *)(const void *)(values + key->count);
    if (key->type == TRI_CONFIG_LIST && entries == 0) {
      snprintf(value, sizeof value, "%s", key->keyed == NULL ? "[]" : "{}");
    }
    if (key->plain != NULL && key->keyed == NULL && entries == 1 && is_plain_entry(key, at)) {
      format_value(find_plain(key), at + find_plain(key)->offset, value, sizeof value);
      entries = 0;
    }
    const char *blank = value[0] == '\0' ? "" : " ";
    const char *before = dash && i == 0 ? "- " : follows_another(key, values) ? "# " : "";
    int width = fprintf(to, "%*s%s%s:%s%s", indent, follows_another(key, values) ? "" : before,
                        follows_another(key, values) ? before : "", key->name, blank, value);
    fprintf(to, "%*s # %s\n", width < COMMENT_COLUMN ? COMMENT_COLUMN - width : 0, "", key->help);
    if (key->type == TRI_CONFIG_SECTION) print_section(key->table, at, indent + 2, false, to);
    for (int64_t n = 0; n < entries; n++) {
      const char *entry = at + (size_t)n * key->bytes;
      if (key->keyed != NULL) {
        print_pair(key, entry, indent + 2, to);
      } else if (key->in_line) {
        print_in_line(key->table, entry, indent + 2, to);
      } else {
        print_section(key->table, entry, indent + 4, true, to);
      }
    }
  }
}

tri_status tri_config_print(const tri_config_table *table, const void *values, const char *heading, char **out) {
  char *text = NULL;
  size_t bytes = 0;
  TRI_TRY(tri_config_check(table, values));
  FILE *to = open_memstream(&text, &bytes);
  if (to == NULL) return tri_fail(TRI_OUT_OF_MEMORY, "out of memory while printing a %s", table->noun);
  fputs(heading, to);
  print_section(table, values, 0, false, to);
  bool failed = ferror(to) != 0;
  failed = fclose(to) != 0 || failed;
  tri_status status =
      failed ? tri_fail(TRI_OUT_OF_MEMORY, "out of memory while printing a %s", table->noun) : tri_strdup(text, out);
  free(text);
  return status;
}

/* ---- two structs ------------------------------------------------------------------------------------------------- */

enum { NAME_BYTES = 256, TYPE_BYTES = 512 };

static void full_name(const char *prefix, const char *key, char out[NAME_BYTES]) {
  int length = snprintf(out, NAME_BYTES, "%s%s%s", prefix, prefix[0] == '\0' ? "" : ".", key);
  if (length >= NAME_BYTES) out[0] = '\0'; /* no table is nested so deeply */
}

typedef struct comparison {
  void (*visit)(void *context, const tri_config_difference *difference);
  void *context;
} comparison;

static int64_t entries_of(const tri_config_key *list, const char *values) {
  return *(const int64_t *)(const void *)(values + list->count);
}

/* Formats a list as the values of the key `plain` of its entries, "[number, format]". */
static void format_list(const tri_config_key *list, const char *values, char out[LINE_BYTES]) {
  const tri_config_key *plain = find_plain(list);
  char value[LINE_BYTES];
  size_t length = (size_t)snprintf(out, LINE_BYTES, "[");
  for (int64_t i = 0; i < entries_of(list, values) && length < LINE_BYTES; i++) {
    format_value(plain, values + list->offset + (size_t)i * list->bytes + plain->offset, value, sizeof value);
    length += (size_t)snprintf(out + length, LINE_BYTES - length, "%s%s", i == 0 ? "" : ", ", value);
  }
  if (length < LINE_BYTES) snprintf(out + length, LINE_BYTES - length, "]");
}

/* Formats the first value in which two entries differ, with its key, "format with weight 0.5". Returns false if the
 * entries are the same. */
static bool format_entries(const tri_config_key *list, const char *a, const char *b, char before[LINE_BYTES],
                           char after[LINE_BYTES]) {
  const tri_config_key *plain = find_plain(list);
  char name[LINE_BYTES], left[LINE_BYTES], right[LINE_BYTES];
  for (size_t i = 0; i < list->table->num_keys; i++) {
    const tri_config_key *key = &list->table->keys[i];
    format_value(key, a + key->offset, left, sizeof left);
    format_value(key, b + key->offset, right, sizeof right);
    if (strcmp(left, right) == 0) continue;
    format_value(plain, a + plain->offset, name, sizeof name);
    snprintf(before, LINE_BYTES, "%.200s with %s %.200s", name, key->name, left);
    snprintf(after, LINE_BYTES, "%s %.200s", key->name, right);
    return true;
  }
  return false;
}

/* Visits the differences of two lists whose entries have a key `plain`: that of the values of this key as a whole or,
 * if these are equal, those of the entries. Does nothing for other lists. */
static void compare_lists(const tri_config_key *list, const char *left, const char *right, const char *name,
                          unsigned change, const comparison *to) {
  char before[LINE_BYTES], after[LINE_BYTES];
  if (list->plain == NULL || list->keyed != NULL) return;
  const tri_config_difference difference = {name, before, after, change};
  format_list(list, left, before);
  format_list(list, right, after);
  if (entries_of(list, left) != entries_of(list, right) || strcmp(before, after) != 0) {
    to->visit(to->context, &difference);
    return;
  }
  for (int64_t i = 0; i < entries_of(list, left); i++) {
    const size_t at = list->offset + (size_t)i * list->bytes;
    if (!format_entries(list, left + at, right + at, before, after)) continue;
    to->visit(to->context, &difference);
    return;
  }
}

static void compare_section(const tri_config_table *table, const char *prefix, unsigned change, const char *left,
                            const char *right, const comparison *to) {
  char name[NAME_BYTES], before[LINE_BYTES], after[LINE_BYTES];
  for (size_t i = 0; i < table->num_keys; i++) {
    const tri_config_key *key = &table->keys[i];
    const char *a = left + key->offset, *b = right + key->offset;
    const unsigned meaning = key->change != 0 ? key->change : change;
    full_name(prefix, key->name, name);
    if (key->type == TRI_CONFIG_SECTION) {
      compare_section(key->table, name, meaning, a, b, to);
      continue;
    }
    if (key->type == TRI_CONFIG_LIST) compare_lists(key, left, right, name, meaning, to);
    format_value(key, a, before, sizeof before); /* "" for a list */
    format_value(key, b, after, sizeof after);
    const tri_config_difference difference = {name, before, after, meaning};
    if (strcmp(before, after) != 0) to->visit(to->context, &difference);
  }
}

void tri_config_differences(const tri_config_table *table, const void *left, const void *right,
                            void (*visit)(void *context, const tri_config_difference *difference), void *context) {
  compare_section(table, "", 0, left, right, &(comparison){visit, context});
}

static void visit_changes(const tri_config_table *table, const char *prefix, unsigned change,
                          void (*visit)(void *context, const char *key, unsigned change), void *context) {
  char name[NAME_BYTES];
  for (size_t i = 0; i < table->num_keys; i++) {
    const tri_config_key *key = &table->keys[i];
    const unsigned meaning = key->change != 0 ? key->change : change;
    full_name(prefix, key->name, name);
    if (meaning != 0) visit(context, name, meaning);
    if (key->type != TRI_CONFIG_SECTION) continue;
    const bool as_one = (meaning & TRI_CHANGE_CONTENT) == TRI_CHANGE_CONTENT; /* the section is compared as a whole, so
                                                                                 its keys do not inherit its bits */
    visit_changes(key->table, name, as_one ? 0 : meaning, visit, context);
  }
}

void tri_config_changes(const tri_config_table *table, void (*visit)(void *context, const char *key, unsigned change),
                        void *context) {
  visit_changes(table, "", 0, visit, context);
}

/* ---- help -------------------------------------------------------------------------------------------------------- */

static const char *plain_type_name(tri_config_type type) {
  switch (type) {
    case TRI_CONFIG_INT:
    case TRI_CONFIG_SEED: return "integer";
    case TRI_CONFIG_AUTO: return "integer|auto";
    case TRI_CONFIG_DOUBLE: return "number";
    case TRI_CONFIG_PAIR: return "[number, number]";
    case TRI_CONFIG_NUMBERS: return "[number, ...]";
    case TRI_CONFIG_COUNTS: return "[integer, ...]";
    case TRI_CONFIG_BOOL: return "true|false";
    case TRI_CONFIG_STRING: return "text";
    case TRI_CONFIG_PATH: return "path";
    case TRI_CONFIG_CHOICE: return "word";
    case TRI_CONFIG_SECTION: return "keys";
    case TRI_CONFIG_LIST: return "list of keys";
  }
  return "?";
}

static void type_name(const tri_config_key *key, char *buffer, size_t bytes) {
  if (key->type != TRI_CONFIG_CHOICE) {
    const char *name = key->plain != NULL ? "text|list of keys" : plain_type_name(key->type);
    if (key->keyed != NULL) name = "mapping";
    snprintf(buffer, bytes, "%s", key->expand != NULL ? "name|path|keys" : name);
    return;
  }
  buffer[0] = '\0';
  for (const tri_config_word *word = key->words; word->name != NULL; word++) {
    size_t held = strlen(buffer);
    snprintf(buffer + held, bytes - held, "%s%s", held == 0 ? "" : "|", word->name);
  }
}

typedef struct description {
  void (*visit)(void *context, const tri_config_described *described);
  void *context;
} description;

static void describe_section(const tri_config_table *table, const char *path, const description *to) {
  for (size_t i = 0; i < table->num_keys; i++) {
    const tri_config_key *key = &table->keys[i];
    char full[NAME_BYTES];
    char type[TYPE_BYTES];
    full_name(path, key->name, full);
    type_name(key, type, sizeof type);
    const char *standard = key->fallback != NULL ? key->fallback : key->derived;
    if (standard == NULL) standard = key->example != NULL ? "(required)" : "";
    if (standard[0] == '\0' && tri_config_is_text(key)) standard = "(none)";
    to->visit(to->context, &(tri_config_described){.name = full, .type = type, .standard = standard, .key = key});
    if (key->table != NULL && key->keyed == NULL) describe_section(key->table, full, to);
  }
}

void tri_config_describe(const tri_config_table *table,
                         void (*visit)(void *context, const tri_config_described *described), void *context) {
  describe_section(table, "", &(description){visit, context});
}

static void help_line(void *to, const tri_config_described *key) {
  fprintf(to, "  %-42s %-34s %-24s %s\n", key->name, key->type, key->standard, key->key->help);
}

void tri_config_help(const tri_config_table *table, FILE *to) {
  fprintf(to, "  %-42s %-34s %-24s %s\n", "key", "type", "default", "meaning");
  tri_config_describe(table, help_line, to);
}
