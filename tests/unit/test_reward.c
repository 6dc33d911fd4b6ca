/* Rewards by rules: own cases of each kind, settings that are refused, answers that are refused, and texts of any
 * bytes. */
#include "base/memory.h"
#include "check.h"
#include "reward/kind.h"
#include "reward/reward.h"

#include <math.h>
#include <stdio.h>

static tri_reward_settings kind(const char *name) {
  tri_reward_settings s = {0};
  snprintf(s.name, sizeof s.name, "%s", name);
  return s;
}

static tri_reward_settings with_pattern(const char *name, const char *pattern) {
  tri_reward_settings s = kind(name);
  snprintf(s.pattern, sizeof s.pattern, "%s", pattern);
  s.given = TRI_REWARD_PATTERN;
  return s;
}

static tri_scored_completion completion(const char *text, size_t bytes, const char *answer) {
  return (tri_scored_completion){.prompt = "",
                                 .text = text,
                                 .text_bytes = bytes,
                                 .answer = answer,
                                 .answer_bytes = answer == NULL ? 0 : strlen(answer),
                                 .tokens = 1,
                                 .max_tokens = 8};
}

static double score_bytes(const tri_reward_settings *settings, const char *text, size_t bytes, const char *answer) {
  const size_t held = tri_memory_bytes();
  tri_reward *reward = NULL;
  double out = 0;
  CHECK_OK(tri_reward_create(settings, &reward));
  const tri_scored_completion c = completion(text, bytes, answer);
  CHECK_OK(tri_reward_score(reward, &c, &out));
  tri_reward_destroy(reward);
  assert_int_equal(tri_memory_bytes(), held);
  return out;
}

static double score(const tri_reward_settings *settings, const char *text, const char *answer) {
  return score_bytes(settings, text, strlen(text), answer);
}

static void check_refused(const tri_reward_settings *settings, const char *begin, const char *part) {
  tri_reward *reward = NULL;
  const size_t held = tri_memory_bytes();
  CHECK_FAILS(tri_reward_create(settings, &reward), TRI_BAD_CONFIG, part);
  if (strncmp(tri_status_message(), begin, strlen(begin)) != 0) fail_msg("%s", tri_status_message());
  assert_null(reward);
  assert_int_equal(tri_memory_bytes(), held);
}

static void check_answer_refused(const char *name, const char *answer, const char *part) {
  const tri_reward_settings s = kind(name);
  tri_reward *reward = NULL;
  double out = 0;
  CHECK_OK(tri_reward_create(&s, &reward));
  const tri_scored_completion c = completion("", 0, answer);
  CHECK_FAILS(tri_reward_score(reward, &c, &out), TRI_BAD_FILE, part);
  assert_true(isnan(out));
  tri_reward_destroy(reward);
}

typedef struct known {
  const char *answer, *text;
  double reward;
} known;

static void check_known(const tri_reward_settings *settings, const known *cases, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const double got = score(settings, cases[i].text, cases[i].answer);
    if (got != cases[i].reward) {
      fail_msg("%s, answer \"%s\": \"%s\" has reward %g, not %g", settings->name, cases[i].answer, cases[i].text, got,
               cases[i].reward);
    }
  }
}
#define CHECK_KNOWN(SETTINGS, CASES) check_known(SETTINGS, CASES, sizeof(CASES) / sizeof *(CASES))

