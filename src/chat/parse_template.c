/* Parses statements, and a whole template. */
#include "base/memory.h"
#include "chat/known_templates.h"
#include "chat/parser.h"
#include "chat/template.h"

#include <string.h>

enum { LARGEST_BYTES = 4 << 20, TREE_BYTES = 256 << 20 };

static tri_status parse_body(tri_chat_parser *parser, const char *const *ends, tri_chat_node **out);

static tri_status end_block(tri_chat_parser *parser) {
  char shown[64];
  if (parser->token.kind == TRI_TOKEN_END_BLOCK) return tri_chat_parser_next(parser);
  return TRI_CHAT_FAULT(parser, TRI_BAD_FILE, "`%%}` is missing before %s", tri_chat_shown(parser, shown));
}

/* Parses the rest of a tag that ends a body, such as `{% endif %}`; `endif` is the current token. */
static tri_status close_body(tri_chat_parser *parser) {
  TRI_TRY(tri_chat_parser_next(parser));
  return end_block(parser);
}

/* ---- if ---------------------------------------------------------------------------------------------------------- */

/* Parses a condition and its bodies, after `if` or `elif`. */
static tri_status parse_if(tri_chat_parser *parser, tri_chat_node **out) {
  static const char *const ends[] = {"elif", "else", "endif", NULL}, *const last[] = {"endif", NULL};
  tri_chat_node *first = NULL, **place = &first;
  for (;;) {
    TRI_TRY(tri_chat_node_create(parser, TRI_NODE_IF, place));
    TRI_TRY(tri_chat_parse_tuple(parser, false, &(*place)->a));
    TRI_TRY(end_block(parser));
    TRI_TRY(parse_body(parser, ends, &(*place)->b));
    if (!tri_chat_at_name(parser, "elif")) break;
    TRI_TRY(tri_chat_parser_next(parser));
    place = &(*place)->c;
  }
  if (tri_chat_at_name(parser, "else")) {
    TRI_TRY(close_body(parser));
    TRI_TRY(parse_body(parser, last, &(*place)->c));
  }
  *out = first;
  return close_body(parser);
}

/* ---- for --------------------------------------------------------------------------------------------------------- */

static tri_status parse_targets(tri_chat_parser *parser, tri_chat_node *node) {
  bool bracket = false, more = true;
  tri_chat_node *name = NULL;
  TRI_TRY(tri_chat_accept_sign(parser, "(", &bracket));
  while (more) {
    TRI_TRY(tri_chat_parse_name(parser, &name));
    TRI_TRY(tri_chat_node_add(parser, node, name));
    TRI_TRY(tri_chat_accept_sign(parser, ",", &more));
    node->is_tuple = node->is_tuple || more;
  }
  return bracket ? tri_chat_expect_sign(parser, ")") : TRI_OK;
}

static tri_status parse_for(tri_chat_parser *parser, tri_chat_node **out) {
  static const char *const ends[] = {"else", "endfor", NULL}, *const last[] = {"endfor", NULL};
  bool found = false;
  char shown[64];
  tri_chat_node *node = NULL;
  TRI_TRY(tri_chat_node_create(parser, TRI_NODE_FOR, &node));
  TRI_TRY(parse_targets(parser, node));
  TRI_TRY(tri_chat_accept_name(parser, "in", &found));
  if (!found) return TRI_CHAT_FAULT(parser, TRI_BAD_FILE, "`in` is missing before %s", tri_chat_shown(parser, shown));
  TRI_TRY(tri_chat_parse_tuple(parser, false, &node->a));
  TRI_TRY(tri_chat_accept_name(parser, "if", &found));
  if (found) TRI_TRY(tri_chat_parse_expression(parser, &node->filter));
  if (tri_chat_at_name(parser, "recursive")) {
    return TRI_CHAT_FAULT(parser, TRI_UNSUPPORTED, "`recursive` loops are not supported");
  }
  TRI_TRY(end_block(parser));
  parser->loops++;
  TRI_TRY(parse_body(parser, ends, &node->b));
  parser->loops--;
  if (tri_chat_at_name(parser, "else")) {
    TRI_TRY(close_body(parser));
    TRI_TRY(parse_body(parser, last, &node->c));
  }
  *out = node;
  return close_body(parser);
}

/* ---- set, macro, generation -------------------------------------------------------------------------------------- */

