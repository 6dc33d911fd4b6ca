/* Chat templates: a subset of Jinja with the settings of transformers' apply_chat_template (trim_blocks, lstrip_blocks,
 * raise_exception, strftime_now, tojson, generation blocks). A template is compiled once and may be rendered by many
 * threads, each with its own renderer. Unsupported features are refused by name, with line and column. */
#ifndef TRI_CHAT_TEMPLATE_H
#define TRI_CHAT_TEMPLATE_H

#include "chat/value.h"
#include "tokenizer/tokenizer.h"

#include <time.h>

typedef struct tri_chat_template tri_chat_template;

/* Compiles a template. `name`: its file, for messages. Fails with TRI_BAD_FILE if the template is invalid or too large,
 * with TRI_UNSUPPORTED if it uses something that this program lacks. Release with tri_chat_template_destroy. */
tri_status tri_chat_template_compile(const char *name, const char *text, size_t bytes, tri_chat_template **out);
void tri_chat_template_destroy(tri_chat_template *template);

/* Returns whether the template marks the model's answers with `{% generation %}`. */
bool tri_chat_template_marks_answers(const tri_chat_template *template);
/* Returns the source [*bytes], with normalized newlines. The template owns it. */
const char *tri_chat_template_source(const tri_chat_template *template, size_t *bytes);
/* Returns the name for messages. The template owns it. */
const char *tri_chat_template_name(const tri_chat_template *template);

/* Limits of a rendering: an untrusted template must neither hang nor exhaust memory. */
typedef struct tri_chat_limits {
  int64_t steps;       /* maximum work: executed nodes of the template, and units of 16 bytes of processed text */
  size_t value_bytes;  /* maximum bytes of all values that the rendering creates */
  size_t output_bytes; /* maximum bytes of the rendered text */
} tri_chat_limits;
extern const tri_chat_limits tri_chat_usual_limits;

typedef struct tri_chat_renderer tri_chat_renderer;

/* Creates a renderer. `now`: time of strftime_now. Release with tri_chat_renderer_destroy; the template must outlive
 * it. */
tri_status tri_chat_renderer_create(const tri_chat_template *template, const tri_chat_limits *limits, time_t now,
                                    tri_chat_renderer **out);
void tri_chat_renderer_destroy(tri_chat_renderer *renderer);

typedef tri_text_range tri_chat_span;

/* A rendered text. Starts as {0}, and may be reused; release with tri_chat_rendered_release. */
typedef struct tri_chat_rendered {
  char *text;
  size_t bytes, room;
  tri_chat_span *generated; /* byte ranges of the output of generation blocks, in order */
  int64_t num_generated, generated_room;
  tri_chat_span *copied; /* byte range from the first to the last byte that was copied from each message [num_messages];
                            begin > end: no byte was copied */
  int64_t num_messages, copied_room;
  tri_chat_span *given; /* byte ranges that come from the conversation, not from the template, in order */
  int64_t num_given, given_room;
  size_t *pieces; /* ends of the strings that the rendering appended one after the other */
  int64_t num_pieces, piece_room;
} tri_chat_rendered;

void tri_chat_rendered_release(tri_chat_rendered *rendered);

/* Renders with these variables: names (flat strings) and values alternate. `num_messages`: number of messages for the
 * tags of strings (tri_chat_value's origin). Values may be in the caller's arena. Fails with TRI_BAD_FILE if the
 * template fails or reaches a limit, with TRI_UNSUPPORTED if it needs something that this program lacks, and with
 * TRI_INTERRUPTED after a stop request. */
tri_status tri_chat_render(tri_chat_renderer *renderer, const tri_chat_value *variables, int32_t num_variables,
                           int64_t num_messages, tri_chat_rendered *out);

#endif
