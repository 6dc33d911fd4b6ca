/* Parses tokens to a tree. Functions fail with TRI_BAD_FILE for an invalid template, and with TRI_UNSUPPORTED for
 * features of Jinja that this program lacks. Private to this folder. */
#ifndef TRI_CHAT_PARSER_H
#define TRI_CHAT_PARSER_H

#include "chat/lexer.h"
#include "chat/tree.h"

typedef struct tri_chat_parser {
  struct tri_chat_template *template;
  tri_chat_lexer lexer;
  tri_chat_token token, ahead; /* the current token, and the next one */
  tri_chat_arena *arena;
  tri_chat_dict *symbols;
  int depth;
  int captures; /* depth of nested macros, `set` blocks and generation blocks */
  int loops;
} tri_chat_parser;

/* Makes the first token of the source the current token. */
tri_status tri_chat_parser_begin(tri_chat_parser *parser);
/* Advances to the next token. */
tri_status tri_chat_parser_next(tri_chat_parser *parser);

/* Returns whether the current token is this sign. */
bool tri_chat_at_sign(const tri_chat_parser *parser, const char *sign);
/* Returns whether the current token is this name. */
bool tri_chat_at_name(const tri_chat_parser *parser, const char *name);
/* Advance past the current token if it is this sign or name. Set *taken to whether it is. */
tri_status tri_chat_accept_sign(tri_chat_parser *parser, const char *sign, bool *taken);
tri_status tri_chat_accept_name(tri_chat_parser *parser, const char *name, bool *taken);
/* Advances past a sign; fails with TRI_BAD_FILE if the current token is a different one. */
tri_status tri_chat_expect_sign(tri_chat_parser *parser, const char *sign);
/* Parses a name. Fails with TRI_BAD_FILE if the current token is not a name, or is a reserved word. */
tri_status tri_chat_parse_name(tri_chat_parser *parser, tri_chat_node **out);

/* Creates a node with the line and column of the current token. */
tri_status tri_chat_node_create(tri_chat_parser *parser, tri_chat_node_kind kind, tri_chat_node **out);
/* Appends an item to a node. */
tri_status tri_chat_node_add(tri_chat_parser *parser, tri_chat_node *node, tri_chat_node *item);

/* Parses an expression. */
tri_status tri_chat_parse_expression(tri_chat_parser *parser, tri_chat_node **out);
/* Parses one expression, or several expressions with commas, which form a tuple. `conditions` false: expressions of the
 * form `a if b` are not allowed. */
tri_status tri_chat_parse_tuple(tri_chat_parser *parser, bool conditions, tri_chat_node **out);

/* Fails with an error message that has the place of the current token. The status is TRI_UNSUPPORTED for features of
 * Jinja that this subset lacks. */
#define TRI_CHAT_FAULT(parser, code, ...)                                                                              \
  tri_chat_fault_at((parser)->lexer.name, (parser)->token.line, (parser)->token.column, code, __VA_ARGS__)
/* Describes the current token for a message. Returns `out` or a static string. */
const char *tri_chat_shown(const tri_chat_parser *parser, char out[64]);

/* Enters a level of nesting. Fails with TRI_BAD_FILE if there are too many levels. */
tri_status tri_chat_enter(tri_chat_parser *parser);
/* Leaves a level of nesting. */
void tri_chat_leave(tri_chat_parser *parser);

#endif
