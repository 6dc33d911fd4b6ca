#include "config/config.h"

#include "config/config_value.h"
#include "config/name_aliases.h"
#include "config/name_answers.h"
#include "config/nearest_word.h"
#include "files/home.h"

#include <stdint.h>
#include <string.h>

enum { MAX_PATH = 128, MAX_KEYS = 512, SUBJECT_BYTES = 256 };

/* ---- names ------------------------------------------------------------------------------------------------------- */

const tri_config_key *tri_config_find_key(const tri_config_table *table, const char *name) {
  for (size_t i = 0; i < table->num_keys; i++) {
    if (strcmp(table->keys[i].name, name) == 0) return &table->keys[i];
  }
  return NULL;
}

/* Joins "model" and "num_layers" to "model.num_layers". */
static void join(char out[MAX_PATH], const char *path, const char *name) {
  snprintf(out, MAX_PATH, "%s%s%s", path, path[0] == '\0' ? "" : ".", name);
}

/* Formats the subject of a message to `buffer`, and returns it: "`lr` under `optimizer:`", or "`seed`". */
static char *subject_of(char buffer[SUBJECT_BYTES], const char *path, const char *name) {
  char excerpt[TRI_YAML_EXCERPT_BYTES];
  tri_yaml_excerpt(name, excerpt);
  if (path[0] == '\0') {
    snprintf(buffer, SUBJECT_BYTES, "`%s`", excerpt);
  } else {
    snprintf(buffer, SUBJECT_BYTES, "`%s` under `%s:`", excerpt, path);
  }
  return buffer;
}

/* Full names of all keys at and below a table, for suggestions. */
typedef struct key_list {
  char paths[MAX_KEYS][MAX_PATH];
  const char *names[MAX_KEYS]; /* last part of each path */
  size_t count;
} key_list;

static void collect(const tri_config_table *table, const char *path, key_list *list) {
  for (size_t i = 0; i < table->num_keys && list->count < MAX_KEYS; i++) {
    const tri_config_key *key = &table->keys[i];
    char full[MAX_PATH];
    join(full, path, key->name);
    memcpy(list->paths[list->count], full, sizeof full);
    list->names[list->count++] = key->name;
    if (key->table != NULL && key->keyed == NULL) collect(key->table, full, list);
  }
}

static void list_keys(const tri_config_table *table, char *buffer, size_t bytes) {
  buffer[0] = '\0';
  for (size_t i = 0; i < table->num_keys; i++) {
    size_t held = strlen(buffer);
    snprintf(buffer + held, bytes - held, "%s%s", i == 0 ? "" : ", ", table->keys[i].name);
  }
}

/* Formats the end of "is not a key of": the kind of file, or the section in which a key was looked up. */
static void place_name(char buffer[SUBJECT_BYTES], const tri_config_table *table, const char *path) {
  if (path[0] == '\0') {
    snprintf(buffer, SUBJECT_BYTES, "a %s", table->noun);
  } else {
    snprintf(buffer, SUBJECT_BYTES, "`%s:`", path);
  }
}

/* Returns whether key i is below the section at `path`; if `own`, whether it is directly in it. */
static bool is_in(const key_list *list, size_t i, const char *path, bool own) {
  size_t length = strlen(path);
  const char *inner = list->paths[i] + (length == 0 ? 0 : length + 1);
  if (length > 0 && (strncmp(list->paths[i], path, length) != 0 || list->paths[i][length] != '.')) return false;
  return !own || strcmp(inner, list->names[i]) == 0;
}

static bool is_named(const key_list *list, size_t i, const char *name) { return strcmp(list->names[i], name) == 0; }

static bool is_known(const key_list *list, size_t i, const char *name) {
  return tri_is_name_alias(name, list->paths[i]) || tri_is_name_alias(name, list->names[i]);
}

/* Returns whether another program uses the name for exactly this key of this section. */
static bool is_known_there(const key_list *list, size_t i, const char *name) {
  return list->paths[i] != list->names[i] && tri_is_name_alias(name, list->paths[i]);
}

/* Returns whether the key is the name with a plural s: `links` for `link`. */
static bool is_plural(const key_list *list, size_t i, const char *name) {
  const size_t length = strlen(name);
  return length >= 3 && strncmp(list->names[i], name, length) == 0 && strcmp(list->names[i] + length, "s") == 0;
}

