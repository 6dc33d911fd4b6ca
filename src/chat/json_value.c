#include "chat/json_value.h"

#include <string.h>

enum { DEEPEST = 500 };

static tri_status convert(tri_chat_arena *arena, const json_t *json, int depth, tri_chat_value *out);

static tri_status convert_array(tri_chat_arena *arena, const json_t *json, int depth, tri_chat_value *out) {
  tri_chat_list *list = NULL;
  size_t count = json_array_size(json);
  TRI_TRY(tri_chat_list_create(arena, (int64_t)count, TRI_CHAT_IS_LIST, &list));
  for (size_t i = 0; i < count; i++) TRI_TRY(convert(arena, json_array_get(json, i), depth + 1, &list->items[i]));
  list->count = (int64_t)count;
  *out = tri_chat_of_list(list);
  return TRI_OK;
}

static tri_chat_value given_text(const char *text, size_t bytes) {
  tri_chat_value string = tri_chat_string(text, bytes);
  string.origin = TRI_CHAT_GIVEN;
  return string;
}

static tri_status convert_object(tri_chat_arena *arena, const json_t *json, int depth, tri_chat_value *out) {
  tri_chat_dict *dict = NULL;
  tri_chat_value value;
  TRI_TRY(tri_chat_dict_create(arena, (int64_t)json_object_size(json), &dict));
  for (void *at = json_object_iter((json_t *)(uintptr_t)json); at != NULL;
       at = json_object_iter_next((json_t *)(uintptr_t)json, at)) {
    TRI_TRY(convert(arena, json_object_iter_value(at), depth + 1, &value));
    const char *key = json_object_iter_key(at);
    TRI_TRY(tri_chat_dict_set(arena, dict, given_text(key, strlen(key)), value));
  }
  *out = tri_chat_of_dict(dict);
  return TRI_OK;
}

static tri_status convert(tri_chat_arena *arena, const json_t *json, int depth, tri_chat_value *out) {
  if (depth > DEEPEST) return tri_fail(TRI_BAD_FILE, "its values are nested more than %d deep", DEEPEST);
  switch (json_typeof(json)) {
    case JSON_OBJECT: return convert_object(arena, json, depth, out);
    case JSON_ARRAY: return convert_array(arena, json, depth, out);
    case JSON_STRING: *out = given_text(json_string_value(json), json_string_length(json)); return TRI_OK;
    case JSON_INTEGER: *out = tri_chat_integer(json_integer_value(json)); return TRI_OK;
    case JSON_REAL: *out = tri_chat_real(json_real_value(json)); return TRI_OK;
    case JSON_TRUE: *out = tri_chat_boolean(true); return TRI_OK;
    case JSON_FALSE: *out = tri_chat_boolean(false); return TRI_OK;
    case JSON_NULL: *out = tri_chat_none(); return TRI_OK;
  }
  return tri_fail_internal("a JSON value of an unknown type");
}

tri_status tri_chat_of_json(tri_chat_arena *arena, const json_t *json, tri_chat_value *out) {
  return convert(arena, json, 0, out);
}
