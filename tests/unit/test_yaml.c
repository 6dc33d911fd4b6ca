#include "base/memory.h"
#include "config/yaml.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config_expect.h"

static int open_tree(void **state) { return tri_yaml_create((tri_yaml_tree **)state) != TRI_OK; }

/* Checks that no memory of a tree remains, also after errors. */
static int close_tree(void **state) {
  tri_yaml_destroy(*state);
  return tri_memory_bytes() != 0;
}

/* The bytes are copied to a block of their exact length, so that AddressSanitizer sees a read beyond them. */
static tri_status parse_bytes(void **state, const char *text, size_t bytes, tri_yaml **out) {
  char *copy = malloc(bytes == 0 ? 1 : bytes);
  memcpy(copy, text, bytes);
  tri_status status = tri_yaml_parse(*state, "f.yaml", false, copy, bytes, out);
  free(copy);
  return status;
}

static tri_status parse(void **state, const char *text, tri_yaml **out) {
  return parse_bytes(state, text, strlen(text), out);
}

static void builds_a_tree(void **state) {
  tri_yaml *root = NULL;
  EXPECT_OK(parse(state, "# a comment\na: 1\nb:\n  c: [x, 'y z', {}]\n\n  d: |\n   two\n   lines\n", &root));
  assert_int_equal(root->kind, TRI_YAML_MAPPING);
  assert_true(root->root);
  const tri_yaml *a = tri_yaml_find(root, "a");
  assert_string_equal(a->text, "1");
  assert_int_equal(a->line, 2);
  assert_string_equal(a->source, "f.yaml");
  assert_false(a->root);
  const tri_yaml *b = tri_yaml_find(root, "b");
  assert_int_equal(b->line, 3);
  const tri_yaml *c = tri_yaml_find(b, "c");
  assert_int_equal(c->kind, TRI_YAML_LIST);
  assert_string_equal(c->first->text, "x");
  assert_false(c->first->quoted);
  assert_string_equal(c->first->next->text, "y z");
  assert_true(c->first->next->quoted);
  assert_int_equal(c->last->kind, TRI_YAML_MAPPING);
  assert_null(c->last->next);
  assert_string_equal(tri_yaml_find(b, "d")->text, "two\nlines\n");
  assert_int_equal(tri_yaml_find(b, "d")->line, 6);
  assert_null(tri_yaml_find(root, "c"));
  assert_null(tri_yaml_find(a, "c"));
}

static void knows_nulls(void **state) {
  tri_yaml *root = NULL;
  EXPECT_OK(parse(state, "-\n- ~\n- null\n- ''\n- 'null'\n- 0\n- nil\n", &root));
  const bool expected[] = {true, true, true, false, false, false, false};
  const tri_yaml *node = root->first;
  for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++, node = node->next) {
    assert_int_equal(tri_yaml_is_null(node), expected[i]);
  }
  assert_null(node);
}

static void puts_in_place(void **state) {
  tri_yaml *root = NULL;
  EXPECT_OK(parse(state, "a: 1\nb: 2\nc: 3\n", &root));
  const char *const keys[] = {"a", "c", "b", "d"};
  for (int i = 0; i < 4; i++) {
    tri_yaml *value = NULL;
    EXPECT_OK(tri_yaml_make(*state, root, "new", &value));
    EXPECT_OK(tri_yaml_put(*state, root, keys[i], value));
    assert_ptr_equal(tri_yaml_find(root, keys[i]), value);
  }
  const char *const order[] = {"a", "b", "c", "d"};
  const tri_yaml *node = root->first;
  for (int i = 0; i < 4; i++, node = node->next) assert_string_equal(node->key, order[i]);
  assert_null(node);
  assert_string_equal(root->last->key, "d");
}

