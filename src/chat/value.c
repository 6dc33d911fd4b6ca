#include "chat/value.h"

#include <math.h>
#include <string.h>
#include <xxhash.h>

enum { FEW_ENTRIES = 8, DEEPEST = 1000 };

/* ---- construction ------------------------------------------------------------------------------------------------ */

tri_chat_value tri_chat_undefined(const char *name, size_t bytes) {
  return (tri_chat_value){.kind = TRI_CHAT_UNDEFINED, .text = name, .bytes = bytes};
}

tri_chat_value tri_chat_none(void) { return (tri_chat_value){.kind = TRI_CHAT_NONE}; }

tri_chat_value tri_chat_boolean(bool boolean) { return (tri_chat_value){.kind = TRI_CHAT_BOOLEAN, .boolean = boolean}; }

tri_chat_value tri_chat_integer(int64_t integer) {
  return (tri_chat_value){.kind = TRI_CHAT_INTEGER, .integer = integer};
}

tri_chat_value tri_chat_real(double real) { return (tri_chat_value){.kind = TRI_CHAT_REAL, .real = real}; }

tri_chat_value tri_chat_text(const char *text) { return tri_chat_string(text, strlen(text)); }

tri_chat_value tri_chat_of_list(tri_chat_list *list) { return (tri_chat_value){.kind = TRI_CHAT_LIST, .list = list}; }

tri_chat_value tri_chat_of_dict(tri_chat_dict *dict) { return (tri_chat_value){.kind = TRI_CHAT_DICT, .dict = dict}; }

tri_status tri_chat_copy(tri_chat_arena *arena, const char *text, size_t bytes, tri_chat_value *out) {
  char *copy = NULL;
  TRI_TRY(tri_chat_arena_alloc(arena, bytes, 1, &copy));
  if (bytes > 0) memcpy(copy, text, bytes);
  *out = tri_chat_string(copy, bytes);
  return TRI_OK;
}

tri_status tri_chat_concat(tri_chat_arena *arena, tri_chat_value left, tri_chat_value right, tri_chat_value *out) {
  if (left.bytes == 0 || right.bytes == 0) {
    *out = left.bytes == 0 ? right : left;
    return TRI_OK;
  }
  if (left.bytes > arena->limit - right.bytes) {
    return tri_fail(TRI_BAD_FILE, "the chat template makes a text of more than %zu MiB; it repeats its input too often",
                    arena->limit >> 20);
  }
  tri_chat_rope *rope = NULL;
  TRI_TRY(tri_chat_arena_alloc(arena, 1, sizeof *rope, &rope));
  rope->left = left;
  rope->right = right;
  *out = (tri_chat_value){.kind = TRI_CHAT_STRING, .is_rope = true, .rope = rope, .bytes = left.bytes + right.bytes};
  return TRI_OK;
}

tri_status tri_chat_list_create(tri_chat_arena *arena, int64_t room, tri_chat_list_kind kind, tri_chat_list **out) {
  tri_chat_list *list = NULL;
  TRI_TRY(tri_chat_arena_alloc(arena, 1, sizeof *list, &list));
  if (room > 0) TRI_TRY(tri_chat_arena_alloc(arena, (size_t)room, sizeof *list->items, &list->items));
  list->room = room;
  list->kind = (uint8_t)kind;
  *out = list;
  return TRI_OK;
}

tri_status tri_chat_list_add(tri_chat_arena *arena, tri_chat_list *list, tri_chat_value value) {
  if (list->count == list->room) {
    int64_t room = list->room < 4 ? 8 : 2 * list->room;
    tri_chat_value *items = NULL;
    TRI_TRY(tri_chat_arena_alloc(arena, (size_t)room, sizeof *items, &items));
    if (list->count > 0) memcpy(items, list->items, (size_t)list->count * sizeof *items);
    list->items = items;
    list->room = room;
  }
  list->items[list->count++] = value;
  return TRI_OK;
}

