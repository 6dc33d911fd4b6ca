/* How conversations become text: the template, and what it is told besides messages. */
#ifndef TRI_CHAT_FORMAT_H
#define TRI_CHAT_FORMAT_H

#include "chat/template.h"

#include <jansson.h>

typedef struct tri_chat_format {
  tri_chat_template *template;       /* NULL: prompt and completion stand as they are, behind each other */
  tri_chat_template *tools_template; /* for conversations with tools; or NULL: the same */
  tri_chat_arena arena;
  tri_chat_value *variables; /* by turns a name and its value: bos_token and so on, and what was set by hand */
  int32_t num_variables;
  tri_chat_value end; /* the text that ends a completion without a template; "" if there is none */
  time_t now;
} tri_chat_format;

typedef struct tri_chat_format_options {
  const char
      *tokenizer;   /* the tokenizer.json or its folder; its tokenizer_config.json and chat_template.jinja are read */
  const char *file; /* of the template; NULL: the tokenizer's; "none": there is none */
  bool asked;       /* there has to be one, and "none" is not advice */
  bool optional;    /* there may be none: records may be texts alone */
  const char *const *set; /* "NAME=VALUE", the value as JSON or, if it is not JSON, as a string */
  int num_set;
  const char *end; /* the tokenizer's end-of-text token, where its configuration names no eos_token; or NULL */
} tri_chat_format_options;

/* A template that is missing is TRI_BAD_FILE, and the message says where it was looked for. Release with
 * tri_chat_format_release, also after a failure. */
tri_status tri_chat_format_create(const tri_chat_format_options *options, tri_chat_format *out);
/* The template as tokenizer_config.json has it: a string, or a list of "default" and "tool_use". A new object; NULL
 * if there is none. */
json_t *tri_chat_format_json(const tri_chat_format *format);
void tri_chat_format_release(tri_chat_format *format);

#endif