static tri_status parse_set(tri_chat_parser *parser, tri_chat_node **out) {
  static const char *const ends[] = {"endset", NULL};
  bool found = false;
  tri_chat_node *node = NULL;
  TRI_TRY(tri_chat_node_create(parser, TRI_NODE_SET, &node));
  TRI_TRY(parse_targets(parser, node));
  *out = node;
  TRI_TRY(tri_chat_accept_sign(parser, ".", &found));
  if (found) {
    tri_chat_node *attribute = NULL;
    TRI_TRY(tri_chat_parse_name(parser, &attribute));
    node->name = attribute->name;
  }
  TRI_TRY(tri_chat_accept_sign(parser, "=", &found));
  if (found) {
    TRI_TRY(tri_chat_parse_tuple(parser, true, &node->a));
    return end_block(parser);
  }
  if (tri_chat_at_sign(parser, "|")) {
    return TRI_CHAT_FAULT(parser, TRI_UNSUPPORTED, "a filter of a `set` block is not supported");
  }
  if (node->count > 1) return TRI_CHAT_FAULT(parser, TRI_BAD_FILE, "`=` is missing: a `set` block has one name");
  TRI_TRY(end_block(parser));
  parser->captures++;
  TRI_TRY(parse_body(parser, ends, &node->b));
  parser->captures--;
  return close_body(parser);
}

static tri_status add_default(tri_chat_parser *parser, tri_chat_node *macro, tri_chat_node *value) {
  enum { MOST = 32 };
  if (macro->defaults == NULL) {
    TRI_TRY(tri_chat_arena_alloc(parser->arena, MOST, sizeof(tri_chat_node *), &macro->defaults));
  }
  if (macro->count > MOST) return TRI_CHAT_FAULT(parser, TRI_BAD_FILE, "a macro has at most %d parameters", MOST);
  macro->defaults[macro->count - 1] = value;
  return TRI_OK;
}

static tri_status parse_macro(tri_chat_parser *parser, tri_chat_node **out) {
  static const char *const ends[] = {"endmacro", NULL};
  tri_chat_node *name = NULL, *value = NULL, *node = NULL;
  bool found = false;
  if (parser->captures > 0 || parser->loops > 0) {
    return TRI_CHAT_FAULT(parser, TRI_UNSUPPORTED,
                          "a macro inside of a loop, a macro or a `set` block is not supported");
  }
  TRI_TRY(tri_chat_node_create(parser, TRI_NODE_MACRO, &node));
  TRI_TRY(tri_chat_parse_name(parser, &name));
  node->name = name->name;
  node->symbol = name->symbol;
  TRI_TRY(tri_chat_expect_sign(parser, "("));
  while (!tri_chat_at_sign(parser, ")")) {
    TRI_TRY(tri_chat_parse_name(parser, &name));
    TRI_TRY(tri_chat_node_add(parser, node, name));
    TRI_TRY(tri_chat_accept_sign(parser, "=", &found));
    value = NULL;
    if (found) TRI_TRY(tri_chat_parse_expression(parser, &value));
    TRI_TRY(add_default(parser, node, value));
    TRI_TRY(tri_chat_accept_sign(parser, ",", &found));
    if (!found) break;
  }
  TRI_TRY(tri_chat_expect_sign(parser, ")"));
  TRI_TRY(end_block(parser));
  parser->captures++;
  TRI_TRY(parse_body(parser, ends, &node->b));
  parser->captures--;
  *out = node;
  return close_body(parser);
}

static tri_status parse_generation(tri_chat_parser *parser, tri_chat_node **out) {
  static const char *const ends[] = {"endgeneration", NULL};
  int loops = parser->loops;
  tri_chat_node *node = NULL;
  if (parser->captures > 0) {
    return TRI_CHAT_FAULT(parser, TRI_UNSUPPORTED,
                          "a generation block inside of a macro, a `set` block or another generation block is not "
                          "supported, because the position of its text is unknown");
  }
  TRI_TRY(tri_chat_node_create(parser, TRI_NODE_GENERATION, &node));
  TRI_TRY(end_block(parser));
  parser->captures++;
  parser->loops = 0; /* `break` does not leave the block */
  TRI_TRY(parse_body(parser, ends, &node->b));
  parser->captures--;
  parser->loops = loops;
  parser->template->has_generation = true;
  *out = node;
  return close_body(parser);
}

