/* Executes the statements of a template, and collects the rendered text. */
#include "base/memory.h"
#include "chat/renderer.h"

#include <stdio.h>
#include <string.h>

enum { DEEPEST = 1000 };

const tri_chat_limits tri_chat_usual_limits = {
    .steps = 200000000, .value_bytes = (size_t)1 << 30, .output_bytes = (size_t)1 << 30};

/* Adds the place to an error. Not inlined: its buffer would be in every frame of a deep recursion. */
__attribute__((noinline)) tri_status tri_chat_place(const tri_chat_renderer *renderer, const tri_chat_node *node,
                                                    tri_status status) {
  char text[4096];
  if (status == TRI_OUT_OF_MEMORY) return status;
  snprintf(text, sizeof text, "%s", tri_status_message());
  return TRI_CHAT_FAIL_AT(renderer, node, status, "%s", text);
}

tri_status tri_chat_charge(tri_chat_renderer *renderer, size_t bytes) {
  return tri_chat_arena_charge(&renderer->arena, bytes);
}

/* ---- variables --------------------------------------------------------------------------------------------------- */

const tri_chat_value *tri_chat_find(const tri_chat_renderer *renderer, int32_t symbol) {
  const tri_chat_binding *bindings = renderer->bindings;
  for (int32_t i = renderer->num_bindings - 1; i >= renderer->frame; i--) {
    if (bindings[i].symbol == symbol) return &bindings[i].value;
  }
  int32_t top = renderer->num_top < renderer->frame ? renderer->num_top : renderer->frame;
  for (int32_t i = top - 1; i >= 0; i--) {
    if (bindings[i].symbol == symbol) return &bindings[i].value;
  }
  return NULL;
}

static tri_status push(tri_chat_renderer *renderer, int32_t symbol, tri_chat_value value) {
  TRI_TRY(tri_grow("the variables of a chat template", sizeof *renderer->bindings, renderer->num_bindings,
                   &renderer->binding_room, &renderer->bindings));
  renderer->bindings[renderer->num_bindings++] = (tri_chat_binding){symbol, value};
  if (renderer->scopes == 0) renderer->num_top = renderer->num_bindings;
  return TRI_OK;
}

static tri_status assign(tri_chat_renderer *renderer, int32_t symbol, tri_chat_value value) {
  for (int32_t i = renderer->num_bindings - 1; i >= renderer->scope; i--) {
    if (renderer->bindings[i].symbol != symbol) continue;
    renderer->bindings[i].value = value;
    return TRI_OK;
  }
  return push(renderer, symbol, value);
}

typedef struct scope {
  int32_t begin, frame, bindings;
} scope;

static scope open_scope(tri_chat_renderer *renderer) {
  scope kept = {renderer->scope, renderer->frame, renderer->num_bindings};
  renderer->scope = renderer->num_bindings;
  renderer->scopes++;
  return kept;
}

static void close_scope(tri_chat_renderer *renderer, scope kept) {
  renderer->scope = kept.begin;
  renderer->frame = kept.frame;
  renderer->num_bindings = kept.bindings;
  renderer->scopes--;
}

/* ---- printing ---------------------------------------------------------------------------------------------------- */

static tri_status reserve(tri_chat_renderer *renderer, size_t more) {
  tri_chat_rendered *out = renderer->out;
  if (more <= out->room - out->bytes) return TRI_OK;
  if (more > renderer->limits.output_bytes - out->bytes) {
    return tri_fail(TRI_BAD_FILE, "the chat template prints more than %zu MiB", renderer->limits.output_bytes >> 20);
  }
  return tri_reserve("a rendered conversation", 1, out->bytes + more, &out->room, &out->text);
}

static tri_status end_piece(tri_chat_rendered *out) {
  TRI_TRY(
      tri_grow("the pieces of a conversation", sizeof *out->pieces, out->num_pieces, &out->piece_room, &out->pieces));
  out->pieces[out->num_pieces++] = out->bytes;
  return TRI_OK;
}

