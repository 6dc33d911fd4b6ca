/* Reads any bytes as a line of a file of conversations, then as a line of a file of preferences. The line is refused
 * with a message that names the file and the line. Otherwise the answers lie, in order, in the rendered conversation;
 * the texts of a preference begin with its prompt. */
#include "chat/preference_session.h"
#include "chat/session.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char plain[] =
    "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}{% for c in m.tool_calls %}{{ c | tojson }}{% endfor %}"
    "<end>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";
static const char marked[] =
    "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}{% generation %}{{ m.content }}<end>"
    "{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}";

static void read_preference(const tri_chat_format *format, const char *text, size_t size) {
  tri_preference_session *session = NULL;
  tri_preference_texts p = {.num_answers = 0};
  if (tri_preference_session_create(format, &session) != TRI_OK) abort();
  if (tri_preference_session_read(session, "fuzz.jsonl", 7, text, size, &p) == TRI_OK) {
    for (int k = 0; k < p.num_answers; k++) {
      if (p.whole[k].bytes <= p.prompt.bytes) abort();
      if (p.prompt.bytes > 0 && memcmp(p.whole[k].text, p.prompt.text, p.prompt.bytes) != 0) abort();
    }
    if (p.num_answers < 1 || p.num_answers > TRI_PREFERENCE_ANSWERS) abort();
  } else if (strstr(tri_status_message(), "fuzz.jsonl line 7") == NULL) {
    abort();
  }
  tri_preference_session_destroy(session);
}

static void read_line(const char *text, size_t size, const char *source) {
  tri_chat_format format = {.end = tri_chat_string("<e>", 3)};
  tri_chat_session *session = NULL;
  tri_chat_answered c = {0};
  if (source != NULL && tri_chat_template_compile("t.jinja", source, strlen(source), &format.template) != TRI_OK)
    abort();
  if (tri_chat_session_create(&format, &session) != TRI_OK) abort();
  if (tri_chat_session_read(session, "fuzz.jsonl", 7, &(tri_chat_reading){0}, text, size, &c) == TRI_OK) {
    size_t before = 0;
    for (int64_t i = 0; i < c.num_answers; i++) {
      if (c.answers[i].begin < before || c.answers[i].end < c.answers[i].begin || c.answers[i].end > c.bytes) abort();
      before = c.answers[i].end;
    }
    if (c.num_answers == 0) abort();
  } else if (strstr(tri_status_message(), "fuzz.jsonl line 7") == NULL) {
    abort();
  }
  tri_chat_session_destroy(session);
  read_preference(&format, text, size);
  tri_chat_template_destroy(format.template);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *text = malloc(size > 0 ? size : 1);
  if (text == NULL) return 0;
  memcpy(text, data, size);
  read_line(text, size, plain);
  read_line(text, size, marked);
  read_line(text, size, NULL);
  free(text);
  return 0;
}