static bool has_word(const key_list *list, size_t i, const char *name) {
  return strlen(name) >= 3 && strstr(list->names[i], name) != NULL;
}

/* Returns the path of the key that is nearest to `name` in spelling, among those for which is_in(`path`, `own`) is
 * true; NULL if none is near. */
static const char *nearest_in(const key_list *list, const char *path, bool own, const char *name) {
  const char *paths[MAX_KEYS], *names[MAX_KEYS] = {NULL};
  size_t count = 0;
  for (size_t i = 0; i < list->count; i++) {
    if (!is_in(list, i, path, own)) continue;
    paths[count] = list->paths[i];
    names[count++] = list->names[i];
  }
  const char *meant = tri_nearest_word(name, names, count);
  for (size_t i = 0; i < count && meant != NULL; i++) {
    if (names[i] == meant) return paths[i];
  }
  return NULL;
}

/* Returns the full name of the key that was probably meant by an unknown name at `path`; NULL if no key is near.
 * `order` lists the guesses. The first are keys with this name (also with a plural s, or in another program). The
 * others are keys with a similar name, which contains the word (`layers`: `model.num_layers`) or is nearest in
 * spelling. In both groups keys in or below the section come first. */
static const char *suggest(const key_list *list, const char *path, const char *name) {
  enum { SECTION, BELOW, ANYWHERE };
  static const struct {
    bool (*is_meant)(const key_list *list, size_t i,
                     const char *name); /* NULL: the key that is nearest in spelling is meant */
    int where;
  } order[] = {{is_plural, SECTION}, {is_named, BELOW},    {is_known, SECTION},  {is_known_there, BELOW},
               {is_known, BELOW},    {is_named, ANYWHERE}, {is_known, ANYWHERE}, {has_word, BELOW},
               {NULL, SECTION},      {NULL, BELOW},        {has_word, ANYWHERE}, {NULL, ANYWHERE}};
  for (size_t k = 0; k < sizeof order / sizeof order[0]; k++) {
    const char *at = order[k].where == ANYWHERE ? "" : path;
    const bool own = order[k].where == SECTION;
    const char *nearest = order[k].is_meant == NULL ? nearest_in(list, at, own, name) : NULL;
    if (nearest != NULL) return nearest;
    for (size_t i = 0; i < list->count && order[k].is_meant != NULL; i++) {
      if (is_in(list, i, at, own) && order[k].is_meant(list, i, name)) return list->paths[i];
    }
  }
  return NULL;
}

