/* Methods of strings and dictionaries. */
#include "chat/functions.h"
#include "chat/text.h"

#include <string.h>

/* ---- strings ----------------------------------------------------------------------------------------------------- */

static tri_status strip(const tri_chat_call *call, bool left, bool right, tri_chat_value *out) {
  tri_chat_value self, set = tri_chat_argument(call, 0, tri_chat_none());
  bool given = set.kind != TRI_CHAT_NONE;
  TRI_TRY(tri_chat_self_text(call, &self));
  if (given) TRI_TRY(tri_chat_argument_text(call, 0, set, &set));
  size_t begin = 0, end = self.bytes;
  tri_chat_text_strip(self.text, given ? &set : NULL, left, right, &begin, &end);
  *out = tri_chat_string(self.text + begin, end - begin);
  out->origin = self.origin;
  return TRI_OK;
}

static tri_status method_strip(const tri_chat_call *call, tri_chat_value *out) { return strip(call, true, true, out); }

static tri_status method_lstrip(const tri_chat_call *call, tri_chat_value *out) {
  return strip(call, true, false, out);
}

static tri_status method_rstrip(const tri_chat_call *call, tri_chat_value *out) {
  return strip(call, false, true, out);
}

static tri_status change_case(const tri_chat_call *call, tri_chat_case to, tri_chat_value *out) {
  tri_chat_value self;
  TRI_TRY(tri_chat_self_text(call, &self));
  return tri_chat_text_case(call->arena, self, to, out);
}

static tri_status method_upper(const tri_chat_call *call, tri_chat_value *out) {
  return change_case(call, TRI_CHAT_UPPER, out);
}

static tri_status method_lower(const tri_chat_call *call, tri_chat_value *out) {
  return change_case(call, TRI_CHAT_LOWER, out);
}

static tri_status method_title(const tri_chat_call *call, tri_chat_value *out) {
  return change_case(call, TRI_CHAT_TITLE, out);
}

static tri_status method_capitalize(const tri_chat_call *call, tri_chat_value *out) {
  return change_case(call, TRI_CHAT_CAPITAL, out);
}

static tri_status add_part(const tri_chat_call *call, tri_chat_list *list, tri_chat_value self, size_t begin,
                           size_t end) {
  tri_chat_value part = tri_chat_string(self.text + begin, end - begin);
  part.origin = self.origin;
  return tri_chat_list_add(call->arena, list, part);
}

/* At runs of white space, which are in no part. */
static tri_status split_words(const tri_chat_call *call, tri_chat_value self, int64_t most, tri_chat_list *list) {
  size_t at = 0, end = self.bytes;
  tri_chat_text_strip(self.text, NULL, true, false, &at, &end);
  while (at < self.bytes) {
    size_t word = at;
    while (word < self.bytes) { /* up to the next white space */
      size_t next = word;
      tri_chat_text_strip(self.text, NULL, true, false, &next, &end);
      if (next > word) break;
      word += tri_chat_text_offset(self.text + word, self.bytes - word, 1);
    }
    if (most == 0) {
      size_t first = at, last = self.bytes;
      tri_chat_text_strip(self.text, NULL, false, true, &first, &last);
      return add_part(call, list, self, at, last);
    }
    TRI_TRY(add_part(call, list, self, at, word));
    most--;
    at = word;
    tri_chat_text_strip(self.text, NULL, true, false, &at, &end);
  }
  return TRI_OK;
}

static tri_status method_split(const tri_chat_call *call, tri_chat_value *out) {
  tri_chat_value self, by = tri_chat_argument(call, 0, tri_chat_none());
  tri_chat_list *list = NULL;
  int64_t most = -1;
  size_t at = 0;
  TRI_TRY(tri_chat_self_text(call, &self));
  TRI_TRY(tri_chat_argument_whole(call, 1, -1, &most));
  TRI_TRY(tri_chat_list_create(call->arena, 4, TRI_CHAT_IS_LIST, &list));
  *out = tri_chat_of_list(list);
  if (by.kind == TRI_CHAT_NONE) return split_words(call, self, most, list);
  TRI_TRY(tri_chat_argument_text(call, 0, by, &by));
  if (by.bytes == 0) return tri_fail(TRI_BAD_FILE, "`split` wants a separator that is not empty");
  for (; most != 0; most--) {
    size_t found = tri_chat_text_find(self.text, self.bytes, at, by);
    if (found == SIZE_MAX) break;
    TRI_TRY(add_part(call, list, self, at, found));
    at = found + by.bytes;
  }
  return add_part(call, list, self, at, self.bytes);
}

