/* Reads files of published results.
 *
 * A row is short: it has keys of a layout with their own names, keys of a model with shorter names, and the published
 * numbers. All of them are keys of one table, so that an error message for an unknown key can suggest the nearest of
 * all these keys. This file makes the table from the table of layouts and from the shorter names of model keys. The
 * keys of the model are then read a second time, with the table of models, over the preset that the row names. This
 * second reading sets derived values, and makes the checks of a model file.
 *
 * The lines of a file of comma-separated values are converted to the same mappings. Error messages then have the number
 * of the line. */
#include "base/memory.h"
#include "files/file.h"
#include "model/model_config.h"
#include "plan/published.h"
#include "schedule/layout_config.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- keys -------------------------------------------------------------------------------------------------------- */

static const tri_config_word precisions[] = {
    {"bf16", TRI_BF16}, {"fp16", TRI_BF16}, {"fp32", TRI_FP32}, {"fp64", TRI_FP64}, {NULL, 0}};
static const tri_config_word memories[] = {{"fits", false}, {"oom", true}, {NULL, 0}};

#define KEY TRI_CONFIG_KEY
#define COUNT(NAME) KEY(tri_published_row, NAME, TRI_CONFIG_INT), .range = {.low = 1, .high = 1 << 24}
#define NUMBER(NAME)                                                                                                   \
  KEY(tri_published_row, NAME, TRI_CONFIG_DOUBLE), .range = {.low = 0, .high = 1e12}, .fallback = "0.0"
static const tri_config_key own_keys[] = {
    {KEY(tri_published_row, name, TRI_CONFIG_STRING), .bytes = sizeof(((tri_published_row *)0)->name),
     .derived = "the model's size and the layout", .help = "name in reports"},
    {KEY(tri_published_row, fit, TRI_CONFIG_BOOL), .fallback = "false", .help = "the constants are fitted to it"},
    {.name = "model",
     .type = TRI_CONFIG_PATH,
     .offset = offsetof(tri_published_row, model_name),
     .bytes = sizeof(((tri_published_row *)0)->model_name),
     .fallback = "",
     .help = "a preset or a model file, which the keys of the model are laid over"},
    {COUNT(devices), .derived = "tensor x pipeline x data", .help = "devices of the run"},
    {COUNT(global_batch), .example = "1536", .help = "sequences of a step"},
    {COUNT(sequence), .fallback = "2048", .help = "tokens of a sequence"},
    {KEY(tri_published_row, precision, TRI_CONFIG_CHOICE), .words = precisions, .fallback = "bf16",
     .help = "of activations"},
    {NUMBER(step_s), .help = "published: seconds of a step"},
    {NUMBER(step_ms), .help = "published: milliseconds of a step"},
    {NUMBER(tflops), .help = "published: TFLOP/s a device, recomputed products counted"},
    {NUMBER(model_tflops), .help = "published: TFLOP/s a device, of the model's products alone"},
    {NUMBER(tokens_s), .help = "published: tokens a second and device"},
    {NUMBER(mem_gb), .help = "published: 1e9 bytes of the fullest device, or OOM"},
    {NUMBER(mem_gib), .help = "published: 2^30 bytes of the fullest device, or OOM"},
    {.name = "memory",
     .type = TRI_CONFIG_CHOICE,
     .offset = offsetof(tri_published_row, out_of_memory),
     .words = memories,
     .fallback = "fits",
     .help = "published: fits, or oom, which has no time"},
};

/* The shorter names of model keys. A row without `model:` must have all keys with an example. */
typedef struct model_key {
  const char *name, *full, *example;
} model_key;
static const model_key model_keys[] = {
    {"family", "family", NULL},
    {"layers", "num_layers", "96"},
    {"hidden", "hidden_size", "12288"},
    {"heads", "num_heads", "96"},
    {"kv_heads", "num_kv_heads", NULL},
    {"head_dim", "head_dim", NULL},
    {"ffn", "ffn_size", NULL},
    {"vocab", "vocab_size", "51200"},
    {"tied", "tied", NULL},
    {"activation", "activation", NULL},
    {"attention_bias", "attention_bias", NULL},
};

