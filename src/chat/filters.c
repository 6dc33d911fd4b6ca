/* Filters: `value | filter(...)`. */
#include "chat/functions.h"
#include "chat/renderer.h"
#include "chat/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static tri_chat_value empty_text(void) { return tri_chat_string("", 0); }

/* ---- strings ----------------------------------------------------------------------------------------------------- */

/* Calls the string method `name` with the given arguments on str(self). The result is safe if self is. */
static tri_status as_method(const tri_chat_call *call, const char *name, const tri_chat_value *items, int32_t count,
                            tri_chat_value *out) {
  tri_chat_call method = {.renderer = call->renderer, .arena = call->arena, .items = items, .count = count};
  method.function = tri_chat_function_find(tri_chat_methods(TRI_CHAT_STRING), tri_chat_text(name));
  TRI_TRY(tri_chat_self_text(call, &method.self));
  TRI_TRY(tri_chat_run(&method, out));
  out->is_safe = call->self.kind == TRI_CHAT_STRING && call->self.is_safe;
  return TRI_OK;
}

static tri_status filter_trim(const tri_chat_call *call, tri_chat_value *out) {
  tri_chat_value set = tri_chat_argument(call, 0, tri_chat_none());
  return as_method(call, "strip", &set, 1, out);
}

/* Implements a filter that equals the string method of the same name. */
static tri_status filter_method(const tri_chat_call *call, tri_chat_value *out) {
  return as_method(call, call->function->name, NULL, 0, out);
}

/* Implements `replace`. str() is applied to all arguments except the count. The result is never safe. */
static tri_status filter_replace(const tri_chat_call *call, tri_chat_value *out) {
  tri_chat_value items[3];
  for (int32_t i = 0; i < 2; i++) {
    TRI_TRY(tri_chat_str(call->arena, tri_chat_argument(call, i, tri_chat_none()), &items[i]));
    TRI_TRY(tri_chat_charge(call->renderer, items[i].bytes));
  }
  items[2] = tri_chat_argument(call, 2, tri_chat_none());
  TRI_TRY(as_method(call, "replace", items, 2 + (items[2].kind != TRI_CHAT_NONE), out));
  out->is_safe = false;
  return TRI_OK;
}

/* Implements `title`. Words begin after white space, hyphens and opening brackets. The first letter becomes upper case;
 * for a few letters this differs from the title case of the string method. */
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
      divides = next > end || memchr("-({[<", self.text[end], 5) != NULL;
    }
    TRI_TRY(tri_chat_text_case(call->arena, tri_chat_part(self, at, end), TRI_CHAT_INITIAL, &piece));
    TRI_TRY(tri_chat_concat(call->arena, *out, piece, out));
    at = end;
  }
  return TRI_OK;
}

static tri_status filter_string(const tri_chat_call *call, tri_chat_value *out) {
  TRI_TRY(tri_chat_str(call->arena, call->self, out));
  out->is_safe = call->self.kind == TRI_CHAT_STRING && call->self.is_safe;
  return TRI_OK;
}

static tri_status filter_safe(const tri_chat_call *call, tri_chat_value *out) {
  TRI_TRY(tri_chat_str(call->arena, call->self, out));
  out->is_safe = true;
  return TRI_OK;
}

/* Makes the indentation of one level, from a number of spaces or a string. Fails with TRI_BAD_FILE for other values. */
static tri_status indent_text(const tri_chat_call *call, tri_chat_value width, tri_chat_value *out) {
  tri_chat_writer writer = {.arena = call->arena};
  *out = width;
  if (width.kind == TRI_CHAT_STRING) return tri_chat_flatten(call->arena, out);
  if (!tri_chat_is_whole(width)) {
    return tri_fail(TRI_BAD_FILE, "`%s` indents by a whole number or a string, not a %s", call->function->name,
                    tri_chat_type(width));
  }
  for (int64_t i = 0; i < tri_chat_as_whole(width); i++) {
    TRI_TRY(tri_chat_charge(call->renderer, 1));
    TRI_TRY(tri_chat_write(&writer, " ", 1));
  }
  *out = tri_chat_string(writer.text, writer.bytes);
  return TRI_OK;
}

