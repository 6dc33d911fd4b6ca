/* Arguments of functions, helpers for several kinds of functions, and global functions. */
#include "chat/functions.h"

#include "chat/renderer.h"
#include "chat/text.h"

#include <string.h>

static bool is_named(tri_chat_value name, const char *other) {
  return name.bytes == strlen(other) && memcmp(name.text, other, name.bytes) == 0;
}

/* Returns the index of the parameter with this name; -1: none. */
static int32_t parameter_of(const tri_chat_function *function, tri_chat_value name) {
  for (int32_t i = 0; i < (int32_t)(sizeof function->parameters / sizeof function->parameters[0]); i++) {
    if (function->parameters[i] != NULL && is_named(name, function->parameters[i])) return i;
  }
  return -1;
}

static tri_status check_keyword(const tri_chat_call *call, int32_t k) {
  const char *name = call->function->name;
  tri_chat_value keyword = call->keywords[2 * k];
  int32_t place = parameter_of(call->function, keyword);
  bool twice = place >= 0 && place < call->count && !call->function->open;
  for (int32_t i = 0; i < k; i++) {
    tri_chat_value other = call->keywords[2 * i];
    twice |= other.bytes == keyword.bytes && memcmp(other.text, keyword.text, keyword.bytes) == 0;
  }
  int shown = keyword.bytes < 60 ? (int)keyword.bytes : 60;
  if (twice) return tri_fail(TRI_BAD_FILE, "`%s` gets the argument `%.*s` twice", name, shown, keyword.text);
  if (place >= 0 || call->function->open) return TRI_OK;
  return tri_fail(TRI_BAD_FILE, "`%s` takes no `%.*s=`", name, shown, keyword.text);
}

static tri_status check_arguments(const tri_chat_call *call) {
  const tri_chat_function *function = call->function;
  for (int32_t k = 0; k < call->num_keywords; k++) TRI_TRY(check_keyword(call, k));
  bool missing = false;
  for (int32_t i = call->count; i < function->least; i++) {
    bool given = false;
    for (int32_t k = 0; k < call->num_keywords; k++) given |= parameter_of(function, call->keywords[2 * k]) == i;
    missing |= !given;
  }
  if (call->count <= function->most && !missing) return TRI_OK;
  return tri_fail(TRI_BAD_FILE, "`%s` takes %d to %d arguments", function->name, function->least, function->most);
}

static bool is_method_of_safe(const tri_chat_call *call) {
  tri_chat_functions methods = tri_chat_methods(TRI_CHAT_STRING);
  return call->self.kind == TRI_CHAT_STRING && call->self.is_safe && call->function >= methods.functions &&
         call->function < methods.functions + methods.count;
}

tri_status tri_chat_run(const tri_chat_call *call, tri_chat_value *out) {
  size_t work = tri_chat_size(call->self);
  for (int32_t i = 0; i < call->count; i++) work += tri_chat_size(call->items[i]);
  for (int32_t k = 0; k < call->num_keywords; k++) work += tri_chat_size(call->keywords[2 * k + 1]);
  TRI_TRY(tri_chat_charge(call->renderer, work));
  TRI_TRY(check_arguments(call));
  if (is_method_of_safe(call)) {
    return tri_fail(TRI_UNSUPPORTED, "`.%s` of a string that `safe` made, which escapes, is not supported",
                    call->function->name);
  }
  return call->function->body(call, out);
}

