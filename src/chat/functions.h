/* The filters, tests, methods and global functions that templates may call. Not for others. */
#ifndef TRI_CHAT_FUNCTIONS_H
#define TRI_CHAT_FUNCTIONS_H

#include "chat/value.h"

struct tri_chat_renderer;

/* What a function is called with. `self` is what stands before the bar, the dot or `is`. */
typedef struct tri_chat_call {
  struct tri_chat_renderer *renderer;
  tri_chat_arena *arena;
  const struct tri_chat_function *function;
  tri_chat_value self;
  const tri_chat_value *items;
  int32_t count;
  const tri_chat_value *keywords; /* names and values by turns */
  int32_t num_keywords;
} tri_chat_call;

typedef tri_status tri_chat_body(const tri_chat_call *call, tri_chat_value *out);

typedef struct tri_chat_function {
  const char *name;
  int32_t least, most;       /* arguments */
  const char *parameters[4]; /* their names, for keywords; NULL: by its place only */
  bool open;                 /* takes any keywords */
  tri_chat_body *body;
} tri_chat_function;

typedef struct tri_chat_functions {
  const tri_chat_function *functions;
  size_t count;
} tri_chat_functions;

/* All there are: what tests draw calls from. */
tri_chat_functions tri_chat_filters(void);
tri_chat_functions tri_chat_tests(void);
tri_chat_functions tri_chat_globals(void);
tri_chat_functions tri_chat_methods(tri_chat_kind kind); /* of strings or dicts */

/* NULL: there is none of this name. */
const tri_chat_function *tri_chat_function_find(tri_chat_functions among, tri_chat_value name);
const tri_chat_function *tri_chat_filter_find(tri_chat_value name);
const tri_chat_function *tri_chat_test_find(tri_chat_value name);
const tri_chat_function *tri_chat_global_find(tri_chat_value name);
/* Of a value of this kind; of any kind with TRI_CHAT_UNDEFINED. */
const tri_chat_function *tri_chat_method_find(tri_chat_kind kind, tri_chat_value name);

/* Runs a function, which fails where its arguments are too many, too few or of other names. What it is given counts as
 * work, since nearly every function looks through it. */
tri_status tri_chat_run(const tri_chat_call *call, tri_chat_value *out);

/* Argument number `index`, by its place or its name; `otherwise` where it is not given. */
tri_chat_value tri_chat_argument(const tri_chat_call *call, int32_t index, tri_chat_value otherwise);
/* The same that must be a string (flat) or a whole number. */
tri_status tri_chat_argument_text(const tri_chat_call *call, int32_t index, tri_chat_value otherwise,
                                  tri_chat_value *out);
tri_status tri_chat_argument_whole(const tri_chat_call *call, int32_t index, int64_t otherwise, int64_t *out);
/* The same that is a flag of Python's own functions, false if it is not given: true, false or a small whole number,
 * since versions of Python differ in what else they take. */
tri_status tri_chat_argument_flag(const tri_chat_call *call, int32_t index, bool *out);
/* `self` as a flat string. */
tri_status tri_chat_self_text(const tri_chat_call *call, tri_chat_value *out);

/* In the renderer's file: what functions need of it. */

/* Counts `bytes` or items of work, which is bounded. */
tri_status tri_chat_charge(struct tri_chat_renderer *renderer, size_t bytes);
/* The items of a list, the keys of a dict, the letters of a string. An iterator is empty from then on. */
tri_status tri_chat_iterate(struct tri_chat_renderer *renderer, tri_chat_value value, tri_chat_list **out);
/* The same for who may not go through all of them: an iterator cannot be used any more, unless the caller says that
 * it is empty. What the iterator fails with is left to the caller, in (*out)->failure. */
tri_status tri_chat_iterate_some(struct tri_chat_renderer *renderer, tri_chat_value value, tri_chat_list **out);
/* Whether Python can hash a value, as keys of dicts are. */
tri_status tri_chat_check_hashable(tri_chat_value value);
/* a % b of numbers. */
tri_status tri_chat_remainder(tri_chat_value a, tri_chat_value b, tri_chat_value *out);
/* value.name or value["name"], as `map(attribute=...)` asks. */
tri_status tri_chat_item(struct tri_chat_renderer *renderer, tri_chat_value value, tri_chat_value name,
                         tri_chat_value *out);
tri_status tri_chat_contains(struct tri_chat_renderer *renderer, tri_chat_value in, tri_chat_value what, bool *out);
/* < of numbers, strings and lists. */
tri_status tri_chat_less(struct tri_chat_renderer *renderer, tri_chat_value a, tri_chat_value b, bool or_equal,
                         bool *out);
/* What strftime_now gives for a format. */
tri_status tri_chat_time(struct tri_chat_renderer *renderer, const char *format, tri_chat_value *out);

#endif
