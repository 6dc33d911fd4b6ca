/* Parses expressions with Jinja's precedence: a if b else c; or; and; not; comparisons and in; + -; ~; * / // %; **;
 * signs; postfix forms (.name, [item], (call), | filter, is test). */
#include "chat/parser.h"

#include <stdio.h>
#include <string.h>

enum { DEEPEST = 400, MOST_ITEMS = 10000 };

/* ---- tokens ------------------------------------------------------------------------------------------------------ */

tri_status tri_chat_parser_next(tri_chat_parser *parser) {
  parser->token = parser->ahead;
  if (parser->token.kind == TRI_TOKEN_END) return TRI_OK;
  return tri_chat_lexer_next(&parser->lexer, &parser->ahead);
}

tri_status tri_chat_parser_begin(tri_chat_parser *parser) {
  TRI_TRY(tri_chat_lexer_next(&parser->lexer, &parser->ahead));
  return tri_chat_parser_next(parser);
}

static bool is_word(const tri_chat_token *token, tri_chat_token_kind kind, const char *text) {
  return token->kind == kind && strlen(text) == token->value.bytes &&
         memcmp(text, token->value.text, token->value.bytes) == 0;
}

bool tri_chat_at_sign(const tri_chat_parser *parser, const char *sign) {
  return is_word(&parser->token, TRI_TOKEN_SIGN, sign);
}

bool tri_chat_at_name(const tri_chat_parser *parser, const char *name) {
  return is_word(&parser->token, TRI_TOKEN_NAME, name);
}

tri_status tri_chat_accept_sign(tri_chat_parser *parser, const char *sign, bool *taken) {
  *taken = tri_chat_at_sign(parser, sign);
  return *taken ? tri_chat_parser_next(parser) : TRI_OK;
}

tri_status tri_chat_accept_name(tri_chat_parser *parser, const char *name, bool *taken) {
  *taken = tri_chat_at_name(parser, name);
  return *taken ? tri_chat_parser_next(parser) : TRI_OK;
}

const char *tri_chat_shown(const tri_chat_parser *parser, char out[64]) {
  const tri_chat_token *token = &parser->token;
  int length = token->value.bytes < 40 ? (int)token->value.bytes : 40;
  switch ((tri_chat_token_kind)token->kind) {
    case TRI_TOKEN_END: return "the end of the template";
    case TRI_TOKEN_TEXT: return "text";
    case TRI_TOKEN_BEGIN_PRINT: return "`{{`";
    case TRI_TOKEN_END_PRINT: return "`}}`";
    case TRI_TOKEN_BEGIN_BLOCK: return "`{%`";
    case TRI_TOKEN_END_BLOCK: return "`%}`";
    case TRI_TOKEN_STRING: return "a string";
    case TRI_TOKEN_INTEGER:
    case TRI_TOKEN_REAL: return "a number";
    case TRI_TOKEN_NAME:
    case TRI_TOKEN_SIGN: snprintf(out, 64, "`%.*s`", length, token->value.text); return out;
  }
  return "something else";
}

tri_status tri_chat_expect_sign(tri_chat_parser *parser, const char *sign) {
  char shown[64];
  if (tri_chat_at_sign(parser, sign)) return tri_chat_parser_next(parser);
  return TRI_CHAT_FAULT(parser, TRI_BAD_FILE, "`%s` is missing before %s", sign, tri_chat_shown(parser, shown));
}

tri_status tri_chat_enter(tri_chat_parser *parser) {
  if (++parser->depth <= DEEPEST) return TRI_OK;
  return TRI_CHAT_FAULT(parser, TRI_BAD_FILE, "the template is nested more than %d deep here", DEEPEST);
}

void tri_chat_leave(tri_chat_parser *parser) { parser->depth--; }

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

tri_status tri_chat_node_create(tri_chat_parser *parser, tri_chat_node_kind kind, tri_chat_node **out) {
  tri_chat_node *node = NULL;
  TRI_TRY(tri_chat_arena_alloc(parser->arena, 1, sizeof *node, &node));
  node->kind = (uint8_t)kind;
  node->line = parser->token.line;
  node->column = parser->token.column;
  node->symbol = -1;
  *out = node;
  return TRI_OK;
}

