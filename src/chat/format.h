/* The format of conversations: the template, and its variables besides messages. */
#ifndef TRI_CHAT_FORMAT_H
#define TRI_CHAT_FORMAT_H

#include "chat/template.h"

#include <jansson.h>

typedef struct tri_chat_format {
  tri_chat_template *template;       /* NULL: prompt and completion are concatenated */
  tri_chat_template *tools_template; /* template for conversations with tools; NULL: `template` */
  bool is_preset;                    /* whether `template` is a preset (config/template_preset.h) */
  tri_chat_arena arena;
  tri_chat_value *variables; /* names and values alternate: bos_token and so on, and the user's variables */
  int32_t num_variables;
  tri_chat_value end;  /* text that ends a completion without a template; "": none */
  const char *key_map; /* other names of the keys of records (chat/key_map.h); NULL: none */
  time_t now;
} tri_chat_format;

typedef struct tri_chat_format_options {
  const char *tokenizer;  /* path of the tokenizer.json or of its folder; the tokenizer_config.json and
                             chat_template.jinja there are read */
  const char *file;       /* name of a preset, or file of the template; NULL: the tokenizer's; "none": no template */
  bool asked;             /* whether error messages leave out the hint to `--chat-template none` */
  bool of_run_file;       /* whether error messages leave out options of commands */
  bool optional;          /* whether the template may be missing, because records may be plain texts */
  const char *const *set; /* variables, "NAME=VALUE"; VALUE is JSON or, if it is not valid JSON, a string */
  int num_set;
  const char *key_map; /* as in tri_chat_format; must outlive the format */
  const char *end;     /* the tokenizer's end-of-text token, used if its configuration has no eos_token; NULL: none */
} tri_chat_format_options;

/* Creates a format. Fails with TRI_BAD_FILE if the template is missing (the message has the searched places) or
 * invalid, with TRI_UNSUPPORTED if it uses an unsupported feature, and with TRI_BAD_USAGE for an invalid variable of
 * `set`. Release with tri_chat_format_release, also after a failure. */
tri_status tri_chat_format_create(const tri_chat_format_options *options, tri_chat_format *out);
/* Returns the template in the form of tokenizer_config.json, a string or a list of "default" and "tool_use", as a new
 * object; NULL if there is none. */
json_t *tri_chat_format_json(const tri_chat_format *format);
void tri_chat_format_release(tri_chat_format *format);

#endif
