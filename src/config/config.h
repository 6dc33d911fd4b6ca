/* Configuration files as tables. A key is a row of a table: its name, its type, its offset in a struct, its default,
 * its legal values and one line of help. Reading, checking, `--set`, printing and the help text all use only the table,
 * so that a new key is just a new row. The column `change` says what another value means for a run that is resumed.
 *
 * Why not libcyaml, which also fills structs by a schema? It lacks three things that a run file needs: a key that is
 * either a name or a mapping (`model: gpt2-124m` or `model: {family: ...}`), values from the command line that are
 * applied to the file before the checks, and an error message that names the nearest legal key. So this reader uses
 * libyaml's events directly (yaml.h).
 *
 * A configuration is read in two steps. First the text becomes a tree of nodes that know their file and line, and
 * `--set` options are applied to that tree; each node remembers whether it comes from a file or an option. Then the
 * table is walked and the struct is filled from the tree; errors are reported with their place. Because the options
 * change the tree and not the struct, `--set model=llama-3-8b --set model.num_layers=4` works in the order in which it
 * is written, and a value from an option passes the same checks as one from a file. */
#ifndef TRI_CONFIG_CONFIG_H
#define TRI_CONFIG_CONFIG_H

#include "base/status.h"
#include "config/yaml.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef enum tri_config_type {
  TRI_CONFIG_INT,     /* int64_t */
  TRI_CONFIG_AUTO,    /* int64_t; the word `auto` is 0 */
  TRI_CONFIG_SEED,    /* uint64_t */
  TRI_CONFIG_DOUBLE,  /* double */
  TRI_CONFIG_PAIR,    /* double[2], written [a, b] */
  TRI_CONFIG_NUMBERS, /* double[], written [a, b, ...]; a 0 ends the array, so `range` excludes 0 */
  TRI_CONFIG_COUNTS,  /* const tri_count_list *, whole numbers written [a, b, ...]; NULL: [] */
  TRI_CONFIG_BOOL,    /* bool */
  TRI_CONFIG_STRING,  /* char[bytes] */
  TRI_CONFIG_PATH,   /* char[bytes]; `~/` is replaced by the home folder (home.h); also for values that may be a name */
  TRI_CONFIG_CHOICE, /* an enum, written as one of `words` */
  TRI_CONFIG_SECTION, /* a struct, written as a mapping with the keys of `table` */
  TRI_CONFIG_LIST,    /* an array of structs, written as a list of sections */
} tri_config_type;

enum { TRI_CONFIG_MOST_COUNTS = 256 }; /* maximum length of a TRI_CONFIG_COUNTS */

typedef struct tri_config_word {
  const char *name; /* NULL ends the list */
  int value;
} tri_config_word;

/* Defines the words of an enum from LIST, which has X("word", VALUE) for each value: the array NAME, for a row's
 * `words`; NAME_word(value); and NAME_find(word, &value), which returns false for an unknown word. A value without a
 * word does not compile, since the switch names all values (-Wswitch-enum). */
#define TRI_CONFIG_WORDS(NAME, TYPE, LIST)                                                                             \
  static const tri_config_word NAME[] = {LIST(TRI_CONFIG_WORD_ROW_){NULL, 0}};                                         \
  static_assert(sizeof(TYPE) == sizeof(int), "a choice is stored as int");                                             \
  __attribute__((unused)) static const char *NAME##_word(TYPE value) {                                                 \
    switch (value) { LIST(TRI_CONFIG_WORD_CASE_) }                                                                     \
    return NULL;                                                                                                       \
  }                                                                                                                    \
  __attribute__((unused)) static bool NAME##_find(const char *word, TYPE *out) {                                       \
    int value = 0;                                                                                                     \
    if (!tri_config_find_word(NAME, word, &value)) return false;                                                       \
    *out = (TYPE)value;                                                                                                \
    return true;                                                                                                       \
  }
#define TRI_CONFIG_WORD_ROW_(WORD, VALUE) {WORD, VALUE},
#define TRI_CONFIG_WORD_CASE_(WORD, VALUE)                                                                             \
  case VALUE: return WORD;

/* Sets *out to the value of the word `name`. Returns false if the list has no such word. */
bool tri_config_find_word(const tri_config_word *words, const char *name, int *out);

typedef struct tri_config_table tri_config_table;

/* Valid numbers: from low to high; the ends are included unless open_low or open_high is set. */
typedef struct tri_config_range {
  double low, high;
  bool open_low, open_high;
} tri_config_range;