enum {
  OWN_KEYS = sizeof own_keys / sizeof *own_keys,
  MODEL_KEYS = sizeof model_keys / sizeof *model_keys,
  MOST_KEYS = 64,
};
typedef struct row_keys {
  tri_config_key keys[MOST_KEYS];
  tri_config_table table;
} row_keys;

static void set_fallback(row_keys *rows, const char *name, const char *fallback) {
  for (size_t i = 0; i < rows->table.num_keys; i++) {
    if (strcmp(rows->keys[i].name, name) == 0) rows->keys[i].fallback = fallback;
  }
}

/* Makes the table for a row that names a model (has_model), or for one that describes its model by keys. The
 * defaults are the usual settings of published runs. */
static void row_keys_make(bool has_model, row_keys *out) {
  size_t count = 0;
  for (size_t i = 0; i < OWN_KEYS; i++) out->keys[count++] = own_keys[i];
  for (size_t i = 0; i < tri_layout_table.num_keys && count < MOST_KEYS - MODEL_KEYS; i++) {
    out->keys[count] = tri_layout_table.keys[i];
    out->keys[count++].offset += offsetof(tri_published_row, layout);
  }
  for (size_t i = 0; i < MODEL_KEYS; i++) {
    tri_config_key *key = &out->keys[count++];
    const tri_config_key *full = tri_config_find_key(&tri_model_table, model_keys[i].full);
    *key = *full;
    key->name = model_keys[i].name;
    key->offset += offsetof(tri_published_row, model);
    bool asked = !has_model && model_keys[i].example != NULL;
    key->fallback = NULL;
    key->example = asked ? model_keys[i].example : NULL;
    key->derived = asked ? NULL : "the model's";
  }
  out->table = (tri_config_table){.noun = "row", .keys = out->keys, .num_keys = count};
  set_fallback(out, "recompute", "full");
  set_fallback(out, "balance", "layers");
}

#define SET(NAME) KEY(tri_published_set, NAME, TRI_CONFIG_STRING), .bytes = sizeof(((tri_published_set *)0)->NAME)
#define SET_PATH(NAME, MEMBER)                                                                                         \
  .name = NAME, .type = TRI_CONFIG_PATH, .offset = offsetof(tri_published_set, MEMBER),                                \
  .bytes = sizeof(((tri_published_set *)0)->MEMBER)
static const tri_config_key set_keys[] = {
    {SET(name), .example = "megatron", .help = "name of the set in reports"},
    {SET_PATH("cluster", cluster_name), .example = "frontier", .help = "as --cluster"},
    {SET_PATH("system", system_name), .example = "megatron-deepspeed", .help = "as --system"},
    {SET_PATH("rows_from", rows_from), .fallback = "",
     .help = "a file of comma-separated rows in the folder of this file; its first line has the names of the keys"},
    {SET(columns), .fallback = "",
     .help = "keys of the columns of `rows_from`, separated by commas, instead of those in its first line; a column "
             "named `-` is ignored"},
};
static const tri_config_table set_table = TRI_CONFIG_TABLE("set", set_keys);
static const tri_config_key published_keys[] = {
    {KEY(tri_published, sets, TRI_CONFIG_LIST), .table = &set_table, .bytes = sizeof(tri_published_set),
     .count = offsetof(tri_published, num_sets), .range = {.low = 1, .high = TRI_PUBLISHED_SETS}, .example = "[...]",
     .help = "sets of runs"},
};
static const tri_config_table published_table = {
    .noun = "file of published results", .keys = published_keys, .num_keys = 1};

/* ---- one row ----------------------------------------------------------------------------------------------------- */

