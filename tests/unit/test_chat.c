/* Chat templates and conversations: refusals and their messages, limits, and positions of answers.
 * tests/oracle/test_chat.py compares rendered templates with Jinja's results. */
#include "chat/session.h"

#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- templates --------------------------------------------------------------------------------------------------- */

static tri_status compile(const char *text, tri_chat_template **out) {
  return tri_chat_template_compile("t.jinja", text, strlen(text), out);
}

static void expect_refused(const char *text, tri_status wanted, const char *message) {
  tri_chat_template *template = NULL;
  tri_status status = compile(text, &template);
  if (status == TRI_OK) fail_msg("%s was compiled", text);
  if (strstr(tri_status_message(), message) == NULL) fail_msg("%s: \"%s\"", text, tri_status_message());
  assert_int_equal(status, wanted);
}

static void test_refused_by_name(void **state) {
  (void)state;
  expect_refused("a\n {% include 'b' %}", TRI_UNSUPPORTED,
                 "t.jinja line 2 column 5: the statement `include` is not supported");
  expect_refused("{{ a | wordwrap }}", TRI_UNSUPPORTED, "line 1 column 8: the filter `wordwrap` is not supported");
  expect_refused("{{ a is sameas b }}", TRI_UNSUPPORTED, "line 1 column 9: the test `sameas` is not supported");
  expect_refused("{{ a.append(1) }}", TRI_UNSUPPORTED, "the method `append()` is not supported");
  expect_refused("{{ a.__class__ }}", TRI_UNSUPPORTED, "line 1 column 6: the attribute `__class__`");
  expect_refused("{% for a in b recursive %}{% endfor %}", TRI_UNSUPPORTED, "`recursive` loops");
  expect_refused("{{ f(*a) }}", TRI_UNSUPPORTED, "(* and **) are not supported");
  expect_refused("{% macro m() %}{% generation %}{% endgeneration %}{% endmacro %}", TRI_UNSUPPORTED,
                 "a generation block inside of a macro");
}

static void test_bad_templates(void **state) {
  (void)state;
  expect_refused("{% if a %}b", TRI_BAD_FILE, "line 1 column 12: the template ends here, but `endif` is missing");
  expect_refused("{% if a %}{% endfor %}", TRI_BAD_FILE, "`endfor` cannot begin a statement here");
  expect_refused("{{ a", TRI_BAD_FILE, "the tag is not closed; `}}` is missing");
  expect_refused("{{ 'a }}", TRI_BAD_FILE, "line 1 column 4: the string is not closed; its ' is missing");
  expect_refused("{{ a b }}", TRI_BAD_FILE, "line 1 column 6: `}}` is missing before `b`");
  expect_refused("{{ a ? b }}", TRI_BAD_FILE, "line 1 column 6: the character U+003F is not allowed in a tag");
  expect_refused("{# a", TRI_BAD_FILE, "the comment is not closed");
  expect_refused("{% break %}", TRI_BAD_FILE, "`break` is outside of any loop");
}

static void test_nesting_is_bounded(void **state) {
  (void)state;
  char text[4096];
  memset(text, '(', sizeof text - 1);
  memcpy(text, "{{ ", 3);
  text[sizeof text - 1] = 0;
  expect_refused(text, TRI_BAD_FILE, "nested more than 400 deep");
}

static tri_status render(const char *text, const tri_chat_limits *limits, tri_chat_rendered *out) {
  tri_chat_template *template = NULL;
  tri_chat_renderer *renderer = NULL;
  CHECK_OK(compile(text, &template));
  CHECK_OK(tri_chat_renderer_create(template, limits, 0, &renderer));
  tri_status status = tri_chat_render(renderer, NULL, 0, 0, out);
  tri_chat_renderer_destroy(renderer);
  tri_chat_template_destroy(template);
  return status;
}

static void expect_failure(const char *text, const char *message) {
  const tri_chat_limits limits = {.steps = 1000000, .value_bytes = 1 << 20, .output_bytes = 1 << 20};
  tri_chat_rendered rendered = {0};
  if (render(text, &limits, &rendered) == TRI_OK) fail_msg("%s was rendered", text);
  if (strstr(tri_status_message(), message) == NULL) fail_msg("%s: \"%s\"", text, tri_status_message());
  tri_chat_rendered_release(&rendered);
}

