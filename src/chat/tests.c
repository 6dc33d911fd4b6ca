/* Tests: `value is test`. */
#include "chat/functions.h"

#include <string.h>

static tri_status answer(bool holds, tri_chat_value *out) {
  *out = tri_chat_boolean(holds);
  return TRI_OK;
}

static tri_status test_defined(const tri_chat_call *call, tri_chat_value *out) {
  return answer(call->self.kind != TRI_CHAT_UNDEFINED, out);
}

static tri_status test_undefined(const tri_chat_call *call, tri_chat_value *out) {
  return answer(call->self.kind == TRI_CHAT_UNDEFINED, out);
}

static tri_status test_none(const tri_chat_call *call, tri_chat_value *out) {
  return answer(call->self.kind == TRI_CHAT_NONE, out);
}

static tri_status test_boolean(const tri_chat_call *call, tri_chat_value *out) {
  return answer(call->self.kind == TRI_CHAT_BOOLEAN, out);
}

static tri_status test_true(const tri_chat_call *call, tri_chat_value *out) {
  return answer(call->self.kind == TRI_CHAT_BOOLEAN && call->self.boolean, out);
}

static tri_status test_false(const tri_chat_call *call, tri_chat_value *out) {
  return answer(call->self.kind == TRI_CHAT_BOOLEAN && !call->self.boolean, out);
}

static tri_status test_string(const tri_chat_call *call, tri_chat_value *out) {
  return answer(call->self.kind == TRI_CHAT_STRING, out);
}

static tri_status test_mapping(const tri_chat_call *call, tri_chat_value *out) {
  return answer(call->self.kind == TRI_CHAT_DICT, out);
}

static tri_status test_iterable(const tri_chat_call *call, tri_chat_value *out) {
  tri_chat_kind kind = (tri_chat_kind)call->self.kind;
  return answer(kind == TRI_CHAT_STRING || kind == TRI_CHAT_LIST || kind == TRI_CHAT_DICT ||
                    kind == TRI_CHAT_UNDEFINED || kind == TRI_CHAT_LOOP,
                out);
}

/* What has a length and items: so a dict too, as Jinja has it. */
static tri_status test_sequence(const tri_chat_call *call, tri_chat_value *out) {
  tri_chat_kind kind = (tri_chat_kind)call->self.kind;
  bool list = kind == TRI_CHAT_LIST &&
              (call->self.list->kind == TRI_CHAT_IS_LIST || call->self.list->kind == TRI_CHAT_IS_TUPLE);
  return answer(list || kind == TRI_CHAT_STRING || kind == TRI_CHAT_DICT || kind == TRI_CHAT_UNDEFINED, out);
}

static tri_status test_number(const tri_chat_call *call, tri_chat_value *out) {
  return answer(tri_chat_is_number(call->self), out);
}

static tri_status test_integer(const tri_chat_call *call, tri_chat_value *out) {
  return answer(call->self.kind == TRI_CHAT_INTEGER, out);
}

static tri_status test_float(const tri_chat_call *call, tri_chat_value *out) {
  return answer(call->self.kind == TRI_CHAT_REAL, out);
}

static tri_status test_callable(const tri_chat_call *call, tri_chat_value *out) {
  return answer(call->self.kind == TRI_CHAT_MACRO || call->self.kind == TRI_CHAT_FUNCTION, out);
}

static tri_status test_equal(const tri_chat_call *call, tri_chat_value *out) {
  bool same = false;
  TRI_TRY(tri_chat_equal(call->arena, call->self, call->items[0], &same));
  return answer(same, out);
}

static tri_status test_unequal(const tri_chat_call *call, tri_chat_value *out) {
  bool same = false;
  TRI_TRY(tri_chat_equal(call->arena, call->self, call->items[0], &same));
  return answer(!same, out);
}

static tri_status test_in(const tri_chat_call *call, tri_chat_value *out) {
  bool found = false;
  TRI_TRY(tri_chat_contains(call->renderer, call->items[0], call->self, &found));
  return answer(found, out);
}

