/* Prints the words that can complete a command line. The scripts for shells (scripts/completion) contain no names. They
 * run `trireme complete`, which looks up commands, options, keys of files and presets in the program's own tables. */
#include "cli/complete.h"

#include "cli/topics.h"
#include "config/preset.h"
#include "optimizers/optimizer.h"
#include "plan/training_options.h"
#include "schedule/layout_config.h"

#include <stdio.h>
#include <string.h>

/* The word to complete. begun: its beginning, as typed; before: text to print before each candidate. */
typedef struct wanted {
  const char *begun, *before;
} wanted;

static void offer(const wanted *w, const char *word, const char *about) {
  if (strncmp(word, w->begun, strlen(w->begun)) != 0) return;
  printf("%s%s%s%s\n", w->before, word, about == NULL || about[0] == '\0' ? "" : "\t", about == NULL ? "" : about);
}

static void offer_files(void) { printf(":files\n"); }

static void offer_presets(const wanted *w, const char *folder) {
  char names[TRI_PRESET_MOST][TRI_PRESET_NAME_BYTES];
  size_t count = tri_preset_list(folder, names);
  for (size_t i = 0; i < count; i++) offer(w, names[i], NULL);
}

static void offer_words(const wanted *w, const tri_config_word *words) {
  for (; words->name != NULL; words++) offer(w, words->name, NULL);
}

/* ---- KEY=VALUE --------------------------------------------------------------------------------------------------- */

/* Offers a key of a table, such as "tensor=". If the typed word begins with "tensor=", offers the key's values instead,
 * which are known for a bool and for a choice of words. Ignores sections. */
static void offer_key(void *context, const tri_config_described *described) {
  static const tri_config_word answers[] = {{"true", 1}, {"false", 0}, {NULL, 0}};
  const wanted *w = context;
  const tri_config_key *key = described->key;
  char text[256], before[TRI_PATH_BYTES];
  if (key->type == TRI_CONFIG_SECTION) return;
  snprintf(text, sizeof text, "%s=", described->name);
  snprintf(before, sizeof before, "%s%s", w->before, text);
  const wanted value = {w->begun + strlen(text), before};
  if (strncmp(w->begun, text, strlen(text)) != 0) {
    offer(w, text, key->help);
  } else if (key->type == TRI_CONFIG_BOOL) {
    offer_words(&value, answers);
  } else if (key->type == TRI_CONFIG_CHOICE) {
    offer_words(&value, key->words);
  }
}

/* Offers candidates for the last word of a layout. Commas separate the words of a layout. */
static void offer_layout(const wanted *w) {
  char before[TRI_PATH_BYTES];
  const char *comma = strrchr(w->begun, ',');
  const char *last = comma == NULL ? w->begun : comma + 1;
  snprintf(before, sizeof before, "%s%.*s", w->before, (int)(last - w->begun), w->begun);
  tri_config_describe(&tri_layout_table, offer_key, &(wanted){last, before});
}

