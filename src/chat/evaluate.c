/* Evaluates the expressions of a chat template.
 *
 * The problem: templates are programs from untrusted files, and a model is trained on exactly the text that they print.
 * So every expression must give what Jinja in transformers gives, on Python's values, or be refused; and it must end in
 * bounded time and memory.
 *
 * The idea: tri_chat_evaluate walks the tree of an expression and returns a value (value.h). Each operator follows
 * Python's rules for the kinds of its operands: `+` on numbers, strings, lists; floor division and remainder with the
 * sign of the divisor; comparisons of mixed numbers without rounding; attributes that fall back to items, as in Jinja.
 * Results that Python represents and we do not (integers beyond 64 bits, complex numbers, NaN) fail with
 * TRI_UNSUPPORTED, with line and column, instead of an approximation. A mistake that also fails in Jinja is
 * TRI_BAD_FILE.
 *
 * The invariants: every loop over an operand charges the arena (tri_chat_arena_charge), so that steps and bytes are
 * bounded; strings stay ropes until their bytes are needed, so concatenation is cheap and each byte keeps the message
 * from which it was copied; an undefined value may be printed, tested and iterated (it is empty), but items
 * of it and arithmetic with it fail.
 *
 * Example: `messages[-1].content + eos_token`. The subscript takes the last item of a list, the attribute finds no
 * method `content` of the dict and takes its item, and `+` makes a rope of both strings. */
#include "chat/renderer.h"
#include "chat/text.h"

#include <math.h>
#include <string.h>

enum { FEW_ARGUMENTS = 8, DEEPEST = 1000 };

#define SHOWN(value) (int)((value).bytes < 60 ? (value).bytes : 60), (value).text

/* ---- items ------------------------------------------------------------------------------------------------------- */

static tri_status is_undefined(tri_chat_value value) {
  return tri_fail(TRI_BAD_FILE, "`%.*s` is undefined", SHOWN(value));
}

static bool attribute_of_loop(const tri_chat_loop *loop, tri_chat_value name, tri_chat_value *out) {
  int64_t index = loop->index, count = loop->list->count;
  const struct {
    const char *name;
    tri_chat_value value;
  } known[] = {
      {"index", tri_chat_integer(index + 1)},
      {"index0", tri_chat_integer(index)},
      {"first", tri_chat_boolean(index == 0)},
      {"last", tri_chat_boolean(index + 1 == count)},
      {"length", tri_chat_integer(count)},
      {"revindex", tri_chat_integer(count - index)},
      {"revindex0", tri_chat_integer(count - index - 1)},
      {"depth", tri_chat_integer(1)}, /* only recursive loops have greater depths */
      {"depth0", tri_chat_integer(0)},
      {"previtem", index > 0 ? loop->list->items[index - 1] : tri_chat_undefined(name.text, name.bytes)},
      {"nextitem", index + 1 < count ? loop->list->items[index + 1] : tri_chat_undefined(name.text, name.bytes)}};
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
    if (strlen(known[i].name) != name.bytes || memcmp(known[i].name, name.text, name.bytes) != 0) continue;
    *out = known[i].value;
    return true;
  }
  return false;
}

/* Returns whether the value has an attribute in Python that this program does not support. Jinja's sandbox hides
 * attributes that change a value, so they are undefined in Jinja, too. Such attributes of dicts are listed
 * nevertheless, because
 * `.pop` of a dict usually means a key. */
static bool is_of_python(tri_chat_value value, tri_chat_value name) {
  static const char strings[] =
      " capitalize casefold center count encode endswith expandtabs find format format_map index "
      "isalnum isalpha isascii isdecimal isdigit isidentifier islower isnumeric isprintable "
      "isspace istitle isupper join ljust lower lstrip maketrans partition removeprefix "
      "removesuffix replace rfind rindex rjust rpartition rsplit rstrip split splitlines "
      "startswith strip swapcase title translate upper zfill ";
  static const char numbers[] =
      " as_integer_ratio bit_count bit_length conjugate denominator from_bytes fromhex hex imag "
      "is_integer numerator real to_bytes from_number ";
  static const char lists[] = " clear copy count index pop start stop step isdisjoint mapping send throw close ";
  static const char dicts[] = " clear copy fromkeys pop popitem setdefault update ";
  static const char loops[] = " cycle changed ";
  static const char macros[] = " name arguments catch_kwargs catch_varargs caller explicit_caller ";
  const char *names = "";
  char spaced[64];
  if (name.bytes == 0 || name.bytes > sizeof spaced - 3 || memchr(name.text, ' ', name.bytes) != NULL) return false;
  switch ((tri_chat_kind)value.kind) {
    case TRI_CHAT_STRING: names = strings; break;
    case TRI_CHAT_BOOLEAN:
    case TRI_CHAT_INTEGER:
    case TRI_CHAT_REAL: names = numbers; break;
    case TRI_CHAT_LIST: names = lists; break;
    case TRI_CHAT_DICT: names = dicts; break;
    case TRI_CHAT_LOOP: names = loops; break;
    case TRI_CHAT_MACRO: names = macros; break;
    case TRI_CHAT_UNDEFINED:
    case TRI_CHAT_NONE:
    case TRI_CHAT_NAMESPACE:
    case TRI_CHAT_FUNCTION: break;
  }
  spaced[0] = ' ';
  memcpy(spaced + 1, name.text, name.bytes);
  memcpy(spaced + 1 + name.bytes, " ", 2);
  return strstr(names, spaced) != NULL;
}

/* Finds getattr(value, name). Sets *found to whether the value has this attribute. Fails with TRI_UNSUPPORTED for an
 * attribute of Python that this program does not support, and for any attribute of a safe string except a method. */