static void test_number(void **state) {
  (void)state;
  static const known cases[] = {
      {"42", "The answer is 42.", 1},
      {"42", "The answer is 43.", 0},
      {"42", "", 0},
      {"42", "no number", 0},
      {"... so 3 * 14 = 42\n#### 42", "First 7, then \\boxed{42}, and 9 more", 1},
      {"42", "#### 42 apples, 6 a day", 1},
      {"42", "\\boxed{41} or rather \\boxed{x_1 = 42}", 1},
      {"42", "\\boxed{42 \\text{ m}^2}", 1},
      {"42", "\\boxed{41} #### 42", 0},
      {"42", "\\boxed{\\text{unknown}} #### 42", 1},
      {"42", "\\boxed{42", 1},
      {"42", "\\boxed{\\} 42} 9", 1},
      {"1/2", "0.5", 1},
      {"1/2", "50%", 1},
      {"1/2", "50 \\% of them", 1},
      {"1/2", "\\frac{1}{2}", 1},
      {"1/2", "\\dfrac12", 1},
      {"1/2", "\\tfrac{2}{4}", 1},
      {"1/2", "2 / 4", 1},
      {"1/2", "0.5000000000000000000000000", 1},
      {"1/2", "0.500000001", 0},
      {"1/2", "-1/2", 0},
      {"-1/2", "\\frac{-1}{2}", 1},
      {"-1/2", "-\\frac{1}{2}", 1},
      {"-0.5",
       "\xE2\x88\x92"
       "0.5",
       1},
      {"1.5", "1\\frac{1}{2}", 1},
      {"-1/2", "1\\frac{-1}{2}", 1}, /* not a mixed number */
      {"-1.5", "-1\\frac{1}{2}", 1},
      {"1/3", "0.333333333333", 0},
      {"1/3", "\\frac{2}{6}", 1},
      {"50", "50%", 0},
      {"1234567", "$1,234,567.00", 1},
      {"1234567", "1{,}234{,}567", 1},
      {"567", "1,2345,567", 1}, /* the numbers 1, 2345 and 567 */
      {"1234", "1,2345", 0},
      {"3", "1,2,3", 1},
      {"1000", "1e3", 1},
      {"1000", "1.0E+3", 1},
      {"1000", "1 \\times 10^{3}", 1},
      {"1000",
       "1\xC3\x97"
       "10^3",
       1},
      {"0.001", "1e-3", 1},
      {"5", "3-5", 1},
      {"-5", "3 -5", 1},
      {"5", "(3)-5", 1},
      {"-5", "x=-5", 1},
      {"-5", "-$5", 1},
      {"-5", "$-5", 1},
      {"5",
       "\xE2\x82\xAC"
       "5",
       1},
      {"5", "\\$5", 1},
      {"5", "+5", 1},
      {".5", "It is .5.", 1},
      {"2024", "12/05/2024", 1},
      {"0", "1/0", 1}, /* not a fraction: the numbers 1 and 0 */
      {"0", "-0.00", 1},
      {"9223372036854775807", "9223372036854775806", 0},
      {"9223372036854775807", "9223372036854775807.0", 1},
      {"123456789012345678901234567890", "1.23456789012345678901234567891e29", 1},
      {"123456789012345678901234567890", "1.2345679e29", 0},
      {"7", "7 and 1e999999", 1}, /* too large to be a number */
      {"7", "8 and 1e999999", 0},
      {"1/3", "1e30/3e30", 1},
  };
  const tri_reward_settings s = kind("number");
  CHECK_KNOWN(&s, cases);
  check_answer_refused("number", "forty-two", "reward number: answer: \"forty-two\" has no number");
  check_answer_refused("number", "", "reward number: answer: \"\" has no number");
}

static void test_choice(void **state) {
  (void)state;
  static const known cases[] = {
      {"B", "B", 1},
      {"(b)", "B.", 1},
      {"B. Paris", "(b)", 1},
      {"B", "**B**", 1},
      {"B", "", 0},
      {"B", "K", 0},
      {"B", "The answer is (B), not C.", 1},
      {"B", "The correct answer is option b", 0},
      {"B", "The answer is (b)", 1},
      {"B", "Answer:\n\n**B** because C is wrong", 1},
      {"B", "Answer: A\nNo, the answer should be B", 1},
      {"B", "My answer is unknown. The answer is B. An answer is a text", 1},
      {"B", "So \\boxed{\\text{B}}, the answer is C", 1},
      {"B", "\\boxed{b}", 1},
      {"B", "\\boxed{A} \\boxed{B. Paris}", 1},
      {"B", "B. Vitamin C", 1},
      {"B", "It is B as in Vitamin-C", 1},
      {"B", "Answers: C. I take B", 1},
      {"B", "B) it has Vitamin C", 1},
      {"B", "A. one\nB. two\nC. three\nI choose B", 1},
      {"B", "I think it is B. I am sure", 1},
      {"A", "A is right", 1},
      {"B", "B, since A dog barks", 1},
      {"A", "the answer is A because", 1},
      {"B", "It's B, not C++ or C# or A-level or I'm", 1},
      {"J", "The answer is J", 1},
      {"C", "ABC", 0},
      {"C", "The answer, I think, is C", 1},
      {"\u201cB\u201d", "The answer is \u201cB\u201d.", 1},
      {"B", "\u2018B\u2019", 1},
      {"B", "\u00abB\u00bb", 1},
      {"B", "B\u2014Paris", 1},
      {"B", "\u7b54\u6848\u662fB\u3002", 1},
      {"B", "I take B\u2026", 1},
      {"B", "The caf\u00e9 is at \u00e9B, not B\u00e9", 0},
      {"B", "B\u0301 is not it", 0},
      {"B", "The answer is \u0416B", 0},
  };
  const tri_reward_settings s = kind("choice");
  CHECK_KNOWN(&s, cases);
  check_answer_refused("choice", "Paris", "reward choice: answer: \"Paris\" has no letter from A to J");
}

