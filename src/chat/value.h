/* The values of a chat template: Python's, as far as JSON and templates have them.
 *
 * A string is a piece of memory that somebody else owns (the template, the conversation, the arena), or a rope of two
 * strings: putting strings together costs nothing until their bytes are needed, so that a template which adds each
 * message to a text it has is linear, and each byte of the result is still known to be of the message it came from. */
#ifndef TRI_CHAT_VALUE_H
#define TRI_CHAT_VALUE_H

#include "chat/arena.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum tri_chat_kind {
  TRI_CHAT_UNDEFINED, /* `text` is what was asked for */
  TRI_CHAT_NONE,
  TRI_CHAT_BOOLEAN,
  TRI_CHAT_INTEGER,
  TRI_CHAT_REAL,
  TRI_CHAT_STRING,
  TRI_CHAT_LIST,
  TRI_CHAT_DICT,
  TRI_CHAT_NAMESPACE,
  TRI_CHAT_LOOP,
  TRI_CHAT_MACRO,
  TRI_CHAT_FUNCTION,
} tri_chat_kind;

typedef struct tri_chat_rope tri_chat_rope;
typedef struct tri_chat_list tri_chat_list;
typedef struct tri_chat_dict tri_chat_dict;
struct tri_chat_loop;
struct tri_chat_node;
struct tri_chat_function;

typedef struct tri_chat_value {
  uint8_t kind; /* a tri_chat_kind */
  bool is_rope;
  bool is_method; /* a function that belongs to a value, which is not kept */
  bool is_safe;   /* a string that `safe` made: Markup, whose methods and `+` escape what they are given */
  int32_t origin; /* of a string: 1 + the message that it was copied from, or 0 */
  union {
    bool boolean;
    int64_t integer;
    double real;
    const char *text;
    tri_chat_rope *rope;
    tri_chat_list *list;
    tri_chat_dict *dict; /* of a namespace too */
    struct tri_chat_loop *loop;
    const struct tri_chat_node *macro;
    const struct tri_chat_function *function;
  };
  size_t bytes; /* of a string */
} tri_chat_value;

struct tri_chat_rope {
  tri_chat_value left, right;
  tri_chat_value flat; /* once somebody needed it; else undefined */
};

typedef enum tri_chat_list_kind {
  TRI_CHAT_IS_LIST,
  TRI_CHAT_IS_TUPLE,
  TRI_CHAT_IS_RANGE,
  TRI_CHAT_IS_VIEW,
  TRI_CHAT_IS_ITERATOR
} tri_chat_list_kind;

/* Where an iterator is. One of which only a part was taken is refused: how much Python had taken is not known here. */
typedef enum tri_chat_use { TRI_CHAT_FRESH, TRI_CHAT_PARTLY, TRI_CHAT_GONE } tri_chat_use;

struct tri_chat_list {
  tri_chat_value *items;
  int64_t count, room;
  uint8_t kind;        /* a tri_chat_list_kind; an iterator is empty once it was gone through */
  uint8_t use;         /* a tri_chat_use, of an iterator */
  const char *failure; /* what an iterator ends with instead of its end; NULL: nothing */
};

typedef struct tri_chat_entry {
  tri_chat_value key, value; /* keys are flat strings, or numbers */
} tri_chat_entry;

struct tri_chat_dict {
  tri_chat_entry *entries;
  int64_t count, room;
  int32_t *table; /* of entries + 1 by hash; NULL while there are few */
  int64_t table_size;
};

/* ---- making them ------------------------------------------------------------------------------------------------- */

tri_chat_value tri_chat_undefined(const char *name, size_t bytes);
tri_chat_value tri_chat_none(void);
tri_chat_value tri_chat_boolean(bool boolean);
tri_chat_value tri_chat_integer(int64_t integer);
tri_chat_value tri_chat_real(double real);
tri_chat_value tri_chat_string(const char *text, size_t bytes);
tri_chat_value tri_chat_text(const char *text); /* of a literal */