/* Makes room in a list of nodes, whose capacity doubles. */
static tri_status room_for(tri_chat_parser *parser, int32_t count, tri_chat_node ***list) {
  if (count != 0 && (count < 4 || (count & (count - 1)) != 0)) return TRI_OK;
  tri_chat_node **grown = NULL;
  TRI_TRY(tri_chat_arena_alloc(parser->arena, count == 0 ? 4 : 2 * (size_t)count, sizeof(tri_chat_node *), &grown));
  if (count > 0) memcpy(grown, *list, (size_t)count * sizeof(tri_chat_node *));
  *list = grown;
  return TRI_OK;
}

tri_status tri_chat_node_add(tri_chat_parser *parser, tri_chat_node *node, tri_chat_node *item) {
  TRI_TRY(room_for(parser, node->count, &node->items));
  node->items[node->count++] = item;
  return TRI_OK;
}

static tri_status add_keyword(tri_chat_parser *parser, tri_chat_node *node, tri_chat_node *keyword) {
  TRI_TRY(room_for(parser, node->num_keywords, &node->keywords));
  node->keywords[node->num_keywords++] = keyword;
  return TRI_OK;
}

static tri_status symbol_of(tri_chat_parser *parser, tri_chat_value name, int32_t *out) {
  const tri_chat_value *known = tri_chat_dict_find(parser->symbols, name);
  *out = known != NULL ? (int32_t)known->integer : (int32_t)parser->symbols->count;
  if (known != NULL) return TRI_OK;
  return tri_chat_dict_set(parser->arena, parser->symbols, name, tri_chat_integer(*out));
}

tri_status tri_chat_parse_name(tri_chat_parser *parser, tri_chat_node **out) {
  static const char *const reserved[] = {"if", "else", "elif", "for", "in", "and", "or", "not", "is"};
  char shown[64];
  bool is_reserved = false;
  for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++)
    is_reserved |= tri_chat_at_name(parser, reserved[i]);
  if (parser->token.kind != TRI_TOKEN_NAME || is_reserved) {
    return TRI_CHAT_FAULT(parser, TRI_BAD_FILE, "a name is missing before %s", tri_chat_shown(parser, shown));
  }
  TRI_TRY(tri_chat_node_create(parser, TRI_NODE_NAME, out));
  (*out)->name = parser->token.value;
  TRI_TRY(symbol_of(parser, (*out)->name, &(*out)->symbol));
  return tri_chat_parser_next(parser);
}