static void test_exact(void **state) {
  (void)state;
  static const known plain[] = {
      {"Paris", " Paris\n", 1}, {"Paris", "paris", 0}, {" Paris", "Paris", 1}, {"Paris", "", 0}};
  static const known ignoring[] = {{"Paris.", "PARIS 12!", 1}, {"\xC3\x84rger", "\xC3\xA4RGER", 1}, {"a b", "ab", 0}};
  tri_reward_settings s = kind("exact");
  CHECK_KNOWN(&s, plain);
  s.given = TRI_REWARD_STRIP;
  assert_true(score(&s, " Paris", "Paris") == 0);
  s.given = TRI_REWARD_IGNORE_CASE | TRI_REWARD_IGNORE_PUNCTUATION | TRI_REWARD_IGNORE_NUMBERS;
  s.ignore_case = s.ignore_punctuation = s.ignore_numbers = true;
  CHECK_KNOWN(&s, ignoring);
  check_answer_refused("exact", " \n", "reward exact: answer: \"  \" has nothing to compare");
}

static void test_contains(void **state) {
  (void)state;
  static const known cases[] = {{"Paris", "It is Paris.", 1}, {"Paris", "It is Pari", 0}, {"Paris", "", 0}};
  tri_reward_settings s = kind("contains");
  CHECK_KNOWN(&s, cases);
  check_answer_refused("contains", "", "reward contains: answer: \"\" is empty");
  check_answer_refused("contains", " \t", "every completion contains it");
  s.given = TRI_REWARD_TEXT;
  check_refused(&s, "reward contains: text", "is empty");
  snprintf(s.text, sizeof s.text, "therefore");
  assert_true(score(&s, "and therefore", NULL) == 1 && score(&s, "and there", NULL) == 0);
}

static void test_patterns(void **state) {
  (void)state;
  const struct {
    const char *name, *pattern, *text;
    double reward;
  } cases[] = {
      {"regex", "\\d+", "it is 12", 1},
      {"regex", "^\\d+$", "it is 12", 0},
      {"regex", "b.c", "b\nc", 0},
      {"regex", "^\\w+$", "\xC3\x84rger", 1},
      {"regex", "a", "", 0},
      {"regex", "^$", "", 1},
      {"format", "<think>.*</think>.*", "<think>\na\n</think>\nb", 1},
      {"format", "<think>.*</think>.*", "<think>a</think><think>b</think>", 0},
      {"format", "<think>.*</think>.*", "x<think>a</think>", 0},
      {"format", "<think>.*<\\/think>.*", "<think>a</think></think>", 0},
      {"format", "^<think>(?!.*<think>)(.*?)</think>.*$", "<think>a</think> b", 1},
      {"format", "(?<name>a+)<b/>", "aa<b/>", 1},
      {"format", "(?P<name>a+)(?P=name)", "aa", 1},
      {"format", "a+(?!.*<x>).*", "aa<y><y>", 1},
      {"format", "[<b>]+", "<<", 1},
      {"format", "(?#<b>)a", "a", 1},
      {"format", "a|ab", "ab", 1},
      {"format", "a+", "aab", 0},
      {"format", "[]<b>]+", "<]", 1},
      {"format", "(?<n>a)?(?(<n>)b|c)", "ab", 1},
      {"format", "(?<n>a)\\k<n>", "aa", 1},
      {"format", "\\<a\\>.*", "<a>", 1},
      {"format", "\\<a\\>.*", "<a><a>", 0},
      {"format", "a*", "", 1},
      {"format", "<a>.*", "", 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const tri_reward_settings s = with_pattern(cases[i].name, cases[i].pattern);
    const double got = score(&s, cases[i].text, NULL);
    if (got != cases[i].reward) fail_msg("%s %s: \"%s\" has %g", s.name, s.pattern, cases[i].text, got);
  }
}

static void check_limit(const char *name, const char *pattern, const char *text, size_t bytes) {
  const tri_reward_settings s = with_pattern(name, pattern);
  tri_reward *reward = NULL;
  double out = -1;
  CHECK_OK(tri_reward_create(&s, &reward));
  const tri_scored_completion c = completion(text, bytes, NULL);
  assert_int_equal(tri_reward_limits(reward), 0);
  CHECK_OK(tri_reward_score(reward, &c, &out));
  CHECK_OK(tri_reward_score(reward, &c, &out));
  if (out != 0 || tri_reward_limits(reward) != 2)
    fail_msg("%s: %g, %d limits", pattern, out, (int)tri_reward_limits(reward));
  tri_reward_destroy(reward);
}

static void test_limits(void **state) {
  (void)state;
  enum { BYTES = 40000 };
  static char text[BYTES];
  memset(text, 'a', sizeof text);
  check_limit("regex", "(a+)+b|b(a+)+", text, sizeof text);
  check_limit("regex", "(a*)*(?<!a)b?(?:c|d)", text, sizeof text);
  check_limit("regex", "a*[ab]*a*[ab]*(?=c)", text, sizeof text); /* cubic */
  check_limit("regex", "[^c]+[^d]?(?=c)", text, sizeof text);     /* few steps from each position */
  check_limit("regex", "a++(?<=b)", text, sizeof text);           /* few items, many characters */
  check_limit("format", "(a|aa)+c?(?<=b)", text, sizeof text);
  check_limit("regex", "^(a(?1)?b|a)*c?(?<=b)$", text, sizeof text);
}

static void test_length(void **state) {
  (void)state;
  tri_reward_settings s = kind("length");
  s.given = TRI_REWARD_MAX | TRI_REWARD_BUFFER;
  s.max = 100;
  s.buffer = 20;
  tri_reward *reward = NULL;
  CHECK_OK(tri_reward_create(&s, &reward));
  const struct {
    int64_t tokens;
    double reward;
  } cases[] = {{0, 0}, {80, 0}, {81, -0.05}, {90, -0.5}, {100, -1}, {101, -1}, {1000, -1}};
  tri_scored_completion c = completion("", 0, NULL);
  double out = 0;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    c.tokens = cases[i].tokens;
    CHECK_OK(tri_reward_score(reward, &c, &out));
    assert_true(out == cases[i].reward);
  }
  tri_reward_destroy(reward);
  s.given = TRI_REWARD_BUFFER;
  CHECK_OK(tri_reward_create(&s, &reward));
  c.tokens = 30;
  c.max_tokens = 40;
  CHECK_OK(tri_reward_score(reward, &c, &out));
  assert_true(out == -0.5);
  c.max_tokens = 19;
  CHECK_FAILS(tri_reward_score(reward, &c, &out), TRI_BAD_CONFIG, "reward length: buffer is 20, more than the maximum");
  tri_reward_destroy(reward);
}