/* Records the given bytes of a piece that is printed next. */
static tri_status add_given(tri_chat_rendered *out, tri_chat_value piece) {
  for (size_t at = 0, end = 0; at < piece.bytes; at = end) {
    end = tri_chat_run_end(piece, at);
    if (!tri_chat_is_given(piece, at)) continue;
    if (out->num_given > 0 && out->given[out->num_given - 1].end == out->bytes + at) {
      out->given[out->num_given - 1].end = out->bytes + end;
      continue;
    }
    TRI_TRY(tri_grow("the texts of a conversation", sizeof *out->given, out->num_given, &out->given_room, &out->given));
    out->given[out->num_given++] = (tri_chat_span){out->bytes + at, out->bytes + end};
  }
  return TRI_OK;
}

static tri_status print_piece(void *context, tri_chat_value piece) {
  tri_chat_renderer *renderer = context;
  tri_chat_rendered *out = renderer->out;
  TRI_TRY(reserve(renderer, piece.bytes));
  if (piece.bytes == 0) return TRI_OK;
  TRI_TRY(add_given(out, piece));
  memcpy(out->text + out->bytes, piece.text, piece.bytes);
  if (piece.origin > 0 && piece.origin <= out->num_messages) {
    tri_chat_span *copied = &out->copied[piece.origin - 1];
    if (copied->begin > copied->end) copied->begin = out->bytes;
    copied->end = out->bytes + piece.bytes;
  }
  out->bytes += piece.bytes;
  return end_piece(out);
}

static tri_status print_value(tri_chat_renderer *renderer, tri_chat_value value) {
  TRI_TRY(tri_chat_str(&renderer->arena, value, &value));
  TRI_TRY(tri_chat_charge(renderer, value.bytes));
  if (renderer->capture != NULL) return tri_chat_concat(&renderer->arena, *renderer->capture, value, renderer->capture);
  return tri_chat_visit(&renderer->arena, value, print_piece, renderer);
}

static tri_status capture(tri_chat_renderer *renderer, const tri_chat_node *body, tri_chat_value *out) {
  tri_chat_value text = tri_chat_string("", 0), *around = renderer->capture;
  renderer->capture = &text;
  tri_status status = tri_chat_execute(renderer, body);
  renderer->capture = around;
  *out = text;
  return status;
}

/* ---- statements -------------------------------------------------------------------------------------------------- */

static tri_status execute_if(tri_chat_renderer *renderer, const tri_chat_node *node) {
  while (node != NULL && node->kind == TRI_NODE_IF) {
    tri_chat_value condition;
    TRI_TRY(tri_chat_evaluate(renderer, node->a, &condition));
    if (tri_chat_truth(condition)) return tri_chat_execute(renderer, node->b);
    node = node->c;
  }
  return node == NULL ? TRI_OK : tri_chat_execute(renderer, node);
}

static tri_status bind_targets(tri_chat_renderer *renderer, const tri_chat_node *node, tri_chat_value value,
                               bool fresh) {
  tri_chat_list *list = NULL;
  if (!node->is_tuple) {
    int32_t symbol = node->items[0]->symbol;
    return fresh ? push(renderer, symbol, value) : assign(renderer, symbol, value);
  }
  TRI_CHAT_TRY_AT(renderer, node, tri_chat_iterate(renderer, value, &list));
  if (list->count != node->count) {
    return TRI_CHAT_FAIL_AT(renderer, node, TRI_BAD_FILE, "%lld values cannot be unpacked into %d names",
                            (long long)list->count, node->count);
  }
  for (int32_t i = 0; i < node->count; i++) TRI_TRY(assign(renderer, node->items[i]->symbol, list->items[i]));
  return TRI_OK;
}

/* Replaces *list by a list of the items for which the loop's condition holds. */
static tri_status filter_items(tri_chat_renderer *renderer, const tri_chat_node *node, tri_chat_list **list) {
  tri_chat_list *kept = NULL;
  TRI_TRY(tri_chat_list_create(&renderer->arena, 0, TRI_CHAT_IS_LIST, &kept));
  for (int64_t i = 0; i < (*list)->count; i++) {
    tri_chat_value condition;
    renderer->num_bindings = renderer->scope;
    TRI_TRY(bind_targets(renderer, node, (*list)->items[i], true));
    TRI_TRY(tri_chat_evaluate(renderer, node->filter, &condition));
    if (tri_chat_truth(condition)) TRI_TRY(tri_chat_list_add(&renderer->arena, kept, (*list)->items[i]));
  }
  *list = kept;
  return TRI_OK;
}