/* ---- any statement ----------------------------------------------------------------------------------------------- */

static tri_status parse_jump(tri_chat_parser *parser, tri_chat_node_kind kind, const char *word, tri_chat_node **out) {
  if (parser->loops == 0) return TRI_CHAT_FAULT(parser, TRI_BAD_FILE, "`%s` is outside of any loop", word);
  TRI_TRY(tri_chat_node_create(parser, kind, out));
  return end_block(parser);
}

/* Parses a statement, after `{%`. Fails with TRI_UNSUPPORTED for statements that this program lacks. */
static tri_status parse_statement(tri_chat_parser *parser, tri_chat_node **out) {
  static const char *const lacking[] = {"call",  "filter", "include", "import",     "from", "extends",
                                        "block", "do",     "with",    "autoescape", "trans"};
  char shown[64];
  bool found = false;
  for (size_t i = 0; i < sizeof lacking / sizeof lacking[0]; i++) {
    if (!tri_chat_at_name(parser, lacking[i])) continue;
    return TRI_CHAT_FAULT(parser, TRI_UNSUPPORTED, "the statement `%s` is not supported", lacking[i]);
  }
  TRI_TRY(tri_chat_accept_name(parser, "if", &found));
  if (found) return parse_if(parser, out);
  TRI_TRY(tri_chat_accept_name(parser, "for", &found));
  if (found) return parse_for(parser, out);
  TRI_TRY(tri_chat_accept_name(parser, "set", &found));
  if (found) return parse_set(parser, out);
  TRI_TRY(tri_chat_accept_name(parser, "macro", &found));
  if (found) return parse_macro(parser, out);
  TRI_TRY(tri_chat_accept_name(parser, "generation", &found));
  if (found) return parse_generation(parser, out);
  TRI_TRY(tri_chat_accept_name(parser, "break", &found));
  if (found) return parse_jump(parser, TRI_NODE_BREAK, "break", out);
  TRI_TRY(tri_chat_accept_name(parser, "continue", &found));
  if (found) return parse_jump(parser, TRI_NODE_CONTINUE, "continue", out);
  return TRI_CHAT_FAULT(parser, TRI_BAD_FILE, "%s cannot begin a statement here", tri_chat_shown(parser, shown));
}

static bool at_any(const tri_chat_parser *parser, const char *const *names) {
  for (; names != NULL && *names != NULL; names++) {
    if (tri_chat_at_name(parser, *names)) return true;
  }
  return false;
}

static tri_status parse_output(tri_chat_parser *parser, tri_chat_node **out) {
  char shown[64];
  TRI_TRY(tri_chat_parser_next(parser));
  TRI_TRY(tri_chat_node_create(parser, TRI_NODE_OUTPUT, out));
  TRI_TRY(tri_chat_parse_tuple(parser, true, &(*out)->a));
  if (parser->token.kind == TRI_TOKEN_END_PRINT) return tri_chat_parser_next(parser);
  return TRI_CHAT_FAULT(parser, TRI_BAD_FILE, "`}}` is missing before %s", tri_chat_shown(parser, shown));
}

static tri_status parse_text(tri_chat_parser *parser, tri_chat_node **out) {
  TRI_TRY(tri_chat_node_create(parser, TRI_NODE_TEXT, out));
  (*out)->constant = parser->token.value;
  return tri_chat_parser_next(parser);
}

/* Parses statements up to `{%` and one of the words `ends`, which is then the current token. ends NULL: parses to the
 * end of the template. */
static tri_status parse_body(tri_chat_parser *parser, const char *const *ends, tri_chat_node **out) {
  tri_chat_node *statement = NULL;
  TRI_TRY(tri_chat_enter(parser));
  TRI_TRY(tri_chat_node_create(parser, TRI_NODE_BLOCK, out));
  while (parser->token.kind != TRI_TOKEN_END) {
    if (parser->token.kind == TRI_TOKEN_TEXT) {
      TRI_TRY(parse_text(parser, &statement));
    } else if (parser->token.kind == TRI_TOKEN_BEGIN_PRINT) {
      TRI_TRY(parse_output(parser, &statement));
    } else {
      TRI_TRY(tri_chat_parser_next(parser));
      if (at_any(parser, ends)) {
        tri_chat_leave(parser);
        return TRI_OK;
      }
      TRI_TRY(parse_statement(parser, &statement));
    }
    TRI_TRY(tri_chat_node_add(parser, *out, statement));
  }
  tri_chat_leave(parser);
  if (ends == NULL) return TRI_OK;
  while (ends[1] != NULL) ends++;
  return TRI_CHAT_FAULT(parser, TRI_BAD_FILE, "the template ends here, but `%s` is missing", *ends);
}