static tri_status find_attribute(tri_chat_value value, tri_chat_value name, bool *found, tri_chat_value *out) {
  const tri_chat_function *method = tri_chat_function_find(tri_chat_methods((tri_chat_kind)value.kind), name);
  *found = method != NULL;
  if (method != NULL) {
    *out = (tri_chat_value){.kind = TRI_CHAT_FUNCTION, .is_method = true, .function = method};
    return TRI_OK;
  }
  if (value.kind == TRI_CHAT_STRING && value.is_safe) {
    return tri_fail(TRI_UNSUPPORTED, "`.%.*s` of a string that `safe` made is not supported", SHOWN(name));
  }
  if (value.kind == TRI_CHAT_DICT && is_of_python(value, name)) {
    return tri_fail(TRI_UNSUPPORTED, "`.%.*s` of a dict is a method of Python's; for the key write [\"%.*s\"]",
                    SHOWN(name), SHOWN(name));
  }
  if (value.kind == TRI_CHAT_LOOP) *found = attribute_of_loop(value.loop, name, out);
  const tri_chat_value *own = NULL;
  if (value.kind == TRI_CHAT_NAMESPACE) own = tri_chat_dict_find(value.dict, name);
  if (own != NULL) {
    *found = true;
    *out = *own;
  }
  if (*found || !is_of_python(value, name)) return TRI_OK;
  return tri_fail(TRI_UNSUPPORTED, "`.%.*s` of a %s is not supported", SHOWN(name), tri_chat_type(value));
}

/* Charges the lookup of a key, which is hashed and compared as a whole, and makes the key flat. */
static tri_status charge_key(tri_chat_renderer *renderer, tri_chat_value *key) {
  if (key->kind != TRI_CHAT_STRING) return TRI_OK;
  TRI_TRY(tri_chat_charge(renderer, key->bytes));
  return tri_chat_flatten(&renderer->arena, key);
}

/* Finds value[key]. Sets *found to whether the value has this item. */
static tri_status find_item(tri_chat_renderer *renderer, tri_chat_value value, tri_chat_value key, bool *found,
                            tri_chat_value *out) {
  *found = false;
  if (value.kind == TRI_CHAT_DICT) {
    TRI_TRY(charge_key(renderer, &key));
    if (key.kind == TRI_CHAT_LIST || key.kind == TRI_CHAT_DICT) return TRI_OK; /* no dict has such a key */
    const tri_chat_value *own = tri_chat_dict_find(value.dict, key);
    *found = own != NULL;
    if (own != NULL) *out = *own;
    return TRI_OK;
  }
  if (!tri_chat_is_whole(key)) return TRI_OK;
  int64_t index = tri_chat_as_whole(key);
  if (value.kind == TRI_CHAT_LIST && value.list->kind <= TRI_CHAT_IS_RANGE) {
    if (index < 0) index += value.list->count;
    *found = index >= 0 && index < value.list->count;
    if (*found) *out = value.list->items[index];
  }
  if (value.kind == TRI_CHAT_STRING) {
    const bool is_safe = value.is_safe;
    TRI_TRY(tri_chat_flatten(&renderer->arena, &value));
    TRI_TRY(tri_chat_charge(renderer, value.bytes));
    if (index < 0) index += tri_chat_text_length(value.text, value.bytes);
    if (index < 0) return TRI_OK;
    size_t begin = tri_chat_text_offset(value.text, value.bytes, index);
    *found = begin < value.bytes;
    size_t length = *found ? tri_chat_text_offset(value.text + begin, value.bytes - begin, 1) : 0;
    *out = tri_chat_part(value, begin, begin + length);
    out->is_safe = is_safe;
  }
  return TRI_OK;
}

static tri_status get_item(tri_chat_renderer *renderer, tri_chat_value value, tri_chat_value key, bool attribute_first,
                           tri_chat_value *out) {
  bool found = false, names = key.kind == TRI_CHAT_STRING;
  if (value.kind == TRI_CHAT_UNDEFINED) return is_undefined(value);
  if (names) TRI_TRY(tri_chat_flatten(&renderer->arena, &key));
  if (names && attribute_first) TRI_TRY(find_attribute(value, key, &found, out));
  if (!found) TRI_TRY(find_item(renderer, value, key, &found, out));
  if (!found && names && !attribute_first) TRI_TRY(find_attribute(value, key, &found, out));
  if (!found) *out = names ? tri_chat_undefined(key.text, key.bytes) : tri_chat_undefined("item", 4);
  return TRI_OK;
}

tri_status tri_chat_item(tri_chat_renderer *renderer, tri_chat_value value, tri_chat_value name, tri_chat_value *out) {
  return get_item(renderer, value, name, false, out);
}

/* ---- slices ------------------------------------------------------------------------------------------------------ */

static tri_status slice_bound(tri_chat_renderer *renderer, const tri_chat_node *node, bool *given, int64_t *out) {
  tri_chat_value value;
  *given = false;
  if (node == NULL) return TRI_OK;
  TRI_TRY(tri_chat_evaluate(renderer, node, &value));
  *given = value.kind != TRI_CHAT_NONE;
  if (!*given) return TRI_OK;
  if (!tri_chat_is_whole(value)) {
    return TRI_CHAT_FAIL_AT(renderer, node, TRI_UNSUPPORTED, "a bound of a slice must be a whole number, not a %s",
                            tri_chat_type(value));
  }
  *out = tri_chat_as_whole(value);
  return TRI_OK;
}

/* Returns a slice's bound by the rules of Python's slice.indices: a negative bound counts from the end, and a bound
 * outside the list is clamped. */
static int64_t bound_of(bool given, int64_t bound, int64_t otherwise, int64_t count, bool backwards) {
  int64_t least = backwards ? -1 : 0, most = backwards ? count - 1 : count;
  if (!given) return otherwise;
  if (bound < 0) bound += count;
  return bound < least ? least : bound > most ? most : bound;
}

static tri_status slice_list(tri_chat_renderer *renderer, const tri_chat_list *list, int64_t begin, int64_t end,
                             int64_t step, tri_chat_value *out) {
  tri_chat_list *part = NULL;
  TRI_TRY(tri_chat_list_create(&renderer->arena, 0, (tri_chat_list_kind)list->kind, &part));
  *out = tri_chat_of_list(part);
  if (step == 1) { /* the part shares the list's memory; appending to it makes a copy */
    part->items = list->items + begin;
    part->count = part->room = end > begin ? end - begin : 0;
    return TRI_OK;
  }
  for (int64_t i = begin; step > 0 ? i < end : i > end; i += step) {
    TRI_TRY(tri_chat_charge(renderer, 0));
    TRI_TRY(tri_chat_list_add(&renderer->arena, part, list->items[i]));
    if (step > 0 ? end - i <= step : i - end <= -step) break;
  }
  return TRI_OK;
}