/* ---- dictionaries ------------------------------------------------------------------------------------------------ */

static uint64_t hash_of(tri_chat_value key) {
  const uint64_t hash = UINT64_C(0xCBF29CE484222325);
  if (key.kind != TRI_CHAT_STRING) { /* 1, 1.0 and true are the same key */
    if (tri_chat_is_whole(key)) return hash ^ (uint64_t)tri_chat_as_whole(key);
    if (key.kind == TRI_CHAT_REAL && fabs(key.real) < 9e18) return hash ^ (uint64_t)(int64_t)key.real;
    return hash;
  }
  return XXH3_64bits(key.text, key.bytes);
}

static bool same_key(tri_chat_value a, tri_chat_value b) {
  if (a.kind == TRI_CHAT_STRING && b.kind == TRI_CHAT_STRING) {
    return a.bytes == b.bytes && memcmp(a.text, b.text, a.bytes) == 0;
  }
  return tri_chat_is_number(a) && tri_chat_is_number(b) && tri_chat_compare_numbers(a, b) == 0;
}

tri_status tri_chat_dict_create(tri_chat_arena *arena, int64_t room, tri_chat_dict **out) {
  tri_chat_dict *dict = NULL;
  TRI_TRY(tri_chat_arena_alloc(arena, 1, sizeof *dict, &dict));
  if (room > 0) TRI_TRY(tri_chat_arena_alloc(arena, (size_t)room, sizeof *dict->entries, &dict->entries));
  dict->room = room;
  *out = dict;
  return TRI_OK;
}

static void enter(tri_chat_dict *dict, int64_t entry) {
  uint64_t at = hash_of(dict->entries[entry].key) & (uint64_t)(dict->table_size - 1);
  while (dict->table[at] != 0) at = (at + 1) & (uint64_t)(dict->table_size - 1);
  dict->table[at] = (int32_t)entry + 1;
}

static tri_status make_table(tri_chat_arena *arena, tri_chat_dict *dict) {
  dict->table_size = dict->table_size == 0 ? 64 : 4 * dict->table_size;
  TRI_TRY(tri_chat_arena_alloc(arena, (size_t)dict->table_size, sizeof *dict->table, &dict->table));
  for (int64_t i = 0; i < dict->count; i++) enter(dict, i);
  return TRI_OK;
}

static tri_chat_entry *find_entry(const tri_chat_dict *dict, tri_chat_value key) {
  if (dict->table == NULL) {
    for (int64_t i = 0; i < dict->count; i++) {
      if (same_key(dict->entries[i].key, key)) return &dict->entries[i];
    }
    return NULL;
  }
  uint64_t at = hash_of(key) & (uint64_t)(dict->table_size - 1);
  for (; dict->table[at] != 0; at = (at + 1) & (uint64_t)(dict->table_size - 1)) {
    tri_chat_entry *entry = &dict->entries[dict->table[at] - 1];
    if (same_key(entry->key, key)) return entry;
  }
  return NULL;
}

static tri_status make_room(tri_chat_arena *arena, tri_chat_dict *dict) {
  int64_t room = dict->room < 4 ? 8 : 2 * dict->room;
  tri_chat_entry *entries = NULL;
  if (room > INT32_MAX) return tri_fail(TRI_BAD_FILE, "a dictionary of a chat template has more than 2^31 keys");
  TRI_TRY(tri_chat_arena_alloc(arena, (size_t)room, sizeof *entries, &entries));
  if (dict->count > 0) memcpy(entries, dict->entries, (size_t)dict->count * sizeof *entries);
  dict->entries = entries;
  dict->room = room;
  return TRI_OK;
}

tri_status tri_chat_dict_set(tri_chat_arena *arena, tri_chat_dict *dict, tri_chat_value key, tri_chat_value value) {
  tri_chat_entry *entry = find_entry(dict, key);
  if (entry != NULL) {
    entry->value = value;
    return TRI_OK;
  }
  if (dict->count == dict->room) TRI_TRY(make_room(arena, dict));
  dict->entries[dict->count++] = (tri_chat_entry){key, value};
  if (dict->count <= FEW_ENTRIES) return TRI_OK;
  if (dict->table == NULL || 2 * dict->count > dict->table_size) return make_table(arena, dict);
  enter(dict, dict->count - 1);
  return TRI_OK;
}

