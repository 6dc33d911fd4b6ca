/* The values of a chat template: the kinds of Python's values that JSON and templates have.
 *
 * A string refers to memory with another owner (the template, the conversation, the arena), or is a rope of two
 * strings. Concatenation costs nothing until the bytes are needed, so a template that appends each message to a text
 * takes linear time, and each byte of the result keeps the message from which it came.
 *
 * A byte is `given` if it comes from the conversation (its messages with their roles and keys, its tools and
 * variables), not from the template. Every function that makes a string of others keeps this, byte by byte: the writer
 * of a conversation must not be able to write the template's special tokens. */
#ifndef TRI_CHAT_VALUE_H
#define TRI_CHAT_VALUE_H

#include "chat/arena.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum tri_chat_kind {
  TRI_CHAT_UNDEFINED, /* `text`: the name that was looked up */
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

enum { TRI_CHAT_GIVEN = -1 }; /* origin of a given string that is not part of a message */

typedef struct tri_chat_value {
  uint8_t kind; /* a tri_chat_kind */
  bool is_rope;
  bool is_method; /* function: whether it is a method; the value before its dot is not stored */
  bool is_safe;   /* whether the string is a result of `safe`: Markup, whose methods and `+` escape their arguments */
  int32_t origin; /* string: 1 + the number of the message from which it was copied, or TRI_CHAT_GIVEN; 0: the
                     template's, or of several origins */
  union {
    bool boolean;
    int64_t integer;
    double real;
    const char *text;
    tri_chat_rope *rope;
    tri_chat_list *list;
    tri_chat_dict *dict; /* also for a namespace */
    struct tri_chat_loop *loop;
    const struct tri_chat_node *macro;
    const struct tri_chat_function *function;
  };
  size_t bytes;      /* bytes of a string */
  const bool *marks; /* string: whether each byte is given [bytes]; NULL: all are if `origin` is not 0, else none is */
} tri_chat_value;

struct tri_chat_rope {
  tri_chat_value left, right;
  tri_chat_value flat; /* the rope as one flat string; undefined until it is first needed */
};

typedef enum tri_chat_list_kind {
  TRI_CHAT_IS_LIST,
  TRI_CHAT_IS_TUPLE,
  TRI_CHAT_IS_RANGE,
  TRI_CHAT_IS_VIEW,
  TRI_CHAT_IS_ITERATOR
} tri_chat_list_kind;

/* State of an iterator. A partly consumed one is refused, because the number of items that Python would have consumed
 * is unknown. */
typedef enum tri_chat_use { TRI_CHAT_FRESH, TRI_CHAT_PARTLY, TRI_CHAT_GONE } tri_chat_use;

struct tri_chat_list {
  tri_chat_value *items;
  int64_t count, room;
  uint8_t kind;        /* a tri_chat_list_kind; an iterator is empty after one pass */
  uint8_t use;         /* a tri_chat_use, for an iterator */
  const char *failure; /* error that ends an iterator; NULL: none */
};

typedef struct tri_chat_entry {
  tri_chat_value key, value; /* keys are flat strings, or numbers */
} tri_chat_entry;

struct tri_chat_dict {
  tri_chat_entry *entries;
  int64_t count, room;
  int32_t *table; /* hash table: index of an entry + 1; NULL for few entries */
  int64_t table_size;
};

/* ---- construction ------------------------------------------------------------------------------------------------ */

tri_chat_value tri_chat_undefined(const char *name, size_t bytes);
tri_chat_value tri_chat_none(void);
tri_chat_value tri_chat_boolean(bool boolean);
tri_chat_value tri_chat_integer(int64_t integer);
tri_chat_value tri_chat_real(double real);
tri_chat_value tri_chat_string(const char *text, size_t bytes);
tri_chat_value tri_chat_text(const char *text); /* for a literal */

/* Copies bytes to a string. */
tri_status tri_chat_copy(tri_chat_arena *arena, const char *text, size_t bytes, tri_chat_value *out);
/* Concatenates two strings, without copying. Fails with TRI_BAD_FILE if the result is longer than the arena's limit. */
tri_status tri_chat_concat(tri_chat_arena *arena, tri_chat_value left, tri_chat_value right, tri_chat_value *out);

/* Creates an empty list with room for `room` items. */
tri_status tri_chat_list_create(tri_chat_arena *arena, int64_t room, tri_chat_list_kind kind, tri_chat_list **out);
tri_status tri_chat_list_add(tri_chat_arena *arena, tri_chat_list *list, tri_chat_value value);
tri_chat_value tri_chat_of_list(tri_chat_list *list);

