/* State of a rendering. Private to this folder. */
#ifndef TRI_CHAT_RENDERER_H
#define TRI_CHAT_RENDERER_H

#include "chat/lexer.h"
#include "chat/template.h"
#include "chat/tree.h"

typedef struct tri_chat_binding {
  int32_t symbol;
  tri_chat_value value;
} tri_chat_binding;

typedef struct tri_chat_loop {
  const tri_chat_list *list;
  int64_t index;
} tri_chat_loop;

typedef enum tri_chat_flow { TRI_FLOW_ON, TRI_FLOW_BREAK, TRI_FLOW_CONTINUE } tri_chat_flow;

/* Variables are a stack of bindings. A scope (an iteration of a loop, a block) can read all variables below it in the
 * stack. A macro can only read its own variables and those of the template's top level, [0, num_top). */
struct tri_chat_renderer {
  const tri_chat_template *template;
  tri_chat_limits limits;
  time_t now;
  tri_chat_arena arena;
  tri_chat_binding *bindings;
  int32_t num_bindings;
  int64_t binding_room;
  int32_t scope, frame, num_top; /* scope, frame: index of the first binding of the current scope, and of the current
                                    macro; num_top: number of bindings of the top level */
  int32_t scopes;                /* number of scopes; 0: at the top level */
  int32_t depth;
  int32_t loop_symbol;
  tri_chat_value *capture; /* destination of printed text; NULL: `out` */
  tri_chat_rendered *out;
  tri_chat_flow flow;
};

/* Evaluates an expression, and charges a step. Fails with TRI_BAD_FILE if evaluations are nested too deep. */
tri_status tri_chat_evaluate(tri_chat_renderer *renderer, const tri_chat_node *node, tri_chat_value *out);
/* Executes a statement, and charges a step. Fails with TRI_BAD_FILE if statements are nested too deep. */
tri_status tri_chat_execute(tri_chat_renderer *renderer, const tri_chat_node *node);
/* Calls a macro. *out is the text that it printed. Fails with TRI_BAD_FILE for arguments that the macro does not
 * have. */
tri_status tri_chat_call_macro(tri_chat_renderer *renderer, const tri_chat_node *macro, const tri_chat_call *call,
                               tri_chat_value *out);

/* Returns the value of a variable; NULL if there is no such variable. */
const tri_chat_value *tri_chat_find(const tri_chat_renderer *renderer, int32_t symbol);

/* Adds the line and column of a node to the error message of a function that does not know the node, except a message
 * about memory. Returns the status. */
tri_status tri_chat_place(const tri_chat_renderer *renderer, const tri_chat_node *node, tri_status status);
#define TRI_CHAT_TRY_AT(renderer, node, call)                                                                          \
  do {                                                                                                                 \
    tri_status tri_try_status_ = (call);                                                                               \
    if (tri_try_status_ != TRI_OK) return tri_chat_place(renderer, node, tri_try_status_);                             \
  } while (0)

#define TRI_CHAT_FAIL_AT(renderer, node, code, ...)                                                                    \
  tri_chat_fault_at((renderer)->template->name, (node)->line, (node)->column, code, __VA_ARGS__)

#endif