/* Consequences of a key whose value differs between a checkpoint and the run that resumes from it, as bits. */
typedef enum tri_config_change {
  TRI_CHANGE_FREE = 1 << 0,     /* none */
  TRI_CHANGE_LEARNING = 1 << 1, /* the run learns or reports differently from here on; the change is logged */
  TRI_CHANGE_MEASURE = 1 << 2,  /* validation losses before and after the change are not comparable */
  TRI_CHANGE_FUNCTION =
      1 << 3, /* the model or the run becomes a different one; refused unless `allow_change` names the key */
  TRI_CHANGE_SHAPE = 1 << 4 | TRI_CHANGE_FUNCTION,   /* the weights have other shapes; always refused */
  TRI_CHANGE_SAMPLES = 1 << 5 | TRI_CHANGE_FUNCTION, /* further samples, or their order, differ */
  TRI_CHANGE_ANSWERS = 1 << 6 | TRI_CHANGE_FUNCTION, /* log-probabilities of answers differ */
  TRI_CHANGE_CONTENT = 1 << 7 | TRI_CHANGE_FUNCTION, /* the content that the value names (a fingerprint, saved factors)
                                                        is compared, not the text of the value */
} tri_config_change;

/* Defines a row with its own `change`. A row without it has the `change` of its section. In a run file each key of
 * `data` needs its own (tests/unit/test_run_config.c). */