static void test_rendering_is_bounded(void **state) {
  (void)state;
  expect_failure(
      "{% for a in range(1000) %}{% for b in range(1000) %}{% for c in range(9) %}{% endfor %}{% endfor %}"
      "{% endfor %}",
      "more than 1 MiB of values");
  expect_failure("{% for a in 'x' * 3000 %}{% for b in 'y' * 900 %}{{ loop.index is none }}{% endfor %}{% endfor %}",
                 "more than 1");
  expect_failure("{{ 'abc' * 100000000 }}", "more than 1 MiB");
  expect_failure("{% set n = namespace(t='x') %}{% for a in range(90) %}{% set n.t = n.t + n.t %}{% endfor %}",
                 "a text of more than 1 MiB");
  expect_failure("{% macro m(a) %}{{ m(a) }}{% endmacro %}{{ m(1) }}", "the template calls itself more than 1000 deep");
}

/* Compares two values that contain the one below them twice, 40 levels deep, and long texts: each takes far more than a
 * million steps, though it creates few values. */
static void test_comparing_is_bounded(void **state) {
  (void)state;
  static const char shared[] =
      "{% set ns = namespace(a=[1], b=[1]) %}{% for i in range(40) %}{% set ns.a = [ns.a, ns.a] %}"
      "{% set ns.b = [ns.b, ns.b] %}{% endfor %}";
  static const char texts[] =
      "{% set s = 'a' * 100000 %}{% set t = 'a' * 100000 %}{% set d = {s: 1} %}{% for i in range(400) %}";
  static const char *const of_shared[] = {"{{ ns.a == ns.b }}", "{{ ns.a != ns.b }}", "{{ ns.a in [ns.b] }}",
                                          "{{ ns.a < ns.b }}", "{{ [ns.b]|select('equalto', ns.a)|list|length }}"};
  static const char *const of_texts[] = {
      "{% if s == t %}{% endif %}",    "{% if s < t %}{% endif %}",           "{% if d[t] %}{% endif %}",
      "{% if t in d %}{% endif %}",    "{% if s.startswith(t) %}{% endif %}", "{% if d.get(t) %}{% endif %}",
      "{% if s is eq(t) %}{% endif %}"};
  char text[1024];
  for (size_t i = 0; i < sizeof of_shared / sizeof of_shared[0]; i++) {
    snprintf(text, sizeof text, "%s%s", shared, of_shared[i]);
    expect_failure(text, "the chat template takes more than 1000000 steps");
  }
  for (size_t i = 0; i < sizeof of_texts / sizeof of_texts[0]; i++) {
    snprintf(text, sizeof text, "%s%s{%% endfor %%}", texts, of_texts[i]);
    expect_failure(text, "the chat template takes more than 1000000 steps");
  }
}

static void test_mistakes_name_their_place(void **state) {
  (void)state;
  expect_failure("\n\n {{ a.b }}", "t.jinja line 3 column 7: `a` is undefined");
  expect_failure("{{ 'a' + 1 }}", "t.jinja line 1 column 8: `+` of a str and a int is not defined");
  expect_failure("{{ 1 // 0 }}", "division by zero");
  expect_failure("{{ 9223372036854775807 + 1 }}", "numbers beyond 64 bits are not supported");
  expect_failure("{{ raise_exception('roles!') }}",
                 "t.jinja line 1 column 19: the template refuses the conversation: roles!");
  expect_failure("{{ g(1) }}", "unknown function `g`");
}

/* ---- conversations ----------------------------------------------------------------------------------------------- */

static const char plain[] =
    "{% for m in messages %}{% if m.role == 'user' and loop.index0 % 2 == 1 %}{{ raise_exception('turns!') }}{% endif "
    "%}"
    "<{{ m.role }}>{{ m.content }}<end>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";

typedef struct reader {
  tri_chat_format format;
  tri_chat_session *session;
  tri_chat_answered answered;
} reader;

static tri_status read_line(reader *r, const char *source, const char *line) {
  *r = (reader){.format = {.end = tri_chat_string("<eos>", 5)}};
  if (source != NULL) CHECK_OK(compile(source, &r->format.template));
  CHECK_OK(tri_chat_session_create(&r->format, &r->session));
  return tri_chat_session_read(r->session, "c.jsonl", 5, &(tri_chat_reading){0}, line, strlen(line), &r->answered);
}