/* Runs a loop. Sets *broken to whether `break` ended it, and *through to whether at least one iteration ended without
 * `break` or `continue`; if none did, Jinja runs the loop's `else`. */
static tri_status run_loop(tri_chat_renderer *renderer, const tri_chat_node *node, tri_chat_list *list, bool *broken,
                           bool *through) {
  tri_chat_loop *loop = NULL;
  TRI_TRY(tri_chat_arena_alloc(&renderer->arena, 1, sizeof *loop, &loop));
  *loop = (tri_chat_loop){.list = list};
  tri_chat_value value = {.kind = TRI_CHAT_LOOP, .loop = loop};
  for (; loop->index < list->count && renderer->flow != TRI_FLOW_BREAK; loop->index++) {
    renderer->num_bindings = renderer->scope;
    TRI_TRY(push(renderer, renderer->loop_symbol, value));
    TRI_TRY(bind_targets(renderer, node, list->items[loop->index], true));
    renderer->flow = TRI_FLOW_ON;
    TRI_TRY(tri_chat_execute(renderer, node->b));
    *through = *through || renderer->flow == TRI_FLOW_ON;
  }
  *broken = renderer->flow == TRI_FLOW_BREAK;
  renderer->flow = TRI_FLOW_ON;
  return TRI_OK;
}

static tri_status execute_for(tri_chat_renderer *renderer, const tri_chat_node *node) {
  tri_chat_value value;
  tri_chat_list *list = NULL, *source = NULL;
  bool broken = false, through = false;
  TRI_TRY(tri_chat_evaluate(renderer, node->a, &value));
  TRI_CHAT_TRY_AT(renderer, node, tri_chat_iterate_some(renderer, value, &source));
  if (source->failure != NULL) return TRI_CHAT_FAIL_AT(renderer, node, TRI_BAD_FILE, "%s", source->failure);
  list = source;
  scope kept = open_scope(renderer);
  if (node->filter != NULL) TRI_TRY(filter_items(renderer, node, &list));
  if (list->count > 0) TRI_TRY(run_loop(renderer, node, list, &broken, &through));
  if (!broken) source->use = (uint8_t)TRI_CHAT_GONE;
  close_scope(renderer, kept);
  return !through && node->c != NULL ? tri_chat_execute(renderer, node->c) : TRI_OK;
}

static tri_status set_in_namespace(tri_chat_renderer *renderer, const tri_chat_node *node, tri_chat_value value) {
  const tri_chat_value *space = tri_chat_find(renderer, node->items[0]->symbol);
  if (space == NULL || space->kind != TRI_CHAT_NAMESPACE) {
    return TRI_CHAT_FAIL_AT(renderer, node, TRI_BAD_FILE, "only an attribute of a namespace can be set");
  }
  return tri_chat_dict_set(&renderer->arena, space->dict, node->name, value);
}

static tri_status execute_set(tri_chat_renderer *renderer, const tri_chat_node *node) {
  tri_chat_value value;
  if (node->a != NULL) {
    TRI_TRY(tri_chat_evaluate(renderer, node->a, &value));
  } else {
    scope kept = open_scope(renderer);
    TRI_TRY(capture(renderer, node->b, &value));
    close_scope(renderer, kept);
  }
  if (node->name.bytes > 0) return set_in_namespace(renderer, node, value);
  return bind_targets(renderer, node, value, false);
}

static tri_status execute_generation(tri_chat_renderer *renderer, const tri_chat_node *node) {
  tri_chat_rendered *out = renderer->out;
  TRI_TRY(tri_grow("the answers of a conversation", sizeof *out->generated, out->num_generated, &out->generated_room,
                   &out->generated));
  size_t begin = out->bytes;
  scope kept = open_scope(renderer);
  TRI_TRY(tri_chat_execute(renderer, node->b));
  close_scope(renderer, kept);
  out->generated[out->num_generated++] = (tri_chat_span){begin, out->bytes};
  return TRI_OK;
}