static tri_status row_model(tri_yaml_tree *tree, const tri_yaml *root, tri_published_row *row) {
  tri_yaml *mapping = NULL, *node = NULL;
  const tri_yaml *named = tri_yaml_find(root, "model");
  char sequence[32];
  if (named != NULL) {
    if (row->model_name[0] != '\0') TRI_TRY(tri_yaml_make(tree, named, row->model_name, &node));
    TRI_TRY(tri_model_expand(tree, node == NULL ? named : node, &mapping));
  } else {
    TRI_TRY(tri_yaml_make(tree, root, NULL, &mapping));
    TRI_TRY(tri_yaml_make(tree, root, "gpt2", &node));
    TRI_TRY(tri_yaml_put(tree, mapping, "family", node));
    snprintf(sequence, sizeof sequence, "%ld", (long)row->sequence);
    TRI_TRY(tri_yaml_make(tree, root, sequence, &node));
    TRI_TRY(tri_yaml_put(tree, mapping, "max_sequence", node));
  }
  for (size_t i = 0; i < MODEL_KEYS; i++) {
    const tri_yaml *given = tri_yaml_find(root, model_keys[i].name);
    if (given == NULL) continue;
    TRI_TRY(tri_yaml_make(tree, given, given->text, &node));
    TRI_TRY(tri_yaml_put(tree, mapping, model_keys[i].full, node));
  }
  memset(&row->model, 0, sizeof row->model);
  TRI_TRY(tri_config_read(&tri_model_table, tree, mapping, &row->model));
  return tri_model_finish(mapping, &row->model);
}

/* Checks the published numbers of a row, and computes published_s and published_bytes. */
static tri_status row_figures(const tri_published_set *set, tri_published_row *row) {
  int times =
      (row->step_s > 0) + (row->step_ms > 0) + (row->tflops > 0) + (row->model_tflops > 0) + (row->tokens_s > 0);
  if (times > 1) {
    return tri_fail(TRI_BAD_CONFIG,
                    "more than one of `step_s`, `step_ms`, `tflops`, `model_tflops` and `tokens_s`; keep the one that "
                    "was published");
  }
  bool memory = row->mem_gb > 0 || row->mem_gib > 0 || row->out_of_memory;
  if (times == 0 && !memory) {
    return tri_fail(TRI_BAD_CONFIG,
                    "no published result; give one of `step_s`, `step_ms`, `tflops`, `model_tflops` and "
                    "`tokens_s`, or of `mem_gb`, `mem_gib` and `memory: oom`");
  }
  if (times > 0 && row->out_of_memory) return tri_fail(TRI_BAD_CONFIG, "`memory` is oom, but a time is given");
  if (row->mem_gb > 0 && row->mem_gib > 0) return tri_fail(TRI_BAD_CONFIG, "both `mem_gb` and `mem_gib`; keep one");
  if (times == 0 && row->fit) return tri_fail(TRI_BAD_CONFIG, "`fit` is true, and no time was published");
  tri_simulation_request request = tri_published_request(set, row);
  double devices = (double)row->devices;
  row->published_s = row->step_s + row->step_ms / 1e3;
  if (row->tflops > 0) row->published_s = tri_step_hardware_flops(&request) / (row->tflops * 1e12 * devices);
  if (row->model_tflops > 0) row->published_s = tri_step_model_flops(&request) / (row->model_tflops * 1e12 * devices);
  if (row->tokens_s > 0) {
    row->published_s = (double)row->global_batch * (double)row->sequence / (row->tokens_s * devices);
  }
  row->published_bytes = row->mem_gb * 1e9 + row->mem_gib * 1073741824.0;
  return TRI_OK;
}

static void row_name(tri_published_row *row) {
  const tri_layout *l = &row->layout;
  snprintf(row->name, sizeof row->name, "h%ld l%ld a%ld %ldx%ldx%ld mb%ld gb%ld", (long)row->model.hidden_size,
           (long)row->model.num_layers, (long)row->model.num_heads, (long)l->tensor, (long)l->pipeline, (long)l->data,
           (long)l->micro_batch, (long)row->global_batch);
}

