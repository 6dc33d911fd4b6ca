/* Builds a tree from libyaml's events.
 *
 * The builder keeps a stack of the open mappings and lists. A node is added to the topmost one when it begins: a list
 * takes it as its next element; a mapping takes nodes alternately as a key (a scalar, stored until its value comes) and
 * as a value. The invariants: the stack is never deeper than TRI_YAML_MAX_DEPTH, every node belongs to the tree as soon
 * as it exists, and no event outlives the iteration that fetched it. libyaml is configured for UTF-8, and the text is
 * checked before, because libyaml reports an invalid byte without its line. */
#include "config/yaml.h"

#include "config/nearest_word.h"

#include "base/memory.h"
#include "files/file.h"
#include "files/file_kind.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

typedef struct block {
  struct block *next;
  char data[];
} block;

struct tri_yaml_tree {
  block *blocks;
  int num_nodes;
};

typedef struct builder {
  tri_yaml_tree *tree;
  const char *source;
  const char *text; /* [bytes], the text that is parsed, for hints about a line; not NUL-terminated */
  size_t bytes;
  bool is_option;
  tri_yaml *root;
  int depth;
  struct {
    tri_yaml *node;
    const char *key; /* key whose value has not come yet */
    int key_line;
  } stack[TRI_YAML_MAX_DEPTH];
} builder;

/* ---- the tree ---------------------------------------------------------------------------------------------------- */

tri_status tri_yaml_create(tri_yaml_tree **out) { return tri_alloc("a configuration", 1, sizeof **out, out); }

void tri_yaml_destroy(tri_yaml_tree *tree) {
  if (tree == NULL) return;
  for (block *held = tree->blocks; held != NULL;) {
    block *next = held->next;
    tri_free(held);
    held = next;
  }
  tri_free(tree);
}

static tri_status tree_alloc(tri_yaml_tree *tree, size_t bytes, void *out_pointer) {
  block *made = NULL;
  TRI_TRY(tri_alloc("a configuration", 1, sizeof *made + bytes, &made));
  made->next = tree->blocks;
  tree->blocks = made;
  void *pointer = made->data;
  memcpy(out_pointer, &pointer, sizeof pointer);
  return TRI_OK;
}

static tri_status copy_text(tri_yaml_tree *tree, const char *text, size_t bytes, const char **out) {
  char *copy = NULL;
  TRI_TRY(tree_alloc(tree, bytes + 1, &copy));
  memcpy(copy, text, bytes);
  *out = copy;
  return TRI_OK;
}

static tri_status make_node(tri_yaml_tree *tree, const char *source, int line, tri_yaml **out) {
  if (tree->num_nodes >= TRI_YAML_MAX_NODES) {
    return tri_fail(TRI_BAD_CONFIG, "%s has more than %d keys and values, which is the limit of a configuration",
                    source, TRI_YAML_MAX_NODES);
  }
  tri_yaml *node = NULL;
  TRI_TRY(tree_alloc(tree, sizeof *node, &node));
  tree->num_nodes++;
  node->source = source;
  node->line = line;
  *out = node;
  return TRI_OK;
}

static void write_quoted(const char *text, FILE *to) {
  fputc('"', to);
  for (; *text != '\0'; text++) {
    if (*text == '"' || *text == '\\') fputc('\\', to);
    fputc(*text, to);
  }
  fputc('"', to);
}

void tri_yaml_write_text(const char *text, FILE *to) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789./_-+=@";
  if (text[0] != '-' && text[0] != '\0' && text[strspn(text, plain)] == '\0') {
    fputs(text, to);
  } else {
    write_quoted(text, to);
  }
}

/* The recursion is at most TRI_YAML_MAX_DEPTH deep. */
/* NOLINTNEXTLINE(misc-no-recursion) */
void tri_yaml_write_flow(const tri_yaml *node, FILE *to) {
  const char *brackets = "";
  switch (node->kind) {
    case TRI_YAML_SCALAR:
      if (node->quoted) {
        write_quoted(node->text, to);
      } else {
        fputs(node->text, to);
      }
      return;
    case TRI_YAML_LIST: brackets = "[]"; break;
    case TRI_YAML_MAPPING: brackets = "{}"; break;
  }
  fputc(brackets[0], to);
  for (const tri_yaml *child = node->first; child != NULL; child = child->next) {
    if (child->key != NULL) fprintf(to, "%s: ", child->key);
    tri_yaml_write_flow(child, to);
    if (child->next != NULL) fputs(", ", to);
  }
  fputc(brackets[1], to);
}

