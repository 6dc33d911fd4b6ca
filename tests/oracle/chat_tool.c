/* Renders chat templates for Python. chat_tool TEMPLATE: each line of standard input is a JSON object with the
 * variables of one rendering; prints a JSON object on a line for each, with "text" and "generated" (pairs of bytes), or
 * "error".
 *
 * chat_tool --each: the first line has the variables, and each following line a template as a JSON string.
 * chat_tool --functions: prints the functions that templates may call, from the tables of src/chat. */
#include "base/memory.h"
#include "chat/functions.h"
#include "chat/json_value.h"
#include "chat/template.h"
#include "files/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tri_status render_line(tri_chat_renderer *renderer, const char *line, tri_chat_rendered *out) {
  json_error_t error;
  tri_chat_arena arena = {.limit = (size_t)1 << 30};
  tri_chat_value value, *variables = NULL;
  json_t *root = json_loads(line, JSON_ALLOW_NUL, &error);
  if (root == NULL) return tri_fail(TRI_BAD_FILE, "not JSON: %s", error.text);
  tri_status status = tri_chat_of_json(&arena, root, &value);
  int64_t count = status == TRI_OK ? value.dict->count : 0;
  if (status == TRI_OK) status = tri_chat_arena_alloc(&arena, 2 * (size_t)count, sizeof *variables, &variables);
  for (int64_t i = 0; status == TRI_OK && i < count; i++) {
    variables[2 * i] = value.dict->entries[i].key;
    variables[2 * i + 1] = value.dict->entries[i].value;
  }
  if (status == TRI_OK) status = tri_chat_render(renderer, variables, (int32_t)count, 0, out);
  tri_chat_arena_release(&arena);
  json_decref(root);
  return status;
}

static void print_result(tri_status status, const tri_chat_rendered *r) {
  json_t *generated = json_array(), *answer = json_object();
  for (int64_t i = 0; status == TRI_OK && i < r->num_generated; i++) {
    json_array_append_new(generated,
                          json_pack("[I, I]", (json_int_t)r->generated[i].begin, (json_int_t)r->generated[i].end));
  }
  if (status == TRI_OK) {
    json_object_set_new(answer, "text", json_stringn(r->bytes == 0 ? "" : r->text, r->bytes));
  } else {
    json_object_set_new(answer, "error", json_string(tri_status_message()));
    json_object_set_new(answer, "status", json_integer(tri_status_exit(status)));
  }
  json_object_set_new(answer, "generated", generated);
  json_dumpf(answer, stdout, JSON_COMPACT);
  putchar('\n');
  json_decref(answer);
}

/* One template with the variables of the first line. */
static tri_status render_template(const char *variables, const char *line, tri_chat_rendered *out) {
  json_error_t error;
  tri_chat_template *template = NULL;
  tri_chat_renderer *renderer = NULL;
  json_t *text = json_loads(line, JSON_ALLOW_NUL | JSON_DECODE_ANY, &error);
  if (text == NULL) return tri_fail(TRI_BAD_FILE, "not JSON: %s", error.text);
  tri_status status =
      tri_chat_template_compile("template", json_string_value(text), json_string_length(text), &template);
  if (status == TRI_OK) status = tri_chat_renderer_create(template, &tri_chat_usual_limits, time(NULL), &renderer);
  if (status == TRI_OK) status = render_line(renderer, variables, out);
  if (renderer != NULL) tri_chat_renderer_destroy(renderer);
  tri_chat_template_destroy(template);
  json_decref(text);
  return status;
}

static int render_each(void) {
  char *variables = NULL, *line = NULL;
  size_t room = 0;
  tri_chat_rendered rendered = {0};
  if (getline(&variables, &room, stdin) <= 0) return 2;
  room = 0;
  while (getline(&line, &room, stdin) > 0) print_result(render_template(variables, line, &rendered), &rendered);
  free(variables);
  free(line);
  tri_chat_rendered_release(&rendered);
  return 0;
}

static json_t *table_json(tri_chat_functions table) {
  json_t *out = json_array();
  for (size_t i = 0; i < table.count; i++) {
    const tri_chat_function *f = &table.functions[i];
    json_t *names = json_array();
    for (size_t k = 0; k < sizeof f->parameters / sizeof f->parameters[0]; k++) {
      json_array_append_new(names, f->parameters[k] == NULL ? json_null() : json_string(f->parameters[k]));
    }
    json_array_append_new(out, json_pack("{s:s, s:i, s:i, s:o}", "name", f->name, "least", f->least, "most", f->most,
                                         "parameters", names));
  }
  return out;
}

static int list_functions(void) {
  json_t *out =
      json_pack("{s:o, s:o, s:o, s:o, s:o}", "filters", table_json(tri_chat_filters()), "tests",
                table_json(tri_chat_tests()), "globals", table_json(tri_chat_globals()), "str",
                table_json(tri_chat_methods(TRI_CHAT_STRING)), "dict", table_json(tri_chat_methods(TRI_CHAT_DICT)));
  json_dumpf(out, stdout, JSON_COMPACT);
  json_decref(out);
  return 0;
}

int main(int count, char **words) {
  char *text = NULL, *line = NULL;
  size_t bytes = 0, room = 0;
  tri_chat_template *template = NULL;
  tri_chat_renderer *renderer = NULL;
  tri_chat_rendered rendered = {0};
  if (count != 2) return 2;
  if (strcmp(words[1], "--each") == 0) return render_each();
  if (strcmp(words[1], "--functions") == 0) return list_functions();
  if (tri_file_read(words[1], 1 << 24, &text, &bytes) != TRI_OK ||
      tri_chat_template_compile("template", text, bytes, &template) != TRI_OK ||
      tri_chat_renderer_create(template, &tri_chat_usual_limits, time(NULL), &renderer) != TRI_OK) {
    fprintf(stderr, "%s\n", tri_status_message());
    return 1;
  }
  while (getline(&line, &room, stdin) > 0) print_result(render_line(renderer, line, &rendered), &rendered);
  free(line);
  tri_chat_rendered_release(&rendered);
  tri_chat_renderer_destroy(renderer);
  tri_chat_template_destroy(template);
  tri_free(text);
  return 0;
}
