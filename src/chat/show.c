/* Converts values to text: str, repr and json.dumps of Python. */
#include "chat/value.h"
#include "tokenizer/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum { DEEPEST = 1000 };

/* ---- writer ------------------------------------------------------------------------------------------------------ */

static tri_status write_text(tri_chat_writer *writer, const char *text) {
  return tri_chat_write(writer, text, strlen(text));
}

static tri_status write_value(tri_chat_writer *writer, tri_chat_value string) {
  TRI_TRY(tri_chat_flatten(writer->arena, &string));
  return tri_chat_write_part(writer, string, 0, string.bytes);
}

/* Writes the shortest digits that are read as the same number, with an exponent if it is below 1e-4 or at least
 * 1e16. */
tri_status tri_chat_write_real(tri_chat_writer *writer, double real) {
  char digits[40], text[400];
  if (isnan(real)) return write_text(writer, "nan");
  if (isinf(real)) return write_text(writer, real < 0 ? "-inf" : "inf");
  int precision = 0;
  do {
    snprintf(digits, sizeof digits, "%.*e", precision, real);
  } while (strtod(digits, NULL) != real && precision++ < 17);
  int exponent = atoi(strchr(digits, 'e') + 1);
  if (exponent >= -4 && exponent < 16) {
    int decimals = precision - exponent > 1 ? precision - exponent : 1;
    snprintf(text, sizeof text, "%.*f", decimals, real);
  } else {
    snprintf(text, sizeof text, "%.*s%s", (int)(strchr(digits, 'e') - digits), digits, strchr(digits, 'e'));
  }
  return write_text(writer, text);
}

static tri_status write_integer(tri_chat_writer *writer, int64_t integer) {
  char text[32];
  int length = snprintf(text, sizeof text, "%" PRId64, integer);
  return tri_chat_write(writer, text, (size_t)length);
}

/* ---- repr -------------------------------------------------------------------------------------------------------- */

/* Returns str.isprintable of a character. */
static bool is_printable(uint32_t code) {
  if (code < 0x80) return code >= 0x20 && code != 0x7F;
  switch ((int)utf8proc_category((utf8proc_int32_t)code)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS: return false;
    default: return true;
  }
}

static tri_status repr_letter(tri_chat_writer *writer, uint32_t code, const char *letter, size_t length, char quote) {
  char text[16];
  if (code == (uint32_t)quote || code == '\\') {
    snprintf(text, sizeof text, "\\%c", (char)code);
  } else if (code == '\n' || code == '\r' || code == '\t') {
    snprintf(text, sizeof text, "\\%c", code == '\n' ? 'n' : code == '\r' ? 'r' : 't');
  } else if (is_printable(code)) {
    return tri_chat_write(writer, letter, length);
  } else if (code < 0x100) {
    snprintf(text, sizeof text, "\\x%02x", (unsigned)code);
  } else if (code < 0x10000) {
    snprintf(text, sizeof text, "\\u%04x", (unsigned)code);
  } else {
    snprintf(text, sizeof text, "\\U%08x", (unsigned)code);
  }
  return write_text(writer, text);
}

static tri_status repr_string(tri_chat_writer *writer, tri_chat_value string) {
  if (string.is_safe) return tri_fail(TRI_UNSUPPORTED, "a string that `safe` made cannot be printed inside of a list");
  TRI_TRY(tri_chat_flatten(writer->arena, &string));
  bool single = string.bytes > 0 && memchr(string.text, '\'', string.bytes) != NULL;
  bool both = single && memchr(string.text, '"', string.bytes) != NULL;
  char quote = single && !both ? '"' : '\'';
  TRI_TRY(tri_chat_write(writer, &quote, 1));
  for (size_t i = 0; i < string.bytes;) {
    uint32_t code = (uint8_t)string.text[i];
    size_t length = tri_utf8_decode(string.text + i, string.bytes - i, &code);
    if (length == 0) length = 1;
    writer->given = tri_chat_is_given(string, i);
    TRI_TRY(repr_letter(writer, code, string.text + i, length, quote));
    i += length;
  }
  writer->given = false;
  return tri_chat_write(writer, &quote, 1);
}

static tri_status too_deep(void) {
  return tri_fail(TRI_BAD_FILE, "values of the chat template are nested more than %d deep", DEEPEST);
}

static tri_status write_repr(tri_chat_writer *writer, tri_chat_value value, int depth);

static tri_status repr_items(tri_chat_writer *writer, const tri_chat_list *list, int depth) {
  for (int64_t i = 0; i < list->count; i++) {
    if (i > 0) TRI_TRY(write_text(writer, ", "));
    TRI_TRY(write_repr(writer, list->items[i], depth + 1));
  }
  return TRI_OK;
}