static void test_repetition(void **state) {
  (void)state;
  tri_reward_settings s = kind("repetition");
  assert_true(score(&s, "a b", NULL) == 0 && score(&s, "", NULL) == 0 && score(&s, "a b c", NULL) == 0);
  assert_true(score(&s, "a b c a b c", NULL) == -0.25);
  s.given = TRI_REWARD_NGRAM | TRI_REWARD_MAX_PENALTY;
  s.ngram = 2;
  s.max_penalty = -2;
  assert_true(score(&s, " 5 5\n5\t5 5 ", NULL) == -1.5);
  s.ngram = 1;
  assert_true(score(&s, "a A", NULL) == 0 && score(&s, "a a", NULL) == -1);
  const int32_t ids[] = {5, 5, 5, 1};
  tri_scored_completion c = completion("a b", 3, NULL);
  tri_reward *reward = NULL;
  double out = 0;
  s.given |= TRI_REWARD_UNIT;
  s.unit = TRI_REWARD_TOKENS;
  CHECK_OK(tri_reward_create(&s, &reward));
  CHECK_OK(tri_reward_score(reward, &c, &out));
  assert_true(out == 0); /* no ids */
  c.ids = ids;
  c.tokens = 4;
  CHECK_OK(tri_reward_score(reward, &c, &out));
  assert_true(out == -1);
  tri_reward_destroy(reward);
}

static void test_no_answer(void **state) {
  (void)state;
  static const char *const asking[] = {"exact", "number", "choice", "contains"};
  for (size_t i = 0; i < sizeof asking / sizeof *asking; i++) {
    const tri_reward_settings s = kind(asking[i]);
    assert_true(isnan(score(&s, "B 42", NULL)));
  }
}

