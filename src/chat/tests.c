/* Implements tests: `value is test`. */
#include "chat/functions.h"

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

/* Tests whether a value has a length and items. Dicts and undefined values are sequences in Jinja, too. */
static tri_status test_sequence(const tri_chat_call *call, tri_chat_value *out) {
  tri_chat_kind kind = (tri_chat_kind)call->self.kind;
  bool list = kind == TRI_CHAT_LIST &&
              (call->self.list->kind == TRI_CHAT_IS_LIST || call->self.list->kind == TRI_CHAT_IS_TUPLE ||
               call->self.list->kind == TRI_CHAT_IS_RANGE);
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
  tri_chat_kind kind =
      (tri_chat_kind)call->self.kind; /* Undefined values and loops are callable in Jinja, but a call fails */
  return answer(
      kind == TRI_CHAT_MACRO || kind == TRI_CHAT_FUNCTION || kind == TRI_CHAT_UNDEFINED || kind == TRI_CHAT_LOOP, out);
}

static tri_status test_equal(const tri_chat_call *call, tri_chat_value *out) {
  bool same = false;
  TRI_TRY(tri_chat_equal(call->arena, call->self, tri_chat_argument(call, 0, tri_chat_none()), &same));
  return answer(same, out);
}

static tri_status test_unequal(const tri_chat_call *call, tri_chat_value *out) {
  bool same = false;
  TRI_TRY(tri_chat_equal(call->arena, call->self, tri_chat_argument(call, 0, tri_chat_none()), &same));
  return answer(!same, out);
}

static tri_status test_in(const tri_chat_call *call, tri_chat_value *out) {
  bool found = false;
  TRI_TRY(tri_chat_contains(call->renderer, tri_chat_argument(call, 0, tri_chat_none()), call->self, &found));
  return answer(found, out);
}

/* Bits of `form`. */
enum { TURNED = 1, OR_EQUAL = 2 };

static tri_status test_order(const tri_chat_call *call, tri_chat_value *out) {
  const bool turned = call->function->form & TURNED, or_equal = call->function->form & OR_EQUAL;
  tri_chat_value other = tri_chat_argument(call, 0, tri_chat_none());
  bool less = false;
  TRI_TRY(tri_chat_less(call->renderer, turned ? other : call->self, turned ? call->self : other, or_equal, &less));
  return answer(less, out);
}

/* Sets *out to whether value % by equals `rest`, also for real numbers. Fails with TRI_BAD_FILE or TRI_UNSUPPORTED for
 * other values. */
static tri_status divides(const tri_chat_call *call, tri_chat_value by, int64_t rest, tri_chat_value *out) {
  tri_chat_value left;
  if (call->self.kind == TRI_CHAT_STRING) {
    return tri_fail(TRI_UNSUPPORTED, "the test `%s` of a string is not supported", call->function->name);
  }
  if (!tri_chat_is_number(call->self) || !tri_chat_is_number(by)) {
    return tri_fail(TRI_BAD_FILE, "the test `%s` needs numbers, not a %s", call->function->name,
                    tri_chat_type(tri_chat_is_number(call->self) ? by : call->self));
  }
  TRI_TRY(tri_chat_remainder(call->self, by, &left));
  return answer(tri_chat_compare_numbers(left, tri_chat_integer(rest)) == 0, out);
}

static tri_status test_odd(const tri_chat_call *call, tri_chat_value *out) {
  return divides(call, tri_chat_integer(2), 1, out);
}

static tri_status test_even(const tri_chat_call *call, tri_chat_value *out) {
  return divides(call, tri_chat_integer(2), 0, out);
}

static tri_status test_divisible(const tri_chat_call *call, tri_chat_value *out) {
  return divides(call, tri_chat_argument(call, 0, tri_chat_none()), 0, out);
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
    {.name = "in", .least = 1, .most = 1, .parameters = {"seq"}, .body = test_in},
    {.name = "lt", .least = 1, .most = 1, .body = test_order},
    {.name = "lessthan", .least = 1, .most = 1, .body = test_order},
    {.name = "<", .least = 1, .most = 1, .body = test_order},
    {.name = "le", .least = 1, .most = 1, .body = test_order, .form = OR_EQUAL},
    {.name = "<=", .least = 1, .most = 1, .body = test_order, .form = OR_EQUAL},
    {.name = "gt", .least = 1, .most = 1, .body = test_order, .form = TURNED},
    {.name = "greaterthan", .least = 1, .most = 1, .body = test_order, .form = TURNED},
    {.name = ">", .least = 1, .most = 1, .body = test_order, .form = TURNED},
    {.name = "ge", .least = 1, .most = 1, .body = test_order, .form = TURNED | OR_EQUAL},
    {.name = ">=", .least = 1, .most = 1, .body = test_order, .form = TURNED | OR_EQUAL},
    {.name = "odd", .body = test_odd},
    {.name = "even", .body = test_even},
    {.name = "divisibleby", .least = 1, .most = 1, .parameters = {"num"}, .body = test_divisible},
};

tri_chat_functions tri_chat_tests(void) { return (tri_chat_functions){tests, sizeof tests / sizeof tests[0]}; }
