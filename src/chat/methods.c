/* Methods of strings and dictionaries. */
#include "chat/functions.h"
#include "chat/text.h"

#include <string.h>

/* ---- strings ----------------------------------------------------------------------------------------------------- */

enum { LARGEST_SET = 1024 };

/* Bits of `form`: the ends of the text that a method works on. */
enum { AT_BEGIN = 1, AT_END = 2 };

static tri_status method_strip(const tri_chat_call *call, tri_chat_value *out) {
  const int form = call->function->form;
  tri_chat_value self, set = tri_chat_argument(call, 0, tri_chat_none());
  bool given = set.kind != TRI_CHAT_NONE;
  TRI_TRY(tri_chat_self_text(call, &self));
  if (given) TRI_TRY(tri_chat_argument_text(call, 0, set, &set));
  if (given &&
      set.bytes >
          LARGEST_SET) { /* this limit bounds the work, because each letter is compared with all letters of the set */
    return tri_fail(TRI_UNSUPPORTED, "`%s` of more than %d bytes of letters is not supported", call->function->name,
                    LARGEST_SET);
  }
  size_t begin = 0, end = self.bytes;
  tri_chat_text_strip(self.text, given ? &set : NULL, form & AT_BEGIN, form & AT_END, &begin, &end);
  *out = tri_chat_part(self, begin, end);
  return TRI_OK;
}

static tri_status method_case(const tri_chat_call *call, tri_chat_value *out) {
  tri_chat_value self;
  TRI_TRY(tri_chat_self_text(call, &self));
  return tri_chat_text_case(call->arena, self, (tri_chat_case)call->function->form, out);
}

static tri_status add_part(const tri_chat_call *call, tri_chat_list *list, tri_chat_value self, size_t begin,
                           size_t end) {
  return tri_chat_list_add(call->arena, list, tri_chat_part(self, begin, end));
}

/* Splits a string at runs of white space; the parts do not contain these. */
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
      return add_part(call, list, self, at, self.bytes); /* the rest keeps the white space at its end, as in Python */
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
  if (by.bytes == 0) return tri_fail(TRI_BAD_FILE, "the separator of `split` must not be empty");
  for (; most != 0; most--) {
    size_t found = tri_chat_text_find(self.text, self.bytes, at, by);
    if (found == SIZE_MAX) break;
    TRI_TRY(add_part(call, list, self, at, found));
    at = found + by.bytes;
  }
  return add_part(call, list, self, at, self.bytes);
}

/* Splits at runs of white space from the right, and lists the parts from the last to the first. */
static tri_status split_words_from_right(const tri_chat_call *call, tri_chat_value self, int64_t most,
                                         tri_chat_list *list) {
  size_t first = 0, end = self.bytes;
  tri_chat_text_strip(self.text, NULL, false, true, &first, &end);
  while (end > 0) {
    size_t word = end;
    while (word > 0) { /* back to white space */
      size_t before = 0, last = word;
      tri_chat_text_strip(self.text, NULL, false, true, &before, &last);
      if (last < word) break;
      do word--;
      while (word > 0 && ((uint8_t)self.text[word] & 0xC0) == 0x80);
    }
    if (most == 0) return add_part(call, list, self, 0, end);
    TRI_TRY(add_part(call, list, self, word, end));
    most--;
    end = word;
    tri_chat_text_strip(self.text, NULL, false, true, &first, &end);
  }
  return TRI_OK;
}

static tri_status split_from_right(const tri_chat_call *call, tri_chat_value self, tri_chat_value by, int64_t most,
                                   tri_chat_list *list) {
  size_t end = self.bytes;
  for (size_t at = end; most != 0 && at > 0;) {
    at--;
    if (self.text[at] != by.text[0]) continue;
    TRI_TRY(tri_chat_charge(call->renderer,
                            by.bytes)); /* charged at each position, because a separator may almost match everywhere */
    if (at + by.bytes > end || memcmp(self.text + at, by.text, by.bytes) != 0) continue;
    TRI_TRY(add_part(call, list, self, at + by.bytes, end));
    end = at;
    most--;
  }
  return add_part(call, list, self, 0, end);
}