static tri_status repr_list(tri_chat_writer *writer, const tri_chat_list *list, int depth) {
  switch ((tri_chat_list_kind)list->kind) {
    case TRI_CHAT_IS_LIST:
      TRI_TRY(write_text(writer, "["));
      TRI_TRY(repr_items(writer, list, depth));
      return write_text(writer, "]");
    case TRI_CHAT_IS_TUPLE:
      TRI_TRY(write_text(writer, "("));
      TRI_TRY(repr_items(writer, list, depth));
      return write_text(writer, list->count == 1 ? ",)" : ")");
    case TRI_CHAT_IS_RANGE:
    case TRI_CHAT_IS_VIEW:
    case TRI_CHAT_IS_ITERATOR: break;
  }
  return tri_fail(TRI_UNSUPPORTED, "a %s cannot be converted to text; append `| list` to it",
                  tri_chat_type((tri_chat_value){.kind = TRI_CHAT_LIST, .list = (tri_chat_list *)(uintptr_t)list}));
}

static tri_status repr_dict(tri_chat_writer *writer, const tri_chat_dict *dict, int depth) {
  TRI_TRY(write_text(writer, "{"));
  for (int64_t i = 0; i < dict->count; i++) {
    if (i > 0) TRI_TRY(write_text(writer, ", "));
    TRI_TRY(write_repr(writer, dict->entries[i].key, depth + 1));
    TRI_TRY(write_text(writer, ": "));
    TRI_TRY(write_repr(writer, dict->entries[i].value, depth + 1));
  }
  return write_text(writer, "}");
}

static tri_status write_repr(tri_chat_writer *writer, tri_chat_value value, int depth) {
  if (depth > DEEPEST) return too_deep();
  switch ((tri_chat_kind)value.kind) {
    case TRI_CHAT_UNDEFINED: return write_text(writer, "Undefined");
    case TRI_CHAT_NONE: return write_text(writer, "None");
    case TRI_CHAT_BOOLEAN: return write_text(writer, value.boolean ? "True" : "False");
    case TRI_CHAT_INTEGER: return write_integer(writer, value.integer);
    case TRI_CHAT_REAL: return tri_chat_write_real(writer, value.real);
    case TRI_CHAT_STRING: return repr_string(writer, value);
    case TRI_CHAT_LIST: return repr_list(writer, value.list, depth);
    case TRI_CHAT_DICT: return repr_dict(writer, value.dict, depth);
    case TRI_CHAT_NAMESPACE:
    case TRI_CHAT_LOOP:
    case TRI_CHAT_MACRO:
    case TRI_CHAT_FUNCTION: break;
  }
  return tri_fail(TRI_UNSUPPORTED, "a value of type %s cannot be printed", tri_chat_type(value));
}

tri_status tri_chat_str(tri_chat_arena *arena, tri_chat_value value, tri_chat_value *out) {
  tri_chat_writer writer = {.arena = arena};
  if (value.kind == TRI_CHAT_STRING) {
    *out = value;
    out->is_safe = false;
    return TRI_OK;
  }
  if (value.kind != TRI_CHAT_UNDEFINED) TRI_TRY(write_repr(&writer, value, 0));
  return tri_chat_written(&writer, 0, out);
}

/* ---- json.dumps -------------------------------------------------------------------------------------------------- */

static tri_status json_letter(tri_chat_writer *writer, uint32_t code, const char *letter, size_t length, bool ascii) {
  static const char special[] = "\"\\\b\f\n\r\t", written[] = "\"\\bfnrt";
  char text[32];
  const char *found = code == 0 || code >= 0x80 ? NULL : strchr(special, (int)code);
  if (found != NULL) {
    snprintf(text, sizeof text, "\\%c", written[found - special]);
  } else if (code < 0x20 || (ascii && code >= 0x7F && code < 0x10000)) {
    snprintf(text, sizeof text, "\\u%04x", (unsigned)code);
  } else if (ascii && code >= 0x10000) {
    snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xD800 + (unsigned)((code - 0x10000) >> 10),
             0xDC00 + (unsigned)((code - 0x10000) & 0x3FF));
  } else {
    return tri_chat_write(writer, letter, length);
  }
  return write_text(writer, text);
}

static tri_status json_string(tri_chat_writer *writer, tri_chat_value string, bool ascii) {
  TRI_TRY(tri_chat_flatten(writer->arena, &string));
  TRI_TRY(write_text(writer, "\""));
  for (size_t i = 0; i < string.bytes;) {
    uint32_t code = (uint8_t)string.text[i];
    size_t length = tri_utf8_decode(string.text + i, string.bytes - i, &code);
    if (length == 0) length = 1;
    writer->given = tri_chat_is_given(string, i);
    TRI_TRY(json_letter(writer, code, string.text + i, length, ascii));
    i += length;
  }
  writer->given = false;
  return write_text(writer, "\"");
}

static tri_status new_line(tri_chat_writer *writer, const tri_chat_json_style *style, int depth) {
  if (!style->indented) return TRI_OK;
  TRI_TRY(write_text(writer, "\n"));
  for (int i = 0; i < depth; i++) TRI_TRY(write_value(writer, style->indent));
  return TRI_OK;
}

static tri_status write_json(tri_chat_writer *writer, tri_chat_value value, const tri_chat_json_style *style,
                             int depth);