static void release(reader *r) {
  tri_chat_session_destroy(r->session);
  tri_chat_template_destroy(r->format.template);
}

/* Renders the text with [ ] around answers. */
static void expect_answers(const char *source, const char *line, const char *wanted) {
  reader r;
  char text[1024];
  size_t at = 0, held = 0;
  if (read_line(&r, source, line) != TRI_OK) fail_msg("%s: \"%s\"", line, tri_status_message());
  for (int64_t i = 0; i <= r.answered.num_answers; i++) {
    bool last = i == r.answered.num_answers;
    size_t begin = last ? r.answered.bytes : r.answered.answers[i].begin,
           end = last ? begin : r.answered.answers[i].end;
    held += (size_t)snprintf(text + held, sizeof text - held, "%.*s", (int)(begin - at), r.answered.text + at);
    if (!last)
      held += (size_t)snprintf(text + held, sizeof text - held, "[%.*s]", (int)(end - begin), r.answered.text + begin);
    at = end;
  }
  assert_string_equal(text, wanted);
  release(&r);
}

static void expect_bad(const char *source, const char *line, const char *message) {
  reader r;
  if (read_line(&r, source, line) == TRI_OK) fail_msg("%s was read", line);
  if (strstr(tri_status_message(), message) == NULL) fail_msg("%s: \"%s\"", line, tri_status_message());
  if (strstr(tri_status_message(), "c.jsonl line 5") == NULL) fail_msg("no line: \"%s\"", tri_status_message());
  release(&r);
}

#define USER(text) "{\"role\": \"user\", \"content\": \"" text "\"}"
#define ASSISTANT(text) "{\"role\": \"assistant\", \"content\": \"" text "\"}"
#define MESSAGES(list) "{\"messages\": [" list "]}"

static void test_forms(void **state) {
  (void)state;
  expect_answers(plain, MESSAGES(USER("a") ", " ASSISTANT("b") ", " USER("c") ", " ASSISTANT("d")),
                 "<user>a<end><assistant>[b<end>]<user>c<end><assistant>[d<end>]");
  expect_answers(plain, "{\"prompt\": \"a\", \"completion\": \"b\"}", "<user>a<end><assistant>[b<end>]");
  expect_answers(
      plain, "{\"prompt\": [" USER("a") ", " ASSISTANT("b") ", " USER("c") "], \"completion\": [" ASSISTANT("d") "]}",
      "<user>a<end><assistant>b<end><user>c<end><assistant>[d<end>]");
  expect_answers(
      plain, "{\"conversations\": [{\"from\": \"human\", \"value\": \"a\"}, {\"from\": \"gpt\", \"value\": \"b\"}]}",
      "<user>a<end><assistant>[b<end>]");
  expect_answers(plain, "{\"instruction\": \"a\", \"input\": \"\", \"output\": \"b\"}",
                 "<user>a<end><assistant>[b<end>]");
  expect_answers(plain, "{\"instruction\": \"a\", \"input\": \"c\", \"output\": \"b\", \"history\": []}",
                 "<user>a\n\nc<end><assistant>[b<end>]");
  expect_answers(plain, "{\"instruction\": \"\", \"input\": \"c\", \"output\": \"b\"}",
                 "<user>c<end><assistant>[b<end>]");
  expect_answers(plain, "{\"question\": \"a\", \"answer\": \"b\"}", "<user>a<end><assistant>[b<end>]");
  expect_answers(plain, "{\"text\": \"a b\"}", "[a b<eos>]");
  expect_answers(NULL, "{\"text\": \"a<eos>\"}", "[a<eos>]");
  expect_answers(NULL, "{\"instruction\": \"a\", \"input\": \"c\", \"output\": \"b\"}", "a\n\nc[b<eos>]");
  expect_answers(NULL, "{\"prompt\": \"a\", \"completion\": \"b\"}", "a[b<eos>]");
  expect_answers(NULL, "{\"prompt\": \"a\", \"completion\": \"b<eos>\"}", "a[b<eos>]");
}

#define NULLS(role, text)                                                                                              \
  "{\"role\": \"" role "\", \"content\": " text ", \"tool_calls\": null, \"name\": null, \"weight\": null}"