static tri_status constant(tri_chat_parser *parser, tri_chat_value value, tri_chat_node **out) {
  TRI_TRY(tri_chat_node_create(parser, TRI_NODE_CONSTANT, out));
  (*out)->constant = value;
  return TRI_OK;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static tri_status parse_unary(tri_chat_parser *parser, bool filters, tri_chat_node **out);

/* Parses adjacent strings, and joins them to one. */
static tri_status parse_strings(tri_chat_parser *parser, tri_chat_node **out) {
  tri_chat_value text = parser->token.value;
  TRI_TRY(constant(parser, text, out));
  TRI_TRY(tri_chat_parser_next(parser));
  while (parser->token.kind == TRI_TOKEN_STRING) {
    TRI_TRY(tri_chat_concat(parser->arena, text, parser->token.value, &text));
    TRI_TRY(tri_chat_parser_next(parser));
  }
  TRI_TRY(tri_chat_flatten(parser->arena, &text));
  (*out)->constant = text;
  return TRI_OK;
}

/* Parses `[a, b]`; the bracket is the current token. */
static tri_status parse_list(tri_chat_parser *parser, tri_chat_node **out) {
  bool done = false;
  tri_chat_node *item = NULL;
  TRI_TRY(tri_chat_node_create(parser, TRI_NODE_LIST, out));
  TRI_TRY(tri_chat_parser_next(parser));
  while (!tri_chat_at_sign(parser, "]") && !done) {
    TRI_TRY(tri_chat_parse_expression(parser, &item));
    TRI_TRY(tri_chat_node_add(parser, *out, item));
    TRI_TRY(tri_chat_accept_sign(parser, ",", &done));
    done = !done;
  }
  return tri_chat_expect_sign(parser, "]");
}

static tri_status parse_dict(tri_chat_parser *parser, tri_chat_node **out) {
  bool done = false;
  tri_chat_node *item = NULL;
  TRI_TRY(tri_chat_node_create(parser, TRI_NODE_DICT, out));
  TRI_TRY(tri_chat_parser_next(parser));
  while (!tri_chat_at_sign(parser, "}") && !done) {
    TRI_TRY(tri_chat_parse_expression(parser, &item));
    TRI_TRY(tri_chat_node_add(parser, *out, item));
    TRI_TRY(tri_chat_expect_sign(parser, ":"));
    TRI_TRY(tri_chat_parse_expression(parser, &item));
    TRI_TRY(tri_chat_node_add(parser, *out, item));
    TRI_TRY(tri_chat_accept_sign(parser, ",", &done));
    done = !done;
  }
  return tri_chat_expect_sign(parser, "}");
}

/* Returns whether the current token ends a tuple whose last item has a comma: `%}`, `}}`, `)` or `in`. */
static bool ends_tuple(const tri_chat_parser *parser) {
  return parser->token.kind == TRI_TOKEN_END_BLOCK || parser->token.kind == TRI_TOKEN_END_PRINT ||
         tri_chat_at_sign(parser, ")") || tri_chat_at_name(parser, "in");
}

static tri_status parse_or(tri_chat_parser *parser, tri_chat_node **out);

tri_status tri_chat_parse_tuple(tri_chat_parser *parser, bool conditions, tri_chat_node **out) {
  tri_chat_node *item = NULL, *tuple = NULL;
  bool more = false;
  TRI_TRY(conditions ? tri_chat_parse_expression(parser, &item) : parse_or(parser, &item));
  if (!tri_chat_at_sign(parser, ",")) {
    *out = item;
    return TRI_OK;
  }
  TRI_TRY(tri_chat_node_create(parser, TRI_NODE_LIST, &tuple));
  tuple->is_tuple = true;
  for (;;) {
    TRI_TRY(tri_chat_node_add(parser, tuple, item));
    TRI_TRY(tri_chat_accept_sign(parser, ",", &more));
    if (!more || ends_tuple(parser)) break;
    TRI_TRY(conditions ? tri_chat_parse_expression(parser, &item) : parse_or(parser, &item));
  }
  *out = tuple;
  return TRI_OK;
}

static tri_status parse_brackets(tri_chat_parser *parser, tri_chat_node **out) {
  TRI_TRY(tri_chat_parser_next(parser));
  if (tri_chat_at_sign(parser, ")")) {
    TRI_TRY(tri_chat_node_create(parser, TRI_NODE_LIST, out));
    (*out)->is_tuple = true;
  } else {
    TRI_TRY(tri_chat_parse_tuple(parser, true, out));
  }
  return tri_chat_expect_sign(parser, ")");
}

static tri_status parse_word(tri_chat_parser *parser, tri_chat_node **out) {
  static const struct {
    const char *name;
    tri_chat_kind kind;
    bool boolean;
  } words[] = {{"true", TRI_CHAT_BOOLEAN, true},   {"True", TRI_CHAT_BOOLEAN, true}, {"false", TRI_CHAT_BOOLEAN, false},
               {"False", TRI_CHAT_BOOLEAN, false}, {"none", TRI_CHAT_NONE, false},   {"None", TRI_CHAT_NONE, false}};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
    if (!tri_chat_at_name(parser, words[i].name)) continue;
    tri_chat_value value = {.kind = (uint8_t)words[i].kind, .boolean = words[i].boolean};
    TRI_TRY(constant(parser, value, out));
    return tri_chat_parser_next(parser);
  }
  return tri_chat_parse_name(parser, out);
}

