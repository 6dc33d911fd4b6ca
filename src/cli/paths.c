#include "cli/paths.h"

#include "base/memory.h"
#include "files/home.h"

#include <stdlib.h>
#include <string.h>

/* The words of a command line, and the options that they are compared with. */
typedef struct walk {
  const tri_command *command;
  tri_option_place options[TRI_MOST_OPTIONS];
  int num_options;
  char **words;
  char *room; /* next free byte of the memory for changed words, which follows `words` */
} walk;

/* Finds the option that word[length], without dashes, names. An unambiguous prefix names an option, too. Returns NULL
 * if no option or more than one has this prefix. */
static const tri_option *find_option(const walk *w, const char *word, size_t length) {
  const tri_option *found = NULL;
  int begin_so = 0;
  for (int i = 0; i < w->num_options; i++) {
    const tri_option *o = w->options[i].row;
    if (strncmp(o->name, word, length) != 0) continue;
    if (strlen(o->name) == length) return o;
    found = o;
    begin_so++;
  }
  return begin_so == 1 ? found : NULL;
}

/* Replaces `~` at the beginning of a path by the home folder in words[i]. Fails with TRI_BAD_USAGE if that folder is
 * unknown. `at`: the path in words[i]. `option`: name of the option for messages; NULL: the word is not the value of an
 * option. */
static tri_status go_home(walk *w, int i, const char *at, const char *option) {
  char path[TRI_PATH_BYTES], fault[TRI_HOME_FAULT_BYTES];
  if (!tri_home_begins(at)) return TRI_OK;
  const char *wrong = tri_home_path(at, path, fault);
  if (wrong != NULL) {
    if (option == NULL) return tri_fail(TRI_BAD_USAGE, "%s: %s", w->command->name, wrong);
    return tri_fail(TRI_BAD_USAGE, "%s: --%s %s", w->command->name, option, wrong);
  }
  size_t before = (size_t)(at - w->words[i]), bytes = strlen(path) + 1;
  memcpy(w->room, w->words[i], before);
  memcpy(w->room + before, path, bytes);
  w->words[i] = w->room;
  w->room += before + bytes;
  return TRI_OK;
}

/* Handles a word that begins with a dash: replaces `~` in the value if the option takes a path. Moves *i to the last
 * word that the option uses. */
static tri_status read_option(walk *w, int count, int *i) {
  const char *word = w->words[*i];
  bool is_long = word[1] == '-';
  size_t length = is_long ? strcspn(word + 2, "=") : 0;
  const tri_option *option = is_long ? find_option(w, word + 2, length) : NULL;
  for (int o = 0; !is_long && o < w->num_options; o++) { /* an option with a letter, such as "-n 4" or "-n4" */
    if (w->options[o].row->letter == word[1]) option = w->options[o].row;
  }
  if (option == NULL || !tri_option_has_value(option)) return TRI_OK;
  const char *value =
      is_long ? (word[2 + length] == '=' ? word + 3 + length : NULL) : (word[2] != '\0' ? word + 2 : NULL);
  if (value == NULL && ++*i < count) value = w->words[*i];
  if (value == NULL || !tri_option_is_path(option)) return TRI_OK;
  return go_home(w, *i, value, option->name);
}

tri_status tri_paths_go_home(const tri_command *command, int count, char **arguments, char ***out) {
  const char *home = getenv("HOME");
  size_t most = ((size_t)count + 1) * sizeof(char *);
  char **words = NULL;
  tri_status status = TRI_OK;
  bool options = true;
  for (int i = 0; i < count; i++) most += strlen(arguments[i]) + (home == NULL ? 0 : strlen(home)) + 1;
  TRI_TRY(tri_alloc("the words of a command", most, 1, &words));
  memcpy(words, arguments, (size_t)count * sizeof *words);
  words[count] = NULL;
  walk w = {.command = command, .words = words, .room = (char *)(words + count + 1)};
  w.num_options = tri_options_list(command->options, w.options, NULL);
  for (int i = 1; i < count && status == TRI_OK; i++) {
    if (options && strcmp(words[i], "--") == 0) {
      options = false;
    } else if (options && words[i][0] == '-' && words[i][1] != '\0') {
      status = read_option(&w, count, &i);
    } else {
      status = go_home(&w, i, words[i], NULL);
    }
  }
  if (status == TRI_OK) *out = words;
  if (status != TRI_OK) tri_free(words);
  return status;
}