/* As in transformers, a member of a message that is null is absent, and null at deeper levels is kept. */
static void test_null_is_absent(void **state) {
  (void)state;
  static const char source[] =
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ m.name is defined }}"
      "{% if m.tool_calls is defined %}{{ m.tool_calls | length }}{{ m.tool_calls[0].x }}{% endif %}<end>{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}";
  expect_answers(source, MESSAGES(NULLS("user", "\"a\"") ", " NULLS("assistant", "\"b\"")),
                 "<user>aFalse<end><assistant>[bFalse<end>]");
  expect_answers(source,
                 MESSAGES(USER("a") ", {\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"x\": null}]}"),
                 "<user>aFalse<end><assistant>[False1None<end>]");
  expect_answers(source,
                 "{\"conversations\": [{\"from\": \"human\", \"value\": \"a\", \"role\": null}, {\"role\": "
                 "\"assistant\", \"content\": \"b\", \"from\": null, \"value\": null}], \"messages\": null, \"tools\": "
                 "null, \"functions\": null, \"system\": null, \"chat_template_kwargs\": null}",
                 "<user>aFalse<end><assistant>[bFalse<end>]");
  expect_bad(source, MESSAGES(USER("a") ", " NULLS("assistant", "null")), "message 2: `content` is missing");
}

