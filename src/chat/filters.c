/* Filters: `value | filter(...)`. */
#include "chat/functions.h"
#include "chat/renderer.h"
#include "chat/text.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static tri_chat_value empty_text(void) { return tri_chat_string("", 0); }

/* ---- strings ----------------------------------------------------------------------------------------------------- */

/* What a method of strings does with str(self). */
static tri_status as_method(const tri_chat_call *call, const char *name, tri_chat_value *out) {
  tri_chat_call method = *call;
  method.function = tri_chat_method_find(TRI_CHAT_STRING, tri_chat_text(name));
  TRI_TRY(tri_chat_self_text(call, &method.self));
  return tri_chat_run(&method, out);
}

static tri_status filter_trim(const tri_chat_call *call, tri_chat_value *out) { return as_method(call, "strip", out); }

static tri_status filter_upper(const tri_chat_call *call, tri_chat_value *out) { return as_method(call, "upper", out); }

static tri_status filter_lower(const tri_chat_call *call, tri_chat_value *out) { return as_method(call, "lower", out); }

static tri_status filter_capitalize(const tri_chat_call *call, tri_chat_value *out) {
  return as_method(call, "capitalize", out);
}

static tri_status filter_replace(const tri_chat_call *call, tri_chat_value *out) {
  return as_method(call, "replace", out);
}

/* Words begin behind white space, hyphens and opening brackets. */
static tri_status filter_title(const tri_chat_call *call, tri_chat_value *out) {
  tri_chat_value self, piece;
  TRI_TRY(tri_chat_self_text(call, &self));
  *out = empty_text();
  for (size_t at = 0; at < self.bytes;) {
    size_t end = at;
    bool divides = false;
    for (; end < self.bytes && !divides; end += tri_chat_text_offset(self.text + end, self.bytes - end, 1)) {
      size_t next = end, last = self.bytes;
      tri_chat_text_strip(self.text, NULL, true, false, &next, &last);
      divides = next > end || strchr("-({[<", self.text[end]) != NULL;
    }
    tri_chat_value word = tri_chat_string(self.text + at, end - at);
    word.origin = self.origin;
    TRI_TRY(tri_chat_text_case(call->arena, word, TRI_CHAT_CAPITAL, &piece));
    TRI_TRY(tri_chat_concat(call->arena, *out, piece, out));
    at = end;
  }
  return TRI_OK;
}

static tri_status filter_string(const tri_chat_call *call, tri_chat_value *out) {
  return tri_chat_str(call->arena, call->self, out);
}

static tri_status filter_safe(const tri_chat_call *call, tri_chat_value *out) {
  return tri_chat_str(call->arena, call->self, out);
}

/* Each line but the first (unless asked) is set in; empty ones only if asked. */
static tri_status filter_indent(const tri_chat_call *call, tri_chat_value *out) {
  tri_chat_value self, width = tri_chat_argument(call, 0, tri_chat_integer(4));
  bool first = tri_chat_truth(tri_chat_argument(call, 1, tri_chat_boolean(false)));
  bool blank = tri_chat_truth(tri_chat_argument(call, 2, tri_chat_boolean(false)));
  tri_chat_writer writer = {.arena = call->arena};
  TRI_TRY(tri_chat_self_text(call, &self));
  if (width.kind == TRI_CHAT_STRING) TRI_TRY(tri_chat_flatten(call->arena, &width));
  int64_t spaces = tri_chat_is_whole(width) ? tri_chat_as_whole(width) : 0;
  for (size_t at = 0; at < self.bytes;) {
    const char *newline = memchr(self.text + at, '\n', self.bytes - at);
    size_t end = newline == NULL ? self.bytes : (size_t)(newline - self.text) + 1;
    bool empty = self.text[at] == '\n';
    bool set_in = at == 0 ? first : blank || !empty;
    if (set_in && width.kind == TRI_CHAT_STRING) TRI_TRY(tri_chat_write(&writer, width.text, width.bytes));
    for (int64_t i = 0; set_in && i < spaces; i++) TRI_TRY(tri_chat_write(&writer, " ", 1));
    TRI_TRY(tri_chat_write(&writer, self.text + at, end - at));
    TRI_TRY(tri_chat_charge(call->renderer, writer.bytes > 0 ? (size_t)spaces : 0));
    at = end;
  }
  *out = tri_chat_string(writer.text, writer.bytes);
  out->origin = self.origin;
  return TRI_OK;
}