tri_status tri_yaml_make(tri_yaml_tree *tree, const tri_yaml *like, const char *text, tri_yaml **out) {
  tri_yaml *node = NULL;
  TRI_TRY(make_node(tree, like->source, like->line, &node));
  node->kind = text == NULL ? TRI_YAML_MAPPING : TRI_YAML_SCALAR;
  if (text != NULL) TRI_TRY(copy_text(tree, text, strlen(text), &node->text));
  *out = node;
  return TRI_OK;
}

tri_yaml *tri_yaml_find(const tri_yaml *mapping, const char *key) {
  if (mapping->kind != TRI_YAML_MAPPING) return NULL;
  for (tri_yaml *child = mapping->first; child != NULL; child = child->next) {
    if (strcmp(child->key, key) == 0) return child;
  }
  return NULL;
}

static void yaml_append(tri_yaml *parent, tri_yaml *child) {
  if (parent->first == NULL) {
    parent->first = child;
  } else {
    parent->last->next = child;
  }
  parent->last = child;
}

tri_status tri_yaml_put(tri_yaml_tree *tree, tri_yaml *mapping, const char *key, tri_yaml *value) {
  TRI_TRY(copy_text(tree, key, strlen(key), &value->key));
  tri_yaml *before = NULL;
  tri_yaml *old = mapping->first;
  while (old != NULL && strcmp(old->key, key) != 0) {
    before = old;
    old = old->next;
  }
  if (old == NULL) {
    yaml_append(mapping, value);
    return TRI_OK;
  }
  value->next = old->next;
  if (before == NULL) {
    mapping->first = value;
  } else {
    before->next = value;
  }
  if (mapping->last == old) mapping->last = value;
  return TRI_OK;
}

void tri_yaml_remove(tri_yaml *mapping, const char *key) {
  tri_yaml *before = NULL;
  for (tri_yaml *entry = mapping->first; entry != NULL; before = entry, entry = entry->next) {
    if (strcmp(entry->key, key) != 0) continue;
    if (before == NULL) {
      mapping->first = entry->next;
    } else {
      before->next = entry->next;
    }
    if (mapping->last == entry) mapping->last = before;
    return;
  }
}