const tri_chat_value *tri_chat_dict_find(const tri_chat_dict *dict, tri_chat_value key) {
  const tri_chat_entry *entry = find_entry(dict, key);
  return entry == NULL ? NULL : &entry->value;
}

const tri_chat_value *tri_chat_dict_get(const tri_chat_dict *dict, const char *key) {
  return tri_chat_dict_find(dict, tri_chat_text(key));
}

/* ---- queries ----------------------------------------------------------------------------------------------------- */

bool tri_chat_is_whole(tri_chat_value value) {
  return value.kind == TRI_CHAT_BOOLEAN || value.kind == TRI_CHAT_INTEGER;
}

int64_t tri_chat_as_whole(tri_chat_value value) {
  if (value.kind == TRI_CHAT_BOOLEAN) return (int64_t)value.boolean;
  return value.integer;
}

bool tri_chat_is_number(tri_chat_value value) { return tri_chat_is_whole(value) || value.kind == TRI_CHAT_REAL; }

double tri_chat_as_real(tri_chat_value value) {
  if (value.kind == TRI_CHAT_REAL) return value.real;
  return (double)tri_chat_as_whole(value);
}

static int compare_reals(double a, double b) { return a < b ? -1 : a > b; }

static int compare_whole_and_real(int64_t a, double b) {
  const double beyond = 9223372036854775808.0; /* 2^63 */
  if (b >= beyond) return -1;
  if (b < -beyond) return 1;
  int64_t whole = (int64_t)b;
  return a < whole ? -1 : a > whole ? 1 : compare_reals(0, b - (double)whole);
}

int tri_chat_compare_numbers(tri_chat_value a, tri_chat_value b) {
  if (a.kind == TRI_CHAT_REAL && b.kind == TRI_CHAT_REAL) return compare_reals(a.real, b.real);
  if (b.kind == TRI_CHAT_REAL) return compare_whole_and_real(tri_chat_as_whole(a), b.real);
  if (a.kind == TRI_CHAT_REAL) return -compare_whole_and_real(tri_chat_as_whole(b), a.real);
  int64_t x = tri_chat_as_whole(a), y = tri_chat_as_whole(b);
  return x < y ? -1 : x > y;
}

bool tri_chat_truth(tri_chat_value value) {
  switch ((tri_chat_kind)value.kind) {
    case TRI_CHAT_UNDEFINED:
    case TRI_CHAT_NONE: return false;
    case TRI_CHAT_BOOLEAN: return value.boolean;
    case TRI_CHAT_INTEGER: return value.integer != 0;
    case TRI_CHAT_REAL: return value.real != 0;
    case TRI_CHAT_STRING: return value.bytes > 0;
    case TRI_CHAT_LIST: return value.list->count > 0 || value.list->kind == TRI_CHAT_IS_ITERATOR;
    case TRI_CHAT_DICT: return value.dict->count > 0;
    case TRI_CHAT_NAMESPACE:
    case TRI_CHAT_LOOP:
    case TRI_CHAT_MACRO:
    case TRI_CHAT_FUNCTION: return true;
  }
  return false;
}

size_t tri_chat_size(tri_chat_value value) {
  switch ((tri_chat_kind)value.kind) {
    case TRI_CHAT_STRING: return value.bytes;
    case TRI_CHAT_LIST: return (size_t)value.list->count;
    case TRI_CHAT_DICT: return (size_t)value.dict->count;
    case TRI_CHAT_UNDEFINED:
    case TRI_CHAT_NONE:
    case TRI_CHAT_BOOLEAN:
    case TRI_CHAT_INTEGER:
    case TRI_CHAT_REAL:
    case TRI_CHAT_NAMESPACE:
    case TRI_CHAT_LOOP:
    case TRI_CHAT_MACRO:
    case TRI_CHAT_FUNCTION: return 0;
  }
  return 0;
}