/* A copy of some bytes. */
tri_status tri_chat_copy(tri_chat_arena *arena, const char *text, size_t bytes, tri_chat_value *out);
/* Two strings behind each other. */
tri_status tri_chat_concat(tri_chat_arena *arena, tri_chat_value left, tri_chat_value right, tri_chat_value *out);

tri_status tri_chat_list_create(tri_chat_arena *arena, int64_t room, tri_chat_list_kind kind, tri_chat_list **out);
tri_status tri_chat_list_add(tri_chat_arena *arena, tri_chat_list *list, tri_chat_value value);
tri_chat_value tri_chat_of_list(tri_chat_list *list);

tri_status tri_chat_dict_create(tri_chat_arena *arena, int64_t room, tri_chat_dict **out);
/* A key that is there gets the new value. */
tri_status tri_chat_dict_set(tri_chat_arena *arena, tri_chat_dict *dict, tri_chat_value key, tri_chat_value value);
const tri_chat_value *tri_chat_dict_find(const tri_chat_dict *dict, tri_chat_value key);
const tri_chat_value *tri_chat_dict_get(const tri_chat_dict *dict, const char *key); /* NULL if there is none */
tri_chat_value tri_chat_of_dict(tri_chat_dict *dict);

/* ---- asking them ------------------------------------------------------------------------------------------------- */

/* Boolean, integer or real. */
bool tri_chat_is_number(tri_chat_value value);
double tri_chat_as_real(tri_chat_value value);
/* -1, 0 or 1 of two numbers that are not NaN, exactly: a whole number is not rounded to compare it with a real one. */
int tri_chat_compare_numbers(tri_chat_value a, tri_chat_value b);
/* Boolean or integer, which Python counts alike. */
bool tri_chat_is_whole(tri_chat_value value);
int64_t tri_chat_as_whole(tri_chat_value value);

/* Python's truth, and the name of the type for messages ("str", "dict"). */
bool tri_chat_truth(tri_chat_value value);
const char *tri_chat_type(tri_chat_value value);

/* What looking through it once counts as: bytes of a string, items of a list or a dict, else 0. */
size_t tri_chat_size(tri_chat_value value);

/* Where a string is a rope, puts its bytes in one piece. */
tri_status tri_chat_flatten(tri_chat_arena *arena, tri_chat_value *string);

/* The pieces of a string, in order: put behind each other they are the string. */
typedef tri_status tri_chat_piece_visitor(void *context, tri_chat_value piece);
tri_status tri_chat_visit(tri_chat_arena *arena, tri_chat_value string, tri_chat_piece_visitor *visit, void *context);

/* ==; nested too deeply is TRI_BAD_FILE. */
tri_status tri_chat_equal(tri_chat_arena *arena, tri_chat_value a, tri_chat_value b, bool *out);

/* str(value), which a template prints, and repr(value), which a list shows. */
tri_status tri_chat_str(tri_chat_arena *arena, tri_chat_value value, tri_chat_value *out);

/* json.dumps as transformers' filter tojson has it. */
typedef struct tri_chat_json_style {
  bool ensure_ascii, sort_keys;
  bool indented;
  tri_chat_value indent; /* what one level is set in by; flat */
  tri_chat_value item_separator, key_separator;
} tri_chat_json_style;
tri_status tri_chat_json_text(tri_chat_arena *arena, tri_chat_value value, const tri_chat_json_style *style,
                              tri_chat_value *out);

/* ---- text that grows --------------------------------------------------------------------------------------------- */

typedef struct tri_chat_writer {
  tri_chat_arena *arena;
  char *text;
  size_t bytes, room;
} tri_chat_writer;

tri_status tri_chat_write(tri_chat_writer *writer, const char *text, size_t bytes);
tri_status tri_chat_write_code(tri_chat_writer *writer, uint32_t code);
/* What float.__repr__ gives. */
tri_status tri_chat_write_real(tri_chat_writer *writer, double real);

#endif