static void test_settings(void **state) {
  (void)state;
  tri_reward_settings s = kind("nmber");
  check_refused(
      &s, "reward nmber",
      "did you mean `number`? The kinds are exact, number, choice, regex, format, contains, length, repetition");
  s = kind("");
  check_refused(&s, "reward ", "not a kind");
  s = with_pattern("number", "a");
  check_refused(&s, "reward number: pattern", "is not a key of this kind; leave it out: the keys are weight");
  s = kind("regex");
  check_refused(&s, "reward regex: pattern", "is missing; write a regular expression");
  s = with_pattern("regex", "");
  check_refused(&s, "reward regex: pattern", "is empty");
  s = with_pattern("format", "a(b");
  check_refused(&s, "reward format: pattern", "at byte 3");
  s = with_pattern("regex", "\xFF");
  check_refused(&s, "reward regex: pattern", "UTF-8");
  s = with_pattern("regex", "a\\Cb");
  check_refused(&s, "reward regex: pattern", "is not a regular expression");
  s = kind("exact");
  s.given = TRI_REWARD_WEIGHT;
  s.weight = (double)INFINITY;
  check_refused(&s, "reward exact: weight", "write a finite number");
  s = kind("length");
  check_refused(&s, "reward length: buffer", "is missing; write the number of tokens");
  s.given = TRI_REWARD_BUFFER | TRI_REWARD_MAX;
  check_refused(&s, "reward length: buffer", "is 0");
  s.buffer = -1;
  check_refused(&s, "reward length: buffer", "is -1");
  s.buffer = 11;
  s.max = 10;
  check_refused(&s, "reward length: buffer", "is 11, more than the maximum of 10 tokens");
  s.max = -10;
  check_refused(&s, "reward length: max", "is -10");
  s = kind("repetition");
  s.given = TRI_REWARD_NGRAM;
  check_refused(&s, "reward repetition: ngram", "is 0");
  s.given = TRI_REWARD_MAX_PENALTY;
  s.max_penalty = 1;
  check_refused(&s, "reward repetition: max_penalty", "is 1");
  s.max_penalty = (double)NAN;
  check_refused(&s, "reward repetition: max_penalty", "is nan");
}

static void test_weight(void **state) {
  (void)state;
  tri_reward_settings s = kind("exact");
  tri_reward *reward = NULL;
  CHECK_OK(tri_reward_create(&s, &reward));
  assert_true(tri_reward_weight(reward) == 1 && tri_reward_needs_answer(reward));
  tri_reward_destroy(reward);
  s.given = TRI_REWARD_WEIGHT;
  s.weight = -0.5;
  CHECK_OK(tri_reward_create(&s, &reward));
  assert_true(tri_reward_weight(reward) == -0.5);
  tri_reward_destroy(reward);
}

#define CHECK_NAME(NAME) assert_string_equal(tri_reward_##NAME.name, #NAME);

static void test_names(void **state) {
  (void)state;
  size_t count = 0;
  const char *const *names = tri_reward_names(&count);
  assert_int_equal(count, 8);
  assert_string_equal(names[0], "exact");
  TRI_REWARD_KINDS(CHECK_NAME)
}

static void test_bytes(void **state) {
  (void)state;
  static const char with_nul[] = "a\0b 42", broken[] = "\xFF\xE2\x28 42\xC3", alone[] = "\0\0";
  tri_reward_settings s = kind("exact");
  assert_true(score_bytes(&s, with_nul, sizeof with_nul - 1, "a") == 0);
  s.given = TRI_REWARD_IGNORE_CASE;
  s.ignore_case = true;
  assert_true(score_bytes(&s, broken, sizeof broken - 1, broken) == 1);
  assert_true(score(&s, "\xC8\xBA\xC8\xBA\xC8\xBA", "\xE2\xB1\xA5\xE2\xB1\xA5\xE2\xB1\xA5") ==
              1); /* longer in lowercase */
  s = kind("number");
  assert_true(score_bytes(&s, with_nul, sizeof with_nul - 1, "42") == 1);
  assert_true(score_bytes(&s, broken, sizeof broken - 1, "42") == 1);
  s = kind("contains");
  assert_true(score_bytes(&s, with_nul, sizeof with_nul - 1, "b 42") == 1);
  s = kind("choice");
  assert_true(score_bytes(&s, "\0B\0", 3, "B") == 1 && score_bytes(&s, alone, 2, "B") == 0);
  s = kind("repetition");
  assert_true(score_bytes(&s, alone, 2, NULL) == 0);
  s = with_pattern("regex", "^a\\x00b");
  assert_true(score_bytes(&s, with_nul, sizeof with_nul - 1, NULL) == 1);
  s = with_pattern("regex", "^\\x{FFFD}\\( 42\\x{FFFD}$");
  assert_true(score_bytes(&s, broken, sizeof broken - 1, NULL) == 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_number),   cmocka_unit_test(test_choice),     cmocka_unit_test(test_exact),
      cmocka_unit_test(test_contains), cmocka_unit_test(test_patterns),   cmocka_unit_test(test_limits),
      cmocka_unit_test(test_length),   cmocka_unit_test(test_repetition), cmocka_unit_test(test_no_answer),
      cmocka_unit_test(test_settings), cmocka_unit_test(test_weight),     cmocka_unit_test(test_names),
      cmocka_unit_test(test_bytes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