/* Returns whether a line feed after the text would add an empty line. It does not after a carriage return. */
static bool ends_in_line(tri_chat_value text) {
  size_t last = text.bytes, next = 0;
  if (last == 0 || text.text[last - 1] == '\r') return false;
  do last--;
  while (last > 0 && ((uint8_t)text.text[last] & 0xC0) == 0x80);
  return tri_chat_text_line(text.text, text.bytes, last, &next) == last;
}

/* Implements `indent`. Indents each line except the first line and empty lines; arguments can include these. All line
 * ends become \n. */
static tri_status filter_indent(const tri_chat_call *call, tri_chat_value *out) {
  tri_chat_value self = call->self, by;
  bool first = tri_chat_truth(tri_chat_argument(call, 1, tri_chat_boolean(false)));
  bool blank = tri_chat_truth(tri_chat_argument(call, 2, tri_chat_boolean(false)));
  tri_chat_writer writer = {.arena = call->arena};
  if (self.kind != TRI_CHAT_STRING) return tri_fail(TRI_BAD_FILE, "`indent` of a %s", tri_chat_type(self));
  TRI_TRY(tri_chat_flatten(call->arena, &self));
  TRI_TRY(indent_text(call, tri_chat_argument(call, 0, tri_chat_integer(4)), &by));
  if (first) TRI_TRY(tri_chat_write_part(&writer, by, 0, by.bytes));
  /* A line feed is appended, so that a text that ends in one has an empty last line. */
  for (size_t at = 0, next = 0, line = 0; line == 0 || at <= self.bytes; at = next, line++) {
    size_t end = tri_chat_text_line(self.text, self.bytes, at, &next);
    if (at == self.bytes && line > 0 && !ends_in_line(self)) break;
    writer.given = line > 0 && tri_chat_is_given(self, at - 1);
    if (line > 0) TRI_TRY(tri_chat_write(&writer, "\n", 1));
    if (line > 0 && (blank || end > at)) TRI_TRY(tri_chat_write_part(&writer, by, 0, by.bytes));
    TRI_TRY(tri_chat_write_part(&writer, self, at, end));
    TRI_TRY(tri_chat_charge(call->renderer, by.bytes));
    if (at == self.bytes) break;
  }
  TRI_TRY(tri_chat_written(&writer, self.origin, out));
  out->is_safe = call->self.is_safe;
  return TRI_OK;
}

static tri_status indent_of(const tri_chat_call *call, tri_chat_json_style *style) {
  tri_chat_value indent = tri_chat_argument(call, 1, tri_chat_none());
  style->indented = indent.kind != TRI_CHAT_NONE;
  style->item_separator = tri_chat_text(style->indented ? "," : ", ");
  style->key_separator = tri_chat_text(": ");
  if (!style->indented) return TRI_OK;
  if (indent.kind != TRI_CHAT_STRING && !tri_chat_is_whole(indent)) {
    return tri_fail(TRI_UNSUPPORTED,
                    "tojson: an `indent` that is a %s, not a whole number or a string, is not supported",
                    tri_chat_type(indent));
  }
  if (tri_chat_is_whole(indent) && tri_chat_as_whole(indent) > 1024) {
    return tri_fail(TRI_UNSUPPORTED, "tojson: an `indent` of more than 1024 is not supported");
  }
  return indent_text(call, indent, &style->indent);
}

