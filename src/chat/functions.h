/* The filters, tests, methods and global functions that templates may call. Private to this folder. */
#ifndef TRI_CHAT_FUNCTIONS_H
#define TRI_CHAT_FUNCTIONS_H

#include "chat/value.h"

struct tri_chat_renderer;

/* Arguments of a call. `self`: the value before the bar, the dot or `is`. */
typedef struct tri_chat_call {
  struct tri_chat_renderer *renderer;
  tri_chat_arena *arena;
  const struct tri_chat_function *function;
  tri_chat_value self;
  const tri_chat_value *items;
  int32_t count;
  const tri_chat_value *keywords; /* names and values alternate */
  int32_t num_keywords;
} tri_chat_call;

typedef tri_status tri_chat_body(const tri_chat_call *call, tri_chat_value *out);

typedef struct tri_chat_function {
  const char *name;
  int32_t least, most;       /* minimum and maximum number of arguments */
  const char *parameters[4]; /* names of the parameters, for keyword arguments; NULL: only positional */
  bool open;                 /* whether the function accepts any keywords */
  int form;                  /* variant of the function, for a body that several functions share */
  tri_chat_body *body;
} tri_chat_function;

typedef struct tri_chat_functions {
  const tri_chat_function *functions;
  size_t count;
} tri_chat_functions;

/* Return all functions of a kind; tests make random calls of them. */
tri_chat_functions tri_chat_filters(void);
tri_chat_functions tri_chat_tests(void);
tri_chat_functions tri_chat_globals(void);
tri_chat_functions tri_chat_methods(tri_chat_kind kind); /* methods of strings or dicts */

/* Returns the function with this name; NULL: none. */
const tri_chat_function *tri_chat_function_find(tri_chat_functions among, tri_chat_value name);

/* Runs a function. Fails with TRI_BAD_FILE if the call has too many or too few arguments, or keyword arguments with
 * unknown names or twice, with TRI_UNSUPPORTED for a method of a safe string, and as the function itself does. The size
 * of the arguments is charged as work, since nearly every function reads them. */
tri_status tri_chat_run(const tri_chat_call *call, tri_chat_value *out);

/* Returns argument number `index`, by position or name; `otherwise` if it is not given. */
tri_chat_value tri_chat_argument(const tri_chat_call *call, int32_t index, tri_chat_value otherwise);
/* Sets *out to argument number `index` as a flat string. Fails with TRI_BAD_FILE if it is not a string. */
tri_status tri_chat_argument_text(const tri_chat_call *call, int32_t index, tri_chat_value otherwise,
                                  tri_chat_value *out);
/* Sets *out to argument number `index`, or to `otherwise` if it is not given. Fails with TRI_BAD_FILE if it is neither
 * an integer nor a boolean. */
tri_status tri_chat_argument_whole(const tri_chat_call *call, int32_t index, int64_t otherwise, int64_t *out);
/* Sets *out to a flag of one of Python's own functions; false if it is not given. Fails with TRI_UNSUPPORTED unless it
 * is true, false or a small integer, since versions of Python differ in the other values that they accept. */
tri_status tri_chat_argument_flag(const tri_chat_call *call, int32_t index, bool *out);
/* Sets *out to str(self) as a flat string, and charges its bytes. Fails as tri_chat_str does. */
tri_status tri_chat_self_text(const tri_chat_call *call, tri_chat_value *out);

/* Helpers that the bodies of functions share. */

/* Charges the work of one step and of `bytes` bytes (tri_chat_arena_charge). */
tri_status tri_chat_charge(struct tri_chat_renderer *renderer, size_t bytes);
/* Sets *out to the items of a list, the keys of a dict, or the letters of a string, as a list; an undefined value has
 * no items. An iterator is empty afterwards. Fails with TRI_BAD_FILE for values that are not iterable and for an
 * iterator that ends with a failure, and with TRI_UNSUPPORTED for a partly consumed iterator and for `loop`. */
tri_status tri_chat_iterate(struct tri_chat_renderer *renderer, tri_chat_value value, tri_chat_list **out);
/* Works like tri_chat_iterate, for callers that may not read all items. An iterator cannot be used again afterwards,
 * unless the caller marks it as empty. Its failure is returned in (*out)->failure, not as a status. */
tri_status tri_chat_iterate_some(struct tri_chat_renderer *renderer, tri_chat_value value, tri_chat_list **out);
/* Fails with TRI_BAD_FILE if Python cannot hash the value, as keys of dicts require, and with TRI_UNSUPPORTED for a
 * tuple or a view. */
tri_status tri_chat_check_hashable(tri_chat_value value);
/* Computes a % b for numbers. Fails with TRI_BAD_FILE if b is 0. */
tri_status tri_chat_remainder(tri_chat_value a, tri_chat_value b, tri_chat_value *out);
/* Sets *out to value["name"], or to value.name if there is no such item, for `map(attribute=...)`. It is undefined if
 * the value has neither. Fails with TRI_UNSUPPORTED for an attribute of Python that this program lacks. */
tri_status tri_chat_item(struct tri_chat_renderer *renderer, tri_chat_value value, tri_chat_value name,
                         tri_chat_value *out);
/* Sets *out to Python's `what in in` for a string, list or dict `in`; false if `in` is undefined. Fails with
 * TRI_BAD_FILE or TRI_UNSUPPORTED for other operands. */
tri_status tri_chat_contains(struct tri_chat_renderer *renderer, tri_chat_value in, tri_chat_value what, bool *out);
/* Computes a < b (a <= b if `or_equal`) for numbers, strings, lists and tuples. Fails with TRI_BAD_FILE for operands
 * without an order. */
tri_status tri_chat_less(struct tri_chat_renderer *renderer, tri_chat_value a, tri_chat_value b, bool or_equal,
                         bool *out);
/* Formats `now` as strftime_now does. Fails with TRI_UNSUPPORTED if the format gives no text, or one that is too long,
 * with TRI_BAD_FILE if the time has no local date. */
tri_status tri_chat_time(struct tri_chat_renderer *renderer, const char *format, tri_chat_value *out);

#endif