static tri_status row_complete(tri_yaml_tree *tree, const tri_published_set *set, const tri_yaml *root,
                               tri_published_row *row) {
  tri_layout *layout = &row->layout;
  if (tri_yaml_find(root, "model") != NULL && tri_yaml_find(root, "sequence") == NULL) {
    return tri_fail(TRI_BAD_CONFIG, "`sequence` is missing; a row with `model` says how long its sequences were");
  }
  if (layout->virtual_stages > 1 && tri_yaml_find(root, "schedule") == NULL) {
    layout->schedule = TRI_SCHEDULE_INTERLEAVED;
  }
  TRI_TRY(row_model(tree, root, row));
  if (row->devices == 0 && layout->data == 0) {
    return tri_fail(TRI_BAD_CONFIG, "neither `devices` nor `data`; give one of them");
  }
  if (row->devices == 0) {
    double devices = (double)layout->tensor * (double)layout->pipeline * (double)layout->context * (double)layout->data;
    if (devices > 1 << 24) return tri_fail(TRI_BAD_LAYOUT, "%.0f devices, more than any machine has", devices);
    row->devices = (int64_t)devices;
  }
  TRI_TRY(tri_layout_resolve(layout, &row->model, row->sequence, row->global_batch, row->devices));
  if (row->name[0] == '\0') row_name(row);
  if (row->model_name[0] == '\0') memcpy(row->model.name, row->name, sizeof row->model.name);
  return row_figures(set, row);
}

/* Copies the key of a row to the mapping `root`. `mem_gb: OOM`, which tables of measurements often have, becomes
 * `memory: oom`. */
static tri_status row_put(tri_yaml_tree *tree, tri_yaml *root, const char *key, const tri_yaml *from) {
  tri_yaml *node = NULL;
  bool oom = strncmp(key, "mem_g", 5) == 0 && from->kind == TRI_YAML_SCALAR && strcasecmp(from->text, "oom") == 0;
  TRI_TRY(tri_yaml_make(tree, from, oom ? "oom" : from->text, &node));
  node->kind = from->kind;
  node->quoted = from->quoted;
  node->first = from->first;
  node->last = from->last;
  return tri_yaml_put(tree, root, oom ? "memory" : key, node);
}

/* Reads a row. `each`: keys and values that the set adds to its rows, unless a row has the key; may be NULL. */
static tri_status row_read(const tri_published_set *set, const tri_yaml *given, const tri_yaml *each,
                           tri_published_row *row) {
  tri_yaml_tree *tree = NULL; /* one tree for each row, because the nodes of a tree are limited */
  tri_yaml *root = NULL;
  row_keys keys;
  TRI_TRY(tri_yaml_create(&tree));
  tri_status status = tri_yaml_make(tree, given, NULL, &root);
  for (const tri_yaml *c = given->first; c != NULL && status == TRI_OK; c = c->next) {
    status = row_put(tree, root, c->key, c);
  }
  for (const tri_yaml *c = each == NULL ? NULL : each->first; c != NULL && status == TRI_OK; c = c->next) {
    if (tri_yaml_find(given, c->key) == NULL) status = row_put(tree, root, c->key, c);
  }
  row_keys_make(tri_yaml_find(root, "model") != NULL, &keys);
  if (status == TRI_OK) status = tri_config_read(&keys.table, tree, root, row);
  if (status == TRI_OK) status = row_complete(tree, set, root, row);
  tri_yaml_destroy(tree);
  return status;
}

/* Adds the name of the row to the error message, and its line if the message does not have it. Returns `status`. */
static tri_status row_blame(const tri_published_row *row, const tri_yaml *given, tri_status status) {
  char message[1024], place[64], named[96] = "";
  snprintf(message, sizeof message, "%s", tri_status_message());
  snprintf(place, sizeof place, "line %d of", given->line);
  if (row->name[0] != '\0') snprintf(named, sizeof named, " `%s`", row->name);
  if (strstr(message, place) == NULL) {
    return tri_fail(status, "the row%s at line %d of %s: %s", named, given->line, given->source, message);
  }
  return named[0] == '\0' ? tri_fail(status, "%s", message) : tri_fail(status, "the row%s: %s", named, message);
}

static tri_status set_add(tri_published_set *set, const tri_yaml *given, const tri_yaml *each) {
  if (set->num_rows >= TRI_PUBLISHED_ROWS) {
    return tri_yaml_fail(given, "the set", " `%s` has more than %d rows", set->name, TRI_PUBLISHED_ROWS);
  }
  TRI_TRY(tri_grow("published rows", sizeof *set->rows, set->num_rows, &set->room, &set->rows));
  tri_published_row *row = &set->rows[set->num_rows];
  memset(row, 0, sizeof *row);
  tri_status status = row_read(set, given, each, row);
  if (status == TRI_OK) {
    set->num_rows++;
    return TRI_OK;
  }
  return row_blame(row, given, status);
}

