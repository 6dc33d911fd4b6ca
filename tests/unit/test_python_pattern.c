/* Patterns compared with Python's re (3.11): for each pattern and text, whether re.match(rf"(.*\\.)?({pattern})$",
 * text) and re.fullmatch(pattern, text) match, as characters 1 and 0, one for each text. */
#include "base/python_pattern.h"
#include "check.h"

static const char *const texts[] = {
    "model.layers.0.self_attn.q_proj",
    "model.layers.1.self_attn.v_proj",
    "model.layers.10.self_attn.k_proj",
    "transformer.h.0.attn.c_attn",
    "transformer.h.12.attn.c_attn",
    "q_proj",
    "model.layers.12.mlp.up_proj",
    "model.layers.0.mlp.experts.gate_up_proj",
    "xq_proj",
    "abc",
    "x.abc",
    "model.layers.0.self_attnxq_proj",
};
enum { TEXTS = sizeof texts / sizeof texts[0] };

static const struct {
  const char *pattern, *ends, *whole;
} known[] = {
    {"q_proj", "100001000000", "000001000000"},
    {"q_proj|v_proj", "110001000000", "000001000000"},
    {"layers\\.0\\..*v_proj", "000000000000", "000000000000"},
    {".*\\.v_proj", "010000000000", "010000000000"},
    {"1\\..*(attn|up_proj)", "000000000000", "000000000000"},
    {"layers\\.1\\.self_attn\\.[kv]_proj", "010000000000", "000000000000"},
    {"h\\.\\d\\.attn\\.c_attn", "000100000000", "000000000000"},
    {"h\\.\\d+\\.attn\\.c_attn", "000110000000", "000000000000"},
    {"\\w+_proj", "111001111001", "000001001000"},
    {"proj", "000000000000", "000000000000"},
    {"(?:q|k)_proj", "101001000000", "000001000000"},
    {"q.proj", "100001000000", "000001000000"},
    {"[qk]_proj", "101001000000", "000001000000"},
    {"[^q]_proj", "011000000000", "000000000000"},
    {"q_proj$", "100001000000", "000001000000"},
    {"^q_proj", "000001000000", "000001000000"},
    {"a|ab|abc", "000000000110", "000000000100"},
    {"self_attn\\.q_proj", "100000000000", "000000000000"},
    {"layers\\.[0-9]\\.self_attn\\.q_proj", "100000000000", "000000000000"},
    {"layers\\.\\d{1,2}\\.mlp\\.up_proj", "000000100000", "000000000000"},
    {"", "000000000000", "000000000000"},
    {"(layers\\.1\\..*)?q_proj", "100001000000", "000001000000"},
    {"q_{1}proj", "100001000000", "000001000000"},
    {"q_proj.*", "100001000000", "000001000000"},
    {".*", "111111111111", "111111111111"},
    {"[\\d]\\.attn\\.c_attn", "000100000000", "000000000000"},
    {"x\\.q_proj", "000000000000", "000000000000"},
    {"Q_PROJ", "000000000000", "000000000000"},
    {"mlp\\.experts\\.(gate_up|down)_proj", "000000010000", "000000000000"},
};

/* Patterns with look-around, back references, flags or long repeats; and patterns that Python refuses, too. */
static const char *const unknown[] = {
    "(?!q)_proj", "(?=a)b",  "\\bq_proj", "(a)\\1",  "a{100}",     "(?P<n>a)",  "q_proj\\",   "[q_proj",
    "(q_proj",    "q_proj)", "a)|(b",     "*q_proj", "(?i)q_proj", "\\Aq_proj", "a{1}{2}{3}",
};

static void test_known(void **state) {
  (void)state;
  for (size_t p = 0; p < sizeof known / sizeof known[0]; p++) {
    char ends[TEXTS + 1] = "", whole[TEXTS + 1] = "";
    assert_true(tri_python_pattern_is_known(known[p].pattern));
    for (size_t t = 0; t < TEXTS; t++) {
      ends[t] = tri_python_pattern_ends(known[p].pattern, texts[t]) ? '1' : '0';
      whole[t] = tri_python_pattern_matches(known[p].pattern, texts[t], false) ? '1' : '0';
      assert_int_equal(tri_python_pattern_matches(known[p].pattern, texts[t], true), whole[t] == '1');
    }
    assert_string_equal(ends, known[p].ends);
    assert_string_equal(whole, known[p].whole);
  }
}

static void test_unknown(void **state) {
  (void)state;
  for (size_t p = 0; p < sizeof unknown / sizeof unknown[0]; p++) {
    assert_false(tri_python_pattern_is_known(unknown[p]));
    assert_false(tri_python_pattern_ends(unknown[p], "q_proj"));
    assert_true(tri_python_pattern_matches(unknown[p], "q_proj", true));
    assert_false(tri_python_pattern_matches(unknown[p], "q_proj", false));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_known),
      cmocka_unit_test(test_unknown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