static tri_status slice_text(tri_chat_renderer *renderer, tri_chat_value text, int64_t begin, int64_t end, int64_t step,
                             tri_chat_value *out) {
  tri_chat_writer writer = {.arena = &renderer->arena};
  if (step == 1) {
    size_t from = tri_chat_text_offset(text.text, text.bytes, begin);
    size_t length = end <= begin ? 0 : tri_chat_text_offset(text.text + from, text.bytes - from, end - begin);
    *out = tri_chat_part(text, from, from + length);
    return TRI_OK;
  }
  for (int64_t i = begin; step > 0 ? i < end : i > end; i += step) {
    size_t at = tri_chat_text_offset(text.text, text.bytes, i);
    TRI_TRY(tri_chat_charge(renderer, at));
    TRI_TRY(tri_chat_write_part(&writer, text, at, at + tri_chat_text_offset(text.text + at, text.bytes - at, 1)));
    if (step > 0 ? end - i <= step : i - end <= -step) break;
  }
  return tri_chat_written(&writer, text.origin, out);
}

static tri_status evaluate_slice(tri_chat_renderer *renderer, const tri_chat_node *node, tri_chat_value *out) {
  tri_chat_value value;
  bool given[3];
  int64_t bounds[3] = {0, 0, 1}, count = 0;
  TRI_TRY(tri_chat_evaluate(renderer, node->a, &value));
  for (int i = 0; i < 3; i++) TRI_TRY(slice_bound(renderer, node->items[i], &given[i], &bounds[i]));
  int64_t step = given[2] ? bounds[2] : 1;
  if (step < -INT64_MAX) step = -INT64_MAX; /* the smallest step has the same effect, and can be negated */
  const bool is_list = value.kind == TRI_CHAT_LIST && value.list->kind <= TRI_CHAT_IS_RANGE, is_safe = value.is_safe;
  if (value.kind == TRI_CHAT_UNDEFINED) TRI_CHAT_TRY_AT(renderer, node, is_undefined(value));
  if (!is_list && value.kind != TRI_CHAT_STRING) {
    /* This is an error in Python, but in Jinja the result is undefined if all operands are literals. */
    return TRI_CHAT_FAIL_AT(renderer, node, TRI_UNSUPPORTED, "a %s cannot be sliced", tri_chat_type(value));
  }
  if (step == 0) return TRI_CHAT_FAIL_AT(renderer, node, TRI_BAD_FILE, "the step of a slice must not be zero");
  if (value.kind == TRI_CHAT_STRING) {
    TRI_TRY(tri_chat_flatten(&renderer->arena, &value));
    TRI_CHAT_TRY_AT(renderer, node, tri_chat_charge(renderer, value.bytes));
    count = tri_chat_text_length(value.text, value.bytes);
  } else {
    count = value.list->count;
  }
  bool backwards = step < 0;
  int64_t begin = bound_of(given[0], bounds[0], backwards ? count - 1 : 0, count, backwards);
  int64_t end = bound_of(given[1], bounds[1], backwards ? -1 : count, count, backwards);
  if (is_list) {
    TRI_CHAT_TRY_AT(renderer, node, slice_list(renderer, value.list, begin, end, step, out));
  } else {
    TRI_CHAT_TRY_AT(renderer, node, slice_text(renderer, value, begin, end, step, out));
    out->is_safe = is_safe;
  }
  return TRI_OK;
}

/* ---- comparisons ------------------------------------------------------------------------------------------------- */

static tri_status less(tri_chat_renderer *renderer, tri_chat_value a, tri_chat_value b, int depth, int *order) {
  if (tri_chat_is_number(a) && tri_chat_is_number(b)) {
    *order = tri_chat_compare_numbers(a, b);
    return TRI_OK;
  }
  if (a.kind == TRI_CHAT_STRING && b.kind == TRI_CHAT_STRING) {
    TRI_TRY(tri_chat_flatten(&renderer->arena, &a));
    TRI_TRY(tri_chat_flatten(&renderer->arena, &b));
    size_t least = a.bytes < b.bytes ? a.bytes : b.bytes;
    TRI_TRY(tri_chat_charge(renderer, least));
    int found = least == 0 ? 0 : memcmp(a.text, b.text, least);
    *order = found != 0 ? found : a.bytes < b.bytes ? -1 : a.bytes > b.bytes;
    return TRI_OK;
  }
  bool lists = a.kind == TRI_CHAT_LIST && b.kind == TRI_CHAT_LIST && a.list->kind == b.list->kind;
  if (lists && a.list->kind == TRI_CHAT_IS_VIEW) {
    return tri_fail(TRI_UNSUPPORTED, "the order of views of dicts is not supported");
  }
  if (!lists || a.list->kind > TRI_CHAT_IS_TUPLE || depth > DEEPEST) {
    if (a.kind == TRI_CHAT_UNDEFINED) return is_undefined(a);
    if (b.kind == TRI_CHAT_UNDEFINED) return is_undefined(b);
    return tri_fail(TRI_BAD_FILE, "a %s and a %s cannot be ordered", tri_chat_type(a), tri_chat_type(b));
  }
  for (int64_t i = 0; i < a.list->count && i < b.list->count; i++) {
    bool same = false;
    TRI_TRY(tri_chat_equal(&renderer->arena, a.list->items[i], b.list->items[i], &same));
    if (!same) return less(renderer, a.list->items[i], b.list->items[i], depth + 1, order);
  }
  *order = a.list->count < b.list->count ? -1 : a.list->count > b.list->count;
  return TRI_OK;
}

tri_status tri_chat_less(tri_chat_renderer *renderer, tri_chat_value a, tri_chat_value b, bool or_equal, bool *out) {
  int order = 0;
  TRI_TRY(less(renderer, a, b, 0, &order));
  *out = order < 0 || (or_equal && order == 0);
  return TRI_OK;
}