/* ---- comma-separated values -------------------------------------------------------------------------------------- */

enum { MOST_COLUMNS = 64, MOST_CSV_BYTES = 1 << 26 };

/* Cuts the next field off a line, in place, without the blanks and quotes around it. Returns NULL after the last
 * field. */
static char *field_next(char **line) {
  char *at = *line, *end;
  if (at == NULL) return NULL;
  at += strspn(at, " \t");
  if (*at == '"') {
    at++;
    end = at + strcspn(at, "\"");
    char *comma = strchr(end, ',');
    *line = comma == NULL ? NULL : comma + 1;
  } else {
    end = at + strcspn(at, ",");
    *line = *end == ',' ? end + 1 : NULL;
  }
  *end = '\0';
  while (end > at && strchr(" \t\r", end[-1]) != NULL) *--end = '\0';
  return at;
}

typedef struct csv_file {
  tri_published_set *set;
  const tri_yaml *each;
  tri_yaml place; /* file and line of the row, for error messages */
  char *names[MOST_COLUMNS];
  int count;
} csv_file;

static tri_status csv_header(csv_file *csv, char *text) {
  for (char *name; (name = field_next(&text)) != NULL;) {
    if (csv->count == MOST_COLUMNS)
      return tri_yaml_fail(&csv->place, "the list of columns", " has more than %d", MOST_COLUMNS);
    for (int i = 0; i < csv->count; i++) {
      bool twice = strcmp(csv->names[i], name) == 0 && strcmp(name, "-") != 0;
      if (twice) return tri_yaml_fail(&csv->place, "the list of columns", " has `%s` twice", name);
    }
    csv->names[csv->count++] = name;
  }
  return TRI_OK;
}

static tri_status csv_row(csv_file *csv, char *text) {
  tri_yaml_tree *tree = NULL;
  tri_yaml *root = NULL, *node = NULL;
  int column = 0;
  TRI_TRY(tri_yaml_create(&tree));
  tri_status status = tri_yaml_make(tree, &csv->place, NULL, &root);
  for (char *value; status == TRI_OK && (value = field_next(&text)) != NULL; column++) {
    if (column >= csv->count || *value == '\0' || strcmp(csv->names[column], "-") == 0) continue;
    status = tri_yaml_make(tree, &csv->place, value, &node);
    if (status == TRI_OK) status = tri_yaml_put(tree, root, csv->names[column], node);
  }
  if (status == TRI_OK && column != csv->count) {
    status = tri_yaml_fail(&csv->place, "the row", " has %d values, and there are %d columns", column, csv->count);
  }
  if (status == TRI_OK) status = set_add(csv->set, root, csv->each);
  tri_yaml_destroy(tree);
  return status;
}

/* Reads the lines of a file. Skips empty lines and comments (#); an empty value is an absent key. */
static tri_status csv_lines(csv_file *csv, char *text) {
  bool headed = false;
  for (char *line = text; line != NULL;) {
    char *end = strchr(line, '\n'), *next = end == NULL ? NULL : end + 1;
    if (end != NULL) *end = '\0';
    csv->place.line++;
    bool content = line[strspn(line, " \t\r")] != '\0' && line[0] != '#';
    if (content && headed) TRI_TRY(csv_row(csv, line));
    if (content && !headed && csv->count == 0) TRI_TRY(csv_header(csv, line));
    headed = headed || content;
    line = next;
  }
  return TRI_OK;
}