bool tri_yaml_is_null(const tri_yaml *node) {
  static const char *const nulls[] = {"", "~", "null", "Null", "NULL"};
  if (node->kind != TRI_YAML_SCALAR || node->quoted) return false;
  for (size_t i = 0; i < sizeof nulls / sizeof nulls[0]; i++) {
    if (strcmp(node->text, nulls[i]) == 0) return true;
  }
  return false;
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

/* Returns the length of the UTF-8 sequence that begins at text[0], and its code point; 0 if it is not valid. */
static size_t utf8_length(const char *text, size_t bytes, uint32_t *code) {
  static const uint32_t lowest[] = {0, 0, 0x80, 0x800, 0x10000};
  unsigned char lead = (unsigned char)text[0];
  size_t length = lead < 0x80 ? 1 : lead >> 5 == 6 ? 2 : lead >> 4 == 14 ? 3 : lead >> 3 == 30 ? 4 : 0;
  if (length == 0 || length > bytes) return 0;
  *code = length == 1 ? lead : lead & (0x7Fu >> length);
  for (size_t i = 1; i < length; i++) {
    if (((unsigned char)text[i] & 0xC0) != 0x80) return 0;
    *code = *code << 6 | ((unsigned char)text[i] & 0x3F);
  }
  bool surrogate = *code >= 0xD800 && *code <= 0xDFFF;
  return *code < lowest[length] || surrogate || *code > 0x10FFFF ? 0 : length;
}

bool tri_yaml_is_printable(const char *text) {
  size_t bytes = strlen(text);
  for (size_t i = 0; i < bytes;) {
    uint32_t code = 0;
    size_t length = utf8_length(text + i, bytes - i, &code);
    if (length == 0 || code < 0x20 || (code >= 0x7F && code < 0xA0)) return false;
    if (code == 0x2028 || code == 0x2029 || code == 0xFEFF || code == 0xFFFE || code == 0xFFFF) return false;
    i += length;
  }
  return true;
}

char *tri_yaml_excerpt(const char *text, char buffer[TRI_YAML_EXCERPT_BYTES]) {
  size_t bytes = strlen(text);
  size_t held = 0;
  for (size_t i = 0; i < bytes;) {
    uint32_t code = 0;
    size_t length = utf8_length(text + i, bytes - i, &code);
    if (held + length > TRI_YAML_EXCERPT_BYTES - 8) {
      memcpy(buffer + held, "...", 3);
      held += 3;
      break;
    }
    if (length == 0 || code < 0x20 || (code >= 0x7F && code < 0xA0)) {
      buffer[held++] = '?';
      i += length == 0 ? 1 : length;
      continue;
    }
    memcpy(buffer + held, text + i, length);
    held += length;
    i += length;
  }
  buffer[held] = '\0';
  return buffer;
}

/* ---- faults ------------------------------------------------------------------------------------------------------ */

tri_status tri_yaml_fail(const tri_yaml *node, const char *subject, const char *format, ...) {
  char rest[1500];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(rest, sizeof rest, format, arguments);
  va_end(arguments);
  if (node->source[0] == '\0') return tri_fail(TRI_BAD_CONFIG, "%s%s", subject, rest);
  if (node->line == 0) return tri_fail(TRI_BAD_CONFIG, "%.200s: %s%s", node->source, subject, rest);
  return tri_fail(TRI_BAD_CONFIG, "%s at line %d of %s%s", subject, node->line, node->source, rest);
}

/* Fails with TRI_BAD_CONFIG and a message that consists of the place and the clause `what`. */
static tri_status fail_at(const builder *b, size_t line, const char *what) {
  if (b->is_option) return tri_fail(TRI_BAD_CONFIG, "%.200s: %s", b->source, what);
  return tri_fail(TRI_BAD_CONFIG, "line %zu of %s: %s", line, b->source, what);
}

/* Returns whether the line is indented with a tab, the usual cause of libyaml's "cannot start any token". */
static bool indented_by_tab(const builder *b, size_t line) {
  const char *text = b->text;
  const char *end = b->text + b->bytes;
  for (size_t at = 1; at < line; at++) {
    text = memchr(text, '\n', (size_t)(end - text));
    if (text == NULL) return false;
    text++;
  }
  while (text < end && *text == ' ') text++;
  return text < end && *text == '\t';
}

static tri_status fail_syntax(const builder *b, const yaml_parser_t *parser) {
  if (parser->error == YAML_MEMORY_ERROR) {
    return tri_fail(TRI_OUT_OF_MEMORY, "out of memory while reading %s", b->source);
  }
  char what[600];
  size_t line = parser->problem_mark.line + 1;
  bool context = parser->context != NULL;
  bool tab = indented_by_tab(b, line);
  if (context && parser->context_mark.line + 1 != line && !b->is_option) {
    snprintf(what, sizeof what, "not valid YAML: %s (%s from line %zu)%s", parser->problem, parser->context,
             parser->context_mark.line + 1, tab ? "; indent with spaces, not with tabs" : "");
  } else {
    snprintf(what, sizeof what, "not valid YAML: %s%s%s%s%s", parser->problem ? parser->problem : "bad syntax",
             context ? " (" : "", context ? parser->context : "", context ? ")" : "",
             tab ? "; indent with spaces, not with tabs" : "");
  }
  return fail_at(b, line, what);
}

/* Returns whether YAML 1.1 (section 5.1) allows a character. */
static bool is_yaml_character(uint32_t code) {
  bool blank = code == '\t' || code == '\n' || code == '\r' || code == 0x85;
  return blank || (code >= 0x20 && code < 0x7F) || (code >= 0xA0 && code != 0xFEFF && code != 0xFFFE && code != 0xFFFF);
}

static tri_status check_characters(const builder *b, const char *text, size_t bytes) {
  size_t line = 1;
  for (size_t i = 0; i < bytes;) {
    uint32_t code = 0;
    size_t length = utf8_length(text + i, bytes - i, &code);
    if (length == 0) return fail_at(b, line, "not UTF-8 text; save it in that encoding");
    if (code == 0) return fail_at(b, line, "a NUL byte, which a text file must not contain; is this a text file?");
    if (!is_yaml_character(code)) return fail_at(b, line, "a control character, which YAML text must not contain");
    if (code == '\n') line++;
    i += length;
  }
  return TRI_OK;
}

/* ---- building ---------------------------------------------------------------------------------------------------- */

static tri_status fail_repeated(const builder *b, const tri_yaml *first, int line) {
  char key[TRI_YAML_EXCERPT_BYTES];
  tri_yaml_excerpt(first->key, key);
  if (b->is_option) return tri_fail(TRI_BAD_CONFIG, "%.200s: `%s` is given twice", b->source, key);
  return tri_fail(TRI_BAD_CONFIG, "`%s` at line %d of %s was already given at line %d; keep one of them", key, line,
                  b->source, first->line);
}

/* Adds a node to the innermost open mapping or list. In a mapping, every other node is a scalar that becomes the key of
 * the node after it. Fails with TRI_BAD_CONFIG if a key is not a scalar or is repeated. */
static tri_status place(builder *b, tri_yaml *node) {
  if (b->depth == 0) {
    node->root = true;
    b->root = node;
    return TRI_OK;
  }
  tri_yaml *parent = b->stack[b->depth - 1].node;
  if (parent->kind == TRI_YAML_LIST) {
    yaml_append(parent, node);
    return TRI_OK;
  }
  const char **key = &b->stack[b->depth - 1].key;
  if (*key == NULL) {
    if (node->kind != TRI_YAML_SCALAR) return fail_at(b, (size_t)node->line, "a key must be a word");
    const tri_yaml *twin = tri_yaml_find(parent, node->text);
    if (twin != NULL) return fail_repeated(b, twin, node->line);
    *key = node->text;
    b->stack[b->depth - 1].key_line = node->line;
    return TRI_OK;
  }
  node->key = *key;
  node->line = b->stack[b->depth - 1].key_line;
  *key = NULL;
  yaml_append(parent, node);
  return TRI_OK;
}

static tri_status open_node(builder *b, tri_yaml_kind kind, size_t line, const char *anchor, const char *tag) {
  if (anchor != NULL) return fail_at(b, line, "anchors (`&name`) are not supported; write the values out");
  if (tag != NULL) return fail_at(b, line, "tags (`!type`) are not supported; leave it out");
  tri_yaml *node = NULL;
  TRI_TRY(make_node(b->tree, b->source, b->is_option ? 0 : (int)line, &node));
  node->kind = kind;
  TRI_TRY(place(b, node));
  if (b->depth == TRI_YAML_MAX_DEPTH) return fail_at(b, line, "mappings and lists are nested too deeply");
  b->stack[b->depth].node = node;
  b->stack[b->depth].key = NULL;
  b->depth++;
  return TRI_OK;
}

static tri_status read_scalar(builder *b, const yaml_event_t *event, size_t line) {
  if (event->data.scalar.anchor != NULL) {
    return fail_at(b, line, "anchors (`&name`) are not supported; write the values out");
  }
  if (event->data.scalar.tag != NULL) return fail_at(b, line, "tags (`!type`) are not supported; leave it out");
  const char *text = (const char *)event->data.scalar.value;
  size_t bytes = event->data.scalar.length;
  if (memchr(text, '\0', bytes) != NULL) return fail_at(b, line, "a text with a byte of zero in it");
  tri_yaml *node = NULL;
  TRI_TRY(make_node(b->tree, b->source, b->is_option ? 0 : (int)line, &node));
  node->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
  TRI_TRY(copy_text(b->tree, text, bytes, &node->text));
  return place(b, node);
}

static tri_status read_event(builder *b, const yaml_event_t *event) {
  size_t line = event->start_mark.line + 1;
  switch ((int)event->type) { /* libyaml's enum, which may grow */
    case YAML_DOCUMENT_START_EVENT:
      if (b->root == NULL) return TRI_OK;
      return fail_at(b, line, "a second document (`---`) begins; only one is read");
    case YAML_ALIAS_EVENT: return fail_at(b, line, "aliases (`*name`) are not supported; write the values out");
    case YAML_SCALAR_EVENT: return read_scalar(b, event, line);
    case YAML_SEQUENCE_START_EVENT:
      return open_node(b, TRI_YAML_LIST, line, (const char *)event->data.sequence_start.anchor,
                       (const char *)event->data.sequence_start.tag);
    case YAML_MAPPING_START_EVENT:
      return open_node(b, TRI_YAML_MAPPING, line, (const char *)event->data.mapping_start.anchor,
                       (const char *)event->data.mapping_start.tag);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT: b->depth--; return TRI_OK;
    default: return TRI_OK;
  }
}

static tri_status build(builder *b, yaml_parser_t *parser) {
  for (bool done = false; !done;) {
    yaml_event_t event;
    if (!yaml_parser_parse(parser, &event)) return fail_syntax(b, parser);
    tri_status status = read_event(b, &event);
    done = event.type == YAML_STREAM_END_EVENT;
    yaml_event_delete(&event);
    TRI_TRY(status);
  }
  return TRI_OK;
}

tri_status tri_yaml_parse(tri_yaml_tree *tree, const char *source, bool is_option, const char *text, size_t bytes,
                          tri_yaml **out) {
  /* libyaml would count a byte order mark as a column and treat the first key as indented. */
  if (tri_text_begin(source, "YAML in UTF-8", &text, &bytes) != TRI_OK) return TRI_BAD_CONFIG;
  builder b = {.tree = tree, .is_option = is_option, .text = text, .bytes = bytes};
  TRI_TRY(copy_text(tree, source, strlen(source), &b.source));
  if (bytes > TRI_YAML_MAX_BYTES) return tri_fail(TRI_BAD_CONFIG, "%.200s is too long for a configuration", source);
  TRI_TRY(check_characters(&b, text, bytes));
  yaml_parser_t parser;
  if (!yaml_parser_initialize(&parser)) return tri_fail(TRI_OUT_OF_MEMORY, "out of memory while reading %s", source);
  yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
  yaml_parser_set_input_string(&parser, (const unsigned char *)text, bytes);
  tri_status status = build(&b, &parser);
  yaml_parser_delete(&parser);
  TRI_TRY(status);
  if (b.root == NULL || tri_yaml_is_null(b.root)) return tri_fail(TRI_BAD_CONFIG, "%.200s is empty", source);
  *out = b.root;
  return TRI_OK;
}

enum { MOST_FILES = 512 };

/* Finds the file in the same folder whose name is nearest to that of a missing file; `out` is "" if none is near. */
static void find_nearest_file(const char *path, char out[TRI_PATH_BYTES]) {
  char folder[TRI_PATH_BYTES];
  char *names[MOST_FILES];
  size_t count = 0;
  const char *slash = strrchr(path, '/');
  out[0] = '\0';
  snprintf(folder, sizeof folder, "%.*s", slash == NULL ? 1 : (int)(slash - path) + 1, slash == NULL ? "." : path);
  DIR *directory = opendir(folder);
  if (directory == NULL) return;
  for (const struct dirent *entry; count < MOST_FILES && (entry = readdir(directory)) != NULL;) {
    if (entry->d_name[0] != '.' && tri_strdup(entry->d_name, &names[count]) == TRI_OK) count++;
  }
  closedir(directory);
  const char *nearest = tri_nearest_word(slash == NULL ? path : slash + 1, (const char *const *)names, count);
  if (nearest != NULL) snprintf(out, TRI_PATH_BYTES, "%s%s", slash == NULL ? "" : folder, nearest);
  for (size_t i = 0; i < count; i++) tri_free(names[i]);
}

const char *tri_yaml_nearest_file(const char *path, const char *ending, char out[TRI_NEAREST_FILE_BYTES]) {
  char nearest[TRI_PATH_BYTES];
  find_nearest_file(path, nearest);
  const size_t length = strlen(nearest), cut = strlen(ending);
  const bool ends = length > cut && strcmp(nearest + length - cut, ending) == 0;
  out[0] = '\0';
  if (ends) snprintf(out, TRI_NEAREST_FILE_BYTES, "; did you mean %.*s?", (int)(length - cut), nearest);
  return out;
}

tri_status tri_yaml_look_for(const char *path) {
  char nearest[TRI_PATH_BYTES];
  if (tri_path_exists(path)) return TRI_OK;
  find_nearest_file(path, nearest);
  if (nearest[0] == '\0') return TRI_OK;
  return tri_fail(TRI_BAD_FILE, "cannot open %s: %s; did you mean %s?", path, strerror(ENOENT), nearest);
}

tri_status tri_yaml_read(tri_yaml_tree *tree, const char *path, tri_yaml **out) {
  char *text = NULL;
  size_t bytes = 0;
  TRI_TRY(tri_yaml_look_for(path));
  TRI_TRY(tri_file_read(path, TRI_YAML_MAX_BYTES, &text, &bytes));
  tri_status status = tri_yaml_parse(tree, path, false, text, bytes, out);
  tri_free(text);
  return status;
}