tri_status tri_chat_contains(tri_chat_renderer *renderer, tri_chat_value in, tri_chat_value what, bool *out) {
  *out = false;
  if (in.kind == TRI_CHAT_STRING) {
    if (what.kind != TRI_CHAT_STRING) {
      return tri_fail(TRI_BAD_FILE, "`in` a string needs a string on its left, not a %s", tri_chat_type(what));
    }
    TRI_TRY(tri_chat_flatten(&renderer->arena, &in));
    TRI_TRY(tri_chat_flatten(&renderer->arena, &what));
    TRI_TRY(tri_chat_charge(renderer, in.bytes));
    *out = tri_chat_text_find(in.text, in.bytes, 0, what) != SIZE_MAX;
    return TRI_OK;
  }
  if (in.kind == TRI_CHAT_DICT) {
    TRI_TRY(charge_key(renderer, &what));
    TRI_TRY(tri_chat_check_hashable(what));
    *out = tri_chat_dict_find(in.dict, what) != NULL;
    return TRI_OK;
  }
  if (in.kind == TRI_CHAT_UNDEFINED) return TRI_OK;
  if (in.kind == TRI_CHAT_LOOP) return tri_fail(TRI_UNSUPPORTED, "`in` the variable `loop` is not supported");
  if (in.kind != TRI_CHAT_LIST) return tri_fail(TRI_BAD_FILE, "`in` a %s is not possible", tri_chat_type(in));
  if (in.list->kind == TRI_CHAT_IS_VIEW && (what.kind == TRI_CHAT_LIST || what.kind == TRI_CHAT_DICT)) {
    return tri_fail(TRI_UNSUPPORTED, "a %s `in` a view of a dict is not supported", tri_chat_type(what));
  }
  tri_chat_list *list = NULL;
  TRI_TRY(tri_chat_iterate_some(renderer, in, &list));
  for (int64_t i = 0; i < list->count && !*out; i++) {
    TRI_TRY(tri_chat_charge(renderer, 0));
    TRI_TRY(tri_chat_equal(&renderer->arena, list->items[i], what, out));
  }
  if (*out) return TRI_OK;
  list->use = (uint8_t)TRI_CHAT_GONE;
  return list->failure == NULL ? TRI_OK : tri_fail(TRI_BAD_FILE, "%s", list->failure);
}

static tri_status compare(tri_chat_renderer *renderer, tri_chat_compare sign, tri_chat_value a, tri_chat_value b,
                          bool *out) {
  switch (sign) {
    case TRI_COMPARE_EQUAL: return tri_chat_equal(&renderer->arena, a, b, out);
    case TRI_COMPARE_UNEQUAL:
      TRI_TRY(tri_chat_equal(&renderer->arena, a, b, out));
      *out = !*out;
      return TRI_OK;
    case TRI_COMPARE_LESS: return tri_chat_less(renderer, a, b, false, out);
    case TRI_COMPARE_AT_MOST: return tri_chat_less(renderer, a, b, true, out);
    case TRI_COMPARE_MORE: return tri_chat_less(renderer, b, a, false, out);
    case TRI_COMPARE_AT_LEAST: return tri_chat_less(renderer, b, a, true, out);
    case TRI_COMPARE_IN: return tri_chat_contains(renderer, b, a, out);
    case TRI_COMPARE_NOT_IN:
      TRI_TRY(tri_chat_contains(renderer, b, a, out));
      *out = !*out;
      return TRI_OK;
  }
  return TRI_OK;
}

static tri_status evaluate_compare(tri_chat_renderer *renderer, const tri_chat_node *node, tri_chat_value *out) {
  tri_chat_value left, right;
  bool holds = true;
  TRI_TRY(tri_chat_evaluate(renderer, node->a, &left));
  for (int32_t i = 0; i < node->count && holds; i++) {
    TRI_TRY(tri_chat_evaluate(renderer, node->items[i], &right));
    TRI_CHAT_TRY_AT(renderer, node, compare(renderer, (tri_chat_compare)node->compare[i], left, right, &holds));
    left = right;
  }
  *out = tri_chat_boolean(holds);
  return TRI_OK;
}

/* ---- arithmetic -------------------------------------------------------------------------------------------------- */

static tri_status no_operator(const char *sign, tri_chat_value a, tri_chat_value b) {
  if (a.kind == TRI_CHAT_UNDEFINED) return is_undefined(a);
  if (b.kind == TRI_CHAT_UNDEFINED) return is_undefined(b);
  bool views = (a.kind == TRI_CHAT_LIST && a.list->kind == TRI_CHAT_IS_VIEW) ||
               (b.kind == TRI_CHAT_LIST && b.list->kind == TRI_CHAT_IS_VIEW);
  if (views) return tri_fail(TRI_UNSUPPORTED, "`%s` of a view of a dict, a set, is not supported", sign);
  return tri_fail(TRI_BAD_FILE, "`%s` of a %s and a %s is not defined", sign, tri_chat_type(a), tri_chat_type(b));
}

static tri_status too_large(void) { return tri_fail(TRI_UNSUPPORTED, "numbers beyond 64 bits are not supported"); }

static tri_status add_lists(tri_chat_renderer *renderer, const tri_chat_list *a, const tri_chat_list *b,
                            tri_chat_value *out) {
  tri_chat_list *sum = NULL;
  TRI_TRY(tri_chat_charge(renderer, (size_t)(a->count + b->count) * 16));
  TRI_TRY(tri_chat_list_create(&renderer->arena, a->count + b->count, (tri_chat_list_kind)a->kind, &sum));
  if (a->count > 0) memcpy(sum->items, a->items, (size_t)a->count * sizeof *a->items);
  if (b->count > 0) memcpy(sum->items + a->count, b->items, (size_t)b->count * sizeof *b->items);
  sum->count = a->count + b->count;
  *out = tri_chat_of_list(sum);
  return TRI_OK;
}

static bool is_sum_of_lists(tri_chat_value a, tri_chat_value b) {
  return a.kind == TRI_CHAT_LIST && b.kind == TRI_CHAT_LIST && a.list->kind == b.list->kind &&
         (a.list->kind == TRI_CHAT_IS_LIST || a.list->kind == TRI_CHAT_IS_TUPLE);
}

