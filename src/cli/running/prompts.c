#include "cli/running/prompts.h"

#include "base/log.h"
#include "base/memory.h"
#include "files/file.h"
#include "files/file_kind.h"
#include "files/json_kind.h"
#include "files/json_reader.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const size_t LARGEST_BYTES = (size_t)1 << 30;

tri_status tri_prompts_add(tri_prompts *prompts, const char *text, size_t bytes) {
  if (prompts->count == prompts->room) {
    const int64_t room = 2 * prompts->room + 16;
    TRI_TRY(tri_realloc("prompts", (size_t)room, sizeof *prompts->list, &prompts->list));
    prompts->room = room;
  }
  char *copy = NULL;
  TRI_TRY(tri_alloc("a prompt", bytes + 1, 1, &copy));
  if (bytes > 0) memcpy(copy, text, bytes);
  prompts->list[prompts->count++] = (tri_prompt){.text = copy, .bytes = bytes};
  return TRI_OK;
}

/* Reads a file; standard input if `path` is NULL. Sets *text to the contents in *memory, after a byte order mark if
 * there is one. Release *memory with tri_free. */
static tri_status read_all(const char *path, char **memory, const char **text, size_t *bytes) {
  if (path == NULL) {
    TRI_TRY(tri_file_read_open(dup(STDIN_FILENO), "standard input", LARGEST_BYTES, memory, bytes));
  } else {
    TRI_TRY(tri_file_read(path, LARGEST_BYTES, memory, bytes));
  }
  *text = *memory;
  const tri_status status = tri_text_begin(path == NULL ? "standard input" : path, "a prompt", text, bytes);
  if (status != TRI_OK) tri_free(*memory);
  return status;
}

/* Returns the number of bytes of a text without the final newline, which an editor or `echo` adds. */
static size_t without_newline(const char *text, size_t bytes) {
  if (bytes > 0 && text[bytes - 1] == '\n') bytes--;
  if (bytes > 0 && text[bytes - 1] == '\r') bytes--;
  return bytes;
}

tri_status tri_prompts_add_file(tri_prompts *prompts, const char *path) {
  char *memory = NULL;
  const char *text = NULL;
  size_t bytes = 0;
  TRI_TRY(read_all(path, &memory, &text, &bytes));
  const tri_status status = tri_prompts_add(prompts, text, without_newline(text, bytes));
  tri_free(memory);
  return status;
}

/* Returns the first key of the object other than `prompt`; NULL if there is none. */
static const char *other_key(json_t *root) {
  const char *key = NULL;
  json_t *value = NULL;
  json_object_foreach(root, key, value) {
    if (strcmp(key, "prompt") != 0) return key;
  }
  return NULL;
}

/* Warns of a key that is ignored, unless *said is set, so that there is one warning for each file. */
static void warn_of_other_key(const char *path, int64_t number, json_t *root, bool *said) {
  const char *key = other_key(root);
  if (*said || key == NULL) return;
  *said = true;
  tri_warn("%s line %ld: only `prompt` of each line is read; `%.40s` is not part of the text", path, (long)number, key);
}

/* Warns of a file of JSON lines whose name does not end in .jsonl, because braces and keys become part of each
 * prompt. */
static void warn_of_json(const char *path, const char *line, size_t bytes) {
  json_t *root = json_loadb(line, bytes, 0, NULL);
  if (json_is_object(root)) {
    tri_warn(
        "%s is read as plain text, a prompt a line, though its first line is JSON; name it .jsonl to have `prompt` "
        "of each line",
        path == NULL ? "standard input" : path);
  }
  json_decref(root);
}

static tri_status add_json(tri_prompts *prompts, const char *path, int64_t number, const char *line, size_t bytes,
                           bool *said) {
  json_t *root = NULL;
  TRI_TRY(tri_json_parse_line(path, number, line, bytes, JSON_DECODE_ANY | JSON_ALLOW_NUL, &root));
  tri_json_drop_nulls(root);
  const json_t *text = json_is_object(root) ? json_object_get(root, "prompt") : root;
  const tri_status status = json_is_string(text)
                                ? tri_prompts_add(prompts, json_string_value(text), json_string_length(text))
                                : tri_fail(TRI_BAD_FILE,
                                           "%s line %ld has no prompt: it must be {\"prompt\": \"...\"}, "
                                           "or a string",
                                           path, (long)number);
  warn_of_other_key(path, number, root, said);
  json_decref(root);
  return status;
}

static tri_status add_lines(tri_prompts *prompts, const char *path, const char *text, size_t bytes) {
  const char *ending = path == NULL ? NULL : strrchr(path, '.');
  const bool json = ending != NULL && strcmp(ending, ".jsonl") == 0;
  int64_t number = 0;
  bool said = false;
  for (size_t at = 0; at < bytes;) {
    const char *newline = memchr(text + at, '\n', bytes - at);
    const size_t length = newline == NULL ? bytes - at : (size_t)(newline - text) - at;
    const size_t kept = without_newline(text + at, length);
    number++;
    if (kept > 0 && json) TRI_TRY(add_json(prompts, path, number, text + at, kept, &said));
    if (kept > 0 && !json && number == 1) warn_of_json(path, text + at, kept);
    if (kept > 0 && !json) TRI_TRY(tri_prompts_add(prompts, text + at, kept));
    at += length + 1;
  }
  return TRI_OK;
}

tri_status tri_prompts_add_lines(tri_prompts *prompts, const char *path) {
  char *memory = NULL;
  const char *text = NULL;
  size_t bytes = 0;
  TRI_TRY(read_all(path, &memory, &text, &bytes));
  tri_status status = add_lines(prompts, path, text, bytes);
  tri_free(memory);
  if (status == TRI_OK && prompts->count == 0) {
    status = tri_fail(TRI_BAD_FILE, "%s has no prompt; each line is one", path == NULL ? "standard input" : path);
  }
  return status;
}

void tri_prompts_release(tri_prompts *prompts) {
  for (int64_t i = 0; i < prompts->count; i++) tri_free((void *)prompts->list[i].text);
  tri_free(prompts->list);
  *prompts = (tri_prompts){0};
}
