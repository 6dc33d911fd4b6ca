#include "data/prepare_inputs.h"

#include "base/log.h"
#include "base/memory.h"
#include "chat/forms.h"
#include "chat/key_map.h"
#include "chat/messages.h"
#include "chat/preference_forms.h"
#include "chat/session.h"
#include "data/text_stream.h"
#include "files/file_kind.h"
#include "files/json_kind.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool tri_prepare_learns_characters(const tri_prepare_options *options) {
  return strcmp(options->tokenizer, "char") == 0;
}

bool tri_prepare_learns(const tri_prepare_options *options) {
  return tri_prepare_learns_characters(options) || strncmp(options->tokenizer, "train:", 6) == 0;
}

/* Logs that a table is read as plain text, usually by mistake. */
static void log_table(const char *path) {
  if (!tri_table_is_named(path)) return;
  tri_log(
      "%s is taken as plain text, with its separators and quotes; for one column of it write JSON lines: "
      "{\"text\": ...}",
      path);
}

/* Logs that a page of HTML is read as plain text: it may be a server's error page. */
static void log_page(const char *path) {
  const tri_file_kind *kind = tri_file_kind_find(path);
  if (kind == NULL || kind->never_text) return;
  char advice[TRI_ADVICE_BYTES];
  tri_log("%s is taken as plain text, though it looks like %s: %s", path, kind->is,
          tri_file_kind_advice(kind, path, advice));
}

enum { LOOK_BYTES = 1 << 16 };

/* Logs that a file of JSON lines with another extension, recognised by its first line, is read as plain text, so that
 * its keys and quotes are learnt. */
static tri_status warn_of_json(const char *path, const char *key) {
  char *text = NULL;
  size_t got = 0;
  tri_text_stream *stream = NULL;
  TRI_TRY(tri_alloc("the first line of an input", LOOK_BYTES, 1, &text));
  tri_status status = tri_text_stream_open(path, &stream);
  if (status == TRI_OK) status = tri_text_stream_read(stream, text, LOOK_BYTES, &got);
  tri_text_stream_close(stream);
  const char *end = status == TRI_OK ? memchr(text, '\n', got) : NULL;
  if (status == TRI_OK && end == NULL && got < LOOK_BYTES) end = text + got;
  json_t *line = end == NULL ? NULL : json_loadb(text, (size_t)(end - text), 0, NULL);
  if (json_is_object(line)) {
    tri_log(
        "%s is read as plain text, although its first line is JSON, so keys and quotes are learnt, too; if the file is "
        "named .jsonl, the key `%s` of each line is a document",
        path, key);
  }
  json_decref(line);
  tri_free(text);
  return status;
}

typedef struct input_file {
  dev_t device;
  ino_t number;
  int place;
} input_file;

static int compare_files(const void *a, const void *b) {
  const input_file *x = a, *y = b;
  if (x->device != y->device) return x->device < y->device ? -1 : 1;
  if (x->number != y->number) return x->number < y->number ? -1 : 1;
  return (x->place > y->place) - (x->place < y->place);
}

/* Warns of a file that is given twice, possibly by two names. It would be learnt twice, and held-out documents might
 * also be learnt. */
static tri_status warn_of_duplicate(const tri_prepare_options *options) {
  const int count = options->num_inputs;
  input_file *files = NULL;
  int found = 0, twice = 0;
  TRI_TRY(tri_alloc("the inputs", (size_t)count, sizeof *files, &files));
  for (int i = 0; i < count; i++) {
    struct stat facts;
    if (stat(options->inputs[i], &facts) != 0 || !S_ISREG(facts.st_mode)) continue;
    files[found++] = (input_file){facts.st_dev, facts.st_ino, i};
  }
  qsort(files, (size_t)found, sizeof *files, compare_files);
  for (int i = 1; i < found; i++) {
    if (files[i].device != files[i - 1].device || files[i].number != files[i - 1].number || twice++ > 0) continue;
    tri_warn("%s and %s are one file: its documents are in the corpus twice, and held-out ones may be among the learnt",
             options->inputs[files[i - 1].place], options->inputs[files[i].place]);
  }
  if (twice > 1) tri_warn("%d inputs in all are files that were named before", twice);
  tri_free(files);
  return TRI_OK;
}

/* Keys that are not read, each once, for a line of the log. */
typedef struct unread_keys {
  char text[512]; /* "`a`, `b`" */
  size_t bytes;
} unread_keys;