static const char *list_type(const tri_chat_list *list) {
  switch ((tri_chat_list_kind)list->kind) {
    case TRI_CHAT_IS_LIST: return "list";
    case TRI_CHAT_IS_TUPLE: return "tuple";
    case TRI_CHAT_IS_RANGE: return "range";
    case TRI_CHAT_IS_VIEW: return "view of a dict";
    case TRI_CHAT_IS_ITERATOR: return "generator";
  }
  return "list";
}

const char *tri_chat_type(tri_chat_value value) {
  switch ((tri_chat_kind)value.kind) {
    case TRI_CHAT_UNDEFINED: return "undefined";
    case TRI_CHAT_NONE: return "NoneType";
    case TRI_CHAT_BOOLEAN: return "bool";
    case TRI_CHAT_INTEGER: return "int";
    case TRI_CHAT_REAL: return "float";
    case TRI_CHAT_STRING: return "str";
    case TRI_CHAT_LIST: return list_type(value.list);
    case TRI_CHAT_DICT: return "dict";
    case TRI_CHAT_NAMESPACE: return "Namespace";
    case TRI_CHAT_LOOP: return "LoopContext";
    case TRI_CHAT_MACRO: return "Macro";
    case TRI_CHAT_FUNCTION: return "function";
  }
  return "value";
}

/* ---- strings ----------------------------------------------------------------------------------------------------- */

/* Visits the pieces with an explicit stack, because a rope may be as deep as its number of pieces. */
tri_status tri_chat_visit(tri_chat_arena *arena, tri_chat_value string, tri_chat_piece_visitor *visit, void *context) {
  tri_chat_list *waiting = NULL;
  for (;;) {
    if (string.is_rope && string.rope->flat.kind == TRI_CHAT_UNDEFINED) {
      if (waiting == NULL) TRI_TRY(tri_chat_list_create(arena, 16, TRI_CHAT_IS_LIST, &waiting));
      TRI_TRY(tri_chat_list_add(arena, waiting, string.rope->right));
      string = string.rope->left;
      continue;
    }
    TRI_TRY(visit(context, string.is_rope ? string.rope->flat : string));
    if (waiting == NULL || waiting->count == 0) return TRI_OK;
    string = waiting->items[--waiting->count];
  }
}

typedef struct flattener {
  tri_chat_writer writer;
  int32_t origin; /* common origin of all pieces so far; 0: they differ */
} flattener;

static tri_status add_piece(void *context, tri_chat_value piece) {
  flattener *f = context;
  f->origin = f->writer.bytes == 0 || f->origin == piece.origin ? piece.origin : 0;
  return tri_chat_write_part(&f->writer, piece, 0, piece.bytes);
}

tri_status tri_chat_flatten(tri_chat_arena *arena, tri_chat_value *string) {
  if (!string->is_rope) return TRI_OK;
  tri_chat_rope *rope = string->rope;
  if (rope->flat.kind == TRI_CHAT_UNDEFINED) {
    flattener f = {.writer = {.arena = arena, .room = string->bytes}};
    TRI_TRY(tri_chat_arena_alloc(arena, string->bytes, 1, &f.writer.text));
    TRI_TRY(tri_chat_visit(arena, *string, add_piece, &f));
    TRI_TRY(tri_chat_written(&f.writer, f.origin, &rope->flat));
  }
  *string = rope->flat;
  return TRI_OK;
}

/* ---- equality ---------------------------------------------------------------------------------------------------- */

static tri_status equal(tri_chat_arena *arena, tri_chat_value a, tri_chat_value b, int depth, bool *out);