static tri_status parse_primary(tri_chat_parser *parser, tri_chat_node **out) {
  char shown[64];
  if (parser->token.kind == TRI_TOKEN_NAME) return parse_word(parser, out);
  if (parser->token.kind == TRI_TOKEN_STRING) return parse_strings(parser, out);
  if (parser->token.kind == TRI_TOKEN_INTEGER || parser->token.kind == TRI_TOKEN_REAL) {
    TRI_TRY(constant(parser, parser->token.value, out));
    return tri_chat_parser_next(parser);
  }
  if (tri_chat_at_sign(parser, "(")) return parse_brackets(parser, out);
  if (tri_chat_at_sign(parser, "[")) return parse_list(parser, out);
  if (tri_chat_at_sign(parser, "{")) return parse_dict(parser, out);
  return TRI_CHAT_FAULT(parser, TRI_BAD_FILE, "a value is missing before %s", tri_chat_shown(parser, shown));
}

/* ---- postfix forms ----------------------------------------------------------------------------------------------- */

static tri_status parse_argument(tri_chat_parser *parser, tri_chat_node *node) {
  tri_chat_node *item = NULL, *keyword = NULL;
  if (tri_chat_at_sign(parser, "*") || tri_chat_at_sign(parser, "**")) {
    return TRI_CHAT_FAULT(parser, TRI_UNSUPPORTED, "arguments from a list or a dict (* and **) are not supported");
  }
  if (parser->token.kind == TRI_TOKEN_NAME && is_word(&parser->ahead, TRI_TOKEN_SIGN, "=")) {
    TRI_TRY(tri_chat_parse_name(parser, &keyword));
    TRI_TRY(tri_chat_expect_sign(parser, "="));
    TRI_TRY(tri_chat_parse_expression(parser, &keyword->a));
    return add_keyword(parser, node, keyword);
  }
  TRI_TRY(tri_chat_parse_expression(parser, &item));
  return tri_chat_node_add(parser, node, item);
}

/* Parses `(a, b, c=d)`; the bracket is the current token. Fails with TRI_BAD_FILE for more than MOST_ITEMS
 * arguments. */
static tri_status parse_arguments(tri_chat_parser *parser, tri_chat_node *node) {
  bool done = false;
  TRI_TRY(tri_chat_parser_next(parser));
  while (!tri_chat_at_sign(parser, ")") && !done) {
    TRI_TRY(parse_argument(parser, node));
    TRI_TRY(tri_chat_accept_sign(parser, ",", &done));
    done = !done;
    if (node->count > MOST_ITEMS) return TRI_CHAT_FAULT(parser, TRI_BAD_FILE, "too many arguments");
  }
  return tri_chat_expect_sign(parser, ")");
}

static tri_status check_arguments(tri_chat_parser *parser, const tri_chat_node *node, const char *what) {
  const tri_chat_function *function = node->function;
  if (node->count + node->num_keywords >= function->least && node->count <= function->most) return TRI_OK;
  return tri_chat_fault_at(parser->lexer.name, node->line, node->column, TRI_BAD_FILE,
                           "the %s `%s` takes %d to %d arguments here", what, function->name, function->least,
                           function->most);
}

static tri_status parse_filter(tri_chat_parser *parser, tri_chat_node *from, tri_chat_node **out) {
  char shown[64];
  TRI_TRY(tri_chat_parser_next(parser));
  TRI_TRY(tri_chat_node_create(parser, TRI_NODE_FILTER, out));
  (*out)->a = from;
  if (parser->token.kind != TRI_TOKEN_NAME) {
    return TRI_CHAT_FAULT(parser, TRI_BAD_FILE, "the name of a filter is missing before %s",
                          tri_chat_shown(parser, shown));
  }
  (*out)->function = tri_chat_function_find(tri_chat_filters(), parser->token.value);
  if ((*out)->function == NULL) {
    return TRI_CHAT_FAULT(parser, TRI_UNSUPPORTED, "the filter %s is not supported", tri_chat_shown(parser, shown));
  }
  TRI_TRY(tri_chat_parser_next(parser));
  if (tri_chat_at_sign(parser, "(")) TRI_TRY(parse_arguments(parser, *out));
  return check_arguments(parser, *out, "filter");
}