static tri_status method_rsplit(const tri_chat_call *call, tri_chat_value *out) {
  tri_chat_value self, by = tri_chat_argument(call, 0, tri_chat_none());
  tri_chat_list *list = NULL, *turned = NULL;
  int64_t most = -1;
  TRI_TRY(tri_chat_self_text(call, &self));
  TRI_TRY(tri_chat_argument_whole(call, 1, -1, &most));
  TRI_TRY(tri_chat_list_create(call->arena, 4, TRI_CHAT_IS_LIST, &list));
  if (by.kind == TRI_CHAT_NONE) {
    TRI_TRY(split_words_from_right(call, self, most, list));
  } else {
    TRI_TRY(tri_chat_argument_text(call, 0, by, &by));
    if (by.bytes == 0) return tri_fail(TRI_BAD_FILE, "the separator of `rsplit` must not be empty");
    TRI_TRY(split_from_right(call, self, by, most, list));
  }
  TRI_TRY(tri_chat_list_create(call->arena, list->count, TRI_CHAT_IS_LIST, &turned));
  for (int64_t i = list->count - 1; i >= 0; i--) TRI_TRY(tri_chat_list_add(call->arena, turned, list->items[i]));
  *out = tri_chat_of_list(turned);
  return TRI_OK;
}

static tri_status method_splitlines(const tri_chat_call *call, tri_chat_value *out) {
  tri_chat_value self;
  tri_chat_list *list = NULL;
  bool kept = false;
  TRI_TRY(tri_chat_argument_flag(call, 0, &kept));
  TRI_TRY(tri_chat_self_text(call, &self));
  TRI_TRY(tri_chat_list_create(call->arena, 4, TRI_CHAT_IS_LIST, &list));
  for (size_t at = 0; at < self.bytes;) {
    size_t next = 0, end = tri_chat_text_line(self.text, self.bytes, at, &next);
    TRI_TRY(add_part(call, list, self, at, kept ? next : end));
    at = next;
  }
  *out = tri_chat_of_list(list);
  return TRI_OK;
}

/* The part of a string in which methods search, from `start` to `end` (arguments 1 and 2) by Python's rules. */
typedef struct window {
  size_t begin, bytes;
  bool none; /* whether `start` is after `end` or after the end of the string, so that not even an empty text is
                found */
} window;

static tri_status window_bound(const tri_chat_call *call, int32_t index, int64_t otherwise, int64_t length,
                               int64_t *out) {
  tri_chat_value value = tri_chat_argument(call, index, tri_chat_none());
  *out = otherwise;
  if (value.kind == TRI_CHAT_NONE) return TRI_OK;
  TRI_TRY(tri_chat_argument_whole(call, index, otherwise, out));
  if (*out < 0) *out = *out < -length ? 0 : *out + length;
  return TRI_OK;
}

static tri_status window_of(const tri_chat_call *call, tri_chat_value self, window *out) {
  int64_t length = tri_chat_text_length(self.text, self.bytes), start = 0, end = length;
  TRI_TRY(window_bound(call, 1, 0, length, &start));
  TRI_TRY(window_bound(call, 2, length, length, &end));
  end = end > length ? length : end;
  *out = (window){.none = start > end};
  if (out->none) return TRI_OK;
  out->begin = tri_chat_text_offset(self.text, self.bytes, start);
  out->bytes = tri_chat_text_offset(self.text + out->begin, self.bytes - out->begin, end - start);
  return TRI_OK;
}

static tri_status has_affix(const tri_chat_call *call, tri_chat_value self, tri_chat_value affix, bool first,
                            bool *out) {
  if (affix.kind != TRI_CHAT_STRING) {
    return tri_fail(TRI_BAD_FILE, "`%s` needs a string, not a %s", call->function->name, tri_chat_type(affix));
  }
  TRI_TRY(tri_chat_flatten(call->arena, &affix));
  TRI_TRY(tri_chat_charge(call->renderer, affix.bytes));
  *out = affix.bytes <= self.bytes &&
         memcmp(first ? self.text : self.text + self.bytes - affix.bytes, affix.text, affix.bytes) == 0;
  return TRI_OK;
}