/* From the right, at most so many times. */
static tri_status method_rsplit(const tri_chat_call *call, tri_chat_value *out) {
  tri_chat_value self, by;
  tri_chat_list *list = NULL, *turned = NULL;
  int64_t most = -1;
  TRI_TRY(tri_chat_self_text(call, &self));
  TRI_TRY(tri_chat_argument_text(call, 0, tri_chat_none(), &by));
  TRI_TRY(tri_chat_argument_whole(call, 1, -1, &most));
  if (by.bytes == 0) return tri_fail(TRI_BAD_FILE, "`rsplit` wants a separator that is not empty");
  TRI_TRY(tri_chat_list_create(call->arena, 4, TRI_CHAT_IS_LIST, &list));
  size_t end = self.bytes;
  for (size_t at = end; most != 0 && at >= by.bytes;) {
    at--;
    if (at + by.bytes > end || memcmp(self.text + at, by.text, by.bytes) != 0) {
      if (at == 0) break;
      continue;
    }
    TRI_TRY(add_part(call, list, self, at + by.bytes, end));
    end = at;
    most--;
  }
  TRI_TRY(add_part(call, list, self, 0, end));
  TRI_TRY(tri_chat_list_create(call->arena, list->count, TRI_CHAT_IS_LIST, &turned));
  for (int64_t i = list->count - 1; i >= 0; i--) TRI_TRY(tri_chat_list_add(call->arena, turned, list->items[i]));
  *out = tri_chat_of_list(turned);
  return TRI_OK;
}

static tri_status method_splitlines(const tri_chat_call *call, tri_chat_value *out) {
  tri_chat_value self;
  tri_chat_list *list = NULL;
  TRI_TRY(tri_chat_self_text(call, &self));
  TRI_TRY(tri_chat_list_create(call->arena, 4, TRI_CHAT_IS_LIST, &list));
  for (size_t at = 0; at < self.bytes;) {
    const char *newline = memchr(self.text + at, '\n', self.bytes - at);
    size_t end = newline == NULL ? self.bytes : (size_t)(newline - self.text), next = end + 1;
    if (end > at && self.text[end - 1] == '\r') end--;
    TRI_TRY(add_part(call, list, self, at, end));
    at = next;
  }
  *out = tri_chat_of_list(list);
  return TRI_OK;
}

static tri_status has_affix(const tri_chat_call *call, tri_chat_value self, tri_chat_value affix, bool first,
                            bool *out) {
  if (affix.kind != TRI_CHAT_STRING) {
    return tri_fail(TRI_BAD_FILE, "`%s` wants a string, not a %s", call->function->name, tri_chat_type(affix));
  }
  TRI_TRY(tri_chat_flatten(call->arena, &affix));
  *out = affix.bytes <= self.bytes &&
         memcmp(first ? self.text : self.text + self.bytes - affix.bytes, affix.text, affix.bytes) == 0;
  return TRI_OK;
}

static tri_status has_any_affix(const tri_chat_call *call, bool first, tri_chat_value *out) {
  tri_chat_value self = call->self, affix = tri_chat_argument(call, 0, tri_chat_none());
  bool found = false;
  TRI_TRY(tri_chat_flatten(call->arena, &self));
  if (affix.kind == TRI_CHAT_LIST && affix.list->kind == TRI_CHAT_IS_TUPLE) {
    for (int64_t i = 0; i < affix.list->count && !found; i++) {
      TRI_TRY(has_affix(call, self, affix.list->items[i], first, &found));
    }
  } else {
    TRI_TRY(has_affix(call, self, affix, first, &found));
  }
  *out = tri_chat_boolean(found);
  return TRI_OK;
}

static tri_status method_startswith(const tri_chat_call *call, tri_chat_value *out) {
  return has_any_affix(call, true, out);
}

static tri_status method_endswith(const tri_chat_call *call, tri_chat_value *out) {
  return has_any_affix(call, false, out);
}

static tri_status method_removeprefix(const tri_chat_call *call, tri_chat_value *out) {
  tri_chat_value found, part;
  TRI_TRY(has_any_affix(call, true, &found));
  TRI_TRY(tri_chat_argument_text(call, 0, tri_chat_none(), &part));
  *out = call->self;
  TRI_TRY(tri_chat_flatten(call->arena, out));
  if (!found.boolean) return TRI_OK;
  out->text += part.bytes;
  out->bytes -= part.bytes;
  return TRI_OK;
}

static tri_status method_removesuffix(const tri_chat_call *call, tri_chat_value *out) {
  tri_chat_value found, part;
  TRI_TRY(has_any_affix(call, false, &found));
  TRI_TRY(tri_chat_argument_text(call, 0, tri_chat_none(), &part));
  *out = call->self;
  TRI_TRY(tri_chat_flatten(call->arena, out));
  if (found.boolean) out->bytes -= part.bytes;
  return TRI_OK;
}