/* LLaMA-Factory's form. */
static void test_function_calls(void **state) {
  (void)state;
  static const char source[] =
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for t in m.tool_calls or [] %}{{ t.function.name }}({{ "
      "t.function.arguments.x }}){% endfor %}<end>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";
  expect_answers(
      source,
      "{\"conversations\": [{\"from\": \"human\", \"value\": \"a\"}, {\"from\": \"function_call\", \"value\": "
      "\"{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": {\\\"x\\\": 1}}\"}, {\"from\": \"observation\", "
      "\"value\": \"2\"}, {\"from\": \"gpt\", \"value\": \"b\"}]}",
      "<user>a<end><assistant>[f(1)<end>]<tool>2<end><assistant>[b<end>]");
}

static void test_weights(void **state) {
  (void)state;
  expect_answers(plain,
                 MESSAGES(USER("a") ", {\"role\": \"assistant\", \"content\": \"b\", \"weight\": 0}, " USER(
                     "c") ", " ASSISTANT("d")),
                 "<user>a<end><assistant>b<end><user>c<end><assistant>[d<end>]");
  expect_answers(
      "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}"
      "{% else %}{{ m.content }}{% endif %}{% endfor %}",
      MESSAGES(USER("a") ", {\"role\": \"assistant\", \"content\": \"b\", \"train\": false}, " USER("c") ", " ASSISTANT(
          "d")),
      "abc[d]");
  expect_bad(plain, MESSAGES("{\"role\": \"user\", \"content\": \"a\", \"weight\": 1}, " ASSISTANT("b")),
             "`messages`, message 1: only answers of the assistant can be learnt");
  expect_bad(plain, MESSAGES(USER("a") ", {\"role\": \"assistant\", \"content\": \"b\", \"weight\": 0.5}"),
             "message 2: `weight` is 0.5; it takes true, false, 0 or 1");
}

/* The names of such a flag in other programs: ms-swift, xtuner, axolotl, verl. */
static void test_flags_of_other_programs(void **state) {
  (void)state;
  static const char *const names[] = {"train", "weight", "loss", "training", "trainable", "loss_mask"};
  static const char *const values[] = {"false", "0", "0.0", "true", "1"};
  char line[512], message[128];
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    for (size_t k = 0; k < sizeof values / sizeof values[0]; k++) {
      snprintf(line, sizeof line,
               MESSAGES(USER("a") ", {\"role\": \"assistant\", \"content\": \"b\", \"%s\": %s}, " USER(
                   "c") ", " ASSISTANT("d")),
               names[i], values[k]);
      expect_answers(plain, line,
                     k < 3 ? "<user>a<end><assistant>b<end><user>c<end><assistant>[d<end>]"
                           : "<user>a<end><assistant>[b<end>]<user>c<end><assistant>[d<end>]");
    }
    snprintf(line, sizeof line, MESSAGES(USER("a") ", {\"role\": \"assistant\", \"content\": \"b\", \"%s\": \"no\"}"),
             names[i]);
    snprintf(message, sizeof message, "`messages`, message 2: `%s` is \"no\"; it takes true, false, 0 or 1", names[i]);
    expect_bad(plain, line, message);
  }
  expect_bad(plain, MESSAGES(USER("a") ", {\"role\": \"assistant\", \"content\": \"b\", \"loss_mask\": [0, 1]}"),
             "`loss_mask` is [0,1]; it takes");
  expect_bad(plain,
             MESSAGES(USER("a") ", {\"role\": \"assistant\", \"content\": \"b\", \"train\": true, \"loss\": false}"),
             "message 2: `train` and `loss` contradict each other");
  expect_bad(plain, MESSAGES("{\"role\": \"user\", \"content\": \"a\", \"training\": true}, " ASSISTANT("b")),
             "message 1: only answers of the assistant can be learnt, but `training` of this message is true");
}

/* Templates that render earlier turns differently from the current one. */
static void test_answers_without_a_common_beginning(void **state) {
  (void)state;
  expect_answers(
      "{% for m in messages %}{% if loop.last %}!{% endif %}<{{ m.role }}>{{ m.content + '<end>' }}{% endfor %}"
      "{% if add_generation_prompt %}?{% else %}<all>{% endif %}",
      MESSAGES(USER("a") ", " ASSISTANT("b") ", " USER("c") ", " ASSISTANT("d")),
      "<user>a<end><assistant>[b<end>]<user>c<end>!<assistant>[d<end><all>]");
  expect_bad(
      "{% for m in messages %}{{ m.content }}{% if not loop.last %}|{% endif %}{% endfor %}"
      "{% if not add_generation_prompt %}.{% endif %}",
      MESSAGES(USER("a") ", " ASSISTANT("b") ", " USER("c") ", " ASSISTANT("d")),
      "cannot find the end of the answer of message 2: the template t.jinja prints it differently");
  expect_bad("{% for m in messages %}{{ m.role }}{% endfor %}{{ messages | length }}",
             MESSAGES(USER("a") ", " ASSISTANT("b")), "cannot find the beginning of the answer of message 2");
}

static void test_long_conversations(void **state) {
  (void)state;
  enum { TURNS = 6000 };
  char *line = malloc(TURNS * 200), *at = line;
  reader r;
  at += sprintf(at, "{\"messages\": [");
  for (int i = 0; i < TURNS; i++) {
    at += sprintf(at, "%s" USER("question %d") ", " ASSISTANT("the answer to it is %d"), i == 0 ? "" : ", ", i, i);
  }
  sprintf(at, "]}");
  if (read_line(&r, plain, line) != TRI_OK) fail_msg("%s", tri_status_message());
  assert_int_equal(r.answered.num_answers, TURNS);
  for (int i = 0; i < TURNS; i++) {
    char wanted[64];
    tri_chat_span span = r.answered.answers[i];
    int length = snprintf(wanted, sizeof wanted, "the answer to it is %d<end>", i);
    assert_int_equal(span.end - span.begin, length);
    assert_memory_equal(r.answered.text + span.begin, wanted, (size_t)length);
  }
  release(&r);
  free(line);
}

static void test_bad_conversations(void **state) {
  (void)state;
  expect_bad(plain, MESSAGES(USER("a")),
             "the conversation has no answer: none of its 1 messages is of the role assistant");
  expect_bad(plain, MESSAGES("{\"role\": \"human\", \"content\": \"a\"}, {\"role\": \"gpt\", \"content\": \"b\"}"),
             "only answers are learnt; `human` is ShareGPT's name for `user`: write the roles as user and assistant");
  expect_bad(plain,
             "{\"conversations\": [{\"from\": \"human\", \"value\": \"a\"}, {\"from\": \"function_call\", \"value\": "
             "\"f(1)\"}]}",
             "message 2: `from` is function_call, so `value` must be JSON such as {\"name\": \"f\"");
  expect_bad(plain, MESSAGES(""), "the conversation has no messages");
  expect_bad(plain, MESSAGES(USER("a") ", " USER("b") ", " ASSISTANT("c")),
             "the template refuses the conversation: turns!");
  expect_bad(plain, "{\"body\": \"a\", \"id\": 1}",
             "the record has `body`, `id`, which is not a known form: `messages`, `prompt` and `completion`,");
  expect_bad(plain, "{\"instruction\": \"a\", \"input\": \"b\"}",
             "the record has `instruction` but not `output`, but the form alpaca needs both; it has `instruction`");
  expect_bad(plain, "{\"answer\": \"a\"}",
             "the record has `answer` but not `question`, but the form question-answer needs both");
  expect_bad(plain, "{\"instruction\": \"a\", \"output\": \"b\", \"text\": \"c\"}",
             "the record fits two forms, alpaca and text; choose with --form alpaca or --form text");
  expect_bad(plain, "{\"instruction\": \"a\", \"output\": \" \\n\"}",
             "`output` is blank, so the record has no answer to learn");
  expect_bad(plain, "{\"instruction\": \"\", \"output\": \"b\"}", "`instruction` is empty");
  expect_bad(plain, "{\"instruction\": \"a\", \"input\": 3, \"output\": \"b\"}",
             "`input` is a number; it must be a string");
  expect_bad(plain, "{\"instruction\": \"a\", \"output\": \"b\", \"history\": [[\"c\", \"d\"]]}",
             "`history` holds earlier turns, which the form alpaca does not read");
  expect_bad(plain, "{\"prompt\": \"a\", \"chosen\": \"b\", \"rejected\": \"c\"}",
             "`chosen` and `rejected` are preferences; give --preferences instead of --chat");
  expect_bad(plain, "{\"messages\": \"a\"}", "`messages` is a string; it must be a list of messages");
  expect_bad(plain, MESSAGES("1"), "`messages`, message 1 is a number, not an object");
  expect_bad(plain, MESSAGES("{\"content\": \"a\"}"), "message 1: `role` is missing");
  expect_bad(plain, MESSAGES(USER("a") ", {\"role\": \"assistant\"}"), "message 2: `content` is missing");
  expect_bad(plain, "{\"conversations\": [{\"from\": \"narrator\", \"value\": \"a\"}]}",
             "`from` is \"narrator\"; known are human");
  expect_bad(plain, "{\"prompt\": \"a\"}",
             "the record has `prompt` but not `completion`, but the form prompt-completion needs both");
  expect_bad(plain, "{\"prompt\": \"a\", \"completion\": 3}", "`prompt` is a string and `completion` is a number");
  expect_bad(plain, "[1]", "the record is an array, not an object");
  expect_bad(plain, "{", "is not valid JSON");
  expect_bad(NULL, MESSAGES(USER("a") ", " ASSISTANT("b")), "messages need a chat template");
}

/* ---- texts of the conversation ----------------------------------------------------------------------------------- */

/* Renders a prompt with { } around the bytes that come from the conversation. */
static void expect_given(const char *source, const char *line, bool continues, const char *wanted) {
  const tri_chat_prompting how = {.continues = continues};
  reader r = {.format = {.end = tri_chat_string("<eos>", 5)}};
  tri_chat_prompt prompt;
  json_t *root = json_loads(line, 0, NULL);
  char text[1024] = "";
  size_t at = 0, held = 0;
  CHECK_OK(compile(source, &r.format.template));
  CHECK_OK(tri_chat_session_create(&r.format, &r.session));
  if (tri_chat_session_prompt_as(r.session, root, &how, &prompt) != TRI_OK)
    fail_msg("%s: \"%s\"", source, tri_status_message());
  for (int64_t i = 0; i <= prompt.num_given; i++) {
    const tri_chat_span span =
        i < prompt.num_given ? prompt.given[i] : (tri_chat_span){.begin = prompt.bytes, .end = prompt.bytes};
    assert_true(at <= span.begin && span.begin <= span.end && span.end <= prompt.bytes);
    held += (size_t)snprintf(text + held, sizeof text - held, "%.*s", (int)(span.begin - at), prompt.text + at);
    if (i < prompt.num_given)
      held += (size_t)snprintf(text + held, sizeof text - held, "{%.*s}", (int)(span.end - span.begin),
                               prompt.text + span.begin);
    at = span.end;
  }
  if (strcmp(text, wanted) != 0) fail_msg("%s: \"%s\" instead of \"%s\"", source, text, wanted);
  json_decref(root);
  release(&r);
}

static void test_given_bytes(void **state) {
  (void)state;
  static const struct {
    const char *expression, *wanted;
  } cases[] = {
      {"'<s>' + m.role + ':' + m.content | trim + '</s>'", "<s>{user}:{xay}</s>"},
      {"('<' ~ m.content ~ '>').replace('a', '!').upper()[1:]", "{X}!{Y}>"},
      {"m.content.replace('a', '') ~ m.content.replace('xay', '!')", "{xy}!"},
      {"'a-b'.replace('b', m.content).split('-') | join('+')", "a+{xay}"},
      {"'ab'.replace('', m.role)", "{user}a{user}b{user}"},
      {"m.content * 2 ~ ('-' ~ m.content) * 2", "{xayxay}-{xay}-{xay}"},
      {"(m.content ~ '\n' ~ 'z') | indent(1)", "{xay}\n z"},
      {"m.lines | indent(1, true)", " {a\n} {b}"},
      {"'-' | indent(m.role, true)", "{user}-"},
      {"(m.content ~ 'z') | reverse ~ (m.content ~ 'z')[::-1]", "z{yax}z{yax}"},
      {"(m.content ~ ' z') | title ~ (m.content ~ 'z') | last ~ (m.content ~ 'z')[0]", "{Xay} Zz{x}"},
      {"(m.content ~ 'z').removeprefix('x') ~ (m.content ~ 'z').removesuffix('z')", "{ay}z{xay}"},
      {"m.content | tojson ~ {'k': m.content} | tojson(indent=1, separators=(m.role, '='))",
       "\"{xay}\"{\n \"k\"=\"{xay}\"\n}"},
      {"[m.content, 'b', 1] | string ~ (m.content,)", "['{xay}', 'b', 1]('{xay}',)"},
      {"m.parts | map(attribute='text') | join(', ') ~ m.parts[0].items() | list", "{t}[('{text}', '{t}')]"},
      {"(m | list)[-1] ~ note ~ notes[0].k", "{partsnv}"},
      {"strftime_now(note) ~ strftime_now('-')", "{n}-"},
      {"bos ~ 'user' ~ [1.5, none, true]", "{<s>}user[1.5, None, True]"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char source[512];
    snprintf(source, sizeof source, "{%% set m = messages[0] %%}{{ %s }}", cases[i].expression);
    expect_given(
        source,
        "{\"messages\": [{\"role\": \"user\", \"content\": \"xay\", \"lines\": \"a\\nb\", \"parts\": [{\"text\": "
        "\"t\"}]}], \"chat_template_kwargs\": {\"bos\": \"<s>\", \"note\": \"n\", \"notes\": [{\"k\": \"v\"}]}}",
        false, cases[i].wanted);
  }
  const char *turns =
      "{% macro turn(m) %}<{{ m.role }}>{{ m.content }}<end>{% endmacro %}{% set all %}"
      "{% for m in messages %}{{ turn(m) }}{% endfor %}{% endset %}{{ all | trim }}";
  expect_given(turns, MESSAGES(USER("a") ", " ASSISTANT("b ")), false, "<{user}>{a}<end><{assistant}>{b }<end>");
  expect_given(turns, MESSAGES(USER("a") ", " ASSISTANT("b ")), true, "<{user}>{a}<end><{assistant}>{b}");
  expect_given("{% for m in messages %}{{ m.content }}{% endfor %}", MESSAGES(USER("a") ", " USER("b")), false, "{ab}");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_refused_by_name),
      cmocka_unit_test(test_bad_templates),
      cmocka_unit_test(test_nesting_is_bounded),
      cmocka_unit_test(test_rendering_is_bounded),
      cmocka_unit_test(test_comparing_is_bounded),
      cmocka_unit_test(test_mistakes_name_their_place),
      cmocka_unit_test(test_forms),
      cmocka_unit_test(test_null_is_absent),
      cmocka_unit_test(test_function_calls),
      cmocka_unit_test(test_weights),
      cmocka_unit_test(test_flags_of_other_programs),
      cmocka_unit_test(test_answers_without_a_common_beginning),
      cmocka_unit_test(test_long_conversations),
      cmocka_unit_test(test_bad_conversations),
      cmocka_unit_test(test_given_bytes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