static tri_status repeat(tri_chat_renderer *renderer, tri_chat_value text, int64_t times, tri_chat_value *out) {
  tri_chat_writer writer = {.arena = &renderer->arena};
  TRI_TRY(tri_chat_flatten(&renderer->arena, &text));
  for (int64_t i = 0; i < times && text.bytes > 0; i++) {
    TRI_TRY(tri_chat_charge(renderer, text.bytes));
    TRI_TRY(tri_chat_write_part(&writer, text, 0, text.bytes));
  }
  return tri_chat_written(&writer, 0, out);
}

static tri_status repeat_list(tri_chat_renderer *renderer, const tri_chat_list *list, int64_t times,
                              tri_chat_value *out) {
  tri_chat_list *repeated = NULL;
  TRI_TRY(tri_chat_list_create(&renderer->arena, 0, (tri_chat_list_kind)list->kind, &repeated));
  for (int64_t i = 0; i < times && list->count > 0; i++) {
    for (int64_t k = 0; k < list->count; k++) {
      TRI_TRY(tri_chat_charge(renderer, 0));
      TRI_TRY(tri_chat_list_add(&renderer->arena, repeated, list->items[k]));
    }
  }
  *out = tri_chat_of_list(repeated);
  return TRI_OK;
}

/* Repeats a string, a list or a tuple. */
static tri_status repeat_any(tri_chat_renderer *renderer, tri_chat_value value, int64_t times, tri_chat_value *out) {
  if (value.kind == TRI_CHAT_LIST) return repeat_list(renderer, value.list, times, out);
  return repeat(renderer, value, times, out);
}

static bool is_repeatable(tri_chat_value value) {
  return value.kind == TRI_CHAT_STRING || (value.kind == TRI_CHAT_LIST && value.list->kind <= TRI_CHAT_IS_TUPLE);
}

