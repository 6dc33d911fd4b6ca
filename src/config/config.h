/* Configuration files as tables: a key is a row that says its name, its type, where it lives in a struct, its default,
 * its legal values and one line of help. From the table alone come reading, checking, `--set`, printing and the help
 * text, so that a new key is a new row and nothing else.
 *
 * Why not libcyaml, which also fills structs by a schema? Three things that a run file needs are beyond it: a key that
 * holds either a name or a mapping (`model: gpt2-124m` or `model: {family: ...}`), values laid over the file from the
 * command line before the checks, and an error that names the nearest legal key. So this reader stands directly on
 * libyaml's events (yaml.h).
 *
 * A configuration is read in two moves. First the text becomes a tree of nodes that know their file and line, and
 * `--set` options are laid over that tree: each node in it then remembers whether a file or an option put it there.
 * Then the table walks the tree and fills the struct; whatever is wrong is reported where it came from. Because the
 * options change the tree and not the struct, `--set model=llama-3-8b --set model.num_layers=4` works in the order in
 * which it is written, and a value from an option passes the same checks as one from a file. */
#ifndef TRI_CONFIG_CONFIG_H
#define TRI_CONFIG_CONFIG_H

#include "base/status.h"
#include "config/yaml.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef enum tri_config_type {
  TRI_CONFIG_INT,     /* int64_t                                      */
  TRI_CONFIG_AUTO,    /* int64_t; the word `auto` stands for 0        */
  TRI_CONFIG_SEED,    /* uint64_t                                     */
  TRI_CONFIG_DOUBLE,  /* double                                       */
  TRI_CONFIG_PAIR,    /* double[2], written [a, b]                    */
  TRI_CONFIG_NUMBERS, /* double[]: [a, b, ...]; 0 ends them: `range` has none */
  TRI_CONFIG_BOOL,    /* bool                                         */
  TRI_CONFIG_STRING,  /* char[bytes]                                  */
  TRI_CONFIG_PATH,    /* char[bytes], with the home folder for `~/` (home.h); also where a name may stand instead */
  TRI_CONFIG_CHOICE,  /* an enum, one of words                        */
  TRI_CONFIG_SECTION, /* the keys of another table                    */
  TRI_CONFIG_LIST,    /* an array of structs: a list of such sections */
} tri_config_type;

typedef struct tri_config_word {
  const char *name; /* NULL ends the list */
  int value;
} tri_config_word;

/* The words of an enum, from a list that has X("word", VALUE) for each of its values: NAME, for a row's `words`,
 * NAME_word(value), and NAME_find(word, &value), which is false if there is no such word. A value without a word
 * does not compile, since the switch is over all of them (-Wswitch-enum). */
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

bool tri_config_find_word(const tri_config_word *words, const char *name, int *out);

typedef struct tri_config_table tri_config_table;

/* Legal numbers: from low to high, the ends included unless `open` says otherwise. */
typedef struct tri_config_range {
  double low, high;
  bool open_low, open_high;
} tri_config_range;

typedef struct tri_config_key {
  const char *name;
  tri_config_type type;
  bool in_line; /* LIST: printed an entry a line, without the help of its keys */
  size_t offset;
  const char *help; /* one line */

  /* Exactly one of the three. */
  const char *fallback; /* the default, as one would write it                                                     */
  const char *derived;  /* what the default depends on, in words; an absent key leaves the struct as it was       */
  const char *example;  /* there is no default: the key is asked for, and this is shown                           */

  tri_config_range range; /* INT, AUTO (0 is outside and written `auto`), DOUBLE, PAIR, NUMBERS                   */
  size_t bytes;           /* texts: the room, the closing NUL included; LIST: of one struct; NUMBERS: of all      */
  size_t count;           /* LIST: where in the struct its length lies, an int64_t; `range` says how many it may have */
  const tri_config_word *words; /* CHOICE */
  const tri_config_table
      *table; /* SECTION, LIST; `offset` is added to the offsets of its rows; absent sections take defaults */

  /* LIST: the key of an entry that a text alone stands for, be it the whole list or one of its entries. A list of one
   * entry is printed so: its other keys must then have their defaults. */
  const char *plain;

  /* SECTION: what a name in the place of a mapping stands for; NULL if that is not a legal value. */
  tri_status (*expand)(tri_yaml_tree *tree, const tri_yaml *name, tri_yaml **out_mapping);

  const void *more; /* what the table's owner has to say of the key beside all this; not read here */
} tri_config_key;