static tri_status parse_postfix(tri_chat_parser *parser, tri_chat_node **node);

/* Returns whether an argument without brackets follows, which a test may have. */
static bool begins_argument(const tri_chat_parser *parser) {
  if (parser->token.kind == TRI_TOKEN_NAME) {
    return !tri_chat_at_name(parser, "else") && !tri_chat_at_name(parser, "or") && !tri_chat_at_name(parser, "and") &&
           !tri_chat_at_name(parser, "if") && !tri_chat_at_name(parser, "is") && !tri_chat_at_name(parser, "in") &&
           !tri_chat_at_name(parser, "not");
  }
  return parser->token.kind == TRI_TOKEN_STRING || parser->token.kind == TRI_TOKEN_INTEGER ||
         parser->token.kind == TRI_TOKEN_REAL || tri_chat_at_sign(parser, "[") || tri_chat_at_sign(parser, "{");
}

static tri_status parse_test(tri_chat_parser *parser, tri_chat_node *from, tri_chat_node **out) {
  char shown[64];
  tri_chat_node *argument = NULL;
  TRI_TRY(tri_chat_parser_next(parser));
  TRI_TRY(tri_chat_node_create(parser, TRI_NODE_TEST, out));
  (*out)->a = from;
  TRI_TRY(tri_chat_accept_name(parser, "not", &(*out)->negated));
  if (parser->token.kind != TRI_TOKEN_NAME) {
    return TRI_CHAT_FAULT(parser, TRI_BAD_FILE, "the name of a test is missing before %s",
                          tri_chat_shown(parser, shown));
  }
  (*out)->function = tri_chat_function_find(tri_chat_tests(), parser->token.value);
  if ((*out)->function == NULL) {
    return TRI_CHAT_FAULT(parser, TRI_UNSUPPORTED, "the test %s is not supported", tri_chat_shown(parser, shown));
  }
  TRI_TRY(tri_chat_parser_next(parser));
  if (tri_chat_at_sign(parser, "(")) {
    TRI_TRY(parse_arguments(parser, *out));
  } else if ((*out)->function->most > 0 && begins_argument(parser)) {
    TRI_TRY(parse_primary(parser, &argument));
    TRI_TRY(parse_postfix(parser, &argument));
    TRI_TRY(tri_chat_node_add(parser, *out, argument));
  }
  return check_arguments(parser, *out, "test");
}

/* Parses `[item]` or `[begin:end:step]`. Fails with TRI_UNSUPPORTED for several items. */
static tri_status parse_subscript(tri_chat_parser *parser, tri_chat_node *from, tri_chat_node **out) {
  tri_chat_node *parts[3] = {NULL, NULL, NULL};
  int colons = 0;
  bool colon = false;
  TRI_TRY(tri_chat_node_create(parser, TRI_NODE_SUBSCRIPT, out));
  (*out)->a = from;
  TRI_TRY(tri_chat_parser_next(parser));
  while (!tri_chat_at_sign(parser, "]") && colons < 3) {
    if (!tri_chat_at_sign(parser, ":")) TRI_TRY(tri_chat_parse_expression(parser, &parts[colons]));
    TRI_TRY(tri_chat_accept_sign(parser, ":", &colon));
    if (!colon) break;
    colons++;
  }
  if (tri_chat_at_sign(parser, ",")) {
    return TRI_CHAT_FAULT(parser, TRI_UNSUPPORTED, "several subscripts in one pair of brackets are not supported");
  }
  if (colons > 2) return TRI_CHAT_FAULT(parser, TRI_BAD_FILE, "a slice has at most two colons");
  if (colons == 0 && parts[0] == NULL) return TRI_CHAT_FAULT(parser, TRI_BAD_FILE, "the subscript is missing");
  (*out)->b = parts[0];
  if (colons > 0) {
    (*out)->kind = (uint8_t)TRI_NODE_SLICE;
    for (int i = 0; i < 3; i++) TRI_TRY(tri_chat_node_add(parser, *out, parts[i]));
  }
  return tri_chat_expect_sign(parser, "]");
}

