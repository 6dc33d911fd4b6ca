/* Looks up code points in the table of Unicode categories. */
#include "tokenizer/unicode_classes.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

/* Names of the categories, in the order of the table. */
static const struct {
  const char *name, *long_name;
} categories[TRI_UNICODE_CATEGORIES] = {
    {"lu", "uppercaseletter"},    {"lt", "titlecaseletter"},  {"ll", "lowercaseletter"},
    {"lm", "modifierletter"},     {"lo", "otherletter"},      {"mn", "nonspacingmark"},
    {"mc", "spacingmark"},        {"me", "enclosingmark"},    {"nd", "decimalnumber"},
    {"nl", "letternumber"},       {"no", "othernumber"},      {"pc", "connectorpunctuation"},
    {"pd", "dashpunctuation"},    {"ps", "openpunctuation"},  {"pe", "closepunctuation"},
    {"pi", "initialpunctuation"}, {"pf", "finalpunctuation"}, {"po", "otherpunctuation"},
    {"sm", "mathsymbol"},         {"sc", "currencysymbol"},   {"sk", "modifiersymbol"},
    {"so", "othersymbol"},        {"zs", "spaceseparator"},   {"zl", "lineseparator"},
    {"zp", "paragraphseparator"}, {"cc", "control"},          {"cf", "format"},
    {"cs", "surrogate"},          {"co", "privateuse"},       {"cn", "unassigned"},
};

/* Names of groups: all categories that begin with the letter. */
static const struct {
  char letter;
  const char *long_name;
} groups[] = {
    {'l', "letter"}, {'m', "mark"},      {'n', "number"}, {'p', "punctuation"},
    {'s', "symbol"}, {'z', "separator"}, {'c', "other"},
};

int tri_unicode_run_of(uint32_t code) {
  int low = 0, high = tri_unicode_num_runs;
  while (high - low > 1) {
    int middle = (low + high) / 2;
    if (tri_unicode_runs[middle] >> 8 <= code) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

uint32_t tri_unicode_categories(const char *name) {
  char plain[32];
  size_t length = 0;
  uint32_t set = 0;
  for (; *name != '\0'; name++) {
    if (*name == ' ' || *name == '_' || *name == '-') continue;
    if (length + 1 == sizeof plain) return 0;
    plain[length++] = (char)tolower((unsigned char)*name);
  }
  plain[length] = '\0';
  char letter = length == 1 ? plain[0] : '\0';
  for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
    if (strcmp(groups[i].long_name, plain) == 0) letter = groups[i].letter;
  }
  bool cased = strcmp(plain, "lc") == 0 || strcmp(plain, "casedletter") == 0;
  for (int i = 0; i < TRI_UNICODE_CATEGORIES; i++) {
    bool in = strcmp(categories[i].name, plain) == 0 || strcmp(categories[i].long_name, plain) == 0 ||
              categories[i].name[0] == letter || (cased && i <= TRI_UNICODE_LL);
    if (in) set |= UINT32_C(1) << i;
  }
  return set;
}

bool tri_unicode_is_word(uint32_t code) {
  const int category = (int)(tri_unicode_runs[tri_unicode_run_of(code)] & TRI_UNICODE_CATEGORY);
  if (category <= TRI_UNICODE_NL || category == TRI_UNICODE_PC) return true;
  return (code >= 0x24B6 && code <= 0x24E9) || (code >= 0x1F130 && code <= 0x1F149) ||
         (code >= 0x1F150 && code <= 0x1F169) || (code >= 0x1F170 && code <= 0x1F189);
}