static tri_status indent_of(const tri_chat_call *call, tri_chat_json_style *style) {
  tri_chat_value indent = tri_chat_argument(call, 1, tri_chat_none());
  style->indented = indent.kind != TRI_CHAT_NONE;
  style->item_separator = tri_chat_text(style->indented ? "," : ", ");
  style->key_separator = tri_chat_text(": ");
  if (indent.kind == TRI_CHAT_STRING) {
    style->indent = indent;
    return tri_chat_flatten(call->arena, &style->indent);
  }
  if (!style->indented) return TRI_OK;
  if (!tri_chat_is_whole(indent)) return tri_fail(TRI_BAD_FILE, "tojson: `indent` is a number or a string");
  int64_t width = tri_chat_as_whole(indent);
  if (width > 1024) return tri_fail(TRI_BAD_FILE, "tojson: `indent` is at most 1024");
  tri_chat_writer writer = {.arena = call->arena};
  for (int64_t i = 0; i < width; i++) TRI_TRY(tri_chat_write(&writer, " ", 1));
  style->indent = tri_chat_string(writer.text, writer.bytes);
  return TRI_OK;
}

static tri_status filter_tojson(const tri_chat_call *call, tri_chat_value *out) {
  tri_chat_json_style style = {0};
  tri_chat_value separators = tri_chat_argument(call, 2, tri_chat_none());
  style.ensure_ascii = tri_chat_truth(tri_chat_argument(call, 0, tri_chat_boolean(false)));
  style.sort_keys = tri_chat_truth(tri_chat_argument(call, 3, tri_chat_boolean(false)));
  TRI_TRY(indent_of(call, &style));
  if (separators.kind != TRI_CHAT_NONE) {
    if (separators.kind != TRI_CHAT_LIST || separators.list->count != 2 ||
        separators.list->items[0].kind != TRI_CHAT_STRING || separators.list->items[1].kind != TRI_CHAT_STRING) {
      return tri_fail(TRI_BAD_FILE, "tojson: `separators` are two strings");
    }
    style.item_separator = separators.list->items[0];
    style.key_separator = separators.list->items[1];
  }
  TRI_TRY(tri_chat_json_text(call->arena, call->self, &style, out));
  return tri_chat_charge(call->renderer, out->bytes);
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static tri_status filter_int(const tri_chat_call *call, tri_chat_value *out) {
  tri_chat_value self = call->self;
  *out = tri_chat_argument(call, 0, tri_chat_integer(0));
  if (tri_chat_is_whole(self)) *out = tri_chat_integer(tri_chat_as_whole(self));
  if (self.kind == TRI_CHAT_REAL && fabs(self.real) < 9e18) *out = tri_chat_integer((int64_t)self.real);
  if (self.kind != TRI_CHAT_STRING) return TRI_OK;
  char text[64], *end = NULL;
  size_t begin = 0;
  TRI_TRY(tri_chat_flatten(call->arena, &self));
  size_t last = self.bytes;
  tri_chat_text_strip(self.text, NULL, true, true, &begin, &last);
  if (last == begin || last - begin >= sizeof text || strchr("+-0123456789.", self.text[begin]) == NULL) return TRI_OK;
  memcpy(text, self.text + begin, last - begin);
  text[last - begin] = 0;
  errno = 0;
  long long whole = strtoll(text, &end, 10);
  if (errno == 0 && *end == 0) *out = tri_chat_integer(whole);
  double real = strtod(text, &end);
  if (errno == 0 && *end == 0 && strpbrk(text, ".eE") != NULL && fabs(real) < 9e18)
    *out = tri_chat_integer((int64_t)real);
  return TRI_OK;
}

static tri_status filter_abs(const tri_chat_call *call, tri_chat_value *out) {
  *out = call->self;
  if (call->self.kind == TRI_CHAT_REAL) out->real = fabs(out->real);
  if (tri_chat_is_whole(call->self)) {
    int64_t whole = tri_chat_as_whole(call->self);
    if (whole == INT64_MIN) return tri_fail(TRI_UNSUPPORTED, "numbers beyond 64 bits are not supported");
    *out = tri_chat_integer(whole < 0 ? -whole : whole);
  }
  if (tri_chat_is_number(call->self)) return TRI_OK;
  return tri_fail(TRI_BAD_FILE, "`abs` wants a number, not a %s", tri_chat_type(call->self));
}

/* ---- anything ---------------------------------------------------------------------------------------------------- */

static tri_status filter_default(const tri_chat_call *call, tri_chat_value *out) {
  bool falsy = tri_chat_truth(tri_chat_argument(call, 1, tri_chat_boolean(false)));
  bool replaced = call->self.kind == TRI_CHAT_UNDEFINED || (falsy && !tri_chat_truth(call->self));
  *out = replaced ? tri_chat_argument(call, 0, empty_text()) : call->self;
  return TRI_OK;
}

static tri_status filter_length(const tri_chat_call *call, tri_chat_value *out) {
  tri_chat_value self = call->self;
  switch ((tri_chat_kind)self.kind) {
    case TRI_CHAT_UNDEFINED: *out = tri_chat_integer(0); return TRI_OK;
    case TRI_CHAT_DICT: *out = tri_chat_integer(self.dict->count); return TRI_OK;
    case TRI_CHAT_STRING:
      TRI_TRY(tri_chat_self_text(call, &self));
      *out = tri_chat_integer(tri_chat_text_length(self.text, self.bytes));
      return TRI_OK;
    case TRI_CHAT_LIST:
      if (self.list->kind == TRI_CHAT_IS_ITERATOR) break;
      *out = tri_chat_integer(self.list->count);
      return TRI_OK;
    case TRI_CHAT_LOOP: *out = tri_chat_integer(self.loop->list->count); return TRI_OK;
    case TRI_CHAT_NONE:
    case TRI_CHAT_BOOLEAN:
    case TRI_CHAT_INTEGER:
    case TRI_CHAT_REAL:
    case TRI_CHAT_NAMESPACE:
    case TRI_CHAT_MACRO:
    case TRI_CHAT_FUNCTION: break;
  }
  return tri_fail(TRI_BAD_FILE, "a %s has no length", tri_chat_type(self));
}

/* ---- lists ------------------------------------------------------------------------------------------------------- */

/* `name` of a value, through the dots in it. */
static tri_status attribute_of(const tri_chat_call *call, tri_chat_value value, tri_chat_value name,
                               tri_chat_value *out) {
  if (tri_chat_is_whole(name)) return tri_chat_item(call->renderer, value, name, out);
  if (name.kind != TRI_CHAT_STRING) return tri_fail(TRI_BAD_FILE, "the name of an attribute is a string");
  TRI_TRY(tri_chat_flatten(call->arena, &name));
  for (size_t at = 0; at <= name.bytes;) {
    const char *dot = memchr(name.text + at, '.', name.bytes - at);
    size_t end = dot == NULL ? name.bytes : (size_t)(dot - name.text);
    TRI_TRY(tri_chat_item(call->renderer, value, tri_chat_string(name.text + at, end - at), &value));
    at = end + 1;
  }
  *out = value;
  return TRI_OK;
}

static tri_status filter_join(const tri_chat_call *call, tri_chat_value *out) {
  tri_chat_value by = tri_chat_argument(call, 0, empty_text());
  tri_chat_value attribute = tri_chat_argument(call, 1, tri_chat_none()), item;
  tri_chat_list *list = NULL;
  TRI_TRY(tri_chat_str(call->arena, by, &by));
  TRI_TRY(tri_chat_iterate(call->renderer, call->self, &list));
  *out = empty_text();
  for (int64_t i = 0; i < list->count; i++) {
    item = list->items[i];
    if (attribute.kind != TRI_CHAT_NONE) TRI_TRY(attribute_of(call, item, attribute, &item));
    TRI_TRY(tri_chat_str(call->arena, item, &item));
    if (i > 0) TRI_TRY(tri_chat_concat(call->arena, *out, by, out));
    TRI_TRY(tri_chat_concat(call->arena, *out, item, out));
  }
  return TRI_OK;
}

static tri_status filter_first(const tri_chat_call *call, tri_chat_value *out) {
  tri_chat_list *list = NULL;
  TRI_TRY(tri_chat_iterate(call->renderer, call->self, &list));
  *out = list->count > 0 ? list->items[0] : tri_chat_undefined("the first of nothing", strlen("the first of nothing"));
  return TRI_OK;
}

static tri_status filter_last(const tri_chat_call *call, tri_chat_value *out) {
  tri_chat_list *list = NULL;
  if (call->self.kind == TRI_CHAT_LIST && call->self.list->kind == TRI_CHAT_IS_ITERATOR) {
    return tri_fail(TRI_BAD_FILE, "a generator has no last item; put `| list` before `last`");
  }
  TRI_TRY(tri_chat_iterate(call->renderer, call->self, &list));
  *out = list->count > 0 ? list->items[list->count - 1]
                         : tri_chat_undefined("the last of nothing", strlen("the last of nothing"));
  return TRI_OK;
}

static tri_status copy_items(const tri_chat_call *call, tri_chat_list_kind kind, bool turned, tri_chat_value *out) {
  tri_chat_list *list = NULL, *copy = NULL;
  TRI_TRY(tri_chat_iterate(call->renderer, call->self, &list));
  TRI_TRY(tri_chat_charge(call->renderer, (size_t)list->count * 16));
  TRI_TRY(tri_chat_list_create(call->arena, list->count, kind, &copy));
  for (int64_t i = 0; i < list->count; i++) {
    TRI_TRY(tri_chat_list_add(call->arena, copy, list->items[turned ? list->count - 1 - i : i]));
  }
  *out = tri_chat_of_list(copy);
  return TRI_OK;
}

static tri_status filter_list(const tri_chat_call *call, tri_chat_value *out) {
  return copy_items(call, TRI_CHAT_IS_LIST, false, out);
}

static tri_status filter_reverse(const tri_chat_call *call, tri_chat_value *out) {
  if (call->self.kind != TRI_CHAT_STRING) return copy_items(call, TRI_CHAT_IS_ITERATOR, true, out);
  tri_chat_list *letters = NULL;
  TRI_TRY(tri_chat_iterate(call->renderer, call->self, &letters));
  *out = empty_text();
  for (int64_t i = letters->count - 1; i >= 0; i--) TRI_TRY(tri_chat_concat(call->arena, *out, letters->items[i], out));
  return TRI_OK;
}

static tri_status filter_pairs(const tri_chat_call *call, tri_chat_value *out) {
  tri_chat_call method = *call;
  if (call->self.kind == TRI_CHAT_UNDEFINED) {
    tri_chat_list *none = NULL;
    TRI_TRY(tri_chat_list_create(call->arena, 0, TRI_CHAT_IS_ITERATOR, &none));
    *out = tri_chat_of_list(none);
    return TRI_OK;
  }
  if (call->self.kind != TRI_CHAT_DICT) {
    return tri_fail(TRI_BAD_FILE, "`items` wants a dict, not a %s", tri_chat_type(call->self));
  }
  method.function = tri_chat_method_find(TRI_CHAT_DICT, tri_chat_text("items"));
  TRI_TRY(tri_chat_run(&method, out));
  out->list->kind = (uint8_t)TRI_CHAT_IS_ITERATOR;
  return TRI_OK;
}

/* ---- dictsort: a merge sort, since a comparison can fail ----------------------------------------------------------
 */

typedef struct sorter {
  const tri_chat_call *call;
  tri_chat_value *items, *space; /* pairs */
  const tri_chat_value *keys;    /* by the number that a pair's place holds */
  int64_t *order, *other;
} sorter;

static tri_status merge(const sorter *s, int64_t begin, int64_t middle, int64_t end) {
  int64_t a = begin, b = middle;
  for (int64_t i = begin; i < end; i++) {
    bool second = a == middle;
    if (a < middle && b < end) {
      TRI_TRY(tri_chat_less(s->call->renderer, s->keys[s->order[b]], s->keys[s->order[a]], false, &second));
    }
    s->other[i] = s->order[second ? b++ : a++];
  }
  memcpy(s->order + begin, s->other + begin, (size_t)(end - begin) * sizeof *s->order);
  return TRI_OK;
}

static tri_status sort(const sorter *s, int64_t count) {
  for (int64_t width = 1; width < count; width *= 2) {
    for (int64_t begin = 0; begin + width < count; begin += 2 * width) {
      int64_t end = count - begin < 2 * width ? count : begin + 2 * width;
      TRI_TRY(tri_chat_charge(s->call->renderer, (size_t)(end - begin) * 16));
      TRI_TRY(merge(s, begin, begin + width, end));
    }
  }
  return TRI_OK;
}

static tri_status sort_keys(const tri_chat_call *call, const tri_chat_list *pairs, int64_t column,
                            tri_chat_value **out) {
  bool exact = tri_chat_truth(tri_chat_argument(call, 0, tri_chat_boolean(false)));
  TRI_TRY(tri_chat_arena_alloc(call->arena, (size_t)pairs->count, sizeof **out, out));
  for (int64_t i = 0; i < pairs->count; i++) {
    tri_chat_value key = pairs->items[i].list->items[column];
    if (key.kind == TRI_CHAT_STRING && !exact) {
      TRI_TRY(tri_chat_flatten(call->arena, &key));
      TRI_TRY(tri_chat_text_case(call->arena, key, TRI_CHAT_LOWER, &key));
    }
    (*out)[i] = key;
  }
  return TRI_OK;
}

static tri_status filter_dictsort(const tri_chat_call *call, tri_chat_value *out) {
  tri_chat_value pairs, by, *keys = NULL;
  tri_chat_list *sorted = NULL;
  sorter s = {.call = call};
  TRI_TRY(filter_pairs(call, &pairs));
  TRI_TRY(tri_chat_argument_text(call, 1, tri_chat_text("key"), &by));
  bool turned = tri_chat_truth(tri_chat_argument(call, 2, tri_chat_boolean(false)));
  int64_t count = pairs.list->count, column = by.bytes == 5 && memcmp(by.text, "value", 5) == 0;
  TRI_TRY(sort_keys(call, pairs.list, column, &keys));
  s.keys = keys;
  TRI_TRY(tri_chat_arena_alloc(call->arena, (size_t)count, sizeof *s.order, &s.order));
  TRI_TRY(tri_chat_arena_alloc(call->arena, (size_t)count, sizeof *s.other, &s.other));
  /* Python turns a stable sort round so that equal ones stay in order: sort from the end, then read from the end. */
  for (int64_t i = 0; i < count; i++) s.order[i] = turned ? count - 1 - i : i;
  TRI_TRY(sort(&s, count));
  TRI_TRY(tri_chat_list_create(call->arena, count, TRI_CHAT_IS_LIST, &sorted));
  for (int64_t i = 0; i < count; i++) {
    TRI_TRY(tri_chat_list_add(call->arena, sorted, pairs.list->items[s.order[turned ? count - 1 - i : i]]));
  }
  *out = tri_chat_of_list(sorted);
  return TRI_OK;
}

/* ---- choosing and mapping ---------------------------------------------------------------------------------------- */

/* Whether the test that the arguments from `first` on name holds for a value; without one, its truth. */
static tri_status holds(const tri_chat_call *call, int32_t first, tri_chat_value value, bool *out) {
  if (call->count <= first) {
    *out = tri_chat_truth(value);
    return TRI_OK;
  }
  tri_chat_value name, result;
  TRI_TRY(tri_chat_argument_text(call, first, tri_chat_none(), &name));
  tri_chat_call test = {.renderer = call->renderer, .arena = call->arena, .self = value};
  test.function = tri_chat_test_find(name);
  if (test.function == NULL) {
    return tri_fail(TRI_UNSUPPORTED, "`%s`: the test `%.*s` is not supported", call->function->name,
                    name.bytes < 60 ? (int)name.bytes : 60, name.text);
  }
  test.items = call->items + first + 1;
  test.count = call->count - first - 1;
  if (test.count < test.function->least || test.count > test.function->most) {
    return tri_fail(TRI_BAD_FILE, "the test `%s` takes %d to %d arguments", test.function->name, test.function->least,
                    test.function->most);
  }
  TRI_TRY(tri_chat_run(&test, &result));
  *out = tri_chat_truth(result);
  return TRI_OK;
}

/* Nothing, none too, has no items. */
static tri_status iterate_some(const tri_chat_call *call, tri_chat_list **out) {
  if (!tri_chat_truth(call->self)) return tri_chat_list_create(call->arena, 0, TRI_CHAT_IS_LIST, out);
  return tri_chat_iterate(call->renderer, call->self, out);
}

static tri_status choose(const tri_chat_call *call, bool by_attribute, bool wanted, tri_chat_value *out) {
  tri_chat_list *list = NULL, *chosen = NULL;
  TRI_TRY(iterate_some(call, &list));
  TRI_TRY(tri_chat_list_create(call->arena, 0, TRI_CHAT_IS_ITERATOR, &chosen));
  for (int64_t i = 0; i < list->count; i++) {
    tri_chat_value value = list->items[i];
    bool kept = false;
    TRI_TRY(tri_chat_charge(call->renderer, 0));
    if (by_attribute) TRI_TRY(attribute_of(call, value, call->items[0], &value));
    TRI_TRY(holds(call, by_attribute, value, &kept));
    if (kept == wanted) TRI_TRY(tri_chat_list_add(call->arena, chosen, list->items[i]));
  }
  *out = tri_chat_of_list(chosen);
  return TRI_OK;
}

static tri_status filter_select(const tri_chat_call *call, tri_chat_value *out) {
  return choose(call, false, true, out);
}

static tri_status filter_reject(const tri_chat_call *call, tri_chat_value *out) {
  return choose(call, false, false, out);
}

static tri_status filter_selectattr(const tri_chat_call *call, tri_chat_value *out) {
  return choose(call, true, true, out);
}

static tri_status filter_rejectattr(const tri_chat_call *call, tri_chat_value *out) {
  return choose(call, true, false, out);
}

/* One item through the filter that the first argument names, or to its attribute. */
static tri_status map_item(const tri_chat_call *call, tri_chat_value attribute, tri_chat_value item,
                           tri_chat_value *out) {
  if (attribute.kind != TRI_CHAT_NONE) {
    TRI_TRY(attribute_of(call, item, attribute, out));
    if (out->kind == TRI_CHAT_UNDEFINED) *out = tri_chat_argument(call, 2, *out);
    return TRI_OK;
  }
  tri_chat_call filter = {.renderer = call->renderer, .arena = call->arena, .self = item};
  tri_chat_value name;
  TRI_TRY(tri_chat_argument_text(call, 0, tri_chat_none(), &name));
  filter.function = tri_chat_filter_find(name);
  if (filter.function == NULL) {
    return tri_fail(TRI_UNSUPPORTED, "`map`: the filter `%.*s` is not supported",
                    name.bytes < 60 ? (int)name.bytes : 60, name.text);
  }
  filter.items = call->items + 1;
  filter.count = call->count - 1;
  filter.keywords = call->keywords;
  filter.num_keywords = call->num_keywords;
  if (filter.count > filter.function->most || filter.count + filter.num_keywords < filter.function->least) {
    return tri_fail(TRI_BAD_FILE, "the filter `%s` takes %d to %d arguments", filter.function->name,
                    filter.function->least, filter.function->most);
  }
  return tri_chat_run(&filter, out);
}

static tri_status filter_map(const tri_chat_call *call, tri_chat_value *out) {
  tri_chat_list *list = NULL, *mapped = NULL;
  tri_chat_value attribute = tri_chat_none(), item;
  if (call->count == 0) attribute = tri_chat_argument(call, 1, tri_chat_none());
  if (call->count == 0 && attribute.kind == TRI_CHAT_NONE) {
    return tri_fail(TRI_BAD_FILE, "`map` wants a filter or an attribute");
  }
  TRI_TRY(iterate_some(call, &list));
  TRI_TRY(tri_chat_list_create(call->arena, list->count, TRI_CHAT_IS_ITERATOR, &mapped));
  for (int64_t i = 0; i < list->count; i++) {
    TRI_TRY(tri_chat_charge(call->renderer, 0));
    TRI_TRY(map_item(call, attribute, list->items[i], &item));
    TRI_TRY(tri_chat_list_add(call->arena, mapped, item));
  }
  *out = tri_chat_of_list(mapped);
  return TRI_OK;
}

/* ---- which there are --------------------------------------------------------------------------------------------- */

enum { ANY = INT32_MAX };

static const tri_chat_function filters[] = {
    {.name = "trim", .most = 1, .parameters = {"chars"}, .body = filter_trim},
    {.name = "upper", .body = filter_upper},
    {.name = "lower", .body = filter_lower},
    {.name = "title", .body = filter_title},
    {.name = "capitalize", .body = filter_capitalize},
    {.name = "replace", .least = 2, .most = 3, .parameters = {"old", "new", "count"}, .body = filter_replace},
    {.name = "string", .body = filter_string},
    {.name = "safe", .body = filter_safe},
    {.name = "indent", .most = 3, .parameters = {"width", "first", "blank"}, .body = filter_indent},
    {.name = "tojson",
     .most = 4,
     .parameters = {"ensure_ascii", "indent", "separators", "sort_keys"},
     .body = filter_tojson},
    {.name = "int", .most = 1, .parameters = {"default"}, .body = filter_int},
    {.name = "abs", .body = filter_abs},
    {.name = "default", .most = 2, .parameters = {"default_value", "boolean"}, .body = filter_default},
    {.name = "d", .most = 2, .parameters = {"default_value", "boolean"}, .body = filter_default},
    {.name = "length", .body = filter_length},
    {.name = "count", .body = filter_length},
    {.name = "join", .most = 2, .parameters = {"d", "attribute"}, .body = filter_join},
    {.name = "first", .body = filter_first},
    {.name = "last", .body = filter_last},
    {.name = "list", .body = filter_list},
    {.name = "reverse", .body = filter_reverse},
    {.name = "items", .body = filter_pairs},
    {.name = "dictsort", .most = 3, .parameters = {"case_sensitive", "by", "reverse"}, .body = filter_dictsort},
    {.name = "select", .most = ANY, .body = filter_select},
    {.name = "reject", .most = ANY, .body = filter_reject},
    {.name = "selectattr", .least = 1, .most = ANY, .body = filter_selectattr},
    {.name = "rejectattr", .least = 1, .most = ANY, .body = filter_rejectattr},
    {.name = "map", .most = ANY, .parameters = {NULL, "attribute", "default"}, .body = filter_map},
};

const tri_chat_function *tri_chat_filter_find(tri_chat_value name) {
  for (size_t i = 0; i < sizeof filters / sizeof filters[0]; i++) {
    if (strlen(filters[i].name) != name.bytes) continue;
    if (memcmp(filters[i].name, name.text, name.bytes) == 0) return &filters[i];
  }
  return NULL;
}
