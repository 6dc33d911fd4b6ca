/* How functions find their arguments, and what several kinds of them need; global functions. */
#include "chat/functions.h"

#include "chat/renderer.h"
#include "chat/text.h"

#include <string.h>

tri_status tri_chat_run(const tri_chat_call *call, tri_chat_value *out) {
  size_t work = tri_chat_size(call->self);
  for (int32_t i = 0; i < call->count; i++) work += tri_chat_size(call->items[i]);
  for (int32_t k = 0; k < call->num_keywords; k++) work += tri_chat_size(call->keywords[2 * k + 1]);
  TRI_TRY(tri_chat_charge(call->renderer, work));
  return call->function->body(call, out);
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

tri_chat_value tri_chat_argument(const tri_chat_call *call, int32_t index, tri_chat_value otherwise) {
  if (index < call->count) return call->items[index];
  const char *name = call->function->parameters[index];
  for (int32_t k = 0; k < call->num_keywords && name != NULL; k++) {
    tri_chat_value keyword = call->keywords[2 * k];
    if (keyword.bytes == strlen(name) && memcmp(keyword.text, name, keyword.bytes) == 0)
      return call->keywords[2 * k + 1];
  }
  return otherwise;
}

tri_status tri_chat_argument_text(const tri_chat_call *call, int32_t index, tri_chat_value otherwise,
                                  tri_chat_value *out) {
  *out = tri_chat_argument(call, index, otherwise);
  if (out->kind == TRI_CHAT_STRING) return tri_chat_flatten(call->arena, out);
  return tri_fail(TRI_BAD_FILE, "`%s` wants a string, not a %s", call->function->name, tri_chat_type(*out));
}

tri_status tri_chat_argument_whole(const tri_chat_call *call, int32_t index, int64_t otherwise, int64_t *out) {
  tri_chat_value value = tri_chat_argument(call, index, tri_chat_integer(otherwise));
  *out = otherwise;
  if (tri_chat_is_whole(value)) *out = tri_chat_as_whole(value);
  if (tri_chat_is_whole(value)) return TRI_OK;
  return tri_fail(TRI_BAD_FILE, "`%s` wants a whole number, not a %s", call->function->name, tri_chat_type(value));
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
    tri_chat_value letter = tri_chat_string(text.text + i, length);
    letter.origin = text.origin;
    TRI_TRY(tri_chat_list_add(&renderer->arena, *out, letter));
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

tri_status tri_chat_iterate(tri_chat_renderer *renderer, tri_chat_value value, tri_chat_list **out) {
  switch ((tri_chat_kind)value.kind) {
    case TRI_CHAT_STRING: return letters_of(renderer, value, out);
    case TRI_CHAT_DICT: return keys_of(renderer, value.dict, out);
    case TRI_CHAT_UNDEFINED: return tri_chat_list_create(&renderer->arena, 0, TRI_CHAT_IS_LIST, out);
    case TRI_CHAT_LIST: {
      bool gone = value.list->kind == TRI_CHAT_IS_ITERATOR && value.list->used;
      value.list->used = true;
      *out = value.list;
      return gone ? tri_chat_list_create(&renderer->arena, 0, TRI_CHAT_IS_LIST, out) : TRI_OK;
    }
    case TRI_CHAT_NONE:
    case TRI_CHAT_BOOLEAN:
    case TRI_CHAT_INTEGER:
    case TRI_CHAT_REAL:
    case TRI_CHAT_NAMESPACE:
    case TRI_CHAT_LOOP:
    case TRI_CHAT_MACRO:
    case TRI_CHAT_FUNCTION: break;
  }
  return tri_fail(TRI_BAD_FILE, "a %s cannot be gone through", tri_chat_type(value));
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
  enum { MOST = 256 };
  char text[MOST];
  struct tm parts;
  if (localtime_r(&renderer->now, &parts) == NULL) return tri_fail(TRI_BAD_FILE, "there is no date to tell");
  size_t bytes = strftime(text, sizeof text, format, &parts);
  return tri_chat_copy(&renderer->arena, text, bytes, out);
}

static tri_status global_strftime(const tri_chat_call *call, tri_chat_value *out) {
  tri_chat_value format;
  char text[256];
  TRI_TRY(tri_chat_argument_text(call, 0, tri_chat_none(), &format));
  if (format.bytes >= sizeof text) return tri_fail(TRI_BAD_FILE, "the format of strftime_now is too long");
  memcpy(text, format.text, format.bytes);
  text[format.bytes] = 0;
  return tri_chat_time(call->renderer, text, out);
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

static tri_status global_range(const tri_chat_call *call, tri_chat_value *out) {
  int64_t bounds[3] = {0, 0, 1};
  tri_chat_list *list = NULL;
  for (int32_t i = 0; i < call->count; i++) TRI_TRY(tri_chat_argument_whole(call, i, 0, &bounds[i]));
  if (call->count == 1) {
    bounds[1] = bounds[0];
    bounds[0] = 0;
  }
  int64_t step = bounds[2];
  if (step == 0) return tri_fail(TRI_BAD_FILE, "the step of a range is zero");
  TRI_TRY(tri_chat_list_create(call->arena, 0, TRI_CHAT_IS_LIST, &list));
  for (int64_t i = bounds[0]; step > 0 ? i < bounds[1] : i > bounds[1];) {
    TRI_TRY(tri_chat_charge(call->renderer, 0));
    TRI_TRY(tri_chat_list_add(call->arena, list, tri_chat_integer(i)));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  *out = tri_chat_of_list(list);
  return TRI_OK;
}

static const tri_chat_function globals[] = {
    {.name = "raise_exception", .least = 1, .most = 1, .parameters = {"message"}, .body = global_raise},
    {.name = "strftime_now", .least = 1, .most = 1, .parameters = {"format"}, .body = global_strftime},
    {.name = "namespace", .least = 0, .most = 1, .body = global_namespace},
    {.name = "dict", .least = 0, .most = 1, .body = global_dict},
    {.name = "range", .least = 1, .most = 3, .body = global_range},
};

const tri_chat_function *tri_chat_global_find(tri_chat_value name) {
  for (size_t i = 0; i < sizeof globals / sizeof globals[0]; i++) {
    if (strlen(globals[i].name) == name.bytes && memcmp(globals[i].name, name.text, name.bytes) == 0)
      return &globals[i];
  }
  return NULL;
}