static void add_unread(unread_keys *to, const char *key) {
  char quoted[80];
  snprintf(quoted, sizeof quoted, "`%.60s`", key);
  if (to->bytes + sizeof quoted + 2 >= sizeof to->text || strstr(to->text, quoted) != NULL) return;
  to->bytes +=
      (size_t)snprintf(to->text + to->bytes, sizeof to->text - to->bytes, "%s%s", to->bytes == 0 ? "" : ", ", quoted);
}

static bool is_message(const json_t *value) {
  return json_object_get(value, "role") != NULL || json_object_get(value, "from") != NULL;
}

/* Removes the null members of messages, and adds the keys of messages that `format` does not read to `out`. */
static void find_in_messages(json_t *list, const tri_chat_format *format, unread_keys *out) {
  size_t index = 0;
  json_t *message = NULL, *value = NULL;
  const char *key = NULL;
  tri_chat_messages_drop_nulls(list);
  json_array_foreach(list, index, message) {
    if (!is_message(message)) continue;
    json_object_foreach(message, key, value) {
      if (!tri_chat_message_reads(format, key)) add_unread(out, key);
    }
  }
}

/* Finds the form of a record, and its keys that are not read; with a `format`, the keys of its messages that are not
 * read. Returns false if the record has no form. */
static bool find_form(const tri_prepare_options *options, json_t *record, const tri_chat_format *format,
                      const char **name, unread_keys *unread) {
  const tri_chat_form *form = NULL;
  const tri_preference_form *pair = NULL;
  const tri_chat_reading how = {options->form, options->key};
  const char *key = NULL;
  json_t *value = NULL;
  if (options->preferences && tri_preference_form_of(record, &pair) != TRI_OK) return false;
  if (!options->preferences && tri_chat_form_of(record, &how, &form) != TRI_OK) return false;
  if (pair == NULL && form == NULL) return false;
  *name = pair != NULL ? pair->name : form->name;
  json_object_foreach(record, key, value) {
    const bool read =
        pair != NULL ? tri_preference_form_reads(pair, record, key) : tri_chat_form_reads(form, &how, key);
    if (format == NULL && !read) add_unread(unread, key);
    if (format != NULL && read && json_is_array(value)) find_in_messages(value, format, unread);
  }
  return true;
}

/* Returns whether a rendered text contains a list of parts as Python prints it. */
static bool has_parts(const tri_chat_answered *answered) {
  static const char *const begins[] = {"[{'type': 'text'", "[{'text': "};
  for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
    if (memmem(answered->text, answered->bytes, begins[i], strlen(begins[i])) != NULL) return true;
  }
  return false;
}

/* Warns if the template renders the first record without an end of the answer, or prints a list of parts as Python
 * does. */
static tri_status warn_of_rendered(const tri_prepare_options *options, const tri_text_block *block,
                                   const tri_chat_format *format) {
  const tri_chat_reading how = {options->form, options->key};
  const tri_text_piece *piece = &block->pieces[0];
  tri_chat_session *session = NULL;
  tri_chat_answered answered = {0};
  TRI_TRY(tri_chat_session_create(format, &session));
  const tri_status status =
      tri_chat_session_read(session, block->path, 1, &how, block->text + piece->offset, piece->bytes, &answered);
  if (status == TRI_OK && answered.no_end && format->is_preset) {
    tri_warn(
        "%s: the template %s ends answers with eos_token, which the tokenizer does not have, so the model does not "
        "learn to end an answer; name one in tokenizer_config.json, or choose chatml",
        block->path, tri_chat_template_name(format->template));
  } else if (status == TRI_OK && answered.no_end) {
    tri_warn(
        "%s: only white space is learnt after the answer of the first record, so the model does not learn to end an "
        "answer; let the template %s print {{ eos_token }} after answers%s",
        block->path, tri_chat_template_name(format->template),
        tri_chat_template_marks_answers(format->template) ? ", inside of {% generation %}" : "");
  }
  if (status == TRI_OK && !answered.is_text && has_parts(&answered)) {
    tri_warn(
        "%s: the template %s prints the list of parts in `content` of the first record as a list, brackets and all; "
        "write `content` as a string",
        block->path, tri_chat_template_name(format->template));
  }
  tri_chat_session_destroy(session);
  if (status == TRI_OUT_OF_MEMORY) return status;
  return TRI_OK; /* a bad record is refused later, when it is read */
}

/* Logs how the first record is read, and its keys that are not read; with a `format`, only the keys of its messages
 * that are not read. */
