/* The fast reader of JSON lines, compared with jansson: if it finds a string, jansson must find the same one, unless
 * jansson refuses the line because of a number that it cannot represent. */
#include "data/json_line.h"

#include "base/random.h"
#include "corpus_test.h"

#include <jansson.h>
#include <stdbool.h>

static uint32_t draw(uint64_t *index) { return tri_random_u32(tri_random_stream(17, TRI_RANDOM_TEST, 0), (*index)++); }

/* Compares the readers, and returns whether the fast one found the string. */
static bool compare(const char *line, size_t bytes) {
  char *copy = malloc(bytes + 1); /* below, the exact length: AddressSanitizer finds a read past the end */
  assert_non_null(copy);
  memcpy(copy, line, bytes);
  copy = realloc(copy, bytes > 0 ? bytes : 1);
  const char *text = NULL;
  size_t text_bytes = 0;
  bool found = tri_json_line_string(copy, bytes, "text", &text, &text_bytes);
  json_error_t error = {0};
  json_t *root = json_loadb(line, bytes, JSON_ALLOW_NUL, &error), *value = json_object_get(root, "text");
  bool too_large = root == NULL && json_error_code(&error) == json_error_numeric_overflow;
  if (found && !too_large) {
    if (!json_is_string(value)) fail_msg("accepted, but jansson refuses: %.*s", (int)bytes, line);
    assert_int_equal(text_bytes, json_string_length(value));
    assert_memory_equal(text, json_string_value(value), text_bytes);
  } else if (!found) {
    assert_memory_equal(copy, line, bytes);
  }
  json_decref(root);
  free(copy);
  return found;
}

static void finds_what_jansson_finds(void **state) {
  (void)state;
  static const char *const good[] = {
      "{\"text\":\"\"}",
      " \t{ \"text\" : \"plain\" }\r\n",
      "{\"text\": \"\\\"\\\\\\/\\b\\f\\n\\r\\t\"}",
      "{\"text\": \"\\u0000\\u0041\\u00e9\\u6F22\\uD83D\\uDE00 \xC3\xA9 \xF0\x9F\x98\x80 \x7F\"}",
      "{\"a\": [1, -2.5e+3, 0, 0.1E-2, true, false, null, [], {}, {\"text\": \"no\"}], \"text\": \"yes\", \"b\": {}}",
      "{\"text\": 3, \"text\": \"last\"}",
      "{\"text\": \"first\", \"text\": \"last\"}",
      "{\"text\": \"exactly eight bytes at a time: 12345678\", \"x\": \"1234567\\\\\"}",
  };
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    bool found = compare(good[i], strlen(good[i]));
    if (i == 5) continue; /* the first `text` is not a string: left to jansson */
    if (!found) fail_msg("not found: %s", good[i]);
  }
}

static void leaves_the_rest_to_jansson(void **state) {
  (void)state;
  static const char *const bad[] = {
      "",
      " ",
      "{",
      "{}",
      "[]",
      "\"text\"",
      "{\"text\": \"a\"",
      "{\"text\": \"a\",}",
      "{\"text\": \"a\"}}",
      "{\"text\": \"a\"} x",
      "{\"text\": \"a}",
      "{\"text\": \"a\\",
      "{\"text\": \"\\x\"}",
      "{\"text\": \"\\u12\"}",
      "{\"text\": \"\\u12g4\"}",
      "{\"text\": \"\\uD83D\"}",
      "{\"text\": \"\\uD83D\\u0041\"}",
      "{\"text\": \"\\uDE00\"}",
      "{\"text\": \"\x01\"}",
      "{\"text\": \"tab\there\"}",
      "{\"text\": \"\xFF\"}",
      "{\"text\": \"\xC3\"}",
      "{\"text\": \"\xED\xA0\x80\"}",
      "{\"text\": null}",
      "{\"text\": {\"text\": \"a\"}}",
      "{\"Text\": \"a\"}",
      "{\"te\\u0078t\": \"a\"}",
      "{\"a\": 01, \"text\": \"a\"}",
      "{\"a\": 1., \"text\": \"a\"}",
      "{\"a\": .5, \"text\": \"a\"}",
      "{\"a\": +1, \"text\": \"a\"}",
      "{\"a\": 1e, \"text\": \"a\"}",
      "{\"a\": -, \"text\": \"a\"}",
      "{\"a\": tru, \"text\": \"a\"}",
      "{\"a\": nul",
      "{\"a\": [1, 2,], \"text\": \"a\"}",
      "{\"a\": [1 2], \"text\": \"a\"}",
      "{\"a\": {\"b\"}, \"text\": \"a\"}",
      "{\"a\": \"\xFF\", \"text\": \"a\"}",
      "{\"a\" 1, \"text\": \"a\"}",
      "{a: 1, \"text\": \"a\"}",
      "{\"text\": \"a\" \"b\": 1}",
  };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    if (compare(bad[i], strlen(bad[i]))) fail_msg("found a text in %s", bad[i]);
  }
  char deep[1000] = "{\"text\": \"a\", \"b\": ";
  size_t held = strlen(deep);
  memset(deep + held, '[', 200);
  memset(deep + held + 200, ']', 200);
  memcpy(deep + held + 400, "}", 2);
  assert_false(compare(deep, strlen(deep)));
}

/* Numbers that jansson cannot represent are valid JSON. */
static void accepts_numbers_of_any_size(void **state) {
  (void)state;
  char line[] = "{\"id\": 123456789012345678901234567890, \"x\": 1e999, \"text\": \"a\"}";
  const char *text = NULL;
  size_t bytes = 0;
  assert_true(tri_json_line_string(line, strlen(line), "text", &text, &bytes));
  assert_int_equal(bytes, 1);
  assert_int_equal(*text, 'a');
}

/* Valid lines with a few bytes changed, removed or repeated. */
static void agrees_on_damaged_lines(void **state) {
  (void)state;
  static const char *const seeds[] = {
      "{\"id\": 12, \"text\": \"line\\none \\u00e9\\uD83D\\uDE00\", \"m\": {\"a\": [1.5e3, null, true], \"b\": \"\"}}",
      "{\"text\": \"\xC3\xA9\xE6\xBC\xA2\xF0\x9F\x98\x80 and a longer run of plain letters\", \"n\": -0.25}",
  };
  static const char bytes[] = "\"\\{}[]:,u0dD8eE+-.tfn \n\x01\x80\xC3\xFF/x";
  int found = 0;
  uint64_t at = 0;
  for (int i = 0; i < 200000; i++) {
    char line[256];
    const char *seed = seeds[i % 2];
    size_t length = strlen(seed);
    memcpy(line, seed, length);
    for (uint32_t changes = 1 + draw(&at) % 3; changes > 0; changes--) {
      size_t place = draw(&at) % length;
      switch (draw(&at) % 3) {
        case 0: line[place] = bytes[draw(&at) % (sizeof bytes - 1)]; break;
        case 1: memmove(line + place, line + place + 1, --length - place); break;
        default: memmove(line + place + 1, line + place, length++ - place); break;
      }
    }
    found += compare(line, length);
  }
  assert_in_range(found, 20000, 190000); /* both outcomes were met often */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(finds_what_jansson_finds),
      cmocka_unit_test(leaves_the_rest_to_jansson),
      cmocka_unit_test(accepts_numbers_of_any_size),
      cmocka_unit_test(agrees_on_damaged_lines),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