static tri_status execute_block(tri_chat_renderer *renderer, const tri_chat_node *node) {
  for (int32_t i = 0; i < node->count && renderer->flow == TRI_FLOW_ON; i++) {
    TRI_TRY(tri_chat_execute(renderer, node->items[i]));
  }
  return TRI_OK;
}

static tri_status execute_output(tri_chat_renderer *renderer, const tri_chat_node *node) {
  tri_chat_value value;
  TRI_TRY(tri_chat_evaluate(renderer, node->a, &value));
  TRI_CHAT_TRY_AT(renderer, node, print_value(renderer, value));
  return TRI_OK;
}

static tri_status execute_inside(tri_chat_renderer *renderer, const tri_chat_node *node) {
  switch ((tri_chat_node_kind)node->kind) {
    case TRI_NODE_TEXT: return print_value(renderer, node->constant);
    case TRI_NODE_OUTPUT: return execute_output(renderer, node);
    case TRI_NODE_IF: return execute_if(renderer, node);
    case TRI_NODE_FOR: return execute_for(renderer, node);
    case TRI_NODE_SET: return execute_set(renderer, node);
    case TRI_NODE_MACRO: return assign(renderer, node->symbol, (tri_chat_value){.kind = TRI_CHAT_MACRO, .macro = node});
    case TRI_NODE_GENERATION: return execute_generation(renderer, node);
    case TRI_NODE_BREAK: renderer->flow = TRI_FLOW_BREAK; return TRI_OK;
    case TRI_NODE_CONTINUE: renderer->flow = TRI_FLOW_CONTINUE; return TRI_OK;
    case TRI_NODE_BLOCK: return execute_block(renderer, node);
    case TRI_NODE_CONSTANT:
    case TRI_NODE_NAME:
    case TRI_NODE_LIST:
    case TRI_NODE_DICT:
    case TRI_NODE_CONDITION:
    case TRI_NODE_OR:
    case TRI_NODE_AND:
    case TRI_NODE_NOT:
    case TRI_NODE_COMPARE:
    case TRI_NODE_BINARY:
    case TRI_NODE_NEGATE:
    case TRI_NODE_PLUS:
    case TRI_NODE_ATTRIBUTE:
    case TRI_NODE_SUBSCRIPT:
    case TRI_NODE_SLICE:
    case TRI_NODE_CALL:
    case TRI_NODE_FILTER:
    case TRI_NODE_TEST: break;
  }
  return tri_fail_internal("a chat template has an expression where a statement is needed");
}

tri_status tri_chat_execute(tri_chat_renderer *renderer, const tri_chat_node *node) {
  TRI_CHAT_TRY_AT(renderer, node, tri_chat_charge(renderer, 0));
  if (++renderer->depth > DEEPEST) {
    return TRI_CHAT_FAIL_AT(renderer, node, TRI_BAD_FILE, "the template calls itself more than %d deep", DEEPEST);
  }
  tri_status status = execute_inside(renderer, node);
  renderer->depth--;
  return status;
}

/* ---- macros ------------------------------------------------------------------------------------------------------ */

static tri_status bind_keywords(tri_chat_renderer *renderer, const tri_chat_node *macro, const tri_chat_call *call) {
  for (int32_t k = 0; k < call->num_keywords; k++) {
    tri_chat_value name = call->keywords[2 * k];
    int32_t i = 0;
    for (; i < macro->count; i++) {
      tri_chat_value own = macro->items[i]->name;
      if (own.bytes == name.bytes && memcmp(own.text, name.text, name.bytes) == 0) break;
    }
    if (i == macro->count) {
      return tri_fail(TRI_BAD_FILE, "the macro `%.*s` has no parameter `%.*s`", (int)macro->name.bytes,
                      macro->name.text, (int)name.bytes, name.text);
    }
    TRI_TRY(assign(renderer, macro->items[i]->symbol, call->keywords[2 * k + 1]));
  }
  return TRI_OK;
}