static tri_status equal_strings(tri_chat_arena *arena, tri_chat_value a, tri_chat_value b, bool *out) {
  *out = false;
  if (a.bytes != b.bytes) return TRI_OK;
  TRI_TRY(tri_chat_arena_charge(arena, a.bytes));
  TRI_TRY(tri_chat_flatten(arena, &a));
  TRI_TRY(tri_chat_flatten(arena, &b));
  *out = memcmp(a.text, b.text, a.bytes) == 0;
  return TRI_OK;
}

static tri_status equal_lists(tri_chat_arena *arena, const tri_chat_list *a, const tri_chat_list *b, int depth,
                              bool *out) {
  *out = a == b;
  if (a == b || a->kind != b->kind || a->kind == TRI_CHAT_IS_ITERATOR) return TRI_OK;
  if (a->kind == TRI_CHAT_IS_VIEW) return tri_fail(TRI_UNSUPPORTED, "views of dicts cannot be compared");
  if (a->count != b->count) return TRI_OK;
  *out = true;
  for (int64_t i = 0; i < a->count && *out; i++) TRI_TRY(equal(arena, a->items[i], b->items[i], depth + 1, out));
  return TRI_OK;
}

static tri_status equal_dicts(tri_chat_arena *arena, const tri_chat_dict *a, const tri_chat_dict *b, int depth,
                              bool *out) {
  *out = a->count == b->count;
  for (int64_t i = 0; i < a->count && *out; i++) {
    TRI_TRY(tri_chat_arena_charge(arena, tri_chat_size(a->entries[i].key)));
    const tri_chat_value *other = tri_chat_dict_find(b, a->entries[i].key);
    *out = other != NULL;
    if (*out) TRI_TRY(equal(arena, a->entries[i].value, *other, depth + 1, out));
  }
  return TRI_OK;
}

/* Sets *out to whether two functions are equal. Fails with TRI_UNSUPPORTED for the same method twice: in Python methods
 * are equal if they belong to the same object, which is unknown here for equal values. */
static tri_status equal_functions(tri_chat_value a, tri_chat_value b, bool *out) {
  *out = a.function == b.function;
  if (*out && a.is_method) return tri_fail(TRI_UNSUPPORTED, "methods of values cannot be compared");
  return TRI_OK;
}

static tri_status equal(tri_chat_arena *arena, tri_chat_value a, tri_chat_value b, int depth, bool *out) {
  *out = false;
  TRI_TRY(tri_chat_arena_charge(arena, 0));
  if (depth > DEEPEST)
    return tri_fail(TRI_BAD_FILE, "values of the chat template are nested more than %d deep", DEEPEST);
  if (tri_chat_is_number(a) && tri_chat_is_number(b)) {
    *out = tri_chat_compare_numbers(a, b) == 0;
    return TRI_OK;
  }
  if (a.kind != b.kind) return TRI_OK;
  switch ((tri_chat_kind)a.kind) {
    case TRI_CHAT_STRING: return equal_strings(arena, a, b, out);
    case TRI_CHAT_LIST: return equal_lists(arena, a.list, b.list, depth, out);
    case TRI_CHAT_DICT: return equal_dicts(arena, a.dict, b.dict, depth, out);
    case TRI_CHAT_UNDEFINED:
    case TRI_CHAT_NONE: *out = true; return TRI_OK;
    case TRI_CHAT_NAMESPACE: *out = a.dict == b.dict; return TRI_OK;
    case TRI_CHAT_LOOP: *out = a.loop == b.loop; return TRI_OK;
    case TRI_CHAT_MACRO: *out = a.macro == b.macro; return TRI_OK;
    case TRI_CHAT_FUNCTION: return equal_functions(a, b, out);
    case TRI_CHAT_BOOLEAN:
    case TRI_CHAT_INTEGER:
    case TRI_CHAT_REAL: return TRI_OK;
  }
  return TRI_OK;
}

tri_status tri_chat_equal(tri_chat_arena *arena, tri_chat_value a, tri_chat_value b, bool *out) {
  return equal(arena, a, b, 0, out);
}