static void refuses_bad_syntax(void **state) {
  static const struct {
    const char *text, *message;
  } cases[] = {
      {"", "f.yaml is empty"},
      {"# nothing\n\n", "f.yaml is empty"},
      {"---\n", "f.yaml is empty"},
      {"~", "f.yaml is empty"},
      {"a: 1\nb: 2\na: 3\n", "`a` at line 3 of f.yaml was already given at line 1; keep one of them"},
      {"a: 1\n---\nb: 2\n", "line 2 of f.yaml: a second document (`---`) begins; only one is read"},
      {"a: 1\n...\n---\n", "line 3 of f.yaml: a second document (`---`) begins; only one is read"},
      {"a: &x 1\n", "line 1 of f.yaml: anchors (`&name`) are not supported; write the values out"},
      {"a: &x {b: 1}\n", "line 1 of f.yaml: anchors (`&name`) are not supported; write the values out"},
      {"a: 1\nb: *x\n", "line 2 of f.yaml: aliases (`*name`) are not supported; write the values out"},
      {"a: !!int 3\n", "line 1 of f.yaml: tags (`!type`) are not supported; leave it out"},
      {"a: !t [3]\n", "line 1 of f.yaml: tags (`!type`) are not supported; leave it out"},
      {"[a]: 1\n", "line 1 of f.yaml: a key must be a word"},
      {"? {a: b}\n: 1\n", "line 1 of f.yaml: a key must be a word"},
      {"a: \"x\\0y\"\n", "line 1 of f.yaml: a text with a byte of zero in it"},
      {"a: 1\nb: \xC3(\n", "line 2 of f.yaml: not UTF-8 text; save it in that encoding"},
      {"a: \xED\xA0\x80\n", "line 1 of f.yaml: not UTF-8 text; save it in that encoding"},
      {"a: \xC0\xAF\n", "line 1 of f.yaml: not UTF-8 text; save it in that encoding"},
      {"a: \xF4\x90\x80\x80\n", "line 1 of f.yaml: not UTF-8 text; save it in that encoding"},
      {"a: \xE2\x82", "line 1 of f.yaml: not UTF-8 text; save it in that encoding"},
      {"\xFF\xFE"
       "a",
       "f.yaml is a text in UTF-16 (PowerShell's `>` and Notepad's \"Unicode\"), not YAML in UTF-8: convert it: iconv "
       "-f UTF-16 "
       "-t UTF-8 f.yaml > NEW"},
      {"a:\n  b: 1\n\tc: 2\n",
       "line 3 of f.yaml: not valid YAML: found a tab character that violates indentation (while scanning a plain "
       "scalar from line 2); indent with spaces, not with tabs"},
      {"a: {b: 1\nc: 2\n",
       "line 2 of f.yaml: not valid YAML: did not find expected ',' or '}' (while parsing a flow mapping from line 1)"},
      {"a: \"x\n",
       "line 2 of f.yaml: not valid YAML: found unexpected end of stream (while scanning a quoted scalar "
       "from line 1)"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    tri_yaml *root = NULL;
    EXPECT_FAILS(TRI_BAD_CONFIG, cases[i].message, parse(state, cases[i].text, &root));
    assert_null(root);
  }
  tri_yaml *root = NULL;
  EXPECT_FAILS(TRI_BAD_CONFIG, "line 2 of f.yaml: a NUL byte, which a text file must not contain; is this a text file?",
               parse_bytes(state, "a: 1\n\0", 6, &root));
  EXPECT_FAILS(TRI_BAD_CONFIG, "line 2 of f.yaml: a control character, which YAML text must not contain",
               parse(state, "a: 1\nb: \x01\n", &root));
}

static void accepts_a_byte_order_mark(void **state) {
  tri_yaml *root = NULL;
  EXPECT_OK(parse(state,
                  "\xEF\xBB\xBF"
                  "a: 1\r\nb: \xC3\xA9\r\n",
                  &root));
  assert_string_equal(tri_yaml_find(root, "a")->text, "1");
  assert_string_equal(tri_yaml_find(root, "b")->text, "\xC3\xA9");
}

static void limits_size_and_depth(void **state) {
  char text[4 * TRI_YAML_MAX_NODES];
  tri_yaml *root = NULL;
  memset(text, '[', sizeof text);
  memset(text + TRI_YAML_MAX_DEPTH, ']', TRI_YAML_MAX_DEPTH);
  EXPECT_OK(parse_bytes(state, text, (size_t)2 * TRI_YAML_MAX_DEPTH, &root));
  memset(text, '[', sizeof text);
  EXPECT_FAILS(TRI_BAD_CONFIG, "line 1 of f.yaml: mappings and lists are nested too deeply",
               parse_bytes(state, text, sizeof text, &root));
  size_t bytes = 0;
  for (int i = 0; i < TRI_YAML_MAX_NODES; i++) bytes += (size_t)sprintf(text + bytes, "- \n");
  EXPECT_FAILS(TRI_BAD_CONFIG, "f.yaml has more than 32768 keys and values, which is the limit of a configuration",
               parse_bytes(state, text, bytes, &root));
  char *large = malloc(TRI_YAML_MAX_BYTES + 1);
  memset(large, '#', TRI_YAML_MAX_BYTES + 1);
  EXPECT_FAILS(TRI_BAD_CONFIG, "f.yaml is too long for a configuration",
               parse_bytes(state, large, TRI_YAML_MAX_BYTES + 1, &root));
  free(large);
}

static void takes_the_longest_text(void **state) {
  tri_yaml *root = NULL;
  char excerpt[TRI_YAML_EXCERPT_BYTES];
  char *large = malloc(TRI_YAML_MAX_BYTES);
  memset(large, 'a', TRI_YAML_MAX_BYTES);
  EXPECT_OK(parse_bytes(state, large, TRI_YAML_MAX_BYTES, &root));
  assert_int_equal(strlen(root->text), TRI_YAML_MAX_BYTES);
  assert_int_equal(strlen(tri_yaml_excerpt(root->text, excerpt)), TRI_YAML_EXCERPT_BYTES - 8 + 3);
  free(large);
}

static void says_faults_of_options_without_lines(void **state) {
  tri_yaml *root = NULL;
  EXPECT_FAILS(TRI_BAD_CONFIG, "--set a={b: &x 1}: anchors (`&name`) are not supported; write the values out",
               tri_yaml_parse(*state, "--set a={b: &x 1}", true, "{b: &x 1}", 9, &root));
  EXPECT_FAILS(TRI_BAD_CONFIG, "--set a={b: 1, b: 2}: `b` is given twice",
               tri_yaml_parse(*state, "--set a={b: 1, b: 2}", true, "{b: 1, b: 2}", 12, &root));
}

static void tells_printable_text(void **state) {
  (void)state;
  static const char *const good[] = {"", "runs/first", "donn\303\251es", "\xF0\x9F\x9A\xA2", "a b\"\\'"};
  static const char *const bad[] = {"a\nb",         "\t",   "\x7F",         "\xC2\x85", "\xE2\x80\xA8",
                                    "\xEF\xBB\xBF", "\xC3", "\xED\xA0\x80", "\xFF",     "\xEF\xBF\xBF"};
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) assert_true(tri_yaml_is_printable(good[i]));
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) assert_false(tri_yaml_is_printable(bad[i]));
}