static tri_status bind_defaults(tri_chat_renderer *renderer, const tri_chat_node *macro) {
  for (int32_t i = 0; i < macro->count; i++) {
    const tri_chat_node *parameter = macro->items[i];
    bool given = false;
    for (int32_t k = renderer->frame; k < renderer->num_bindings; k++) {
      given |= renderer->bindings[k].symbol == parameter->symbol;
    }
    if (given) continue;
    tri_chat_value value = tri_chat_undefined(parameter->name.text, parameter->name.bytes);
    if (macro->defaults[i] != NULL) TRI_TRY(tri_chat_evaluate(renderer, macro->defaults[i], &value));
    TRI_TRY(push(renderer, parameter->symbol, value));
  }
  return TRI_OK;
}

tri_status tri_chat_call_macro(tri_chat_renderer *renderer, const tri_chat_node *macro, const tri_chat_call *call,
                               tri_chat_value *out) {
  tri_chat_flow flow = renderer->flow;
  if (call->count > macro->count) {
    return tri_fail(TRI_BAD_FILE, "the macro `%.*s` takes at most %d arguments, not %d", (int)macro->name.bytes,
                    macro->name.text, macro->count, call->count);
  }
  scope kept = open_scope(renderer);
  renderer->frame = renderer->scope;
  for (int32_t i = 0; i < call->count; i++) TRI_TRY(push(renderer, macro->items[i]->symbol, call->items[i]));
  TRI_TRY(bind_keywords(renderer, macro, call));
  TRI_TRY(bind_defaults(renderer, macro));
  TRI_TRY(capture(renderer, macro->b, out));
  close_scope(renderer, kept);
  renderer->flow = flow;
  return TRI_OK;
}

/* ---- a rendering ------------------------------------------------------------------------------------------------- */

tri_status tri_chat_renderer_create(const tri_chat_template *template, const tri_chat_limits *limits, time_t now,
                                    tri_chat_renderer **out) {
  tri_chat_renderer *renderer = NULL;
  TRI_TRY(tri_alloc("a chat renderer", 1, sizeof *renderer, &renderer));
  renderer->template = template;
  renderer->limits = *limits;
  renderer->now = now;
  renderer->arena.limit = limits->value_bytes;
  renderer->arena.most_steps = limits->steps;
  renderer->loop_symbol = tri_chat_symbol(template, tri_chat_text("loop"));
  *out = renderer;
  return TRI_OK;
}

void tri_chat_renderer_destroy(tri_chat_renderer *renderer) {
  if (renderer == NULL) return;
  tri_chat_arena_release(&renderer->arena);
  tri_free(renderer->bindings);
  tri_free(renderer);
}

void tri_chat_rendered_release(tri_chat_rendered *rendered) {
  tri_free(rendered->text);
  tri_free(rendered->generated);
  tri_free(rendered->copied);
  tri_free(rendered->given);
  tri_free(rendered->pieces);
  *rendered = (tri_chat_rendered){0};
}

static tri_status begin_output(int64_t num_messages, tri_chat_rendered *out) {
  if (num_messages > out->copied_room) {
    TRI_TRY(tri_realloc("the messages of a conversation", (size_t)num_messages, sizeof *out->copied, &out->copied));
    out->copied_room = num_messages;
  }
  for (int64_t i = 0; i < num_messages; i++) out->copied[i] = (tri_chat_span){1, 0};
  out->num_messages = num_messages;
  out->bytes = 0;
  out->num_generated = out->num_given = 0;
  out->num_pieces = 0;
  return TRI_OK;
}

tri_status tri_chat_render(tri_chat_renderer *renderer, const tri_chat_value *variables, int32_t num_variables,
                           int64_t num_messages, tri_chat_rendered *out) {
  tri_chat_arena_reset(&renderer->arena);
  renderer->num_bindings = renderer->scope = renderer->frame = renderer->num_top = 0;
  renderer->scopes = renderer->depth = 0;
  renderer->capture = NULL;
  renderer->flow = TRI_FLOW_ON;
  renderer->out = out;
  TRI_TRY(begin_output(num_messages, out));
  for (int32_t i = 0; i < num_variables; i++) {
    int32_t symbol = tri_chat_symbol(renderer->template, variables[2 * i]);
    if (symbol >= 0) TRI_TRY(assign(renderer, symbol, variables[2 * i + 1]));
  }
  return tri_chat_execute(renderer, renderer->template->root);
}
