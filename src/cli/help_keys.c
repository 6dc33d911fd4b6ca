#include "cli/help_keys.h"

#include "config/nearest_word.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { NARROWEST = 40, WIDEST = 120, USUAL = 80, INDENT = 4 };

/* Returns the number of columns of the terminal `to`. If `to` is not a terminal, returns $COLUMNS, or 80 if that is not
 * set. The number is limited to a readable width. */
static int width_of(FILE *to) {
  struct winsize size = {0};
  const char *columns = getenv("COLUMNS");
  int width = ioctl(fileno(to), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
  if (width == 0 && columns != NULL) width = atoi(columns);
  if (width == 0) width = USUAL;
  return width < NARROWEST ? NARROWEST : width > WIDEST ? WIDEST : width;
}

/* Prints a text in indented lines of at most `width` columns. */
static void fold(const char *text, int width, FILE *to) {
  int column = 0;
  for (size_t length; *text != '\0'; text += length + strspn(text + length, " ")) {
    length = strcspn(text, " ");
    const bool begins = column == 0 || column + 1 + (int)length > width;
    if (column > 0 && begins) fputc('\n', to);
    if (begins) column = fprintf(to, "%*s%.*s", INDENT, "", (int)length, text);
    if (!begins) column += fprintf(to, " %.*s", (int)length, text);
  }
  fputc('\n', to);
}

/* A search for keys, and the file to which the found keys are printed. */
typedef struct search {
  const char *word; /* the key that is asked for; NULL: all keys */
  bool by_last;     /* whether `word` is the last part of a name; otherwise it is a whole name or a section */
  const tri_topic *topic;
  FILE *to;
  int width, found; /* width: columns of a line; found: number of keys printed so far */
} search;

static bool is_meant(const search *s, const char *name) {
  const size_t length = s->word == NULL ? 0 : strlen(s->word);
  const char *dot = strrchr(name, '.');
  if (s->word == NULL) return true;
  if (s->by_last) return strcmp(dot == NULL ? name : dot + 1, s->word) == 0;
  return strncmp(name, s->word, length) == 0 && (name[length] == '.' || name[length] == '\0');
}

static void print_key(void *context, const tri_config_described *key) {
  search *s = context;
  char line[1024];
  if (!is_meant(s, key->name)) return;
  if (s->found++ == 0 || s->word != NULL) fprintf(s->to, "%s", s->found > 1 ? "\n" : "");
  snprintf(line, sizeof line, "%s; default: %s", key->type, key->standard);
  if (strcmp(key->standard, "(required)") == 0) snprintf(line, sizeof line, "%s; required", key->type);
  if (strcmp(key->standard, "(none)") == 0 || key->standard[0] == '\0') snprintf(line, sizeof line, "%s", key->type);
  fprintf(s->to, "%s (%s file)\n", key->name, s->topic->name);
  fold(line, s->width, s->to);
  fold(key->key->help, s->width, s->to);
}

int tri_help_keys(const char *word, FILE *to) {
  search s = {.word = word, .to = to, .width = width_of(to)};
  for (int pass = 0; pass < 2 && s.found == 0; pass++) {
    s.by_last = pass == 1;
    for (int i = 0; (s.topic = tri_topic_at(i)) != NULL; i++) tri_config_describe(s.topic->table(), print_key, &s);
  }
  return s.found;
}

/* The nearest name so far. A word with a section is compared with whole names; a word without one is compared with the
 * last parts of names. */
typedef struct guess {
  const char *word;
  char best[128], name[128]; /* best: the part that was compared; name: the whole name; "": no name yet */
} guess;

static void compare_key(void *context, const tri_config_described *key) {
  guess *g = context;
  const char *dot = strchr(g->word, '.') != NULL ? NULL : strrchr(key->name, '.');
  const char *const own = dot == NULL ? key->name : dot + 1;
  const char *const names[] = {g->best, own};
  if (tri_nearest_word(g->word, names, 2) != own) return;
  snprintf(g->best, sizeof g->best, "%s", own);
  snprintf(g->name, sizeof g->name, "%s", key->name);
}

bool tri_help_nearest_key(const char *word, char name[128]) {
  guess g = {.word = word};
  const tri_topic *topic;
  for (int i = 0; (topic = tri_topic_at(i)) != NULL; i++) tri_config_describe(topic->table(), compare_key, &g);
  snprintf(name, 128, "%s", g.name);
  return g.name[0] != '\0';
}

void tri_help_topic(const tri_topic *topic, FILE *to) {
  search s = {.topic = topic, .to = to, .width = width_of(to)};
  if (!isatty(fileno(to))) {
    tri_config_help(topic->table(), to);
    return;
  }
  tri_config_describe(topic->table(), print_key, &s);
}