struct tri_config_table {
  const char *noun; /* "run file" */
  const tri_config_key *keys;
  size_t num_keys;
};

/* The largest whole number that rows may allow: doubles, in which ranges are written, are exact up to here. */
#define TRI_CONFIG_MOST 9007199254740992.0

/* Lays one `--set` over the tree. `option` is "layout.tensor=2"; the value of a section or a pair may be YAML in one
 * line ("{...}", "[...]"), every other is taken as it is. Without `=` it is TRI_BAD_USAGE. */
tri_status tri_config_set(const tri_config_table *table, tri_yaml_tree *tree, tri_yaml *root, const char *option);

/* The full name ("optimizer.lr") of the key that a word on a command line stands for, be it its name, with or without
 * its section, or another program's (name_aliases.h); `-` counts as `_`. False if there is none. */
bool tri_config_meant(const tri_config_table *table, const char *word, char *out, size_t out_bytes);

/* Fills *values from the tree: unknown keys, wrong types, values out of range and missing keys are TRI_BAD_CONFIG.
 * Names in the place of sections are expanded in the tree. */
tri_status tri_config_read(const tri_config_table *table, tri_yaml_tree *tree, tri_yaml *root, void *values);

/* The same checks of ranges, words and printability for a struct that came from elsewhere. The message begins with the
 * key and names no file. */
tri_status tri_config_check(const tri_config_table *table, const void *values);

/* All values as YAML with each key's help as a comment, below a heading of whole comment lines ("": none);
 * tri_config_read gives back the same bits. Release *out with tri_free. */
tri_status tri_config_print(const tri_config_table *table, const void *values, const char *heading, char **out);

/* Calls `visit` for each key, by its full name, whose value is not the same in both structs, with the two as text.
 * Lists are not looked at. */
void tri_config_differences(const tri_config_table *table, const void *left, const void *right,
                            void (*visit)(void *context, const char *key, const char *left, const char *right),
                            void *context);
/* Calls `visit` for each key with its full name. */
void tri_config_names(const tri_config_table *table, void (*visit)(void *context, const char *key), void *context);

/* What there is to say of a key. */
typedef struct tri_config_described {
  const char *name;     /* with those of the sections that it is in */
  const char *type;     /* "integer", "windows|documents" */
  const char *standard; /* the default, or what it depends on; "(asked for)", "(none)", or "" */
  const tri_config_key *key;
} tri_config_described;
/* Calls `visit` for each key, sections and lists before what is in them. */
void tri_config_describe(const tri_config_table *table,
                         void (*visit)(void *context, const tri_config_described *described), void *context);

/* One line a key: full name, type, default and help. */
void tri_config_help(const tri_config_table *table, FILE *to);

/* Gives this thread's failure the place of the key that its message begins with, in backquotes ("`layout.tensor` 3
 * ...", a path below root). For checks of a struct, which know no file, called by readers of a file. Returns status. */
tri_status tri_config_blame(const tri_yaml *root, tri_status status);

/* The node at "layout.tensor", or if it is not there the nearest one above it. */
const tri_yaml *tri_config_node(const tri_yaml *root, const char *path);

/* The shortest decimal number that reads back to the same double, with a point in it so that every YAML reader takes
 * it for a number. Returns buffer. */
char *tri_config_format_double(double value, char buffer[32]);

#endif