static tri_status has_any_affix(const tri_chat_call *call, bool first, tri_chat_value *out) {
  tri_chat_value self = call->self, affix = tri_chat_argument(call, 0, tri_chat_none());
  bool found = false;
  window part;
  TRI_TRY(tri_chat_flatten(call->arena, &self));
  TRI_TRY(window_of(call, self, &part));
  tri_chat_value within = tri_chat_string(self.text + part.begin, part.bytes);
  if (affix.kind == TRI_CHAT_LIST && affix.list->kind == TRI_CHAT_IS_TUPLE) {
    for (int64_t i = 0; i < affix.list->count && !found; i++) {
      TRI_TRY(has_affix(call, within, affix.list->items[i], first, &found));
      found = found && !part.none;
    }
  } else {
    TRI_TRY(has_affix(call, within, affix, first, &found));
  }
  *out = tri_chat_boolean(found && !part.none);
  return TRI_OK;
}

static tri_status method_has_affix(const tri_chat_call *call, tri_chat_value *out) {
  return has_any_affix(call, call->function->form == AT_BEGIN, out);
}

static tri_status method_remove_affix(const tri_chat_call *call, tri_chat_value *out) {
  const bool first = call->function->form == AT_BEGIN;
  tri_chat_value found, part;
  TRI_TRY(has_any_affix(call, first, &found));
  TRI_TRY(tri_chat_argument_text(call, 0, tri_chat_none(), &part));
  *out = call->self;
  TRI_TRY(tri_chat_flatten(call->arena, out));
  if (!found.boolean) return TRI_OK;
  *out = first ? tri_chat_part(*out, part.bytes, out->bytes) : tri_chat_part(*out, 0, out->bytes - part.bytes);
  return TRI_OK;
}

/* Replaces the first `most` occurrences (negative: all) of the empty string, which occurs before each letter and at the
 * end. */
static tri_status replace_empty(const tri_chat_call *call, tri_chat_value self, tri_chat_value new, int64_t most,
                                tri_chat_writer *writer) {
  size_t at = 0;
  for (; most != 0; most--) {
    TRI_TRY(tri_chat_write_part(writer, new, 0, new.bytes));
    if (at == self.bytes) break;
    size_t length = tri_chat_text_offset(self.text + at, self.bytes - at, 1);
    TRI_TRY(tri_chat_write_part(writer, self, at, at + length));
    at += length;
  }
  TRI_TRY(tri_chat_charge(call->renderer, writer->bytes));
  return tri_chat_write_part(writer, self, at, self.bytes);
}

static tri_status method_replace(const tri_chat_call *call, tri_chat_value *out) {
  tri_chat_value self, old, new;
  tri_chat_writer writer = {.arena = call->arena};
  int64_t most = -1;
  size_t at = 0;
  TRI_TRY(tri_chat_self_text(call, &self));
  TRI_TRY(tri_chat_argument_text(call, 0, tri_chat_none(), &old));
  TRI_TRY(tri_chat_argument_text(call, 1, tri_chat_none(), &new));
  if (call->count > 2) TRI_TRY(tri_chat_argument_whole(call, 2, -1, &most));
  *out = self;
  if (old.bytes == 0) {
    TRI_TRY(replace_empty(call, self, new, most, &writer));
  } else {
    if (tri_chat_text_find(self.text, self.bytes, 0, old) == SIZE_MAX) return TRI_OK;
    for (; most != 0; most--) {
      size_t found = tri_chat_text_find(self.text, self.bytes, at, old);
      if (found == SIZE_MAX) break;
      TRI_TRY(tri_chat_write_part(&writer, self, at, found));
      TRI_TRY(tri_chat_write_part(&writer, new, 0, new.bytes));
      at = found + old.bytes;
    }
    TRI_TRY(tri_chat_write_part(&writer, self, at, self.bytes));
    TRI_TRY(tri_chat_charge(call->renderer, writer.bytes));
  }
  return tri_chat_written(&writer, self.origin, out);
}