tri_status tri_chat_dict_create(tri_chat_arena *arena, int64_t room, tri_chat_dict **out);
/* Sets a key; an existing key gets the new value. */
tri_status tri_chat_dict_set(tri_chat_arena *arena, tri_chat_dict *dict, tri_chat_value key, tri_chat_value value);
/* Return the value of a key; NULL if the dict does not have it. */
const tri_chat_value *tri_chat_dict_find(const tri_chat_dict *dict, tri_chat_value key);
const tri_chat_value *tri_chat_dict_get(const tri_chat_dict *dict, const char *key);
tri_chat_value tri_chat_of_dict(tri_chat_dict *dict);

/* ---- queries ----------------------------------------------------------------------------------------------------- */

/* Returns whether a value is a boolean, an integer or a real number. */
bool tri_chat_is_number(tri_chat_value value);
/* Returns the value of a number, rounded to a double. */
double tri_chat_as_real(tri_chat_value value);
/* Returns -1, 0 or 1 as the order of two numbers that are not NaN. The comparison is exact: an integer is not rounded
 * for it. */
int tri_chat_compare_numbers(tri_chat_value a, tri_chat_value b);
/* Returns whether a value is a boolean or an integer, which Python treats alike. */
bool tri_chat_is_whole(tri_chat_value value);
/* Returns the value of a boolean or an integer. */
int64_t tri_chat_as_whole(tri_chat_value value);

/* Returns whether Python treats the value as true. */
bool tri_chat_truth(tri_chat_value value);
/* Returns the name of the value's type for messages ("str", "dict"). Static. */
const char *tri_chat_type(tri_chat_value value);

/* Returns the work of one pass over a value: number of bytes of a string, number of items of a list or a dict, else
 * 0. */
size_t tri_chat_size(tri_chat_value value);

/* Returns bytes [begin, end) of a flat string, with their origin. */
tri_chat_value tri_chat_part(tri_chat_value string, size_t begin, size_t end);
/* Returns whether a byte of a flat string is given. */
bool tri_chat_is_given(tri_chat_value string, size_t at);
/* Returns the end of the run of bytes, from `at` on, that are all given or all not given. */
size_t tri_chat_run_end(tri_chat_value string, size_t at);

/* Replaces *string, if it is a rope, by a flat string: its bytes in one piece. */
tri_status tri_chat_flatten(tri_chat_arena *arena, tri_chat_value *string);

/* Called for the pieces of a string in order; their concatenation is the string. */
typedef tri_status tri_chat_piece_visitor(void *context, tri_chat_value piece);
tri_status tri_chat_visit(tri_chat_arena *arena, tri_chat_value string, tri_chat_piece_visitor *visit, void *context);

/* Computes ==. Fails with TRI_BAD_FILE for values that are nested too deeply, and with TRI_UNSUPPORTED for views of
 * dicts and for methods. */
tri_status tri_chat_equal(tri_chat_arena *arena, tri_chat_value a, tri_chat_value b, bool *out);

/* Computes str(value), which a template prints. A string is returned unchanged, but is not marked as safe. Fails with
 * TRI_UNSUPPORTED for a value that cannot be printed. */
tri_status tri_chat_str(tri_chat_arena *arena, tri_chat_value value, tri_chat_value *out);

/* Style of json.dumps in transformers' filter tojson. */
typedef struct tri_chat_json_style {
  bool ensure_ascii, sort_keys;
  bool indented;
  tri_chat_value indent; /* indentation of one level; flat */
  tri_chat_value item_separator, key_separator;
} tri_chat_json_style;
tri_status tri_chat_json_text(tri_chat_arena *arena, tri_chat_value value, const tri_chat_json_style *style,
                              tri_chat_value *out);

/* ---- writer ------------------------------------------------------------------------------------------------------ */

typedef struct tri_chat_writer {
  tri_chat_arena *arena;
  char *text;
  size_t bytes, room;
  bool given;  /* whether the bytes that are written next are given */
  bool *marks; /* whether each byte is given [room]; NULL: all are like the first, `first_given` */
  bool first_given;
} tri_chat_writer;

tri_status tri_chat_write(tri_chat_writer *writer, const char *text, size_t bytes);
/* Writes bytes [begin, end) of a flat string. */
tri_status tri_chat_write_part(tri_chat_writer *writer, tri_chat_value string, size_t begin, size_t end);
/* Sets *out to the written string. `origin`: message from which it counts as copied; 0: none. */
tri_status tri_chat_written(tri_chat_writer *writer, int32_t origin, tri_chat_value *out);
tri_status tri_chat_write_code(tri_chat_writer *writer, uint32_t code);
/* Writes float.__repr__ of a number. */
tri_status tri_chat_write_real(tri_chat_writer *writer, double real);

#endif