/* An empty `old` stands between all letters. */
static tri_status replace_empty(const tri_chat_call *call, tri_chat_value self, tri_chat_value new, int64_t most,
                                tri_chat_writer *writer) {
  size_t at = 0;
  for (; most != 0; most--) {
    TRI_TRY(tri_chat_write(writer, new.text, new.bytes));
    if (at == self.bytes) break;
    size_t length = tri_chat_text_offset(self.text + at, self.bytes - at, 1);
    TRI_TRY(tri_chat_write(writer, self.text + at, length));
    at += length;
  }
  TRI_TRY(tri_chat_charge(call->renderer, writer->bytes));
  return tri_chat_write(writer, self.text + at, self.bytes - at);
}

static tri_status method_replace(const tri_chat_call *call, tri_chat_value *out) {
  tri_chat_value self, old, new, count = tri_chat_argument(call, 2, tri_chat_none());
  tri_chat_writer writer = {.arena = call->arena};
  int64_t most = -1;
  size_t at = 0;
  TRI_TRY(tri_chat_self_text(call, &self));
  TRI_TRY(tri_chat_argument_text(call, 0, tri_chat_none(), &old));
  TRI_TRY(tri_chat_argument_text(call, 1, tri_chat_none(), &new));
  if (count.kind != TRI_CHAT_NONE) TRI_TRY(tri_chat_argument_whole(call, 2, -1, &most));
  *out = self;
  if (old.bytes == 0) {
    TRI_TRY(replace_empty(call, self, new, most, &writer));
  } else {
    if (tri_chat_text_find(self.text, self.bytes, 0, old) == SIZE_MAX) return TRI_OK;
    for (; most != 0; most--) {
      size_t found = tri_chat_text_find(self.text, self.bytes, at, old);
      if (found == SIZE_MAX) break;
      TRI_TRY(tri_chat_write(&writer, self.text + at, found - at));
      TRI_TRY(tri_chat_write(&writer, new.text, new.bytes));
      at = found + old.bytes;
    }
    TRI_TRY(tri_chat_write(&writer, self.text + at, self.bytes - at));
    TRI_TRY(tri_chat_charge(call->renderer, writer.bytes));
  }
  *out = tri_chat_string(writer.text, writer.bytes);
  out->origin = self.origin;
  return TRI_OK;
}

static tri_status method_find(const tri_chat_call *call, tri_chat_value *out) {
  tri_chat_value self, part;
  TRI_TRY(tri_chat_self_text(call, &self));
  TRI_TRY(tri_chat_argument_text(call, 0, tri_chat_none(), &part));
  size_t found = tri_chat_text_find(self.text, self.bytes, 0, part);
  *out = tri_chat_integer(found == SIZE_MAX ? -1 : tri_chat_text_length(self.text, found));
  return TRI_OK;
}

static tri_status method_count(const tri_chat_call *call, tri_chat_value *out) {
  tri_chat_value self, part;
  int64_t count = 0;
  TRI_TRY(tri_chat_self_text(call, &self));
  TRI_TRY(tri_chat_argument_text(call, 0, tri_chat_none(), &part));
  if (part.bytes == 0) count = tri_chat_text_length(self.text, self.bytes) + 1;
  for (size_t at = 0; part.bytes > 0; count++) {
    at = tri_chat_text_find(self.text, self.bytes, at, part);
    if (at == SIZE_MAX) break;
    at += part.bytes;
  }
  *out = tri_chat_integer(count);
  return TRI_OK;
}

static tri_status method_join(const tri_chat_call *call, tri_chat_value *out) {
  tri_chat_list *list = NULL;
  TRI_TRY(tri_chat_iterate(call->renderer, tri_chat_argument(call, 0, tri_chat_none()), &list));
  *out = tri_chat_string("", 0);
  for (int64_t i = 0; i < list->count; i++) {
    if (list->items[i].kind != TRI_CHAT_STRING) {
      return tri_fail(TRI_BAD_FILE, "`join` wants strings, and one is a %s", tri_chat_type(list->items[i]));
    }
    if (i > 0) TRI_TRY(tri_chat_concat(call->arena, *out, call->self, out));
    TRI_TRY(tri_chat_concat(call->arena, *out, list->items[i], out));
  }
  return TRI_OK;
}

/* ---- dictionaries ------------------------------------------------------------------------------------------------ */