/* ---- the template ------------------------------------------------------------------------------------------------ */

/* Copies the source like Jinja: newlines become \n, and the last one is removed. */
static tri_status copy_source(tri_chat_template *template, const char *text, size_t bytes) {
  TRI_TRY(tri_alloc("a chat template", bytes + 1, 1, &template->source));
  for (size_t i = 0; i < bytes; i++) {
    bool pair = text[i] == '\r' && i + 1 < bytes && text[i + 1] == '\n';
    if (!pair) template->source[template->bytes++] = text[i] == '\r' ? '\n' : text[i];
  }
  if (template->bytes > 0 && template->source[template->bytes - 1] == '\n') template->source[--template->bytes] = '\0';
  return TRI_OK;
}

static tri_status keep_symbols(tri_chat_template *template, const tri_chat_dict *symbols) {
  tri_chat_value *names = NULL;
  template->num_symbols = (int32_t)symbols->count;
  TRI_TRY(tri_chat_arena_alloc(&template->arena, (size_t)symbols->count, sizeof *names, &names));
  for (int64_t i = 0; i < symbols->count; i++) names[i] = symbols->entries[i].key;
  template->symbols = names;
  return TRI_OK;
}

static tri_status parse_all(tri_chat_template *template) {
  tri_chat_parser parser = {
      .template = template,
      .arena = &template->arena,
      .lexer = {.name = template->name,
                .source = template->marked != NULL ? template->marked : template->source,
                .bytes = template->marked != NULL ? template->marked_bytes : template->bytes,
                .arena = &template->arena,
                .line = 1,
                .column = 1,
                .line_starts = true},
  };
  TRI_TRY(tri_chat_dict_create(&template->arena, 16, &parser.symbols));
  TRI_TRY(tri_chat_parser_begin(&parser));
  TRI_TRY(parse_body(&parser, NULL, &template->root));
  return keep_symbols(template, parser.symbols);
}

tri_status tri_chat_template_compile(const char *name, const char *text, size_t bytes, tri_chat_template **out) {
  tri_status status = TRI_OK;
  tri_chat_template *template = NULL;
  if (bytes > LARGEST_BYTES) {
    return tri_fail(TRI_BAD_FILE, "%s: a chat template has at most %d MiB; this one has %zu bytes", name,
                    LARGEST_BYTES >> 20, bytes);
  }
  TRI_TRY(tri_alloc("a chat template", 1, sizeof *template, &template));
  template->arena.limit = TREE_BYTES;
  TRI_TRY_GOTO(tri_strdup(name, &template->name), destroy);
  TRI_TRY_GOTO(copy_source(template, text, bytes), destroy);
  TRI_TRY_GOTO(tri_chat_known_template(template->source, template->bytes, &template->marked, &template->marked_bytes),
               destroy);
  TRI_TRY_GOTO(parse_all(template), destroy);
  *out = template;
  return TRI_OK;
destroy:
  tri_chat_template_destroy(template);
  return status;
}

void tri_chat_template_destroy(tri_chat_template *template) {
  if (template == NULL) return;
  tri_chat_arena_release(&template->arena);
  tri_free(template->marked);
  tri_free(template->source);
  tri_free(template->name);
  tri_free(template);
}

bool tri_chat_template_marks_answers(const tri_chat_template *template) { return template->has_generation; }

const char *tri_chat_template_source(const tri_chat_template *template, size_t *bytes) {
  *bytes = template->bytes;
  return template->source;
}

const char *tri_chat_template_name(const tri_chat_template *template) { return template->name; }

int32_t tri_chat_symbol(const tri_chat_template *template, tri_chat_value name) {
  for (int32_t i = 0; i < template->num_symbols; i++) {
    if (template->symbols[i].bytes == name.bytes && memcmp(template->symbols[i].text, name.text, name.bytes) == 0)
      return i;
  }
  return -1;
}
