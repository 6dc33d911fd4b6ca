/* Chat templates: a subset of Jinja, as transformers' apply_chat_template sets it up (trim_blocks, lstrip_blocks,
 * raise_exception, strftime_now, tojson, generation blocks). A template is compiled once and may be rendered by many
 * threads, each with its own renderer. What the subset lacks is refused by its name, with line and column. */
#ifndef TRI_CHAT_TEMPLATE_H
#define TRI_CHAT_TEMPLATE_H

#include "chat/value.h"

#include <time.h>

typedef struct tri_chat_template tri_chat_template;

/* `name` is for messages: a file. Release with tri_chat_template_destroy. */
tri_status tri_chat_template_compile(const char *name, const char *text, size_t bytes, tri_chat_template **out);
void tri_chat_template_destroy(tri_chat_template *template);

/* Whether it says itself, with `{% generation %}`, what the model's answers are. */
bool tri_chat_template_marks_answers(const tri_chat_template *template);
const char *tri_chat_template_source(const tri_chat_template *template, size_t *bytes);
const char *tri_chat_template_name(const tri_chat_template *template);

/* What bounds a rendering: a template of somebody else must neither hang nor take all memory. */
typedef struct tri_chat_limits {
  int64_t steps;       /* nodes of the template that are met, and 16 bytes of text each that are looked through */
  size_t value_bytes;  /* of all values that it makes */
  size_t output_bytes; /* of its text */
} tri_chat_limits;
extern const tri_chat_limits tri_chat_usual_limits;

typedef struct tri_chat_renderer tri_chat_renderer;

/* `now` is what strftime_now tells. Release with tri_chat_renderer_destroy; the template must outlive it. */
tri_status tri_chat_renderer_create(const tri_chat_template *template, const tri_chat_limits *limits, time_t now,
                                    tri_chat_renderer **out);
void tri_chat_renderer_destroy(tri_chat_renderer *renderer);

typedef struct tri_chat_span {
  size_t begin, end;
} tri_chat_span;

/* A rendered text. Starts as {0}, and is used again and again; release with tri_chat_rendered_release. */
typedef struct tri_chat_rendered {
  char *text;
  size_t bytes, room;
  tri_chat_span *generated; /* what generation blocks printed, in order */
  int64_t num_generated, generated_room;
  tri_chat_span *copied; /* by message: from the first to the last byte that was copied from it; begin > end: none */
  int64_t num_messages, copied_room;
  size_t *pieces; /* where the strings end that it was put together from */
  int64_t num_pieces, piece_room;
} tri_chat_rendered;

void tri_chat_rendered_release(tri_chat_rendered *rendered);

/* Renders with these variables, by turns a name (a flat string) and its value. `num_messages` is how many messages
 * strings may be tagged with (tri_chat_value's origin). Values may live in the caller's arena. */
tri_status tri_chat_render(tri_chat_renderer *renderer, const tri_chat_value *variables, int32_t num_variables,
                           int64_t num_messages, tri_chat_rendered *out);

#endif