static tri_status csv_read(const char *published, tri_published_set *set, const tri_yaml *each) {
  char path[TRI_PATH_BYTES], *text = NULL;
  size_t bytes = 0;
  const char *slash = strrchr(published, '/');
  int folder = slash == NULL || set->rows_from[0] == '/' ? 0 : (int)(slash - published) + 1;
  int length = snprintf(path, sizeof path, "%.*s%s", folder, published, set->rows_from);
  if (length < 0 || (size_t)length >= sizeof path) return tri_fail(TRI_BAD_CONFIG, "`rows_from` is too long a path");
  if (!tri_path_exists(path)) {
    return tri_fail(TRI_BAD_CONFIG, "the set `%s`: `rows_from` names %s, which does not exist", set->name, path);
  }
  TRI_TRY(tri_file_read(path, MOST_CSV_BYTES, &text, &bytes));
  csv_file csv = {.set = set, .each = each, .place = {.source = path}};
  tri_status status = TRI_OK;
  if (strlen(text) != bytes)
    status = tri_fail(TRI_BAD_CONFIG, "%s contains a NUL byte, so it is not a text file", path);
  if (status == TRI_OK && set->columns[0] != '\0') status = csv_header(&csv, set->columns);
  if (status == TRI_OK) status = csv_lines(&csv, text);
  tri_free(text);
  return status;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* Removes a key from a mapping and returns its value; NULL if the mapping does not have it. */
static tri_yaml *detach_yaml_key(tri_yaml *mapping, const char *key) {
  tri_yaml *before = NULL;
  for (tri_yaml *c = mapping->first; c != NULL; before = c, c = c->next) {
    if (strcmp(c->key, key) != 0) continue;
    if (before == NULL) {
      mapping->first = c->next;
    } else {
      before->next = c->next;
    }
    if (mapping->last == c) mapping->last = before;
    return c;
  }
  return NULL;
}

/* The nodes `rows` and `each` of a set. They are removed from the set before it is read with its table, because a
 * table limits the length of a list, and a set may have more rows. */
typedef struct set_nodes {
  tri_yaml *rows, *each;
} set_nodes;

static void read_rows(tri_yaml *root, set_nodes nodes[TRI_PUBLISHED_SETS]) {
  if (root->kind != TRI_YAML_MAPPING) return; /* tri_config_read reports it */
  tri_yaml *sets = tri_yaml_find(root, "sets");
  int s = 0;
  for (tri_yaml *set = sets == NULL ? NULL : sets->first; set != NULL && s < TRI_PUBLISHED_SETS; set = set->next, s++) {
    if (set->kind == TRI_YAML_MAPPING)
      nodes[s] = (set_nodes){detach_yaml_key(set, "rows"), detach_yaml_key(set, "each")};
  }
}

static tri_status set_complete(const char *path, tri_published_set *set, const set_nodes *nodes) {
  TRI_TRY(tri_cluster_load(set->cluster_name, &set->cluster));
  TRI_TRY(tri_system_load(set->system_name, &set->system));
  if (nodes->each != NULL && nodes->each->kind != TRI_YAML_MAPPING) {
    return tri_yaml_fail(nodes->each, "`each`", " must be a mapping of keys of rows");
  }
  if (nodes->rows != NULL && nodes->rows->kind != TRI_YAML_LIST) {
    return tri_yaml_fail(nodes->rows, "`rows`", " must be a list of mappings of keys");
  }
  for (const tri_yaml *row = nodes->rows == NULL ? NULL : nodes->rows->first; row != NULL; row = row->next) {
    if (row->kind != TRI_YAML_MAPPING) return tri_yaml_fail(row, "`rows`", " must be a list of mappings of keys");
    TRI_TRY(set_add(set, row, nodes->each));
  }
  if (set->rows_from[0] != '\0') TRI_TRY(csv_read(path, set, nodes->each));
  if (set->num_rows > 0) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG, "the set `%s` has no rows; give `rows`, or `rows_from: FILE.csv`", set->name);
}

tri_status tri_published_load(const char *path, tri_published *out) {
  tri_yaml_tree *tree = NULL;
  tri_yaml *root = NULL;
  set_nodes nodes[TRI_PUBLISHED_SETS] = {{NULL, NULL}};
  TRI_TRY(tri_yaml_create(&tree));
  tri_status status = tri_yaml_read(tree, path, &root);
  if (status == TRI_OK) {
    read_rows(root, nodes);
    status = tri_config_read(&published_table, tree, root, out);
  }
  for (int64_t s = 0; status == TRI_OK && s < out->num_sets; s++) status = set_complete(path, &out->sets[s], &nodes[s]);
  tri_yaml_destroy(tree);
  return status;
}

void tri_published_release(tri_published *published) {
  for (int s = 0; s < TRI_PUBLISHED_SETS; s++) tri_free(published->sets[s].rows);
}