bool tri_config_meant(const tri_config_table *table, const char *word, char *out, size_t out_bytes) {
  key_list all = {.count = 0};
  char name[MAX_PATH];
  collect(table, "", &all);
  snprintf(name, sizeof name, "%s", word);
  for (char *at = name; *at != '\0'; at++) {
    if (*at == '-') *at = '_';
  }
  for (int pass = 0; pass < 3; pass++) { /* pass 0: the full name of a key; pass 1: the last part of its name; pass 2:
                                            its name in another program */
    for (size_t i = 0; i < all.count; i++) {
      bool meant =
          pass == 0 ? strcmp(all.paths[i], name) == 0 : (pass == 1 ? is_named(&all, i, name) : is_known(&all, i, name));
      if (!meant) continue;
      snprintf(out, out_bytes, "%s", all.paths[i]);
      return true;
    }
  }
  return false;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static tri_status unknown_key(const tri_config_table *root, const tri_config_table *table, const char *path,
                              const tri_yaml *node) {
  char excerpt[TRI_YAML_EXCERPT_BYTES];
  char place[SUBJECT_BYTES];
  char subject[SUBJECT_BYTES + TRI_YAML_EXCERPT_BYTES + 32];
  key_list all = {.count = 0};
  place_name(place, table, path);
  snprintf(subject, sizeof subject, "`%s` is not a key of %s", tri_yaml_excerpt(node->key, excerpt), place);
  collect(root, "", &all);
  const char *meant = suggest(&all, path, node->key), *answer = tri_section_answer(path, node->key);
  if (answer != NULL) return tri_yaml_fail(node, subject, "; %s", answer);
  if (meant != NULL) {
    const char *dot = strrchr(meant, '.');
    size_t section = dot == NULL ? 0 : (size_t)(dot - meant);
    if (section == strlen(path) && strncmp(meant, path, section) == 0)
      return tri_yaml_fail(node, subject, "; did you mean `%s`?", dot == NULL ? meant : dot + 1);
    if (dot == NULL) return tri_yaml_fail(node, subject, "; did you mean `%s`, which is a key at the top?", meant);
    return tri_yaml_fail(node, subject, "; did you mean `%s` under `%.*s:`?", dot + 1, (int)section, meant);
  }
  char names[1024];
  list_keys(table, names, sizeof names);
  return tri_yaml_fail(node, subject, "; the keys are %s", names);
}

static tri_status missing_key(const tri_config_key *key, const char *path, const tri_yaml *section) {
  char full[MAX_PATH];
  char under[MAX_PATH + 16] = "";
  join(full, path, key->name);
  if (path[0] != '\0') snprintf(under, sizeof under, " under `%s:`", path);
  return tri_fail(TRI_BAD_CONFIG, "`%s` is missing from %s; add `%s:`%s, for example `%s: %s`", full, section->source,
                  key->name, under, key->name, key->example);
}

/* Reads the default of an absent key. */
static tri_status read_fallback(const tri_config_key *key, tri_yaml_tree *tree, const tri_yaml *section, void *at) {
  tri_yaml *node = NULL;
  if (tri_config_is_numbers(key)) {
    TRI_TRY(tri_yaml_parse(tree, "the default", true, key->fallback, strlen(key->fallback), &node));
  } else {
    TRI_TRY(tri_yaml_make(tree, section, key->fallback, &node));
  }
  return tri_config_value_read(key, node, key->name, at);
}

/* Returns the path of a section within its source. For a section that is a file of its own this is "". */
static const char *path_in_source(const tri_yaml *section, const char *path) {
  return section->root && section->line != 0 ? "" : path;
}

/* Fails if a name in a section or below is not a key. Called before any value is read, because a key that seems to be
 * missing may only be misspelt. */
static tri_status check_names(const tri_config_table *root, const tri_config_table *table, const tri_yaml *section,
                              const char *path) {
  char inner[MAX_PATH];
  if (path != path_in_source(section, path)) {
    path = "";
    root = table;
  }
  for (const tri_yaml *child = section->first; child != NULL; child = child->next) {
    const tri_config_key *key = tri_config_find_key(table, child->key);
    if (key == NULL) return unknown_key(root, table, path, child);
    join(inner, path, key->name);
    if (key->type == TRI_CONFIG_SECTION && child->kind == TRI_YAML_MAPPING) {
      TRI_TRY(check_names(root, key->table, child, inner));
    }
    if (key->type != TRI_CONFIG_LIST || child->kind != TRI_YAML_LIST) continue;
    for (const tri_yaml *item = child->first; item != NULL; item = item->next) {
      if (item->kind == TRI_YAML_MAPPING) TRI_TRY(check_names(root, key->table, item, inner));
    }
  }
  return TRI_OK;
}

/* Replaces `~` by the home folder in a name that stands for a section; the name may be a path. Fails with
 * TRI_BAD_CONFIG if that folder is unknown. */
static tri_status go_home(tri_yaml_tree *tree, const char *path, const char *name, tri_yaml **node) {
  char whole[TRI_PATH_BYTES], fault[TRI_HOME_FAULT_BYTES], subject[SUBJECT_BYTES];
  if (!tri_home_begins((*node)->text)) return TRI_OK;
  const char *wrong = tri_home_path((*node)->text, whole, fault);
  if (wrong != NULL) return tri_yaml_fail(*node, subject_of(subject, path, name), ": %s", wrong);
  return tri_yaml_make(tree, *node, whole, node);
}

/* Finds the mapping of a section: the section's node, the mapping that its name stands for (which then replaces the
 * node), or an empty mapping. Fails with TRI_BAD_CONFIG if the node is anything else. */
static tri_status open_section(const tri_config_key *key, tri_yaml_tree *tree, tri_yaml *parent, const char *path,
                               tri_yaml **out) {
  char subject[SUBJECT_BYTES];
  tri_yaml *node = tri_yaml_find(parent, key->name);
  tri_yaml *mapping = NULL;
  if (node != NULL && node->kind == TRI_YAML_MAPPING) {
    *out = node;
    return TRI_OK;
  }
  if (node == NULL || (tri_yaml_is_null(node) && key->example == NULL)) {
    TRI_TRY(tri_yaml_make(tree, parent, NULL, &mapping));
  } else if (node->kind == TRI_YAML_SCALAR && !tri_yaml_is_null(node) && key->expand != NULL) {
    TRI_TRY(go_home(tree, path, key->name, &node));
    TRI_TRY(key->expand(tree, node, &mapping));
    TRI_TRY(check_names(key->table, key->table, mapping, ""));
  } else {
    return tri_config_value_wrong(key, node, subject_of(subject, path, key->name));
  }
  TRI_TRY(tri_yaml_put(tree, parent, key->name, mapping));
  *out = mapping;
  return TRI_OK;
}

static tri_status read_section(const tri_config_table *table, tri_yaml_tree *tree, tri_yaml *section, const char *path,
                               char *values);

/* Reads a text in place of an entry as the value of the entry's key `plain`; other keys get their defaults. */
static tri_status read_plain_entry(const tri_config_key *key, tri_yaml_tree *tree, const tri_yaml *item,
                                   const char *subject, char *values) {
  for (size_t i = 0; i < key->table->num_keys; i++) {
    const tri_config_key *inner = &key->table->keys[i];
    if (strcmp(inner->name, key->plain) == 0) {
      TRI_TRY(tri_config_value_read(inner, item, subject, values + inner->offset));
    } else if (inner->fallback != NULL) {
      TRI_TRY(read_fallback(inner, tree, item, values + inner->offset));
    }
  }
  return TRI_OK;
}

static tri_status read_entry(const tri_config_key *key, tri_yaml_tree *tree, tri_yaml *item, const char *path,
                             char *values) {
  char subject[SUBJECT_BYTES], inner[MAX_PATH];
  int64_t *count = (int64_t *)(void *)(values + key->count);
  subject_of(subject, path, key->name);
  join(inner, path, key->name);
  if ((double)*count >= key->range.high) {
    return tri_yaml_fail(item, subject, " has more than %.0f entries", key->range.high);
  }
  char *entry = values + key->offset + (size_t)(*count)++ * key->bytes;
  if (item->kind == TRI_YAML_MAPPING) return read_section(key->table, tree, item, inner, entry);
  if (key->plain == NULL) return tri_yaml_fail(item, subject, " must be a list of mappings of keys");
  if (item->kind == TRI_YAML_SCALAR) return read_plain_entry(key, tree, item, subject, entry);
  return tri_config_value_wrong(key, item, subject);
}

/* Reads a text such as "q_proj, v_proj" in place of a list; each part becomes an entry. */
static tri_status read_parts(const tri_config_key *key, tri_yaml_tree *tree, const tri_yaml *node, const char *path,
                             char *values) {
  char part[MAX_PATH];
  for (const char *at = node->text; *at != '\0'; at += *at == ',') {
    at += strspn(at, " ");
    size_t length = strcspn(at, ",");
    snprintf(part, sizeof part, "%.*s", (int)(length < sizeof part ? length : sizeof part - 1), at);
    at += length;
    for (length = strlen(part); length > 0 && part[length - 1] == ' '; length--) part[length - 1] = '\0';
    tri_yaml *entry = NULL;
    TRI_TRY(tri_yaml_make(tree, node, part, &entry));
    TRI_TRY(read_entry(key, tree, entry, path, values));
  }
  return TRI_OK;
}

/* Reads a mapping such as {a: 1, b: 2}; each pair becomes an entry. */
static tri_status read_keyed(const tri_config_key *key, tri_yaml_tree *tree, tri_yaml *node, const char *path,
                             char *values) {
  char subject[SUBJECT_BYTES], inner[MAX_PATH];
  int64_t *count = (int64_t *)(void *)(values + key->count);
  join(inner, path, key->name);
  if (tri_yaml_is_null(node)) return TRI_OK;
  if (node->kind != TRI_YAML_MAPPING) return tri_config_value_wrong(key, node, subject_of(subject, path, key->name));
  for (tri_yaml *pair = node->first; pair != NULL; pair = pair->next) {
    tri_yaml *name = NULL;
    if ((double)*count >= key->range.high) {
      return tri_yaml_fail(pair, subject_of(subject, path, key->name), " has more than %.0f entries", key->range.high);
    }
    char *entry = values + key->offset + (size_t)(*count)++ * key->bytes;
    TRI_TRY(tri_yaml_make(tree, pair, pair->key, &name));
    subject_of(subject, inner, pair->key);
    for (size_t i = 0; i < key->table->num_keys; i++) {
      const tri_config_key *part = &key->table->keys[i];
      const tri_yaml *from = strcmp(part->name, key->keyed) == 0 ? name : pair;
      TRI_TRY(tri_config_value_read(part, from, subject, entry + part->offset));
    }
  }
  return TRI_OK;
}

static tri_status read_list(const tri_config_key *key, tri_yaml_tree *tree, tri_yaml *node, const char *path,
                            char *values) {
  char subject[SUBJECT_BYTES];
  int64_t *count = (int64_t *)(void *)(values + key->count);
  *count = 0;
  if (node == NULL) return TRI_OK;
  if (key->keyed != NULL) return read_keyed(key, tree, node, path, values);
  subject_of(subject, path, key->name);
  const bool plain = key->plain != NULL && node->kind == TRI_YAML_SCALAR;
  if (plain && key->commas && strchr(node->text, ',') != NULL) return read_parts(key, tree, node, path, values);
  /* A list of one entry may be written as the entry. */
  if (plain || (node->kind == TRI_YAML_MAPPING && key->table->num_keys > 1))
    return read_entry(key, tree, node, path, values);
  if (node->kind != TRI_YAML_LIST) return tri_config_value_wrong(key, node, subject);
  for (tri_yaml *item = node->first; item != NULL; item = item->next)
    TRI_TRY(read_entry(key, tree, item, path, values));
  if ((double)*count >= key->range.low) return TRI_OK;
  return tri_yaml_fail(node, subject, " must have at least %.0f %s%s%s", key->range.low,
                       key->range.low == 1 ? "entry" : "entries", key->example == NULL ? "" : ", for example ",
                       key->example == NULL ? "" : key->example);
}

static tri_status read_section(const tri_config_table *table, tri_yaml_tree *tree, tri_yaml *section, const char *path,
                               char *values) {
  char subject[SUBJECT_BYTES];
  char inner[MAX_PATH];
  path = path_in_source(section, path);
  for (size_t i = 0; i < table->num_keys; i++) {
    const tri_config_key *key = &table->keys[i];
    tri_yaml *node = tri_yaml_find(section, key->name);
    char *at = values + key->offset;
    if (node == NULL && key->example != NULL) return missing_key(key, path, section);
    if (key->type == TRI_CONFIG_SECTION) {
      tri_yaml *mapping = NULL;
      TRI_TRY(open_section(key, tree, section, path, &mapping));
      join(inner, path, key->name);
      TRI_TRY(read_section(key->table, tree, mapping, inner, at));
    } else if (key->type == TRI_CONFIG_LIST) {
      TRI_TRY(read_list(key, tree, node, path, values));
    } else if (node != NULL) {
      TRI_TRY(tri_config_value_read(key, node, subject_of(subject, path, key->name), at));
    } else if (key->fallback != NULL) {
      TRI_TRY(read_fallback(key, tree, section, at));
    }
  }
  return TRI_OK;
}

static const char *kind_name(tri_yaml_kind kind) {
  switch (kind) {
    case TRI_YAML_SCALAR: return "single value";
    case TRI_YAML_LIST: return "list";
    case TRI_YAML_MAPPING: return "mapping";
  }
  return "?";
}

/* Required keys that a file lacks, in the order in which they are read: the path of the first one, and a text with the
 * others. */
typedef struct missing_keys {
  int64_t count;
  char first[MAX_PATH], others[600];
} missing_keys;

/* Lists the missing keys of a section; `section` is NULL if the file does not have it. */
static void list_missing(const tri_config_table *table, const tri_yaml *section, const char *path, missing_keys *all) {
  for (size_t i = 0; i < table->num_keys; i++) {
    const tri_config_key *key = &table->keys[i];
    const tri_yaml *node = section == NULL ? NULL : tri_yaml_find(section, key->name);
    const size_t held = strlen(all->others);
    char full[MAX_PATH];
    join(full, path, key->name);
    if (node == NULL && key->example != NULL) {
      if (all->count == 0) snprintf(all->first, sizeof all->first, "%s", full);
      if (all->count > 0) {
        snprintf(all->others + held, sizeof all->others - held, "%s `%s` (for example %s)", held == 0 ? "" : ",", full,
                 key->example);
      }
      all->count++;
    } else if (key->type == TRI_CONFIG_SECTION && (node == NULL || node->kind == TRI_YAML_MAPPING)) {
      list_missing(key->table, node, full, all);
    }
  }
}

/* Adds all other missing keys to the message about the first one, so that the user sees all at once. Returns
 * `status`. */
static tri_status name_others(const tri_config_table *table, const tri_yaml *root, tri_status status) {
  missing_keys all = {0};
  char said[TRI_MESSAGE_BYTES], begins[MAX_PATH + 32];
  list_missing(table, root, path_in_source(root, ""), &all);
  snprintf(begins, sizeof begins, "`%s` is missing from ", all.first);
  snprintf(said, sizeof said, "%s", tri_status_message());
  if (all.count < 2 || strncmp(said, begins, strlen(begins)) != 0) return status;
  return tri_fail(status, "%s; also missing:%s", said, all.others);
}

tri_status tri_config_read(const tri_config_table *table, tri_yaml_tree *tree, tri_yaml *root, void *values) {
  if (root->kind != TRI_YAML_MAPPING) {
    char subject[SUBJECT_BYTES];
    snprintf(subject, sizeof subject, "a %s", table->noun);
    return tri_yaml_fail(root, subject, " must be a mapping of keys, not a %s", kind_name(root->kind));
  }
  TRI_TRY(check_names(table, table, root, ""));
  tri_status status = read_section(table, tree, root, "", values);
  if (status == TRI_BAD_CONFIG) return name_others(table, root, status);
  return status;
}

/* ---- checking ---------------------------------------------------------------------------------------------------- */

static tri_status check_section(const tri_config_table *table, const char *path, const char *values) {
  char full[MAX_PATH];
  char fault[TRI_CONFIG_FAULT_BYTES];
  for (size_t i = 0; i < table->num_keys; i++) {
    const tri_config_key *key = &table->keys[i];
    const char *at = values + key->offset;
    join(full, path, key->name);
    int64_t entries = 1;
    if (key->type == TRI_CONFIG_LIST) entries = *(const int64_t *)(const void *)(values + key->count);
    for (int64_t n = 0; n < entries && key->table != NULL; n++) {
      TRI_TRY(check_section(key->table, full, at + (size_t)n * key->bytes));
    }
    if (key->table != NULL) continue;
    static const char zero[sizeof(double)];
    if (key->optional && memcmp(at, zero, sizeof zero) == 0) continue;
    const char *wrong = tri_config_value_fault(key, at, NULL, fault);
    if (wrong != NULL) return tri_fail(TRI_BAD_CONFIG, "`%s` %s", full, wrong);
  }
  return TRI_OK;
}

tri_status tri_config_check(const tri_config_table *table, const void *values) {
  return check_section(table, "", values);
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

static tri_status unknown_option(const tri_config_table *root, const tri_config_table *section, const char *path,
                                 const char *name, const tri_yaml *label) {
  char excerpt[TRI_YAML_EXCERPT_BYTES];
  char place[SUBJECT_BYTES];
  char subject[SUBJECT_BYTES + TRI_YAML_EXCERPT_BYTES + 32];
  place_name(place, section, path);
  snprintf(subject, sizeof subject, "`%s` is not a key%s%s", tri_yaml_excerpt(name, excerpt),
           path[0] == '\0' ? "" : " of ", path[0] == '\0' ? "" : place);
  key_list all = {.count = 0};
  collect(root, "", &all);
  const char *meant = suggest(&all, path, name), *answer = tri_section_answer(path, name);
  if (answer != NULL) return tri_yaml_fail(label, subject, "; %s", answer);
  if (meant != NULL) return tri_yaml_fail(label, subject, "; did you mean `%s`?", meant);
  char names[1024];
  list_keys(section, names, sizeof names);
  return tri_yaml_fail(label, subject, "; the keys are %s", names);
}

/* Makes the node of an option's value. Only values of sections, of lists and of numbers in brackets are parsed as YAML,
 * if they begin with a bracket, so that a path such as `*` or `a: b` needs no quotes in addition to the shell's. */
static tri_status option_value(const tri_config_key *key, tri_yaml_tree *tree, const tri_yaml *label, const char *text,
                               tri_yaml **out) {
  bool may_nest = key->type == TRI_CONFIG_SECTION || key->type == TRI_CONFIG_LIST || tri_config_is_numbers(key);
  if (may_nest && (text[0] == '{' || text[0] == '[')) {
    return tri_yaml_parse(tree, label->source, true, text, strlen(text), out);
  }
  return tri_yaml_make(tree, label, text, out);
}

/* Follows a path such as "model.num_layers" from the root and sets the value; creates missing sections on the way.
 * Fails with TRI_BAD_CONFIG if the path is not that of a key. */
static tri_status set_path(const tri_config_table *table, tri_yaml_tree *tree, tri_yaml *root, char *path,
                           const char *text, const tri_yaml *label) {
  char walked[MAX_PATH] = "";
  char subject[SUBJECT_BYTES];
  const tri_config_table *level = table;
  tri_yaml *section = root;
  for (char *name = path;;) {
    char *dot = strchr(name, '.');
    if (dot != NULL) *dot = '\0';
    const tri_config_key *key = tri_config_find_key(level, name);
    if (key == NULL) return unknown_option(table, level, walked, name, label);
    if (dot == NULL) {
      tri_yaml *value = NULL;
      TRI_TRY(option_value(key, tree, label, text, &value));
      return tri_yaml_put(tree, section, key->name, value);
    }
    if (key->type != TRI_CONFIG_SECTION) {
      return tri_yaml_fail(label, subject_of(subject, walked, key->name), " has no keys below it");
    }
    /* An option fills an empty section (`model:`) as if it were absent. */
    tri_yaml *old = tri_yaml_find(section, key->name);
    if (old == NULL || tri_yaml_is_null(old)) {
      tri_yaml *empty = NULL;
      TRI_TRY(tri_yaml_make(tree, old == NULL ? section : old, NULL, &empty));
      TRI_TRY(tri_yaml_put(tree, section, key->name, empty));
    }
    TRI_TRY(open_section(key, tree, section, walked, &section));
    size_t held = strlen(walked);
    snprintf(walked + held, sizeof walked - held, "%s%s", held == 0 ? "" : ".", key->name);
    level = key->table;
    name = dot + 1;
  }
}

static char *trim(char *text) {
  while (*text == ' ') text++;
  for (size_t length = strlen(text); length > 0 && text[length - 1] == ' '; length--) text[length - 1] = '\0';
  return text;
}

tri_status tri_config_set(const tri_config_table *table, tri_yaml_tree *tree, tri_yaml *root, const char *option) {
  char text[8192];
  int length = snprintf(text, sizeof text, "--set %s", option);
  if (length < 0 || (size_t)length >= sizeof text) {
    return tri_fail(TRI_BAD_USAGE, "--set %.60s... is too long for a key and its value", option);
  }
  char *equals = strchr(text, '=');
  if (equals == NULL) {
    return tri_fail(TRI_BAD_USAGE, "%.200s: `=` is missing; write --set key=value, for example --set optimizer.lr=1e-4",
                    text);
  }
  if (root->kind != TRI_YAML_MAPPING) return TRI_OK; /* tri_config_read reports it */
  tri_yaml *label = NULL;
  TRI_TRY(tri_yaml_make(tree, &(tri_yaml){.source = ""}, text, &label));
  label->source = label->text;
  *equals = '\0';
  return set_path(table, tree, root, trim(text + strlen("--set ")), trim(equals + 1), label);
}

const tri_yaml *tri_config_node(const tri_yaml *root, const char *path) {
  const tri_yaml *node = root;
  while (path[0] != '\0') {
    char name[MAX_PATH];
    size_t length = strcspn(path, ".");
    snprintf(name, sizeof name, "%.*s", (int)length, path);
    const tri_yaml *child = tri_yaml_find(node, name);
    if (child == NULL) return node;
    node = child;
    path += length + (path[length] == '.');
  }
  return node;
}

tri_status tri_config_blame(const tri_yaml *root, tri_status status) {
  char path[MAX_PATH] = "";
  const char *message = tri_status_message(); /* tri_fail may be given its own message */
  if (status == TRI_OK) return TRI_OK;
  if (message[0] == '`') snprintf(path, sizeof path, "%.*s", (int)strcspn(message + 1, "`"), message + 1);
  const tri_yaml *node = tri_config_node(root, path);
  if (node->line == 0) return tri_fail(status, "%.200s: %s", node->source, message);
  if (node == root) return tri_fail(status, "%s (%s)", message, node->source);
  return tri_fail(status, "%s (line %d of %s)", message, node->line, node->source);
}
