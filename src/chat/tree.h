/* The tree of a compiled template. Private to this folder. */
#ifndef TRI_CHAT_TREE_H
#define TRI_CHAT_TREE_H

#include "chat/functions.h"
#include "chat/value.h"

/* Kinds of nodes. The comments list the members of tri_chat_node that a node of this kind uses. */
typedef enum tri_chat_node_kind {
  /* expressions */
  TRI_NODE_CONSTANT,  /* constant */
  TRI_NODE_NAME,      /* name */
  TRI_NODE_LIST,      /* items; a tuple if is_tuple */
  TRI_NODE_DICT,      /* items: key, value, key, value, ... */
  TRI_NODE_CONDITION, /* a if b else c; c may be NULL */
  TRI_NODE_OR,        /* a, b */
  TRI_NODE_AND,       /* a, b */
  TRI_NODE_NOT,       /* a */
  TRI_NODE_COMPARE,   /* a, then items with their operators in `compare` */
  TRI_NODE_BINARY,    /* a, b, with `binary` */
  TRI_NODE_NEGATE,    /* a */
  TRI_NODE_PLUS,      /* a */
  TRI_NODE_ATTRIBUTE, /* a, name */
  TRI_NODE_SUBSCRIPT, /* a, b */
  TRI_NODE_SLICE,     /* a, items: begin, end, step, each may be NULL */
  TRI_NODE_CALL,      /* a is called with items and keywords */
  TRI_NODE_FILTER,    /* a, function, items, keywords */
  TRI_NODE_TEST,      /* a, function, items; `negated` */
  /* statements */
  TRI_NODE_TEXT,       /* constant */
  TRI_NODE_OUTPUT,     /* a */
  TRI_NODE_IF,         /* a: condition, b: then, c: else */
  TRI_NODE_FOR,        /* items: targets, a: list, filter: condition, b: body, c: else */
  TRI_NODE_SET,        /* items: targets, a: value; or b: body whose text is the value */
  TRI_NODE_MACRO,      /* name, items: parameters (names), defaults, b: body */
  TRI_NODE_GENERATION, /* b: body */
  TRI_NODE_BREAK,
  TRI_NODE_CONTINUE,
  TRI_NODE_BLOCK, /* items: statements */
} tri_chat_node_kind;

typedef enum tri_chat_binary {
  TRI_BINARY_ADD,
  TRI_BINARY_SUBTRACT,
  TRI_BINARY_MULTIPLY,
  TRI_BINARY_DIVIDE,
  TRI_BINARY_FLOOR,
  TRI_BINARY_REMAINDER,
  TRI_BINARY_POWER,
  TRI_BINARY_CONCAT,
} tri_chat_binary;

typedef enum tri_chat_compare {
  TRI_COMPARE_EQUAL,
  TRI_COMPARE_UNEQUAL,
  TRI_COMPARE_LESS,
  TRI_COMPARE_AT_MOST,
  TRI_COMPARE_MORE,
  TRI_COMPARE_AT_LEAST,
  TRI_COMPARE_IN,
  TRI_COMPARE_NOT_IN,
} tri_chat_compare;

typedef struct tri_chat_node tri_chat_node;
struct tri_chat_node {
  uint8_t kind; /* a tri_chat_node_kind */
  uint8_t binary;
  bool is_tuple, negated;
  int32_t line, column;
  int32_t symbol; /* TRI_NODE_NAME, TRI_NODE_MACRO: number of the name; else -1 */
  tri_chat_value constant;
  tri_chat_value name;
  tri_chat_node *a, *b, *c, *filter;
  tri_chat_node **items;
  int32_t count;
  uint8_t *compare;
  tri_chat_node **keywords; /* TRI_NODE_NAME nodes of the keyword arguments; their `a` is the value */
  int32_t num_keywords;
  tri_chat_node **defaults; /* defaults of a macro's parameters; NULL: none */
  const tri_chat_function *function;
};

struct tri_chat_template {
  char *name;
  char *source; /* with normalized newlines, like in Jinja */
  size_t bytes;
  char *marked; /* [marked_bytes], the source with the generation blocks of a known template; NULL: the source is parsed
                 */
  size_t marked_bytes;
  tri_chat_arena arena;
  tri_chat_node *root;
  const tri_chat_value *symbols; /* names by number */
  int32_t num_symbols;
  bool has_generation;
};

/* Returns the number of a name among the template's symbols; -1 if the template does not use it. */
int32_t tri_chat_symbol(const struct tri_chat_template *template, tri_chat_value name);

#endif