/* Returns a / b rounded down, like Python; b is not 0. */
static int64_t floor_of(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

static tri_status power_of_reals(double a, double b, tri_chat_value *out) {
  if (a == 0 && b < 0) return tri_fail(TRI_BAD_FILE, "zero cannot be raised to a negative power");
  if (a < 0 && isfinite(b) && b != floor(b)) {
    return tri_fail(TRI_UNSUPPORTED, "the power of a negative number that is complex is not supported");
  }
  double result = pow(a, b);
  if (isinf(result) && isfinite(a) && isfinite(b)) return tri_fail(TRI_BAD_FILE, "a power is too large");
  *out = tri_chat_real(result);
  return TRI_OK;
}

static tri_status power_of(int64_t a, int64_t b, tri_chat_value *out) {
  int64_t result = 1;
  if (b < 0) return power_of_reals((double)a, (double)b, out);
  if (a == 0 || a == 1 || a == -1) b = b == 0 ? 0 : b % 2 == 0 ? 2 : 1;
  for (int64_t i = 0; i < b; i++) {
    if (__builtin_mul_overflow(result, a, &result)) return too_large();
  }
  *out = tri_chat_integer(result);
  return TRI_OK;
}

/* Divides integers. Python rounds the quotient only once. Operands that are not exact as doubles are refused, because
 * here they would be rounded first. */
static tri_status divide_wholes(int64_t a, int64_t b, tri_chat_value *out) {
  const int64_t exact = (int64_t)1 << 53;
  if (a > exact || a < -exact || b > exact || b < -exact) {
    return tri_fail(TRI_UNSUPPORTED, "`/` of whole numbers beyond 2^53 is not supported");
  }
  *out = tri_chat_real((double)a / (double)b);
  return TRI_OK;
}

static tri_status of_wholes(tri_chat_binary sign, int64_t a, int64_t b, tri_chat_value *out) {
  int64_t result = 0;
  bool over = false, divides = sign == TRI_BINARY_DIVIDE || sign == TRI_BINARY_FLOOR || sign == TRI_BINARY_REMAINDER;
  if (divides && b == 0) return tri_fail(TRI_BAD_FILE, "division by zero");
  if (divides && b == -1 && a == INT64_MIN && sign != TRI_BINARY_REMAINDER) return too_large();
  if (sign == TRI_BINARY_REMAINDER && b == -1) { /* INT64_MIN % -1 overflows in C */
    *out = tri_chat_integer(0);
    return TRI_OK;
  }
  switch (sign) {
    case TRI_BINARY_ADD: over = __builtin_add_overflow(a, b, &result); break;
    case TRI_BINARY_SUBTRACT: over = __builtin_sub_overflow(a, b, &result); break;
    case TRI_BINARY_MULTIPLY: over = __builtin_mul_overflow(a, b, &result); break;
    case TRI_BINARY_FLOOR: result = floor_of(a, b); break;
    case TRI_BINARY_REMAINDER:
      result = a % b; /* has the sign of a; Python's has the sign of b */
      if (result != 0 && (result < 0) != (b < 0)) result += b;
      break;
    case TRI_BINARY_DIVIDE: return divide_wholes(a, b, out);
    case TRI_BINARY_POWER: return power_of(a, b, out);
    case TRI_BINARY_CONCAT: break;
  }
  *out = tri_chat_integer(result);
  return over ? too_large() : TRI_OK;
}

/* Returns the remainder with the sign of b, like Python's float. */
static double remainder_of(double a, double b) {
  double left = fmod(a, b);
  if (left == 0) return copysign(0, b);
  return (left < 0) != (b < 0) ? left + b : left;
}

static double floor_of_reals(double a, double b) {
  double left = fmod(a, b), quotient = (a - left) / b;
  if (left != 0 && (left < 0) != (b < 0)) quotient -= 1;
  if (quotient == 0) return copysign(0, a / b);
  double whole = floor(quotient);
  return quotient - whole > 0.5 ? whole + 1 : whole;
}

static tri_status of_reals(tri_chat_binary sign, double a, double b, tri_chat_value *out) {
  double result = 0;
  bool divides = sign == TRI_BINARY_DIVIDE || sign == TRI_BINARY_FLOOR || sign == TRI_BINARY_REMAINDER;
  if (divides && b == 0) return tri_fail(TRI_BAD_FILE, "division by zero");
  switch (sign) {
    case TRI_BINARY_ADD: result = a + b; break;
    case TRI_BINARY_SUBTRACT: result = a - b; break;
    case TRI_BINARY_MULTIPLY: result = a * b; break;
    case TRI_BINARY_DIVIDE: result = a / b; break;
    case TRI_BINARY_FLOOR: result = floor_of_reals(a, b); break;
    case TRI_BINARY_REMAINDER: result = remainder_of(a, b); break;
    case TRI_BINARY_POWER:
      TRI_TRY(power_of_reals(a, b, out));
      result = out->real;
      break;
    case TRI_BINARY_CONCAT: break;
  }
  /* NaN has no order, so sorting and comparing would need rules of their own. */
  if (isnan(result)) return tri_fail(TRI_UNSUPPORTED, "the result is NaN, which is not supported");
  *out = tri_chat_real(result);
  return TRI_OK;
}

tri_status tri_chat_remainder(tri_chat_value a, tri_chat_value b, tri_chat_value *out) {
  if (tri_chat_is_whole(a) && tri_chat_is_whole(b)) {
    return of_wholes(TRI_BINARY_REMAINDER, tri_chat_as_whole(a), tri_chat_as_whole(b), out);
  }
  return of_reals(TRI_BINARY_REMAINDER, tri_chat_as_real(a), tri_chat_as_real(b), out);
}

static const char *sign_of(tri_chat_binary sign) {
  switch (sign) {
    case TRI_BINARY_ADD: return "+";
    case TRI_BINARY_SUBTRACT: return "-";
    case TRI_BINARY_MULTIPLY: return "*";
    case TRI_BINARY_DIVIDE: return "/";
    case TRI_BINARY_FLOOR: return "//";
    case TRI_BINARY_REMAINDER: return "%";
    case TRI_BINARY_POWER: return "**";
    case TRI_BINARY_CONCAT: return "~";
  }
  return "";
}

static tri_status concat(tri_chat_renderer *renderer, tri_chat_value a, tri_chat_value b, tri_chat_value *out) {
  TRI_TRY(tri_chat_str(&renderer->arena, a, &a));
  TRI_TRY(tri_chat_str(&renderer->arena, b, &b));
  return tri_chat_concat(&renderer->arena, a, b, out);
}

static tri_status combine(tri_chat_renderer *renderer, tri_chat_binary sign, tri_chat_value a, tri_chat_value b,
                          tri_chat_value *out) {
  if (sign == TRI_BINARY_CONCAT) return concat(renderer, a, b, out);
  if (tri_chat_is_whole(a) && tri_chat_is_whole(b)) {
    return of_wholes(sign, tri_chat_as_whole(a), tri_chat_as_whole(b), out);
  }
  if (tri_chat_is_number(a) && tri_chat_is_number(b)) {
    return of_reals(sign, tri_chat_as_real(a), tri_chat_as_real(b), out);
  }
  if ((a.kind == TRI_CHAT_STRING && a.is_safe) || (b.kind == TRI_CHAT_STRING && b.is_safe)) {
    return tri_fail(TRI_UNSUPPORTED, "`%s` of a string that `safe` made, which escapes, is not supported; `~` is",
                    sign_of(sign));
  }
  if (sign == TRI_BINARY_ADD) {
    if (a.kind == TRI_CHAT_STRING && b.kind == TRI_CHAT_STRING) return tri_chat_concat(&renderer->arena, a, b, out);
    if (is_sum_of_lists(a, b)) return add_lists(renderer, a.list, b.list, out);
  }
  if (sign == TRI_BINARY_MULTIPLY) {
    if (is_repeatable(a) && tri_chat_is_whole(b)) return repeat_any(renderer, a, tri_chat_as_whole(b), out);
    if (is_repeatable(b) && tri_chat_is_whole(a)) return repeat_any(renderer, b, tri_chat_as_whole(a), out);
  }
  if (sign == TRI_BINARY_REMAINDER && a.kind == TRI_CHAT_STRING) {
    return tri_fail(TRI_UNSUPPORTED, "`%%` of a string (its formatting) is not supported");
  }
  return no_operator(sign_of(sign), a, b);
}

static tri_status evaluate_binary(tri_chat_renderer *renderer, const tri_chat_node *node, tri_chat_value *out) {
  tri_chat_value a, b;
  TRI_TRY(tri_chat_evaluate(renderer, node->a, &a));
  TRI_TRY(tri_chat_evaluate(renderer, node->b, &b));
  TRI_CHAT_TRY_AT(renderer, node, combine(renderer, (tri_chat_binary)node->binary, a, b, out));
  return TRI_OK;
}

static tri_status evaluate_sign(tri_chat_renderer *renderer, const tri_chat_node *node, bool minus,
                                tri_chat_value *out) {
  TRI_TRY(tri_chat_evaluate(renderer, node->a, out));
  if (out->kind == TRI_CHAT_UNDEFINED) TRI_CHAT_TRY_AT(renderer, node, is_undefined(*out));
  if (!tri_chat_is_number(*out)) {
    return TRI_CHAT_FAIL_AT(renderer, node, TRI_BAD_FILE, "a %s has no sign", tri_chat_type(*out));
  }
  if (out->kind == TRI_CHAT_REAL) {
    out->real = minus ? -out->real : out->real;
    return TRI_OK;
  }
  int64_t whole = tri_chat_as_whole(*out);
  if (minus && whole == INT64_MIN) TRI_CHAT_TRY_AT(renderer, node, too_large());
  *out = tri_chat_integer(minus ? -whole : whole);
  return TRI_OK;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static tri_status evaluate_arguments(tri_chat_renderer *renderer, const tri_chat_node *node, tri_chat_value *room,
                                     tri_chat_call *call) {
  int32_t count = node->count + 2 * node->num_keywords;
  if (count > FEW_ARGUMENTS) TRI_TRY(tri_chat_arena_alloc(&renderer->arena, (size_t)count, sizeof *room, &room));
  call->renderer = renderer;
  call->arena = &renderer->arena;
  call->items = room;
  call->count = node->count;
  call->keywords = room + node->count;
  call->num_keywords = node->num_keywords;
  for (int32_t i = 0; i < node->count; i++) TRI_TRY(tri_chat_evaluate(renderer, node->items[i], &room[i]));
  for (int32_t k = 0; k < node->num_keywords; k++) {
    tri_chat_value *pair = room + node->count + 2 * (ptrdiff_t)k;
    pair[0] = node->keywords[k]->name;
    TRI_TRY(tri_chat_evaluate(renderer, node->keywords[k]->a, &pair[1]));
  }
  return TRI_OK;
}

static tri_status call_value(tri_chat_renderer *renderer, tri_chat_value callee, tri_chat_call *call,
                             tri_chat_value *out) {
  if (callee.kind == TRI_CHAT_MACRO) return tri_chat_call_macro(renderer, callee.macro, call, out);
  call->function = callee.function;
  return tri_chat_run(call, out);
}

/* Returns whether a function can be called with this `self`. A method has a `self` only if it is called directly after
 * the dot, not from a variable. */
static bool is_callable_here(const tri_chat_function *function, tri_chat_value self) {
  tri_chat_value name = tri_chat_text(function->name);
  return tri_chat_function_find(tri_chat_globals(), name) == function ||
         tri_chat_function_find(tri_chat_methods((tri_chat_kind)self.kind), name) == function;
}

/* Evaluates a call: `value.method(...)` passes its value as self; any other callee is a function or a macro. Fails with
 * TRI_BAD_FILE or TRI_UNSUPPORTED if the callee is unknown or cannot be called. */
static tri_status evaluate_call(tri_chat_renderer *renderer, const tri_chat_node *node, tri_chat_value *out) {
  tri_chat_value room[FEW_ARGUMENTS], callee;
  tri_chat_call call = {0};
  bool found = false;
  if (node->a->kind == TRI_NODE_ATTRIBUTE) {
    TRI_TRY(tri_chat_evaluate(renderer, node->a->a, &call.self));
    if (call.self.kind == TRI_CHAT_UNDEFINED) TRI_CHAT_TRY_AT(renderer, node, is_undefined(call.self));
    TRI_CHAT_TRY_AT(renderer, node, find_attribute(call.self, node->a->name, &found, &callee));
    if (!found) {
      const bool item = call.self.kind == TRI_CHAT_DICT; /* an item may be a function, but cannot be called like this */
      return TRI_CHAT_FAIL_AT(renderer, node, item ? TRI_UNSUPPORTED : TRI_BAD_FILE, "a %s has no method `%.*s`",
                              tri_chat_type(call.self), SHOWN(node->a->name));
    }
  } else {
    TRI_TRY(tri_chat_evaluate(renderer, node->a, &callee));
  }
  if (callee.kind == TRI_CHAT_UNDEFINED) {
    return TRI_CHAT_FAIL_AT(renderer, node, TRI_BAD_FILE, "unknown function `%.*s`", SHOWN(callee));
  }
  if (callee.kind != TRI_CHAT_FUNCTION && callee.kind != TRI_CHAT_MACRO) {
    return TRI_CHAT_FAIL_AT(renderer, node, TRI_BAD_FILE, "a %s cannot be called", tri_chat_type(callee));
  }
  if (callee.kind == TRI_CHAT_FUNCTION && !is_callable_here(callee.function, call.self)) {
    return TRI_CHAT_FAIL_AT(renderer, node, TRI_UNSUPPORTED, "a method that was kept cannot be called");
  }
  TRI_TRY(evaluate_arguments(renderer, node, room, &call));
  tri_status status = call_value(renderer, callee, &call, out);
  return status == TRI_OK || callee.kind == TRI_CHAT_MACRO ? status : tri_chat_place(renderer, node, status);
}

static tri_status evaluate_filter(tri_chat_renderer *renderer, const tri_chat_node *node, tri_chat_value *out) {
  tri_chat_value room[FEW_ARGUMENTS];
  tri_chat_call call = {.function = node->function};
  TRI_TRY(tri_chat_evaluate(renderer, node->a, &call.self));
  TRI_TRY(evaluate_arguments(renderer, node, room, &call));
  TRI_CHAT_TRY_AT(renderer, node, tri_chat_run(&call, out));
  return TRI_OK;
}

static tri_status evaluate_test(tri_chat_renderer *renderer, const tri_chat_node *node, tri_chat_value *out) {
  TRI_TRY(evaluate_filter(renderer, node, out));
  *out = tri_chat_boolean(tri_chat_truth(*out) != node->negated);
  return TRI_OK;
}

/* ---- any expression ---------------------------------------------------------------------------------------------- */

static bool is_name_of_jinja(tri_chat_value name) {
  static const char *const names[] = {"caller", "cycler", "joiner", "kwargs", "lipsum", "self", "super", "varargs"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    if (strlen(names[i]) == name.bytes && memcmp(names[i], name.text, name.bytes) == 0) return true;
  }
  return false;
}

static tri_status evaluate_name(tri_chat_renderer *renderer, const tri_chat_node *node, tri_chat_value *out) {
  const tri_chat_value *value = tri_chat_find(renderer, node->symbol);
  const tri_chat_function *function = value == NULL ? tri_chat_function_find(tri_chat_globals(), node->name) : NULL;
  if (value != NULL) {
    *out = *value;
  } else if (function != NULL) {
    *out = (tri_chat_value){.kind = TRI_CHAT_FUNCTION, .function = function};
  } else if (is_name_of_jinja(node->name)) {
    return TRI_CHAT_FAIL_AT(renderer, node, TRI_UNSUPPORTED, "`%.*s` of Jinja is not supported", SHOWN(node->name));
  } else {
    *out = tri_chat_undefined(node->name.text, node->name.bytes);
  }
  return TRI_OK;
}

static tri_status evaluate_list(tri_chat_renderer *renderer, const tri_chat_node *node, tri_chat_value *out) {
  tri_chat_list *list = NULL;
  TRI_TRY(tri_chat_list_create(&renderer->arena, node->count, node->is_tuple ? TRI_CHAT_IS_TUPLE : TRI_CHAT_IS_LIST,
                               &list));
  for (int32_t i = 0; i < node->count; i++) TRI_TRY(tri_chat_evaluate(renderer, node->items[i], &list->items[i]));
  list->count = node->count;
  *out = tri_chat_of_list(list);
  return TRI_OK;
}

static tri_status evaluate_dict(tri_chat_renderer *renderer, const tri_chat_node *node, tri_chat_value *out) {
  tri_chat_dict *dict = NULL;
  TRI_TRY(tri_chat_dict_create(&renderer->arena, node->count / 2, &dict));
  for (int32_t i = 0; i < node->count; i += 2) {
    tri_chat_value key, value;
    TRI_TRY(tri_chat_evaluate(renderer, node->items[i], &key));
    TRI_TRY(tri_chat_evaluate(renderer, node->items[i + 1], &value));
    TRI_TRY(charge_key(renderer, &key));
    if (key.kind != TRI_CHAT_STRING && !tri_chat_is_whole(key)) {
      return TRI_CHAT_FAIL_AT(renderer, node, TRI_UNSUPPORTED, "a %s as the key of a dict is not supported",
                              tri_chat_type(key));
    }
    TRI_TRY(tri_chat_dict_set(&renderer->arena, dict, key, value));
  }
  *out = tri_chat_of_dict(dict);
  return TRI_OK;
}

static tri_status evaluate_condition(tri_chat_renderer *renderer, const tri_chat_node *node, tri_chat_value *out) {
  tri_chat_value condition;
  TRI_TRY(tri_chat_evaluate(renderer, node->b, &condition));
  if (tri_chat_truth(condition)) return tri_chat_evaluate(renderer, node->a, out);
  if (node->c != NULL) return tri_chat_evaluate(renderer, node->c, out);
  *out = tri_chat_undefined("an `if` without `else`", strlen("an `if` without `else`"));
  return TRI_OK;
}

static tri_status evaluate_subscript(tri_chat_renderer *renderer, const tri_chat_node *node, tri_chat_value *out) {
  tri_chat_value value, key;
  TRI_TRY(tri_chat_evaluate(renderer, node->a, &value));
  TRI_TRY(tri_chat_evaluate(renderer, node->b, &key));
  TRI_CHAT_TRY_AT(renderer, node, get_item(renderer, value, key, false, out));
  return TRI_OK;
}

static tri_status evaluate_attribute(tri_chat_renderer *renderer, const tri_chat_node *node, tri_chat_value *out) {
  tri_chat_value value;
  TRI_TRY(tri_chat_evaluate(renderer, node->a, &value));
  TRI_CHAT_TRY_AT(renderer, node, get_item(renderer, value, node->name, true, out));
  return TRI_OK;
}

/* Evaluates `and` or `or`. The result is one of the operands; the second operand is only evaluated if the first does
 * not decide. */
static tri_status evaluate_either(tri_chat_renderer *renderer, const tri_chat_node *node, bool decides,
                                  tri_chat_value *out) {
  TRI_TRY(tri_chat_evaluate(renderer, node->a, out));
  return tri_chat_truth(*out) == decides ? TRI_OK : tri_chat_evaluate(renderer, node->b, out);
}

static tri_status evaluate_inside(tri_chat_renderer *renderer, const tri_chat_node *node, tri_chat_value *out) {
  switch ((tri_chat_node_kind)node->kind) {
    case TRI_NODE_CONSTANT: *out = node->constant; return TRI_OK;
    case TRI_NODE_NAME: return evaluate_name(renderer, node, out);
    case TRI_NODE_LIST: return evaluate_list(renderer, node, out);
    case TRI_NODE_DICT: return evaluate_dict(renderer, node, out);
    case TRI_NODE_CONDITION: return evaluate_condition(renderer, node, out);
    case TRI_NODE_OR: return evaluate_either(renderer, node, true, out);
    case TRI_NODE_AND: return evaluate_either(renderer, node, false, out);
    case TRI_NODE_NOT:
      TRI_TRY(tri_chat_evaluate(renderer, node->a, out));
      *out = tri_chat_boolean(!tri_chat_truth(*out));
      return TRI_OK;
    case TRI_NODE_COMPARE: return evaluate_compare(renderer, node, out);
    case TRI_NODE_BINARY: return evaluate_binary(renderer, node, out);
    case TRI_NODE_NEGATE: return evaluate_sign(renderer, node, true, out);
    case TRI_NODE_PLUS: return evaluate_sign(renderer, node, false, out);
    case TRI_NODE_ATTRIBUTE: return evaluate_attribute(renderer, node, out);
    case TRI_NODE_SUBSCRIPT: return evaluate_subscript(renderer, node, out);
    case TRI_NODE_SLICE: return evaluate_slice(renderer, node, out);
    case TRI_NODE_CALL: return evaluate_call(renderer, node, out);
    case TRI_NODE_FILTER: return evaluate_filter(renderer, node, out);
    case TRI_NODE_TEST: return evaluate_test(renderer, node, out);
    case TRI_NODE_TEXT:
    case TRI_NODE_OUTPUT:
    case TRI_NODE_IF:
    case TRI_NODE_FOR:
    case TRI_NODE_SET:
    case TRI_NODE_MACRO:
    case TRI_NODE_GENERATION:
    case TRI_NODE_BREAK:
    case TRI_NODE_CONTINUE:
    case TRI_NODE_BLOCK: break;
  }
  return tri_fail_internal("a chat template has a statement where an expression is needed");
}

tri_status tri_chat_evaluate(tri_chat_renderer *renderer, const tri_chat_node *node, tri_chat_value *out) {
  *out = tri_chat_none();
  TRI_CHAT_TRY_AT(renderer, node, tri_chat_charge(renderer, 0));
  if (++renderer->depth > DEEPEST) {
    return TRI_CHAT_FAIL_AT(renderer, node, TRI_BAD_FILE, "the template calls itself more than %d deep", DEEPEST);
  }
  tri_status status = evaluate_inside(renderer, node, out);
  renderer->depth--;
  return status;
}
