/* `choice`: 1 if the completion chooses the same letter from A to J as the answer, else 0. The chosen letter of a text
 * is the first of these that exists:
 *
 *   1. the text, if it is one letter, such as "b", "B." or "(b)"
 *   2. the first letter in the last \boxed{...}
 *   3. the letter after the last word "answer" that a letter follows: "the answer is (B)", "Answer: B". Punctuation,
 *      white space and the words is, the, be, should, would, correct, choice, option and letter may stand between them.
 *   4. the letter at the beginning of the text before ".", ")", ":" or a line break, as in "B. Paris", unless another
 *      line begins with another letter in this way (a list of all choices)
 *   5. the last letter
 *
 * A letter is uppercase and alone: no letter, digit or "_" is next to it, and no "+" or "#" follows it. A hyphen or an
 * apostrophe may follow it, and a hyphen may precede it, but only if it does not join the letter to a word. Beyond
 * ASCII, letters with cases, modifiers, marks and digits count as letters here ("é"), and the signs of scripts without
 * cases do not ("是"). A lowercase letter counts in rules 1 to 3 if it is the whole text or box, or if brackets enclose
 * it. "A" and "I" are words, not choices, if a space and a lowercase word other than "is" follow; in rule 3 "A" is
 * always a choice. An answer without a letter is refused. */
#include "reward/boxed.h"
#include "reward/kind.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>
#include <utf8proc.h>

typedef struct passage {
  const char *text;
  size_t bytes;
} passage;

/* Returns the byte at an offset; 0 outside of the text, as for a NUL in it. */
static unsigned char byte_at(const passage *p, size_t at) { return at < p->bytes ? (unsigned char)p->text[at] : '\0'; }

/* Returns whether the character beyond ASCII that has a byte at `at` counts as a letter; true for invalid UTF-8. */
static bool is_wide_letter(const passage *p, size_t at) {
  utf8proc_int32_t code = -1;
  for (int back = 0; back < 3 && at > 0 && (byte_at(p, at) & 0xC0) == 0x80; back++) at--;
  if (utf8proc_iterate((const utf8proc_uint8_t *)p->text + at, (utf8proc_ssize_t)(p->bytes - at), &code) < 1)
    return true;
  switch ((int)utf8proc_category(code)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND: return true;
    default: return false;
  }
}

/* Returns whether the byte at `at` is part of a letter or a digit, or is "_". */
static bool is_word(const passage *p, size_t at) {
  const unsigned char c = byte_at(p, at);
  return isalnum(c) != 0 || c == '_' || (c >= 0x80 && is_wide_letter(p, at));
}

static bool is_choice(unsigned char c) { return c >= 'A' && c <= 'J'; }

/* Returns whether the letter at `at` is joined to a word: by an apostrophe or a hyphen after it ("I'm", "C-3"), or by a
 * hyphen before it ("T-A"). */
static bool is_joined(const passage *p, size_t at) {
  const unsigned char before = byte_at(p, at - 1), after = byte_at(p, at + 1);
  if ((after == '\'' || after == '-') && is_word(p, at + 2)) return true;
  return at >= 2 && before == '-' && is_word(p, at - 2);
}

static bool is_alone(const passage *p, size_t at) {
  const unsigned char after = byte_at(p, at + 1);
  if ((at > 0 && is_word(p, at - 1)) || is_word(p, at + 1) || after == '+' || after == '#') return false;
  return !is_joined(p, at);
}

/* Returns whether the letter is the English word "A" or "I". */
static bool is_english(const passage *p, size_t at) {
  const bool both = p->text[at] == 'A' || p->text[at] == 'I';
  if (!both || byte_at(p, at + 1) != ' ' || islower(byte_at(p, at + 2)) == 0) return false;
  return !(byte_at(p, at + 2) == 'i' && byte_at(p, at + 3) == 's' && !is_word(p, at + 4));
}

static bool is_enclosed(const passage *p, size_t at) {
  const unsigned char before = at == 0 ? '\0' : byte_at(p, at - 1), after = byte_at(p, at + 1);
  return (before == '(' && after == ')') || (before == '[' && after == ']') || (before == '{' && after == '}');
}

/* Returns the choice at an offset, as an uppercase letter; 0 if there is no choice at this offset. `lowercase`:
 * lowercase letters in brackets count, too. */
static char letter_at(const passage *p, size_t at, bool lowercase) {
  const unsigned char c = byte_at(p, at), upper = (unsigned char)toupper(c);
  if (!is_choice(upper) || !is_alone(p, at)) return '\0';
  return c == upper || (lowercase && is_enclosed(p, at)) ? (char)upper : '\0';
}