static tri_status parse_attribute(tri_chat_parser *parser, tri_chat_node *from, tri_chat_node **out) {
  char shown[64];
  TRI_TRY(tri_chat_parser_next(parser));
  if (parser->token.kind == TRI_TOKEN_INTEGER) {
    TRI_TRY(tri_chat_node_create(parser, TRI_NODE_SUBSCRIPT, out));
    (*out)->a = from;
    TRI_TRY(constant(parser, parser->token.value, &(*out)->b));
    return tri_chat_parser_next(parser);
  }
  if (parser->token.kind != TRI_TOKEN_NAME) {
    return TRI_CHAT_FAULT(parser, TRI_BAD_FILE, "a name is missing before %s", tri_chat_shown(parser, shown));
  }
  TRI_TRY(tri_chat_node_create(parser, TRI_NODE_ATTRIBUTE, out));
  (*out)->a = from;
  (*out)->name = parser->token.value;
  if ((*out)->name.bytes >= 2 && memcmp((*out)->name.text, "__", 2) == 0) {
    return TRI_CHAT_FAULT(parser, TRI_UNSUPPORTED, "the attribute %s, Python's own, is not for templates",
                          tri_chat_shown(parser, shown));
  }
  return tri_chat_parser_next(parser);
}

static tri_status parse_call(tri_chat_parser *parser, tri_chat_node *from, tri_chat_node **out) {
  static const char *const loop_methods[] = {"cycle", "changed"};
  TRI_TRY(tri_chat_node_create(parser, TRI_NODE_CALL, out));
  (*out)->a = from;
  if (from->kind == TRI_NODE_ATTRIBUTE &&
      tri_chat_function_find(tri_chat_methods(TRI_CHAT_STRING), from->name) == NULL &&
      tri_chat_function_find(tri_chat_methods(TRI_CHAT_DICT), from->name) == NULL) {
    bool of_loop = false;
    for (size_t i = 0; i < 2; i++) {
      of_loop |= strlen(loop_methods[i]) == from->name.bytes &&
                 memcmp(loop_methods[i], from->name.text, from->name.bytes) == 0;
    }
    return tri_chat_fault_at(
        parser->lexer.name, from->line, from->column, TRI_UNSUPPORTED, "the method `%.*s()`%s is not supported",
        (int)(from->name.bytes < 60 ? from->name.bytes : 60), from->name.text, of_loop ? " of a loop" : "");
  }
  return parse_arguments(parser, *out);
}

static tri_status parse_postfix(tri_chat_parser *parser, tri_chat_node **node) {
  for (;;) {
    if (tri_chat_at_sign(parser, ".")) {
      TRI_TRY(parse_attribute(parser, *node, node));
    } else if (tri_chat_at_sign(parser, "[")) {
      TRI_TRY(parse_subscript(parser, *node, node));
    } else if (tri_chat_at_sign(parser, "(")) {
      TRI_TRY(parse_call(parser, *node, node));
    } else {
      return TRI_OK;
    }
  }
}

static tri_status parse_filters(tri_chat_parser *parser, tri_chat_node **node) {
  for (;;) {
    if (tri_chat_at_sign(parser, "|")) {
      TRI_TRY(parse_filter(parser, *node, node));
    } else if (tri_chat_at_name(parser, "is")) {
      TRI_TRY(parse_test(parser, *node, node));
    } else if (tri_chat_at_sign(parser, "(")) {
      TRI_TRY(parse_call(parser, *node, node));
    } else {
      return TRI_OK;
    }
  }
}

/* ---- operators --------------------------------------------------------------------------------------------------- */