#define TRI_CONFIG_ROW(CHANGE, ...)                                                                                    \
  { .change = TRI_CHANGE_##CHANGE, __VA_ARGS__ }

typedef struct tri_config_key {
  const char *name;
  tri_config_type type;
  unsigned change; /* TRI_CHANGE bits; 0: the bits of its section */
  bool in_line;    /* LIST: whether each entry is printed in one line, without the help of its keys */
  bool is_length;  /* INT: whether it is a number of tokens, which may have a unit (4k is 4096) */
  bool breaks;     /* STRING: whether it may have line breaks and tabs */
  bool commas;     /* LIST with `plain`: whether a text in place of the list is split at commas */
  bool optional;   /* INT, DOUBLE with `derived`: whether the value 0, which is outside of the range, means that the key
                      is not given; such a key is not printed */
  size_t offset;   /* offset of the value in the struct */
  const char *help; /* one line */

  /* Exactly one of the next three members is set; a section without required keys has none of them. */
  const char *fallback; /* the default, as written in a file */
  const char
      *derived; /* description of the value on which the default depends; an absent key leaves the struct unchanged */
  const char *example; /* the key has no default and must be given; the message for a missing key shows this example */

  tri_config_range range; /* valid numbers, for INT, AUTO (0 is outside of the range and written `auto`), DOUBLE, PAIR,
                             NUMBERS and COUNTS */
  size_t bytes;           /* STRING, PATH: size with the NUL; LIST: size of one struct; NUMBERS: size of the array */
  size_t count;           /* LIST: offset of the list's length, an int64_t; `range` limits the length */
  const tri_config_word *words;  /* CHOICE: valid words, up to a row without a name */
  const tri_config_table *table; /* SECTION, LIST: rows, with offsets in the section or entry; keys of absent sections
                                    have their defaults */

  /* LIST: name of a key of an entry. A text in place of the list or of an entry is the value of this key, and the
   * entry's other keys have their defaults. A list that can be written in this way is printed in this way. NULL: a text
   * is not valid there. */
  const char *plain;

  /* LIST: name of a key of an entry. The list is written as a mapping from values of this key to values of the key
   * `plain`; the table has only these two keys. NULL: the list is not written as a mapping. */
  const char *keyed;

  /* SECTION: makes the mapping from a name in place of a mapping. NULL: a name is not valid there. */
  tri_status (*expand)(tri_yaml_tree *tree, const tri_yaml *name, tri_yaml **out_mapping);

  const void *more; /* data for the owner of the table; config.c does not read it */

  size_t follows; /* offset of a double in the struct. If that double is not 0, this key's value follows from it and is
                     printed as a comment. 0: no such double */
} tri_config_key;

/* The beginning of a row for a member of a struct that has the key's name. */
#define TRI_CONFIG_KEY(STRUCT, NAME, TYPE) .name = #NAME, .type = TYPE, .offset = offsetof(STRUCT, NAME)

struct tri_config_table {
  const char *noun; /* "run file" */
  const tri_config_key *keys;
  size_t num_keys;
};
#define TRI_CONFIG_TABLE(NOUN, KEYS)                                                                                   \
  { .noun = NOUN, .keys = KEYS, .num_keys = sizeof KEYS / sizeof *KEYS }

/* Returns the row of a key; NULL if the table has none. */
const tri_config_key *tri_config_find_key(const tri_config_table *table, const char *name);

/* The largest whole number that a range may allow: ranges are doubles, which are exact up to here. */
#define TRI_CONFIG_MOST 9007199254740992.0

/* Applies one `--set` to the tree. `option` is "layout.tensor=2". The value of a section, a list or numbers may be YAML
 * in one line ("{...}", "[...]"); every other value is used as it is. Fails with TRI_BAD_USAGE if `option` has no `=`
 * or is too long, and with TRI_BAD_CONFIG if it names no key or its value is not valid YAML. Does nothing if `root` is
 * not a mapping, which tri_config_read reports. */
tri_status tri_config_set(const tri_config_table *table, tri_yaml_tree *tree, tri_yaml *root, const char *option);

/* Finds the full name ("optimizer.lr") of the key that a word on a command line means. The word may be the key's name,
 * with or without its section, or its name in another program (name_aliases.h); `-` counts as `_`. Returns false if the
 * word means no key. */
bool tri_config_meant(const tri_config_table *table, const char *word, char *out, size_t out_bytes);

/* Fills *values from the tree. Fails with TRI_BAD_CONFIG for unknown keys, wrong types, values out of range and missing
 * keys. Names in place of sections are expanded in the tree. */
tri_status tri_config_read(const tri_config_table *table, tri_yaml_tree *tree, tri_yaml *root, void *values);

/* Checks ranges, words and printability as tri_config_read does, for a struct that was not read from a file. The error
 * message begins with the key and names no file. */
tri_status tri_config_check(const tri_config_table *table, const void *values);

/* Prints all values as YAML after `heading`, with each key's help as a comment. `heading` consists of whole comment
 * lines, or is "". tri_config_read reads back the same bits. Fails as tri_config_check does if a value is not valid.
 * Release *out with tri_free. */
tri_status tri_config_print(const tri_config_table *table, const void *values, const char *heading, char **out);

/* A key whose values differ between two structs. */
typedef struct tri_config_difference {
  const char *key;          /* full name */
  const char *left, *right; /* the values as text */
  unsigned change;          /* TRI_CHANGE bits of the key or its section */
} tri_config_difference;

/* Calls `visit` for each key whose values differ between the structs. For a list, `left` and `right` show the first
 * difference; lists that are written as mappings, and lists without a key `plain`, are not compared. The difference is
 * valid during the call only. */
void tri_config_differences(const tri_config_table *table, const void *left, const void *right,
                            void (*visit)(void *context, const tri_config_difference *difference), void *context);
/* Calls `visit` for each row that has TRI_CHANGE bits of its own or of its section, with the row's full name and the
 * bits. Sections are rows, too. The keys of a section with TRI_CHANGE_CONTENT do not inherit its bits. */
void tri_config_changes(const tri_config_table *table, void (*visit)(void *context, const char *key, unsigned change),
                        void *context);

/* Formats a value as in a file, in one line; "" for sections and lists. Returns buffer. */
char *tri_config_value_text(const tri_config_key *key, const void *at, char *buffer, size_t bytes);

/* Description of a key, for help and pages. */
typedef struct tri_config_described {
  const char *name;     /* full name, with its sections */
  const char *type;     /* "integer", "windows|documents" */
  const char *standard; /* the default, or the value on which it depends; "(required)": no default; "(none)": empty; "":
                           a section */
  const tri_config_key *key;
} tri_config_described;
/* Calls `visit` for each key; sections and lists come before their own keys. */
void tri_config_describe(const tri_config_table *table,
                         void (*visit)(void *context, const tri_config_described *described), void *context);

/* Prints one line for each key: full name, type, default and help. */
void tri_config_help(const tri_config_table *table, FILE *to);

/* Adds file and line of a key to this thread's error message, which begins with the key's path below `root` in
 * backquotes ("`layout.tensor` 3 ..."). The checks that use this function check a struct that was read from a file, and
 * do not know the file. Returns status. */
tri_status tri_config_blame(const tri_yaml *root, tri_status status);

/* Returns the node of a path such as "layout.tensor", or the nearest node above it if the path is not in the tree. */
const tri_yaml *tri_config_node(const tri_yaml *root, const char *path);

/* Formats the shortest decimal number that reads back as the same double, with a point in it so that every YAML reader
 * reads a number. Returns buffer. */
char *tri_config_format_double(double value, char buffer[32]);

#endif