static tri_status filter_tojson(const tri_chat_call *call, tri_chat_value *out) {
  tri_chat_json_style style = {0};
  tri_chat_value separators = tri_chat_argument(call, 2, tri_chat_none());
  style.ensure_ascii = tri_chat_truth(tri_chat_argument(call, 0, tri_chat_boolean(false)));
  style.sort_keys = tri_chat_truth(tri_chat_argument(call, 3, tri_chat_boolean(false)));
  TRI_TRY(indent_of(call, &style));
  if (separators.kind != TRI_CHAT_NONE) {
    if (separators.kind != TRI_CHAT_LIST || separators.list->kind > TRI_CHAT_IS_TUPLE || separators.list->count != 2 ||
        separators.list->items[0].kind != TRI_CHAT_STRING || separators.list->items[1].kind != TRI_CHAT_STRING) {
      return tri_fail(TRI_UNSUPPORTED, "tojson: `separators` other than two strings are not supported");
    }
    style.item_separator = separators.list->items[0];
    style.key_separator = separators.list->items[1];
  }
  TRI_TRY(tri_chat_json_text(call->arena, call->self, &style, out));
  return tri_chat_charge(call->renderer, out->bytes);
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* Result of Python's int() of a text. */
typedef enum int_text { INT_IS_NONE, INT_IS_WHOLE, INT_IS_TOO_LARGE } int_text;

static int digit_of(char letter) {
  if (letter >= '0' && letter <= '9') return letter - '0';
  if (letter >= 'a' && letter <= 'z') return letter - 'a' + 10;
  if (letter >= 'A' && letter <= 'Z') return letter - 'A' + 10;
  return 99;
}

/* Returns the base that the prefix 0x, 0o or 0b of a text names, if `base` is the same or 0; otherwise 0. */
static int64_t prefix_of(const char *text, size_t bytes, int64_t base) {
  int64_t named = 0;
  if (bytes > 1 && text[0] == '0') {
    char letter = (char)(text[1] | 0x20);
    named = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
  }
  return named != 0 && (base == 0 || base == named) ? named : 0;
}

/* Computes int(text, base) of an ASCII text without white space around it: a sign, a prefix, digits with single
 * underscores between them. In base 0, a 0 before other digits is not allowed. Sets *out if the result is
 * INT_IS_WHOLE. */
static int_text whole_of_text(const char *text, size_t bytes, int64_t base, int64_t *out) {
  size_t at = bytes > 0 && (text[0] == '+' || text[0] == '-');
  bool minus = at > 0 && text[0] == '-', digit = false, over = false, zeros = true;
  int64_t whole = 0, named = prefix_of(text + at, bytes - at, base);
  if (named != 0) at += 2;
  if (named != 0 && at < bytes && text[at] == '_') at++;
  const bool plain = base == 0 && named == 0, leads = plain && at < bytes && text[at] == '0';
  base = named != 0 ? named : base == 0 ? 10 : base;
  for (; at < bytes; at++) {
    if (text[at] == '_' && digit) {
      digit = false;
      continue;
    }
    int value = digit_of(text[at]);
    if (value >= base) return INT_IS_NONE;
    zeros = zeros && value == 0;
    over |= __builtin_mul_overflow(whole, base, &whole);
    over |= __builtin_sub_overflow(whole, (int64_t)value,
                                   &whole); /* the sum is negative, because the range of negative numbers is larger */
    digit = true;
  }
  if (!digit || (leads && !zeros)) return INT_IS_NONE;
  if (over || (!minus && whole == INT64_MIN)) return INT_IS_TOO_LARGE;
  *out = minus ? whole : -whole;
  return INT_IS_WHOLE;
}

static size_t digits_at(const char *text, size_t at) {
  size_t begin = at;
  for (; (text[at] >= '0' && text[at] <= '9') || (text[at] == '_' && at > begin); at++) {
    if (text[at] == '_' && (text[at + 1] < '0' || text[at + 1] > '9')) break;
  }
  return at - begin;
}

/* Computes int(float(text)), and removes underscores from the text. Sets *out if the result is INT_IS_WHOLE. Forms that
 * strtod accepts and Python does not (hexadecimal digits) are refused. */
static int_text whole_of_real(char *text, int64_t *out) {
  size_t at = text[0] == '+' || text[0] == '-', kept = 0, whole = 0, part = 0;
  if (strcasecmp(text + at, "inf") == 0 || strcasecmp(text + at, "infinity") == 0) return INT_IS_TOO_LARGE;
  whole = digits_at(text, at);
  at += whole;
  if (text[at] == '.') {
    part = digits_at(text, at + 1);
    at += 1 + part;
  }
  if (whole + part == 0) return INT_IS_NONE;
  if (text[at] == 'e' || text[at] == 'E') {
    at += text[at + 1] == '+' || text[at + 1] == '-' ? 2 : 1;
    size_t power = digits_at(text, at);
    if (power == 0) return INT_IS_NONE;
    at += power;
  }
  if (text[at] != 0) return INT_IS_NONE;
  for (size_t i = 0; text[i] != 0; i++) { /* strtod does not accept underscores */
    if (text[i] != '_') text[kept++] = text[i];
  }
  text[kept] = 0;
  double real = strtod(text, NULL);
  if (!(fabs(real) < 9e18)) return INT_IS_TOO_LARGE;
  *out = (int64_t)real;
  return INT_IS_WHOLE;
}

static tri_status too_large(void) { return tri_fail(TRI_UNSUPPORTED, "numbers beyond 64 bits are not supported"); }

static tri_status int_of_text(const tri_chat_call *call, tri_chat_value self, tri_chat_value *out) {
  tri_chat_value base = tri_chat_argument(call, 1, tri_chat_integer(10)), copy;
  size_t begin = 0, end = self.bytes;
  int64_t whole = 0;
  int_text found = INT_IS_NONE;
  tri_chat_text_strip(self.text, NULL, true, true, &begin, &end);
  for (size_t i = begin; i < end; i++) {
    if ((uint8_t)self.text[i] < 0x80) continue;
    return tri_fail(TRI_UNSUPPORTED, "`int` of a text that is not ASCII is not supported");
  }
  if (memchr(self.text + begin, 0, end - begin) != NULL) return TRI_OK;
  TRI_TRY(tri_chat_arena_alloc(call->arena, end - begin + 2, 1, &copy.text));
  char *text = (char *)(uintptr_t)copy.text;
  memcpy(text, self.text + begin, end - begin);
  /* Any other base is a ValueError or a TypeError in Python, and the text is then read as a real number. */
  const int64_t number = tri_chat_is_whole(base) ? tri_chat_as_whole(base) : -1;
  if (base.kind == TRI_CHAT_UNDEFINED) return tri_fail(TRI_UNSUPPORTED, "`int` of an undefined base is not supported");
  if (number == 0 || (number >= 2 && number <= 36)) found = whole_of_text(text, end - begin, number, &whole);
  if (found == INT_IS_NONE) found = whole_of_real(text, &whole);
  switch (found) {
    case INT_IS_NONE: return TRI_OK;
    case INT_IS_WHOLE: *out = tri_chat_integer(whole); return TRI_OK;
    case INT_IS_TOO_LARGE: break;
  }
  return too_large();
}

static tri_status filter_int(const tri_chat_call *call, tri_chat_value *out) {
  tri_chat_value self = call->self;
  *out = tri_chat_argument(call, 0, tri_chat_integer(0));
  if (self.kind == TRI_CHAT_UNDEFINED) return tri_fail(TRI_BAD_FILE, "`int` of an undefined value");
  if (tri_chat_is_whole(self)) *out = tri_chat_integer(tri_chat_as_whole(self));
  if (self.kind == TRI_CHAT_REAL && !(fabs(self.real) < 9e18)) return too_large();
  if (self.kind == TRI_CHAT_REAL) *out = tri_chat_integer((int64_t)self.real);
  if (self.kind != TRI_CHAT_STRING) return TRI_OK;
  TRI_TRY(tri_chat_flatten(call->arena, &self));
  return int_of_text(call, self, out);
}

static tri_status filter_abs(const tri_chat_call *call, tri_chat_value *out) {
  *out = call->self;
  if (call->self.kind == TRI_CHAT_REAL) out->real = fabs(out->real);
  if (tri_chat_is_whole(call->self)) {
    int64_t whole = tri_chat_as_whole(call->self);
    if (whole == INT64_MIN) return too_large();
    *out = tri_chat_integer(whole < 0 ? -whole : whole);
  }
  if (tri_chat_is_number(call->self)) return TRI_OK;
  return tri_fail(TRI_BAD_FILE, "`abs` needs a number, not a %s", tri_chat_type(call->self));
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

/* Converts a part of a dotted name: digits become a number, the index in a list. Fails with TRI_UNSUPPORTED if the part
 * is not ASCII, or the number is too large. */
static tri_status part_of_name(tri_chat_value text, tri_chat_value *out) {
  bool digits = text.bytes > 0, ascii = true;
  int64_t whole = 0;
  for (size_t i = 0; i < text.bytes; i++) {
    digits = digits && text.text[i] >= '0' && text.text[i] <= '9';
    ascii = ascii && (uint8_t)text.text[i] < 0x80;
    if (digits && (__builtin_mul_overflow(whole, (int64_t)10, &whole) ||
                   __builtin_add_overflow(whole, (int64_t)(text.text[i] - '0'), &whole))) {
      return too_large();
    }
  }
  if (!ascii) return tri_fail(TRI_UNSUPPORTED, "the name of an attribute that is not ASCII is not supported");
  *out = digits ? tri_chat_integer(whole) : text;
  return TRI_OK;
}

/* Finds attribute `name` of a value. Dots in the name separate nested attributes; if the name is Python's None, the
 * result is the value itself. An undefined attribute becomes `otherwise`, unless `otherwise` is None. */
static tri_status attribute_of(const tri_chat_call *call, tri_chat_value value, tri_chat_value name,
                               tri_chat_value otherwise, tri_chat_value *out) {
  *out = value;
  if (name.kind == TRI_CHAT_NONE) return TRI_OK;
  if (name.kind == TRI_CHAT_STRING) TRI_TRY(tri_chat_flatten(call->arena, &name));
  size_t bytes = 0; /* anything but a string is one key */
  if (name.kind == TRI_CHAT_STRING) bytes = name.bytes;
  TRI_TRY(tri_chat_charge(call->renderer, bytes));
  for (size_t at = 0, end = 0; at <= bytes; at = end + 1) {
    tri_chat_value part = name;
    if (name.kind == TRI_CHAT_STRING) {
      const char *dot = bytes == 0 ? NULL : memchr(name.text + at, '.', bytes - at);
      end = dot == NULL ? bytes : (size_t)(dot - name.text);
      TRI_TRY(part_of_name(tri_chat_part(name, at, end), &part));
    }
    TRI_TRY(tri_chat_item(call->renderer, value, part, &value));
    if (value.kind == TRI_CHAT_UNDEFINED && otherwise.kind != TRI_CHAT_NONE) value = otherwise;
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
    if (attribute.kind != TRI_CHAT_NONE) TRI_TRY(attribute_of(call, item, attribute, tri_chat_none(), &item));
    TRI_TRY(tri_chat_str(call->arena, item, &item));
    if (i > 0) TRI_TRY(tri_chat_concat(call->arena, *out, by, out));
    TRI_TRY(tri_chat_concat(call->arena, *out, item, out));
  }
  return TRI_OK;
}

static tri_status filter_first(const tri_chat_call *call, tri_chat_value *out) {
  tri_chat_list *list = NULL;
  TRI_TRY(tri_chat_iterate_some(call->renderer, call->self, &list));
  if (list->count == 0 && list->failure != NULL) return tri_fail(TRI_BAD_FILE, "%s", list->failure);
  *out = list->count > 0 ? list->items[0]
                         : tri_chat_undefined("`first` of an empty sequence", strlen("`first` of an empty sequence"));
  return TRI_OK;
}

static tri_status filter_last(const tri_chat_call *call, tri_chat_value *out) {
  tri_chat_list *list = NULL;
  if (call->self.kind == TRI_CHAT_LIST && call->self.list->kind == TRI_CHAT_IS_ITERATOR) {
    return tri_fail(TRI_BAD_FILE, "a generator has no last item; put `| list` before `last`");
  }
  TRI_TRY(tri_chat_iterate(call->renderer, call->self, &list));
  /* Python finds the last letter by its index, and a letter of a safe string is also safe. */
  const bool is_safe = call->self.kind == TRI_CHAT_STRING && call->self.is_safe;
  *out = list->count > 0 ? list->items[list->count - 1]
                         : tri_chat_undefined("`last` of an empty sequence", strlen("`last` of an empty sequence"));
  out->is_safe = is_safe || out->is_safe;
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
  bool copied = call->self.kind == TRI_CHAT_LIST && call->self.list->kind == TRI_CHAT_IS_ITERATOR;
  if (call->self.kind != TRI_CHAT_STRING) {
    return copy_items(call, copied ? TRI_CHAT_IS_LIST : TRI_CHAT_IS_ITERATOR, true, out);
  }
  tri_chat_list *letters = NULL;
  TRI_TRY(tri_chat_iterate(call->renderer, call->self, &letters));
  *out = empty_text();
  for (int64_t i = letters->count - 1; i >= 0; i--) TRI_TRY(tri_chat_concat(call->arena, *out, letters->items[i], out));
  out->is_safe = call->self.is_safe;
  return TRI_OK;
}

/* Ends the body of a generator with a status. TRI_BAD_FILE becomes the list's failure, because in Python it only occurs
 * when the iteration reaches that item; other failures are returned. */
static tri_status end_generator(const tri_chat_call *call, tri_chat_list *list, tri_status status) {
  if (status != TRI_BAD_FILE) return status;
  const char *message = tri_status_message();
  tri_chat_value copy;
  TRI_TRY(tri_chat_copy(call->arena, message, strlen(message) + 1, &copy));
  list->failure = copy.text;
  return TRI_OK;
}

static tri_status filter_pairs(const tri_chat_call *call, tri_chat_value *out) {
  tri_chat_call method = {.renderer = call->renderer, .arena = call->arena, .self = call->self};
  if (call->self.kind != TRI_CHAT_DICT) {
    tri_chat_list *none = NULL;
    TRI_TRY(tri_chat_list_create(call->arena, 0, TRI_CHAT_IS_ITERATOR, &none));
    *out = tri_chat_of_list(none);
    if (call->self.kind == TRI_CHAT_UNDEFINED) return TRI_OK;
    return end_generator(call, none,
                         tri_fail(TRI_BAD_FILE, "`items` needs a dict, not a %s", tri_chat_type(call->self)));
  }
  method.function = tri_chat_function_find(tri_chat_methods(TRI_CHAT_DICT), tri_chat_text("items"));
  TRI_TRY(tri_chat_run(&method, out));
  out->list->kind = (uint8_t)TRI_CHAT_IS_ITERATOR;
  return TRI_OK;
}

/* ---- dictsort: a merge sort, since a comparison can fail --------------------------------------------------------- */

typedef struct sorter {
  const tri_chat_call *call;
  const tri_chat_value *keys; /* keys of the pairs, by the indices in `order` */
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
  if (call->self.kind != TRI_CHAT_DICT) {
    return tri_fail(TRI_BAD_FILE, "`dictsort` needs a dict, not a %s", tri_chat_type(call->self));
  }
  TRI_TRY(filter_pairs(call, &pairs));
  TRI_TRY(tri_chat_argument_text(call, 1, tri_chat_text("key"), &by));
  bool by_value = by.bytes == 5 && memcmp(by.text, "value", 5) == 0;
  if (!by_value && !(by.bytes == 3 && memcmp(by.text, "key", 3) == 0)) {
    return tri_fail(TRI_BAD_FILE, "`dictsort` sorts by \"key\" or by \"value\"");
  }
  bool turned = false;
  TRI_TRY(tri_chat_argument_flag(call, 2, &turned));
  int64_t count = pairs.list->count, column = by_value;
  TRI_TRY(sort_keys(call, pairs.list, column, &keys));
  s.keys = keys;
  TRI_TRY(tri_chat_arena_alloc(call->arena, (size_t)count, sizeof *s.order, &s.order));
  TRI_TRY(tri_chat_arena_alloc(call->arena, (size_t)count, sizeof *s.other, &s.other));
  /* Python reverses a stable sort and keeps equal items in order: sort from the end, then read from the end. */
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

/* Sets *out to whether a value passes a test. The arguments from `first` on name the test and its arguments; without
 * them, *out is the value's truth. Fails with TRI_UNSUPPORTED for an unknown test. */
static tri_status holds(const tri_chat_call *call, int32_t first, tri_chat_value value, bool *out) {
  if (call->count <= first) { /* without a test Jinja ignores keywords */
    *out = tri_chat_truth(value);
    return TRI_OK;
  }
  tri_chat_value name, result;
  TRI_TRY(tri_chat_argument_text(call, first, tri_chat_none(), &name));
  tri_chat_call test = {.renderer = call->renderer, .arena = call->arena, .self = value};
  test.function = tri_chat_function_find(tri_chat_tests(), name);
  if (test.function == NULL) {
    return tri_fail(TRI_UNSUPPORTED, "`%s`: the test `%.*s` is not supported", call->function->name,
                    name.bytes < 60 ? (int)name.bytes : 60, name.text);
  }
  test.items = call->items + first + 1;
  test.count = call->count - first - 1;
  test.keywords = call->keywords;
  test.num_keywords = call->num_keywords;
  TRI_TRY(tri_chat_run(&test, &result));
  *out = tri_chat_truth(result);
  return TRI_OK;
}

static tri_status choose_items(const tri_chat_call *call, bool by_attribute, bool wanted, tri_chat_list *chosen) {
  tri_chat_list *list = NULL;
  if (!tri_chat_truth(call->self)) return TRI_OK; /* None and other false values have no items */
  TRI_TRY(tri_chat_iterate_some(call->renderer, call->self, &list));
  if (by_attribute && call->count == 0) {
    return tri_fail(TRI_BAD_FILE, "`%s` needs the name of an attribute", call->function->name);
  }
  for (int64_t i = 0; i < list->count; i++) {
    tri_chat_value value = list->items[i];
    bool kept = false;
    TRI_TRY(tri_chat_charge(call->renderer, 0));
    if (by_attribute) TRI_TRY(attribute_of(call, value, call->items[0], tri_chat_none(), &value));
    TRI_TRY(holds(call, by_attribute, value, &kept));
    if (kept == wanted) TRI_TRY(tri_chat_list_add(call->arena, chosen, list->items[i]));
  }
  return list->failure == NULL ? TRI_OK : tri_fail(TRI_BAD_FILE, "%s", list->failure);
}

/* Bits of `form`. */
enum { BY_ATTRIBUTE = 1, REJECTING = 2 };

static tri_status filter_by_test(const tri_chat_call *call, tri_chat_value *out) {
  const int form = call->function->form;
  tri_chat_list *chosen = NULL;
  TRI_TRY(tri_chat_list_create(call->arena, 0, TRI_CHAT_IS_ITERATOR, &chosen));
  *out = tri_chat_of_list(chosen);
  return end_generator(call, chosen, choose_items(call, form & BY_ATTRIBUTE, !(form & REJECTING), chosen));
}

/* Keywords of `map` itself, by their indices in its row. */
enum { MAP_ATTRIBUTE = 1, MAP_DEFAULT = 2 };

static tri_status map_filter(const tri_chat_call *call, tri_chat_call *filter) {
  tri_chat_value name;
  TRI_TRY(tri_chat_argument_text(call, 0, tri_chat_none(), &name));
  filter->function = tri_chat_function_find(tri_chat_filters(), name);
  if (filter->function == NULL) {
    return tri_fail(TRI_UNSUPPORTED, "`map`: the filter `%.*s` is not supported",
                    name.bytes < 60 ? (int)name.bytes : 60, name.text);
  }
  filter->items = call->items + 1;
  filter->count = call->count - 1;
  filter->keywords = call->keywords;
  filter->num_keywords = call->num_keywords;
  return TRI_OK;
}

static bool has_keyword(const tri_chat_call *call, const char *name) {
  for (int32_t k = 0; k < call->num_keywords; k++) {
    tri_chat_value keyword = call->keywords[2 * k];
    if (keyword.bytes == strlen(name) && memcmp(keyword.text, name, keyword.bytes) == 0) return true;
  }
  return false;
}

/* Implements `map`: appends one value for each item, either an attribute of the item, or the result of the filter that
 * the first argument names. */
static tri_status map_items(const tri_chat_call *call, tri_chat_list *mapped) {
  tri_chat_list *list = NULL;
  tri_chat_call filter = {.renderer = call->renderer, .arena = call->arena};
  tri_chat_value item, attribute = tri_chat_none(), otherwise = tri_chat_none();
  if (!tri_chat_truth(call->self)) return TRI_OK; /* None and other false values have no items */
  const bool by_attribute = call->count == 0 && has_keyword(call, "attribute");
  if (by_attribute) {
    attribute = tri_chat_argument(call, MAP_ATTRIBUTE, tri_chat_none());
    otherwise = tri_chat_argument(call, MAP_DEFAULT, tri_chat_none());
    if (call->num_keywords > 1 + has_keyword(call, "default")) {
      return tri_fail(TRI_BAD_FILE, "`map` takes `attribute=` and `default=` and no other keyword");
    }
  } else if (call->count == 0) {
    return tri_fail(TRI_BAD_FILE, "`map` needs a filter or an attribute");
  } else {
    TRI_TRY(map_filter(call, &filter));
  }
  TRI_TRY(tri_chat_iterate_some(call->renderer, call->self, &list));
  for (int64_t i = 0; i < list->count; i++) {
    TRI_TRY(tri_chat_charge(call->renderer, 0));
    filter.self = list->items[i];
    if (by_attribute) TRI_TRY(attribute_of(call, list->items[i], attribute, otherwise, &item));
    if (!by_attribute) TRI_TRY(tri_chat_run(&filter, &item));
    TRI_TRY(tri_chat_list_add(call->arena, mapped, item));
  }
  return list->failure == NULL ? TRI_OK : tri_fail(TRI_BAD_FILE, "%s", list->failure);
}

static tri_status filter_map(const tri_chat_call *call, tri_chat_value *out) {
  tri_chat_list *mapped = NULL;
  TRI_TRY(tri_chat_list_create(call->arena, 0, TRI_CHAT_IS_ITERATOR, &mapped));
  *out = tri_chat_of_list(mapped);
  return end_generator(call, mapped, map_items(call, mapped));
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

enum { ANY = INT32_MAX };

static const tri_chat_function filters[] = {
    {.name = "trim", .most = 1, .parameters = {"chars"}, .body = filter_trim},
    {.name = "upper", .body = filter_method},
    {.name = "lower", .body = filter_method},
    {.name = "title", .body = filter_title},
    {.name = "capitalize", .body = filter_method},
    {.name = "replace", .least = 2, .most = 3, .parameters = {"old", "new", "count"}, .body = filter_replace},
    {.name = "string", .body = filter_string},
    {.name = "safe", .body = filter_safe},
    {.name = "indent", .most = 3, .parameters = {"width", "first", "blank"}, .body = filter_indent},
    {.name = "tojson",
     .most = 4,
     .parameters = {"ensure_ascii", "indent", "separators", "sort_keys"},
     .body = filter_tojson},
    {.name = "int", .most = 2, .parameters = {"default", "base"}, .body = filter_int},
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
    {.name = "select", .most = ANY, .open = true, .body = filter_by_test},
    {.name = "reject", .most = ANY, .open = true, .body = filter_by_test, .form = REJECTING},
    {.name = "selectattr", .most = ANY, .open = true, .body = filter_by_test, .form = BY_ATTRIBUTE},
    {.name = "rejectattr", .most = ANY, .open = true, .body = filter_by_test, .form = BY_ATTRIBUTE | REJECTING},
    {.name = "map", .most = ANY, .parameters = {NULL, "attribute", "default"}, .open = true, .body = filter_map},
};

tri_chat_functions tri_chat_filters(void) { return (tri_chat_functions){filters, sizeof filters / sizeof filters[0]}; }