static tri_status parse_unary_inside(tri_chat_parser *parser, bool filters, tri_chat_node **out) {
  bool minus = tri_chat_at_sign(parser, "-"), plus = tri_chat_at_sign(parser, "+");
  if (minus || plus) {
    TRI_TRY(tri_chat_node_create(parser, minus ? TRI_NODE_NEGATE : TRI_NODE_PLUS, out));
    TRI_TRY(tri_chat_parser_next(parser));
    TRI_TRY(parse_unary(parser, false, &(*out)->a));
  } else {
    TRI_TRY(parse_primary(parser, out));
  }
  TRI_TRY(parse_postfix(parser, out));
  return filters ? parse_filters(parser, out) : TRI_OK;
}

static tri_status parse_unary(tri_chat_parser *parser, bool filters, tri_chat_node **out) {
  TRI_TRY(tri_chat_enter(parser));
  TRI_TRY(parse_unary_inside(parser, filters, out));
  tri_chat_leave(parser);
  return TRI_OK;
}

typedef struct level {
  const char *sign;
  tri_chat_binary binary;
} level;

typedef tri_status parse_operand(tri_chat_parser *parser, tri_chat_node **out);

/* Parses the operands and operators of one level of precedence, from left to right. Each operator makes the tree one
 * level deeper. */
static tri_status parse_binary(tri_chat_parser *parser, const level *levels, parse_operand *operand,
                               tri_chat_node **out) {
  int depth = parser->depth;
  TRI_TRY(operand(parser, out));
  for (;;) {
    const level *found = levels;
    while (found->sign != NULL && !tri_chat_at_sign(parser, found->sign)) found++;
    if (found->sign == NULL) break;
    tri_chat_node *node = NULL;
    TRI_TRY(tri_chat_enter(parser));
    TRI_TRY(tri_chat_node_create(parser, TRI_NODE_BINARY, &node));
    node->binary = (uint8_t)found->binary;
    node->a = *out;
    TRI_TRY(tri_chat_parser_next(parser));
    TRI_TRY(operand(parser, &node->b));
    *out = node;
  }
  parser->depth = depth;
  return TRI_OK;
}

static tri_status parse_signed(tri_chat_parser *parser, tri_chat_node **out) { return parse_unary(parser, true, out); }

static tri_status parse_power(tri_chat_parser *parser, tri_chat_node **out) {
  static const level levels[] = {{"**", TRI_BINARY_POWER}, {NULL, TRI_BINARY_POWER}};
  return parse_binary(parser, levels, parse_signed, out);
}

static tri_status parse_product(tri_chat_parser *parser, tri_chat_node **out) {
  static const level levels[] = {{"*", TRI_BINARY_MULTIPLY},
                                 {"/", TRI_BINARY_DIVIDE},
                                 {"//", TRI_BINARY_FLOOR},
                                 {"%", TRI_BINARY_REMAINDER},
                                 {NULL, TRI_BINARY_MULTIPLY}};
  return parse_binary(parser, levels, parse_power, out);
}

static tri_status parse_concat(tri_chat_parser *parser, tri_chat_node **out) {
  static const level levels[] = {{"~", TRI_BINARY_CONCAT}, {NULL, TRI_BINARY_CONCAT}};
  return parse_binary(parser, levels, parse_product, out);
}

static tri_status parse_sum(tri_chat_parser *parser, tri_chat_node **out) {
  static const level levels[] = {{"+", TRI_BINARY_ADD}, {"-", TRI_BINARY_SUBTRACT}, {NULL, TRI_BINARY_ADD}};
  return parse_binary(parser, levels, parse_concat, out);
}

static tri_status find_comparison(tri_chat_parser *parser, bool *found, tri_chat_compare *out) {
  static const struct {
    const char *sign;
    tri_chat_compare compare;
  } signs[] = {{"==", TRI_COMPARE_EQUAL},    {"!=", TRI_COMPARE_UNEQUAL}, {"<=", TRI_COMPARE_AT_MOST},
               {">=", TRI_COMPARE_AT_LEAST}, {"<", TRI_COMPARE_LESS},     {">", TRI_COMPARE_MORE}};
  for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
    TRI_TRY(tri_chat_accept_sign(parser, signs[i].sign, found));
    *out = signs[i].compare;
    if (*found) return TRI_OK;
  }
  *out = TRI_COMPARE_IN;
  TRI_TRY(tri_chat_accept_name(parser, "in", found));
  if (*found || !tri_chat_at_name(parser, "not") || !is_word(&parser->ahead, TRI_TOKEN_NAME, "in")) return TRI_OK;
  *found = true;
  *out = TRI_COMPARE_NOT_IN;
  TRI_TRY(tri_chat_parser_next(parser));
  return tri_chat_parser_next(parser);
}