static char whole_text(const passage *p) {
  char found = '\0';
  for (size_t i = 0; i < p->bytes; i++) {
    const unsigned char c = byte_at(p, i);
    const bool word = is_word(p, i);
    if (word && found != '\0') return '\0';
    if (word) found = (char)toupper(c);
    if (word && !is_choice((unsigned char)found)) return '\0';
    if (!word && isspace(c) == 0 && c < 0x80 && strchr(".):(*\"'`[]", c) == NULL) return '\0';
  }
  return found;
}

static char in_box(const passage *p) {
  passage box = {0};
  char found = '\0';
  if (!tri_reward_boxed(p->text, p->bytes, &box.text, &box.bytes)) return '\0';
  found = whole_text(&box);
  for (size_t i = 0; i < box.bytes && found == '\0'; i++) {
    if (!is_english(&box, i)) found = letter_at(&box, i, true);
  }
  return found;
}

/* Skips one of the words that may be between "answer" and its letter. Returns false if the text does not continue with
 * one of them. */
static bool skip_word(const passage *p, size_t *at) {
  static const char *const words[] = {"is", "the", "be", "should", "would", "correct", "choice", "option", "letter"};
  size_t end = *at;
  while (is_word(p, end)) end++;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    if (end - *at != strlen(words[i]) || strncasecmp(p->text + *at, words[i], end - *at) != 0) continue;
    *at = end;
    return true;
  }
  return false;
}

/* Returns the letter after the word "answer", which ends at `at`; 0 if no letter follows in the way of rule 3. */
static char after_mark(const passage *p, size_t at) {
  for (int i = 0; i < 8; i++) {
    while (at < p->bytes && !is_word(p, at)) at++;
    const char found = at < p->bytes ? letter_at(p, at, true) : '\0';
    if (found != '\0') return found == 'I' && is_english(p, at) ? '\0' : found;
    if (!skip_word(p, &at)) return '\0';
  }
  return '\0';
}

static char marked(const passage *p) {
  static const char mark[] = "answer";
  const size_t length = sizeof mark - 1;
  for (size_t end = p->bytes; end >= length; end--) {
    if (strncasecmp(p->text + end - length, mark, length) != 0) continue;
    const char found = after_mark(p, end);
    if (found != '\0') return found;
  }
  return '\0';
}

/* Returns the letter at the beginning of a line, before ".", ")", ":" or the line's end; 0 if the line does not begin
 * in this way. */
static char begins_line(const passage *p, size_t at) {
  while (strchr(" *(\"", byte_at(p, at)) != NULL && byte_at(p, at) != '\0') at++;
  const char found = letter_at(p, at, false);
  const unsigned char after = byte_at(p, at + 1);
  return found != '\0' && (at + 1 >= p->bytes || (after != '\0' && strchr(".):\r\n", after) != NULL)) ? found : '\0';
}

static char at_begin(const passage *p) {
  size_t first = 0;
  while (first < p->bytes && isspace(byte_at(p, first)) != 0) first++;
  const char found = begins_line(p, first);
  for (size_t i = first; i < p->bytes && found != '\0'; i++) {
    const char other = p->text[i] == '\n' ? begins_line(p, i + 1) : '\0';
    if (other != '\0' && other != found) return '\0';
  }
  return found;
}

static char last_letter(const passage *p) {
  for (size_t i = p->bytes; i-- > 0;) {
    const char found = letter_at(p, i, false);
    if (found != '\0' && !is_english(p, i)) return found;
  }
  return '\0';
}

static char chosen(const char *text, size_t bytes) {
  static char (*const rules[])(const passage *) = {whole_text, in_box, marked, at_begin, last_letter};
  const passage p = {text, bytes};
  char found = '\0';
  for (size_t i = 0; i < sizeof rules / sizeof *rules && found == '\0'; i++) found = rules[i](&p);
  return found;
}

static tri_status choice_score(const tri_reward *reward, const tri_scored_completion *completion, double *out) {
  const char right = chosen(completion->answer, completion->answer_bytes);
  if (right == '\0') {
    return tri_reward_refuse_answer(reward, completion, "has no letter from A to J; write the letter of the choice");
  }
  *out = chosen(completion->text, completion->text_bytes) == right;
  return TRI_OK;
}

const tri_reward_kind tri_reward_choice = {.name = "choice", .needs_answer = true, .score = choice_score};