static tri_status order(const tri_chat_call *call, bool turned, bool or_equal, tri_chat_value *out) {
  tri_chat_value a = turned ? call->items[0] : call->self, b = turned ? call->self : call->items[0];
  bool less = false;
  TRI_TRY(tri_chat_less(call->renderer, a, b, or_equal, &less));
  return answer(less, out);
}

static tri_status test_less(const tri_chat_call *call, tri_chat_value *out) { return order(call, false, false, out); }

static tri_status test_at_most(const tri_chat_call *call, tri_chat_value *out) { return order(call, false, true, out); }

static tri_status test_more(const tri_chat_call *call, tri_chat_value *out) { return order(call, true, false, out); }

static tri_status test_at_least(const tri_chat_call *call, tri_chat_value *out) { return order(call, true, true, out); }

static tri_status divides(const tri_chat_call *call, int64_t by, int64_t rest, tri_chat_value *out) {
  if (!tri_chat_is_whole(call->self) || by == 0) {
    return tri_fail(TRI_BAD_FILE, "the test `%s` wants a whole number, not a %s", call->function->name,
                    tri_chat_type(call->self));
  }
  int64_t left = by == -1 ? 0 : tri_chat_as_whole(call->self) % by;
  return answer((left < 0 ? -left : left) == rest, out);
}

static tri_status test_odd(const tri_chat_call *call, tri_chat_value *out) { return divides(call, 2, 1, out); }

static tri_status test_even(const tri_chat_call *call, tri_chat_value *out) { return divides(call, 2, 0, out); }

static tri_status test_divisible(const tri_chat_call *call, tri_chat_value *out) {
  int64_t by = 0;
  TRI_TRY(tri_chat_argument_whole(call, 0, 0, &by));
  return divides(call, by, 0, out);
}

static const tri_chat_function tests[] = {
    {.name = "defined", .body = test_defined},
    {.name = "undefined", .body = test_undefined},
    {.name = "none", .body = test_none},
    {.name = "boolean", .body = test_boolean},
    {.name = "true", .body = test_true},
    {.name = "false", .body = test_false},
    {.name = "string", .body = test_string},
    {.name = "mapping", .body = test_mapping},
    {.name = "iterable", .body = test_iterable},
    {.name = "sequence", .body = test_sequence},
    {.name = "number", .body = test_number},
    {.name = "integer", .body = test_integer},
    {.name = "float", .body = test_float},
    {.name = "callable", .body = test_callable},
    {.name = "eq", .least = 1, .most = 1, .body = test_equal},
    {.name = "equalto", .least = 1, .most = 1, .body = test_equal},
    {.name = "==", .least = 1, .most = 1, .body = test_equal},
    {.name = "ne", .least = 1, .most = 1, .body = test_unequal},
    {.name = "!=", .least = 1, .most = 1, .body = test_unequal},
    {.name = "in", .least = 1, .most = 1, .body = test_in},
    {.name = "lt", .least = 1, .most = 1, .body = test_less},
    {.name = "lessthan", .least = 1, .most = 1, .body = test_less},
    {.name = "<", .least = 1, .most = 1, .body = test_less},
    {.name = "le", .least = 1, .most = 1, .body = test_at_most},
    {.name = "<=", .least = 1, .most = 1, .body = test_at_most},
    {.name = "gt", .least = 1, .most = 1, .body = test_more},
    {.name = "greaterthan", .least = 1, .most = 1, .body = test_more},
    {.name = ">", .least = 1, .most = 1, .body = test_more},
    {.name = "ge", .least = 1, .most = 1, .body = test_at_least},
    {.name = ">=", .least = 1, .most = 1, .body = test_at_least},
    {.name = "odd", .body = test_odd},
    {.name = "even", .body = test_even},
    {.name = "divisibleby", .least = 1, .most = 1, .parameters = {"num"}, .body = test_divisible},
};

const tri_chat_function *tri_chat_test_find(tri_chat_value name) {
  for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
    if (strlen(tests[i].name) == name.bytes && memcmp(tests[i].name, name.text, name.bytes) == 0) return &tests[i];
  }
  return NULL;
}