static void offer_settings(const char *command, const wanted *w) {
  const tri_topic *run = tri_topic_find("run");
  bool trains = strcmp(command, "train") == 0 && run != NULL;
  tri_config_describe(trains ? run->table() : &tri_training_options_table, offer_key, (void *)w);
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

static void offer_list(const wanted *w, const char *const *words) {
  for (; *words != NULL; words++) offer(w, *words, NULL);
}

/* Offers the values of an option that takes words or keys. Returns false for other options. */
static bool offer_named(const char *command, const char *option, const wanted *w) {
  static const struct {
    const char *option, *words[8];
  } rows[] = {{"device", {"auto", "cpu", "gpu", "reference"}},
              {"dtype", {"fp32", "bf16"}},
              {"by", {"step", "tokens", "time"}},
              {"packing", {"windows", "documents"}},
              {"documents", {"file", "blank", "line", "masked", "joined"}}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    if (strcmp(rows[i].option, option) != 0) continue;
    offer_list(w, rows[i].words);
    return true;
  }
  if (strcmp(option, "precision") == 0) {
    static const char *const some[] = {"bf16", "fp32", NULL}, *const more[] = {"bf16", "fp32", "fp64", NULL};
    static const char *const all[] = {"bf16", "fp32", "fp64", "fp16", NULL};
    const bool plans = strcmp(command, "plan") == 0 || strcmp(command, "simulate") == 0;
    const bool runs = strcmp(command, "eval") == 0 || strcmp(command, "generate") == 0 || strcmp(command, "serve") == 0;
    offer_list(w, plans ? all : runs ? more : some);
  } else if (strcmp(option, "method") == 0) {
    static const char *const tune[] = {"auto", "gaussian", "random", "grid", "exhaustive", NULL};
    static const char *const merge[] = {"linear", "task_arithmetic", "slerp", "ties", NULL};
    offer_list(w, strcmp(command, "merge") == 0 ? merge : tune);
  } else if (strcmp(option, "optimizer") == 0) {
    offer_words(w, tri_optimizer_words);
  } else if (strcmp(option, "layout") == 0) {
    offer_layout(w);
  } else if (strcmp(option, "set") == 0 && strcmp(command, "validate") != 0) {
    offer_settings(command, w);
  } else {
    return false;
  }
  return true;
}

static void offer_value(const char *command, const tri_option *option, const wanted *w) {
  const char *name = option->name;
  if (offer_named(command, name, w)) return;
  if (strcmp(name, "model") == 0) offer_presets(w, "models");
  if (strcmp(name, "chat-template") == 0) offer_presets(w, "templates");
  if (strcmp(name, "cluster") == 0) offer_presets(w, "clusters");
  if (strcmp(name, "system") == 0 && tri_option_is_path(option)) offer_presets(w, "systems");
  if (strcmp(name, "resume") == 0) offer_list(w, (const char *const[]){"auto", "never", NULL});
  if (tri_option_is_path(option)) offer_files();
}

/* Copies to out[bytes] the part of an option's description that is on the first line of its help; "" if the option has
 * no help of its own. */
static void describe(const tri_option *option, char *out, size_t bytes) {
  char begin[80];
  out[0] = '\0';
  snprintf(begin, sizeof begin, "  --%s", option->name);
  if (option->help == NULL || strncmp(option->help, begin, strlen(begin)) != 0) return;
  const char *at = option->help + strlen(begin), *end = at + strcspn(at, "\n");
  while (at < end && !(at[0] == ' ' && at[1] == ' ')) at++;
  while (at < end && *at == ' ') at++;
  snprintf(out, bytes, "%.*s", (int)(end - at), at);
}

static void offer_options(const tri_command *command, const wanted *w) {
  tri_option_place options[TRI_MOST_OPTIONS];
  char option[64], about[160];
  int count = 0;
  tri_options_list(command->options, options, &count);
  for (int i = 0; i < count; i++) {
    snprintf(option, sizeof option, "--%s", options[i].row->name);
    describe(options[i].row, about, sizeof about);
    offer(w, option, about);
  }
  offer(w, "--help", "describe the command");
}

/* Returns the option that a word ("-n", "--ranks") names if this option takes a value; NULL otherwise. */
static const tri_option *takes_value(const tri_command *command, const char *word) {
  tri_option_place options[TRI_MOST_OPTIONS];
  const int count = tri_options_list(command->options, options, NULL);
  for (int i = 0; i < count; i++) {
    const tri_option *row = options[i].row;
    const bool letter = row->letter != 0 && word[0] == '-' && word[1] == row->letter && word[2] == '\0';
    if (!tri_option_has_value(row)) continue;
    if (letter || (strncmp(word, "--", 2) == 0 && strcmp(word + 2, row->name) == 0)) return row;
  }
  return NULL;
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

static void offer_operand(const tri_command *command, const wanted *w) {
  if (strcmp(command->name, "inspect") == 0) offer_presets(w, "models");
  if (strcmp(command->name, "tune") == 0) offer(w, "report", "report what was found");
  offer_files();
}

static void offer_names(const tri_commands *commands, const wanted *w, bool topics) {
  const tri_topic *topic;
  for (int i = 0; i < commands->count; i++) offer(w, commands->list[i]->name, commands->list[i]->summary);
  for (int i = 0; topics && (topic = tri_topic_at(i)) != NULL; i++) offer(w, topic->name, topic->summary);
  if (topics) offer(w, "templates", "chat templates by name");
}

/* Offers values for an incomplete word "--option=value". */
static void offer_joined(const tri_command *command, const char *word) {
  char option[64], before[80];
  size_t length = strcspn(word, "=");
  snprintf(option, sizeof option, "%.*s", (int)(length < sizeof option ? length : sizeof option - 1), word);
  const tri_option *row = takes_value(command, option);
  if (row == NULL) return;
  snprintf(before, sizeof before, "%s=", option);
  offer_value(command->name, row, &(wanted){word + length + 1, before});
}

tri_status tri_complete_run(const tri_commands *commands, int count, char **words) {
  if (count == 0) return TRI_OK;
  const char *word = words[count - 1];
  const wanted w = {word, ""};
  if (count == 1) {
    offer_names(commands, &w, false);
    offer(&w, "--help", NULL);
    offer(&w, "--version", "print the version and the build options");
    return TRI_OK;
  }
  const tri_command *command = tri_command_find(commands, words[0]);
  if (command == NULL) return TRI_OK;
  const tri_option *asked = count > 2 ? takes_value(command, words[count - 2]) : NULL;
  if (asked != NULL) {
    offer_value(command->name, asked, &w);
  } else if (strncmp(word, "--", 2) == 0 && strchr(word, '=') != NULL) {
    offer_joined(command, word);
  } else if (word[0] == '-') {
    offer_options(command, &w);
  } else if (strcmp(command->name, "help") == 0) {
    offer_names(commands, &w, true);
  } else {
    offer_operand(command, &w);
  }
  return TRI_OK;
}