static tri_status json_list(tri_chat_writer *writer, const tri_chat_list *list, const tri_chat_json_style *style,
                            int depth) {
  if (list->kind != TRI_CHAT_IS_LIST && list->kind != TRI_CHAT_IS_TUPLE) {
    return tri_fail(TRI_BAD_FILE,
                    "tojson: a generator, a range or a view cannot be written as JSON; put `| list` before it");
  }
  TRI_TRY(write_text(writer, "["));
  for (int64_t i = 0; i < list->count; i++) {
    if (i > 0) TRI_TRY(write_value(writer, style->item_separator));
    TRI_TRY(new_line(writer, style, depth + 1));
    TRI_TRY(write_json(writer, list->items[i], style, depth + 1));
  }
  if (list->count > 0) TRI_TRY(new_line(writer, style, depth));
  return write_text(writer, "]");
}

static int compare_keys(const void *a, const void *b) {
  const tri_chat_value *x = &((const tri_chat_entry *)a)->key, *y = &((const tri_chat_entry *)b)->key;
  size_t least = x->bytes < y->bytes ? x->bytes : y->bytes;
  int order = least == 0 ? 0 : memcmp(x->text, y->text, least); /* the order of bytes equals that of characters */
  return order != 0 ? order : x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static tri_status sorted_entries(tri_chat_arena *arena, const tri_chat_dict *dict, const tri_chat_entry **out) {
  tri_chat_entry *entries = NULL;
  TRI_TRY(tri_chat_arena_alloc(arena, (size_t)dict->count, sizeof *entries, &entries));
  for (int64_t i = 0; i < dict->count; i++) {
    entries[i] = dict->entries[i];
    if (entries[i].key.kind != TRI_CHAT_STRING)
      return tri_fail(TRI_UNSUPPORTED, "tojson: only keys that are strings can be sorted");
  }
  if (dict->count > 0) qsort(entries, (size_t)dict->count, sizeof *entries, compare_keys);
  *out = entries;
  return TRI_OK;
}

static tri_status json_key(tri_chat_writer *writer, tri_chat_value key, const tri_chat_json_style *style) {
  if (key.kind == TRI_CHAT_STRING) return json_string(writer, key, style->ensure_ascii);
  TRI_TRY(write_text(writer, "\""));
  TRI_TRY(write_json(writer, key, style, 0));
  return write_text(writer, "\"");
}

static tri_status json_dict(tri_chat_writer *writer, const tri_chat_dict *dict, const tri_chat_json_style *style,
                            int depth) {
  const tri_chat_entry *entries = dict->entries;
  if (style->sort_keys) TRI_TRY(sorted_entries(writer->arena, dict, &entries));
  TRI_TRY(write_text(writer, "{"));
  for (int64_t i = 0; i < dict->count; i++) {
    if (i > 0) TRI_TRY(write_value(writer, style->item_separator));
    TRI_TRY(new_line(writer, style, depth + 1));
    TRI_TRY(json_key(writer, entries[i].key, style));
    TRI_TRY(write_value(writer, style->key_separator));
    TRI_TRY(write_json(writer, entries[i].value, style, depth + 1));
  }
  if (dict->count > 0) TRI_TRY(new_line(writer, style, depth));
  return write_text(writer, "}");
}

static tri_status json_real(tri_chat_writer *writer, double real) {
  if (isnan(real)) return write_text(writer, "NaN");
  if (isinf(real)) return write_text(writer, real < 0 ? "-Infinity" : "Infinity");
  return tri_chat_write_real(writer, real);
}

static tri_status write_json(tri_chat_writer *writer, tri_chat_value value, const tri_chat_json_style *style,
                             int depth) {
  if (depth > DEEPEST) return too_deep();
  switch ((tri_chat_kind)value.kind) {
    case TRI_CHAT_NONE: return write_text(writer, "null");
    case TRI_CHAT_BOOLEAN: return write_text(writer, value.boolean ? "true" : "false");
    case TRI_CHAT_INTEGER: return write_integer(writer, value.integer);
    case TRI_CHAT_REAL: return json_real(writer, value.real);
    case TRI_CHAT_STRING: return json_string(writer, value, style->ensure_ascii);
    case TRI_CHAT_LIST: return json_list(writer, value.list, style, depth);
    case TRI_CHAT_DICT: return json_dict(writer, value.dict, style, depth);
    case TRI_CHAT_UNDEFINED:
    case TRI_CHAT_NAMESPACE:
    case TRI_CHAT_LOOP:
    case TRI_CHAT_MACRO:
    case TRI_CHAT_FUNCTION: break;
  }
  return tri_fail(TRI_BAD_FILE, "tojson: a value of type %s cannot be written as JSON", tri_chat_type(value));
}

tri_status tri_chat_json_text(tri_chat_arena *arena, tri_chat_value value, const tri_chat_json_style *style,
                              tri_chat_value *out) {
  tri_chat_writer writer = {.arena = arena};
  TRI_TRY(write_json(&writer, value, style, 0));
  return tri_chat_written(&writer, 0, out);
}