static void makes_excerpts_fit_for_a_terminal(void **state) {
  (void)state;
  char excerpt[TRI_YAML_EXCERPT_BYTES];
  assert_string_equal(tri_yaml_excerpt("a\x1B[31m\nb\xFF", excerpt), "a?[31m?b?");
  char text[200] = "";
  for (int i = 0; i < 60; i++) strcat(text, "\xC3\xA9");
  tri_yaml_excerpt(text, excerpt);
  assert_true(tri_yaml_is_printable(excerpt)); /* not truncated within a character */
  assert_string_equal(excerpt + strlen(excerpt) - 3, "...");
}

int main(void) {
#define WITH_TREE(TEST) cmocka_unit_test_setup_teardown(TEST, open_tree, close_tree)
  const struct CMUnitTest tests[] = {
      WITH_TREE(builds_a_tree),
      WITH_TREE(knows_nulls),
      WITH_TREE(puts_in_place),
      WITH_TREE(refuses_bad_syntax),
      WITH_TREE(limits_size_and_depth),
      WITH_TREE(takes_the_longest_text),
      WITH_TREE(accepts_a_byte_order_mark),
      WITH_TREE(says_faults_of_options_without_lines),
      cmocka_unit_test(tells_printable_text),
      cmocka_unit_test(makes_excerpts_fit_for_a_terminal),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