static tri_status method_items(const tri_chat_call *call, tri_chat_value *out) {
  const tri_chat_dict *dict = call->self.dict;
  tri_chat_list *list = NULL, *pair = NULL;
  TRI_TRY(tri_chat_list_create(call->arena, dict->count, TRI_CHAT_IS_VIEW, &list));
  for (int64_t i = 0; i < dict->count; i++) {
    TRI_TRY(tri_chat_charge(call->renderer, 0));
    TRI_TRY(tri_chat_list_create(call->arena, 2, TRI_CHAT_IS_TUPLE, &pair));
    TRI_TRY(tri_chat_list_add(call->arena, pair, dict->entries[i].key));
    TRI_TRY(tri_chat_list_add(call->arena, pair, dict->entries[i].value));
    TRI_TRY(tri_chat_list_add(call->arena, list, tri_chat_of_list(pair)));
  }
  *out = tri_chat_of_list(list);
  return TRI_OK;
}

static tri_status column_of(const tri_chat_call *call, bool keys, tri_chat_value *out) {
  const tri_chat_dict *dict = call->self.dict;
  tri_chat_list *list = NULL;
  TRI_TRY(tri_chat_charge(call->renderer, (size_t)dict->count * 16));
  TRI_TRY(tri_chat_list_create(call->arena, dict->count, TRI_CHAT_IS_VIEW, &list));
  for (int64_t i = 0; i < dict->count; i++) {
    TRI_TRY(tri_chat_list_add(call->arena, list, keys ? dict->entries[i].key : dict->entries[i].value));
  }
  *out = tri_chat_of_list(list);
  return TRI_OK;
}

static tri_status method_keys(const tri_chat_call *call, tri_chat_value *out) { return column_of(call, true, out); }

static tri_status method_values(const tri_chat_call *call, tri_chat_value *out) { return column_of(call, false, out); }

static tri_status method_get(const tri_chat_call *call, tri_chat_value *out) {
  tri_chat_value key = tri_chat_argument(call, 0, tri_chat_none());
  if (key.kind == TRI_CHAT_STRING) TRI_TRY(tri_chat_flatten(call->arena, &key));
  const tri_chat_value *value = tri_chat_dict_find(call->self.dict, key);
  *out = value != NULL ? *value : tri_chat_argument(call, 1, tri_chat_none());
  return TRI_OK;
}

/* ---- which there are --------------------------------------------------------------------------------------------- */

static const tri_chat_function of_strings[] = {
    {.name = "strip", .most = 1, .body = method_strip},
    {.name = "lstrip", .most = 1, .body = method_lstrip},
    {.name = "rstrip", .most = 1, .body = method_rstrip},
    {.name = "upper", .body = method_upper},
    {.name = "lower", .body = method_lower},
    {.name = "title", .body = method_title},
    {.name = "capitalize", .body = method_capitalize},
    {.name = "split", .most = 2, .parameters = {"sep", "maxsplit"}, .body = method_split},
    {.name = "rsplit", .least = 1, .most = 2, .parameters = {"sep", "maxsplit"}, .body = method_rsplit},
    {.name = "splitlines", .body = method_splitlines},
    {.name = "startswith", .least = 1, .most = 1, .body = method_startswith},
    {.name = "endswith", .least = 1, .most = 1, .body = method_endswith},
    {.name = "removeprefix", .least = 1, .most = 1, .body = method_removeprefix},
    {.name = "removesuffix", .least = 1, .most = 1, .body = method_removesuffix},
    {.name = "replace", .least = 2, .most = 3, .parameters = {NULL, NULL, "count"}, .body = method_replace},
    {.name = "find", .least = 1, .most = 1, .body = method_find},
    {.name = "count", .least = 1, .most = 1, .body = method_count},
    {.name = "join", .least = 1, .most = 1, .body = method_join},
};

static const tri_chat_function of_dicts[] = {
    {.name = "items", .body = method_items},
    {.name = "keys", .body = method_keys},
    {.name = "values", .body = method_values},
    {.name = "get", .least = 1, .most = 2, .body = method_get},
};

static const tri_chat_function *find_in(const tri_chat_function *functions, size_t count, tri_chat_value name) {
  for (size_t i = 0; i < count; i++) {
    if (strlen(functions[i].name) != name.bytes) continue;
    if (memcmp(functions[i].name, name.text, name.bytes) == 0) return &functions[i];
  }
  return NULL;
}

const tri_chat_function *tri_chat_method_find(tri_chat_kind kind, tri_chat_value name) {
  bool strings = kind == TRI_CHAT_STRING || kind == TRI_CHAT_UNDEFINED;
  bool dicts = kind == TRI_CHAT_DICT || kind == TRI_CHAT_UNDEFINED;
  const tri_chat_function *found = NULL;
  if (strings) found = find_in(of_strings, sizeof of_strings / sizeof of_strings[0], name);
  if (found == NULL && dicts) found = find_in(of_dicts, sizeof of_dicts / sizeof of_dicts[0], name);
  return found;
}
