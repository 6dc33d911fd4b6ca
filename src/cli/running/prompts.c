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

static tri_status copy_text(const char *text, size_t bytes, char **out) {
  TRI_TRY(tri_alloc("a prompt", bytes + 1, 1, out));
  if (bytes > 0) memcpy(*out, text, bytes);
  return TRI_OK;
}

/* Appends a copy of a text. `message`: the last message of the conversation that the text was rendered from, which is
 * copied as well; NULL: the text was not rendered. */
static tri_status append(tri_prompts *prompts, const char *text, size_t bytes, const char *message) {
  char *copy = NULL, *shown = NULL;
  if (prompts->count == prompts->room) {
    const int64_t room = 2 * prompts->room + 16;
    TRI_TRY(tri_realloc("prompts", (size_t)room, sizeof *prompts->list, &prompts->list));
    TRI_TRY(tri_realloc("prompts", (size_t)room, sizeof *prompts->messages, &prompts->messages));
    prompts->room = room;
  }
  if (message != NULL) TRI_TRY(copy_text(message, strlen(message), &shown));
  const tri_status status = copy_text(text, bytes, &copy);
  if (status != TRI_OK) {
    tri_free(shown);
    return status;
  }
  prompts->messages[prompts->count] = shown;
  prompts->list[prompts->count++] = (tri_prompt){.text = copy, .bytes = bytes, .rendered = message != NULL};
  return TRI_OK;
}

/* Adds the prompt for an answer to `messages`. `root`: JSON object that contains the messages and may have further keys
 * for the template; NULL: there is no such object. */
static tri_status add_conversation(tri_prompts *prompts, const json_t *messages, const json_t *root) {
  const json_t *last = json_array_get(messages, json_array_size(messages) - 1);
  const char *content = json_string_value(json_object_get(last, "content")), *text = NULL;
  size_t bytes = 0;
  if (prompts->rendering.session == NULL)
    TRI_TRY(tri_chat_choice_open(prompts->template, prompts->generation, &prompts->rendering));
  TRI_TRY(tri_chat_prompts_render(&prompts->rendering, messages, root, prompts->system, &text, &bytes));
  return append(prompts, text, bytes, content == NULL ? "" : content);
}

tri_status tri_prompts_add(tri_prompts *prompts, const char *text, size_t bytes) {
  if (!prompts->chat) return append(prompts, text, bytes, NULL);
  json_t *content = json_stringn(text, bytes);
  if (content == NULL) return tri_fail(TRI_BAD_FILE, "--chat: the message is not UTF-8");
  json_t *messages = json_pack("[{s:s, s:o}]", "role", "user", "content", content);
  const tri_status status = messages == NULL ? tri_fail(TRI_OUT_OF_MEMORY, "out of memory: a conversation")
                                             : add_conversation(prompts, messages, NULL);
  json_decref(messages);
  return status;
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

/* Returns whether a key of a line is read. `chat`: whether the line is a conversation. */
static bool is_read(const char *key, bool chat) {
  if (strcmp(key, "prompt") == 0 || strcmp(key, "messages") == 0) return true;
  return chat && (strcmp(key, "tools") == 0 || strcmp(key, "chat_template_kwargs") == 0);
}

/* Returns the first key of the object that is not read; NULL if there is none. */
static const char *other_key(json_t *root) {
  const bool chat = json_is_array(json_object_get(root, "prompt")) || json_is_array(json_object_get(root, "messages"));
  const char *key = NULL;
  json_t *value = NULL;
  json_object_foreach(root, key, value) {
    if (!is_read(key, chat)) return key;
  }
  return NULL;
}

/* Warns of a key that is ignored, unless *said is set, so that there is one warning for each file. */
static void warn_of_other_key(const char *path, int64_t number, json_t *root, bool *said) {
  const char *key = other_key(root);
  if (*said || key == NULL) return;
  *said = true;
  tri_warn("%s line %ld: only `prompt` or `messages` of each line is read; `%.40s` is not part of the text", path,
           (long)number, key);
}

/* Warns if line[bytes], the first line of a file whose name does not end in .jsonl, is a JSON object, because braces
 * and keys become part of each prompt. */
static void warn_of_json(const char *path, const char *line, size_t bytes) {
  json_t *root = json_loadb(line, bytes, 0, NULL);
  if (json_is_object(root)) {
    tri_warn(
        "%s is read as plain text, a prompt a line, though its first line is JSON; name it .jsonl to read `prompt` of "
        "each line",
        path == NULL ? "standard input" : path);
  }
  json_decref(root);
}

/* Adds the prompt of a parsed line. */
static tri_status add_record(tri_prompts *prompts, const json_t *root) {
  const json_t *prompt = json_is_object(root) ? json_object_get(root, "prompt") : root;
  const json_t *messages = json_is_array(prompt) ? prompt : json_object_get(root, "messages");
  if (json_is_string(prompt)) return tri_prompts_add(prompts, json_string_value(prompt), json_string_length(prompt));
  if (json_is_array(messages) && json_is_object(root)) return add_conversation(prompts, messages, root);
  return tri_fail(TRI_BAD_FILE,
                  "no prompt: write {\"prompt\": \"...\"}, a string, or {\"messages\": [{\"role\": \"user\", "
                  "\"content\": \"...\"}]}");
}

static tri_status add_json(tri_prompts *prompts, const char *path, int64_t number, const char *line, size_t bytes,
                           bool *said) {
  json_t *root = NULL;
  TRI_TRY(tri_json_parse_line(path, number, line, bytes, JSON_DECODE_ANY | JSON_ALLOW_NUL, &root));
  tri_json_drop_nulls(root);
  tri_status status = add_record(prompts, root);
  if (status == TRI_BAD_FILE) status = tri_fail(status, "%s line %ld: %s", path, (long)number, tri_status_message());
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
  for (int64_t i = 0; i < prompts->count; i++) {
    tri_free((void *)prompts->list[i].text);
    tri_free(prompts->messages[i]);
  }
  tri_free(prompts->list);
  tri_free(prompts->messages);
  tri_chat_prompts_close(&prompts->rendering);
  *prompts = (tri_prompts){0};
}