static tri_status method_find(const tri_chat_call *call, tri_chat_value *out) {
  tri_chat_value self, part;
  window within;
  TRI_TRY(tri_chat_self_text(call, &self));
  TRI_TRY(tri_chat_argument_text(call, 0, tri_chat_none(), &part));
  TRI_TRY(window_of(call, self, &within));
  size_t found = within.none ? SIZE_MAX : tri_chat_text_find(self.text + within.begin, within.bytes, 0, part);
  *out = tri_chat_integer(found == SIZE_MAX ? -1 : tri_chat_text_length(self.text, within.begin + found));
  return TRI_OK;
}

static tri_status method_count(const tri_chat_call *call, tri_chat_value *out) {
  tri_chat_value self, part;
  window within;
  int64_t count = 0;
  TRI_TRY(tri_chat_self_text(call, &self));
  TRI_TRY(tri_chat_argument_text(call, 0, tri_chat_none(), &part));
  TRI_TRY(window_of(call, self, &within));
  self = tri_chat_string(self.text + within.begin, within.bytes);
  if (part.bytes == 0 && !within.none) count = tri_chat_text_length(self.text, self.bytes) + 1;
  for (size_t at = 0; part.bytes > 0 && !within.none; count++) {
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
      return tri_fail(TRI_BAD_FILE, "`join` needs strings, but an item is a %s", tri_chat_type(list->items[i]));
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
  TRI_TRY(tri_chat_check_hashable(key));
  const tri_chat_value *value = tri_chat_dict_find(call->self.dict, key);
  *out = value != NULL ? *value : tri_chat_argument(call, 1, tri_chat_none());
  return TRI_OK;
}

/* ---- the tables -------------------------------------------------------------------------------------------------- */

static const tri_chat_function of_strings[] = {
    {.name = "strip", .most = 1, .body = method_strip, .form = AT_BEGIN | AT_END},
    {.name = "lstrip", .most = 1, .body = method_strip, .form = AT_BEGIN},
    {.name = "rstrip", .most = 1, .body = method_strip, .form = AT_END},
    {.name = "upper", .body = method_case, .form = (int)TRI_CHAT_UPPER},
    {.name = "lower", .body = method_case, .form = (int)TRI_CHAT_LOWER},
    {.name = "title", .body = method_case, .form = (int)TRI_CHAT_TITLE},
    {.name = "capitalize", .body = method_case, .form = (int)TRI_CHAT_CAPITAL},
    {.name = "split", .most = 2, .parameters = {"sep", "maxsplit"}, .body = method_split},
    {.name = "rsplit", .most = 2, .parameters = {"sep", "maxsplit"}, .body = method_rsplit},
    {.name = "splitlines", .most = 1, .parameters = {"keepends"}, .body = method_splitlines},
    {.name = "startswith", .least = 1, .most = 3, .body = method_has_affix, .form = AT_BEGIN},
    {.name = "endswith", .least = 1, .most = 3, .body = method_has_affix, .form = AT_END},
    {.name = "removeprefix", .least = 1, .most = 1, .body = method_remove_affix, .form = AT_BEGIN},
    {.name = "removesuffix", .least = 1, .most = 1, .body = method_remove_affix, .form = AT_END},
    {.name = "replace", .least = 2, .most = 3, .body = method_replace},
    {.name = "find", .least = 1, .most = 3, .body = method_find},
    {.name = "count", .least = 1, .most = 3, .body = method_count},
    {.name = "join", .least = 1, .most = 1, .body = method_join},
};

static const tri_chat_function of_dicts[] = {
    {.name = "items", .body = method_items},
    {.name = "keys", .body = method_keys},
    {.name = "values", .body = method_values},
    {.name = "get", .least = 1, .most = 2, .body = method_get},
};

tri_chat_functions tri_chat_methods(tri_chat_kind kind) {
  if (kind == TRI_CHAT_STRING) return (tri_chat_functions){of_strings, sizeof of_strings / sizeof of_strings[0]};
  if (kind == TRI_CHAT_DICT) return (tri_chat_functions){of_dicts, sizeof of_dicts / sizeof of_dicts[0]};
  return (tri_chat_functions){0};
}