const tri_chat_function *tri_chat_function_find(tri_chat_functions among, tri_chat_value name) {
  for (size_t i = 0; i < among.count; i++) {
    if (is_named(name, among.functions[i].name)) return &among.functions[i];
  }
  return NULL;
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

tri_chat_value tri_chat_argument(const tri_chat_call *call, int32_t index, tri_chat_value otherwise) {
  if (index < call->count) return call->items[index];
  for (int32_t k = 0; k < call->num_keywords; k++) {
    if (parameter_of(call->function, call->keywords[2 * k]) == index) return call->keywords[2 * k + 1];
  }
  return otherwise;
}

tri_status tri_chat_argument_text(const tri_chat_call *call, int32_t index, tri_chat_value otherwise,
                                  tri_chat_value *out) {
  *out = tri_chat_argument(call, index, otherwise);
  if (out->kind == TRI_CHAT_STRING) return tri_chat_flatten(call->arena, out);
  return tri_fail(TRI_BAD_FILE, "`%s` needs a string, not a %s", call->function->name, tri_chat_type(*out));
}

tri_status tri_chat_argument_whole(const tri_chat_call *call, int32_t index, int64_t otherwise, int64_t *out) {
  tri_chat_value value = tri_chat_argument(call, index, tri_chat_integer(otherwise));
  *out = otherwise;
  if (tri_chat_is_whole(value)) *out = tri_chat_as_whole(value);
  if (tri_chat_is_whole(value)) return TRI_OK;
  return tri_fail(TRI_BAD_FILE, "`%s` needs a whole number, not a %s", call->function->name, tri_chat_type(value));
}

tri_status tri_chat_argument_flag(const tri_chat_call *call, int32_t index, bool *out) {
  tri_chat_value value = tri_chat_argument(call, index, tri_chat_boolean(false));
  int64_t whole = tri_chat_is_whole(value) ? tri_chat_as_whole(value) : INT64_MAX;
  if (whole < INT32_MIN || whole > INT32_MAX) {
    return tri_fail(TRI_UNSUPPORTED, "`%s`: a %s instead of true or false is not supported", call->function->name,
                    tri_chat_type(value));
  }
  *out = whole != 0;
  return TRI_OK;
}

tri_status tri_chat_self_text(const tri_chat_call *call, tri_chat_value *out) {
  TRI_TRY(tri_chat_str(call->arena, call->self, out));
  TRI_TRY(tri_chat_flatten(call->arena, out));
  return tri_chat_charge(call->renderer, out->bytes);
}

/* ---- iterating --------------------------------------------------------------------------------------------------- */

static tri_status letters_of(tri_chat_renderer *renderer, tri_chat_value text, tri_chat_list **out) {
  TRI_TRY(tri_chat_flatten(&renderer->arena, &text));
  TRI_TRY(tri_chat_charge(renderer, text.bytes * 16));
  TRI_TRY(tri_chat_list_create(&renderer->arena, tri_chat_text_length(text.text, text.bytes), TRI_CHAT_IS_LIST, out));
  for (size_t i = 0; i < text.bytes;) {
    size_t length = tri_chat_text_offset(text.text + i, text.bytes - i, 1);
    TRI_TRY(tri_chat_list_add(&renderer->arena, *out, tri_chat_part(text, i, i + length)));
    i += length;
  }
  return TRI_OK;
}

static tri_status keys_of(tri_chat_renderer *renderer, const tri_chat_dict *dict, tri_chat_list **out) {
  TRI_TRY(tri_chat_charge(renderer, (size_t)dict->count * 16));
  TRI_TRY(tri_chat_list_create(&renderer->arena, dict->count, TRI_CHAT_IS_LIST, out));
  for (int64_t i = 0; i < dict->count; i++) {
    TRI_TRY(tri_chat_list_add(&renderer->arena, *out, dict->entries[i].key));
  }
  return TRI_OK;
}

static tri_status use_iterator(tri_chat_renderer *renderer, tri_chat_list *iterator, tri_chat_list **out) {
  switch ((tri_chat_use)iterator->use) {
    case TRI_CHAT_FRESH:
      iterator->use = (uint8_t)TRI_CHAT_PARTLY;
      *out = iterator;
      return TRI_OK;
    case TRI_CHAT_GONE: return tri_chat_list_create(&renderer->arena, 0, TRI_CHAT_IS_LIST, out);
    case TRI_CHAT_PARTLY: break;
  }
  return tri_fail(TRI_UNSUPPORTED,
                  "a generator that was used before, even in part, is not supported; append `| list` to it");
}

tri_status tri_chat_iterate_some(tri_chat_renderer *renderer, tri_chat_value value, tri_chat_list **out) {
  switch ((tri_chat_kind)value.kind) {
    case TRI_CHAT_STRING: return letters_of(renderer, value, out);
    case TRI_CHAT_DICT: return keys_of(renderer, value.dict, out);
    case TRI_CHAT_UNDEFINED: return tri_chat_list_create(&renderer->arena, 0, TRI_CHAT_IS_LIST, out);
    case TRI_CHAT_LIST: {
      *out = value.list;
      if (value.list->kind != TRI_CHAT_IS_ITERATOR) return TRI_OK;
      return use_iterator(renderer, value.list, out);
    }
    case TRI_CHAT_NONE:
    case TRI_CHAT_BOOLEAN:
    case TRI_CHAT_INTEGER:
    case TRI_CHAT_REAL:
    case TRI_CHAT_NAMESPACE:
    case TRI_CHAT_MACRO:
    case TRI_CHAT_FUNCTION: break;
    case TRI_CHAT_LOOP: return tri_fail(TRI_UNSUPPORTED, "a loop over the variable `loop` is not supported");
  }
  return tri_fail(TRI_BAD_FILE, "a %s is not iterable", tri_chat_type(value));
}

tri_status tri_chat_iterate(tri_chat_renderer *renderer, tri_chat_value value, tri_chat_list **out) {
  TRI_TRY(tri_chat_iterate_some(renderer, value, out));
  (*out)->use = (uint8_t)TRI_CHAT_GONE;
  return (*out)->failure == NULL ? TRI_OK : tri_fail(TRI_BAD_FILE, "%s", (*out)->failure);
}

tri_status tri_chat_check_hashable(tri_chat_value value) {
  if (value.kind == TRI_CHAT_DICT) return tri_fail(TRI_BAD_FILE, "a dict cannot be the key of a dict");
  if (value.kind != TRI_CHAT_LIST) return TRI_OK;
  switch ((tri_chat_list_kind)value.list->kind) {
    case TRI_CHAT_IS_LIST: return tri_fail(TRI_BAD_FILE, "a list cannot be the key of a dict");
    case TRI_CHAT_IS_TUPLE: return tri_fail(TRI_UNSUPPORTED, "a tuple as the key of a dict is not supported");
    case TRI_CHAT_IS_VIEW: return tri_fail(TRI_UNSUPPORTED, "a view as the key of a dict is not supported");
    case TRI_CHAT_IS_RANGE:
    case TRI_CHAT_IS_ITERATOR: return TRI_OK;
  }
  return TRI_OK;
}

/* ---- global functions -------------------------------------------------------------------------------------------- */

static tri_status global_raise(const tri_chat_call *call, tri_chat_value *out) {
  tri_chat_value text = tri_chat_argument(call, 0, tri_chat_none());
  *out = tri_chat_none();
  TRI_TRY(tri_chat_str(call->arena, text, &text));
  TRI_TRY(tri_chat_flatten(call->arena, &text));
  return tri_fail(TRI_BAD_FILE, "the template refuses the conversation: %.*s",
                  (int)(text.bytes < 1000 ? text.bytes : 1000), text.text);
}

tri_status tri_chat_time(tri_chat_renderer *renderer, const char *format, tri_chat_value *out) {
  enum { MOST = 8192 };
  char text[MOST];
  struct tm parts;
  if (localtime_r(&renderer->now, &parts) == NULL)
    return tri_fail(TRI_BAD_FILE, "strftime_now: the current time has no local date");
  size_t bytes = strftime(text, sizeof text, format, &parts);
  if (bytes == 0 && format[0] != 0 && strcmp(format, "%p") != 0 && strcmp(format, "%P") != 0) {
    return tri_fail(TRI_UNSUPPORTED, "strftime_now: the format gives no text, or one of %d bytes or more", MOST);
  }
  return tri_chat_copy(&renderer->arena, text, bytes, out);
}

/* Fails with TRI_UNSUPPORTED for conversions that are not listed. The listed ones are those that Python's datetime
 * passes to C. %f, %z and %Z are not listed, because datetime defines them itself. */
static tri_status check_format(const char *format) {
  for (const char *at = strchr(format, '%'); at != NULL; at = strchr(at, '%')) {
    at += 1 + strspn(at + 1, "-_0^#123456789");
    if (*at == 0 || strchr("aAbBcCdDeFgGhHIjmMnprRStTuUVwWxXyY%", *at) == NULL) {
      return tri_fail(TRI_UNSUPPORTED, "strftime_now: `%%%.1s` is not supported", at);
    }
    at++;
  }
  return TRI_OK;
}

static tri_status global_strftime(const tri_chat_call *call, tri_chat_value *out) {
  tri_chat_value format;
  char text[256];
  TRI_TRY(tri_chat_argument_text(call, 0, tri_chat_none(), &format));
  if (format.bytes >= sizeof text) return tri_fail(TRI_BAD_FILE, "the format of strftime_now is too long");
  memcpy(text, format.text, format.bytes);
  text[format.bytes] = 0;
  if (strlen(text) != format.bytes)
    return tri_fail(TRI_UNSUPPORTED, "strftime_now: a NUL byte in the format is not supported");
  TRI_TRY(check_format(text));
  TRI_TRY(tri_chat_time(call->renderer, text, out));
  if (format.origin != 0 || format.marks != NULL) out->origin = TRI_CHAT_GIVEN; /* the text has letters of the format */
  return TRI_OK;
}

static tri_status make_dict(const tri_chat_call *call, tri_chat_dict **out) {
  TRI_TRY(tri_chat_dict_create(call->arena, call->num_keywords, out));
  tri_chat_value from = call->count > 0 ? call->items[0] : tri_chat_none();
  if (call->count > 0 && from.kind != TRI_CHAT_DICT) {
    return tri_fail(TRI_UNSUPPORTED, "`%s` of a %s is not supported; give names and values", call->function->name,
                    tri_chat_type(from));
  }
  for (int64_t i = 0; call->count > 0 && i < from.dict->count; i++) {
    TRI_TRY(tri_chat_dict_set(call->arena, *out, from.dict->entries[i].key, from.dict->entries[i].value));
  }
  for (int32_t k = 0; k < call->num_keywords; k++) {
    TRI_TRY(tri_chat_dict_set(call->arena, *out, call->keywords[2 * k], call->keywords[2 * k + 1]));
  }
  return TRI_OK;
}

static tri_status global_namespace(const tri_chat_call *call, tri_chat_value *out) {
  tri_chat_dict *dict = NULL;
  TRI_TRY(make_dict(call, &dict));
  *out = (tri_chat_value){.kind = TRI_CHAT_NAMESPACE, .dict = dict};
  return TRI_OK;
}

static tri_status global_dict(const tri_chat_call *call, tri_chat_value *out) {
  tri_chat_dict *dict = NULL;
  TRI_TRY(make_dict(call, &dict));
  *out = tri_chat_of_dict(dict);
  return TRI_OK;
}

enum { LONGEST_RANGE = 100000 }; /* limit of jinja2.sandbox */

static tri_status global_range(const tri_chat_call *call, tri_chat_value *out) {
  int64_t bounds[3] = {0, 0, 1};
  tri_chat_list *list = NULL;
  for (int32_t i = 0; i < call->count; i++) TRI_TRY(tri_chat_argument_whole(call, i, 0, &bounds[i]));
  if (call->count == 1) {
    bounds[1] = bounds[0];
    bounds[0] = 0;
  }
  int64_t step = bounds[2];
  if (step == 0) return tri_fail(TRI_BAD_FILE, "the step of a range must not be zero");
  TRI_TRY(tri_chat_list_create(call->arena, 0, TRI_CHAT_IS_RANGE, &list));
  for (int64_t i = bounds[0]; step > 0 ? i < bounds[1] : i > bounds[1];) {
    TRI_TRY(tri_chat_charge(call->renderer, 0));
    if (list->count == LONGEST_RANGE) {
      return tri_fail(TRI_BAD_FILE, "a range has more than %d numbers, which Jinja refuses", LONGEST_RANGE);
    }
    TRI_TRY(tri_chat_list_add(call->arena, list, tri_chat_integer(i)));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  *out = tri_chat_of_list(list);
  return TRI_OK;
}

static const tri_chat_function globals[] = {
    {.name = "raise_exception", .least = 1, .most = 1, .parameters = {"message"}, .body = global_raise},
    {.name = "strftime_now", .least = 1, .most = 1, .parameters = {"format"}, .body = global_strftime},
    {.name = "namespace", .least = 0, .most = 1, .open = true, .body = global_namespace},
    {.name = "dict", .least = 0, .most = 1, .open = true, .body = global_dict},
    {.name = "range", .least = 1, .most = 3, .body = global_range},
};

tri_chat_functions tri_chat_globals(void) { return (tri_chat_functions){globals, sizeof globals / sizeof globals[0]}; }