static tri_status parse_compare(tri_chat_parser *parser, tri_chat_node **out) {
  enum { MOST = 64 };
  uint8_t signs[MOST];
  tri_chat_node *node = NULL, *operand = NULL;
  bool found = false;
  tri_chat_compare compare = TRI_COMPARE_EQUAL;
  TRI_TRY(parse_sum(parser, out));
  for (;;) {
    TRI_TRY(find_comparison(parser, &found, &compare));
    if (!found) break;
    if (node == NULL) TRI_TRY(tri_chat_node_create(parser, TRI_NODE_COMPARE, &node));
    if (node->count == MOST) return TRI_CHAT_FAULT(parser, TRI_BAD_FILE, "too many comparisons in a row");
    signs[node->count] = (uint8_t)compare;
    TRI_TRY(parse_sum(parser, &operand));
    TRI_TRY(tri_chat_node_add(parser, node, operand));
  }
  if (node == NULL) return TRI_OK;
  TRI_TRY(tri_chat_arena_alloc(parser->arena, (size_t)node->count, 1, &node->compare));
  memcpy(node->compare, signs, (size_t)node->count);
  node->a = *out;
  *out = node;
  return TRI_OK;
}

static tri_status parse_not(tri_chat_parser *parser, tri_chat_node **out) {
  if (!tri_chat_at_name(parser, "not")) return parse_compare(parser, out);
  TRI_TRY(tri_chat_enter(parser));
  TRI_TRY(tri_chat_node_create(parser, TRI_NODE_NOT, out));
  TRI_TRY(tri_chat_parser_next(parser));
  TRI_TRY(parse_not(parser, &(*out)->a));
  tri_chat_leave(parser);
  return TRI_OK;
}

static tri_status parse_words(tri_chat_parser *parser, const char *word, tri_chat_node_kind kind,
                              parse_operand *operand, tri_chat_node **out) {
  int depth = parser->depth;
  bool found = false;
  TRI_TRY(operand(parser, out));
  for (;;) {
    TRI_TRY(tri_chat_accept_name(parser, word, &found));
    if (!found) break;
    tri_chat_node *node = NULL;
    TRI_TRY(tri_chat_enter(parser));
    TRI_TRY(tri_chat_node_create(parser, kind, &node));
    node->a = *out;
    TRI_TRY(operand(parser, &node->b));
    *out = node;
  }
  parser->depth = depth;
  return TRI_OK;
}

static tri_status parse_and(tri_chat_parser *parser, tri_chat_node **out) {
  return parse_words(parser, "and", TRI_NODE_AND, parse_not, out);
}

static tri_status parse_or(tri_chat_parser *parser, tri_chat_node **out) {
  return parse_words(parser, "or", TRI_NODE_OR, parse_and, out);
}

tri_status tri_chat_parse_expression(tri_chat_parser *parser, tri_chat_node **out) {
  int depth = parser->depth;
  bool found = false;
  TRI_TRY(tri_chat_enter(parser));
  TRI_TRY(parse_or(parser, out));
  for (;;) {
    TRI_TRY(tri_chat_accept_name(parser, "if", &found));
    if (!found) break;
    tri_chat_node *node = NULL;
    TRI_TRY(tri_chat_enter(parser));
    TRI_TRY(tri_chat_node_create(parser, TRI_NODE_CONDITION, &node));
    node->a = *out;
    TRI_TRY(parse_or(parser, &node->b));
    TRI_TRY(tri_chat_accept_name(parser, "else", &found));
    if (found) TRI_TRY(tri_chat_parse_expression(parser, &node->c));
    *out = node;
  }
  parser->depth = depth;
  return TRI_OK;
}