static void log_form(const tri_prepare_options *options, const tri_text_block *block, const tri_chat_format *format) {
  unread_keys unread = {"", 0};
  const char *name = NULL;
  const tri_text_piece *piece = &block->pieces[0];
  json_t *record = json_loadb(block->text + piece->offset, piece->bytes, JSON_ALLOW_NUL, NULL);
  tri_json_drop_nulls(record);
  const bool renamed = tri_key_map_apply(options->key_map, record) == TRI_OK;
  const bool found = renamed && json_is_object(record) && find_form(options, record, format, &name, &unread);
  if (found && format == NULL) {
    tri_log("%s: records of the form %s%s%s", block->path, name, unread.bytes == 0 ? "" : "; not read: ", unread.text);
  }
  if (found && format != NULL && unread.bytes > 0) tri_log("%s: in messages, not read: %s", block->path, unread.text);
  json_decref(record);
}

/* Reads the first record of an input, and logs its unread keys (log_form). With a `format`, also warns of the rendered
 * text. */
static tri_status warn_of_unread_keys(const tri_prepare_options *options, const char *path,
                                      const tri_chat_format *format) {
  tri_text_input *input = NULL;
  tri_text_block block = {0};
  TRI_TRY(tri_text_input_create(&path, 1, options->documents, &input));
  tri_text_input_leave_bad(input);
  tri_status status = tri_text_input_next(input, &block);
  if (status == TRI_OK && block.num_pieces > 0) log_form(options, &block, format);
  if (status == TRI_OK && block.num_pieces > 0 && format != NULL && options->chat)
    status = warn_of_rendered(options, &block, format);
  tri_text_block_destroy(&block);
  tri_text_input_destroy(input);
  return status;
}

static bool is_plain_file(const char *path) {
  struct stat facts;
  return stat(path, &facts) == 0 && S_ISREG(facts.st_mode);
}

tri_status tri_prepare_log_messages(const tri_prepare_options *options, const tri_chat_format *format) {
  for (int i = 0; i < options->num_inputs; i++) {
    if (is_plain_file(options->inputs[i])) TRI_TRY(warn_of_unread_keys(options, options->inputs[i], format));
  }
  return TRI_OK;
}

/* Refuses an input of conversations or preferences that is a table, a file of another kind, or not named as a file of
 * JSON. Logs how the first record of a plain file is read. */
static tri_status check_records(const tri_prepare_options *options, const char *path) {
  char advice[TRI_ADVICE_BYTES];
  const char *what = options->preferences ? "preferences" : "conversations";
  if (tri_table_is_named(path)) {
    return tri_fail(TRI_BAD_FILE, "%s is a table, and %s are JSON: %s", path, what, tri_table_advice(path, advice));
  }
  const tri_file_kind *kind = tri_file_kind_find(path);
  if (kind != NULL && kind->never_text && !tri_text_input_is_json(path)) {
    return tri_fail(TRI_BAD_FILE, "%s is %s: %s", path, kind->is, tri_file_kind_advice(kind, path, advice));
  }
  if (!tri_text_input_is_json(path)) {
    return tri_fail(TRI_BAD_USAGE,
                    "%s is not named .jsonl, .ndjson or .json: %s are JSON, one a line or an array of them", path,
                    what);
  }
  return is_plain_file(path) ? warn_of_unread_keys(options, path, NULL) : TRI_OK;
}

tri_status tri_prepare_check_inputs(const tri_prepare_options *options, int64_t *out_bytes) {
  int64_t all_bytes = 0;
  TRI_TRY(warn_of_duplicate(options));
  for (int i = 0; i < options->num_inputs; i++) {
    const char *path = options->inputs[i];
    int64_t bytes = 0;
    TRI_TRY(tri_text_stream_check(path, &bytes));
    if (options->chat || options->preferences) TRI_TRY(check_records(options, path));
    log_table(path);
    all_bytes += bytes;
    struct stat facts;
    const bool there = stat(path, &facts) == 0, plain = there && S_ISREG(facts.st_mode);
    if (plain && !tri_text_input_is_json(path) && !options->binary) {
      TRI_TRY(warn_of_json(path, options->key));
      log_page(path);
    }
    if (tri_prepare_learns(options) && there && !plain) {
      return tri_fail(TRI_BAD_FILE, "the input %s is not a plain file; %s reads its inputs twice", path,
                      tri_prepare_learns_characters(options) ? "char" : "train:VOCAB");
    }
  }
  *out_bytes = all_bytes;
  return TRI_OK;
}
