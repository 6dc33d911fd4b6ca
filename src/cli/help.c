#include "cli/help.h"

#include "cli/command_help.h"
#include "cli/help_keys.h"
#include "cli/man.h"
#include "cli/topics.h"
#include "config/name_answers.h"
#include "config/nearest_word.h"
#include "config/template_preset.h"
#include "files/file.h"
#include "files/write_fault.h"

#include <errno.h>
#include <string.h>

enum { MOST_NAMES = 64 };

void tri_help_usage(const tri_commands *commands, FILE *to) {
  fprintf(to, "Trireme %s trains large language models over MPI, and says beforehand how fast and whether it fits.\n\n",
          TRIREME_VERSION);
  fprintf(to, "usage: trireme COMMAND [options]     (trireme COMMAND --help for each)\n\n");
  for (int i = 0; i < commands->count; i++) {
    fprintf(to, "  %-10s %s\n", commands->list[i]->name, commands->list[i]->summary);
  }
  fprintf(to, "\ntrireme --version prints the version and the build options.\n");
}

const tri_command *tri_command_find(const tri_commands *commands, const char *name) {
  for (int i = 0; i < commands->count; i++) {
    if (strcmp(commands->list[i]->name, name) == 0) return commands->list[i];
  }
  return NULL;
}

tri_status tri_command_unknown(const tri_commands *commands, const char *name) {
  static const char *const options[] = {"--help", "--version"};
  const char *names[MOST_NAMES];
  int count = commands->count < MOST_NAMES ? commands->count : MOST_NAMES;
  for (int i = 0; i < count; i++) names[i] = commands->list[i]->name;
  const char *nearest =
      name[0] == '-' ? tri_nearest_word(name, options, 2) : tri_nearest_word(name, names, (size_t)count);
  const char *answer = tri_command_answer(name);
  if (answer != NULL && name[0] != '-') return tri_fail(TRI_BAD_USAGE, "`%s` is not a command; %s", name, answer);
  if (nearest != NULL && name[0] == '-')
    return tri_fail(TRI_BAD_USAGE, "`%s` is not an option; did you mean `%s`?", name, nearest);
  if (nearest != NULL) return tri_fail(TRI_BAD_USAGE, "`%s` is not a command; did you mean `%s`?", name, nearest);
  return tri_fail(TRI_BAD_USAGE, "`%s` is not a command; `trireme --help` lists them", name);
}

/* Fails with TRI_BAD_USAGE because a page is unknown. The message suggests a command, a topic or a key with a similar
 * name; for a name that only other programs have, it describes what to use instead. */
static tri_status page_unknown(const tri_commands *commands, const char *name) {
  const char *names[MOST_NAMES];
  const tri_topic *topic;
  int count = 0;
  for (; count < commands->count && count < MOST_NAMES; count++) names[count] = commands->list[count]->name;
  for (int i = 0; (topic = tri_topic_at(i)) != NULL && count < MOST_NAMES; i++) names[count++] = topic->name;
  if (count < MOST_NAMES) names[count++] = "templates";
  const char *nearest = tri_nearest_word(name, names, (size_t)count);
  char key[128];
  for (int i = 0; nearest == NULL && (topic = tri_topic_at(i)) != NULL; i++) {
    if (tri_config_meant(topic->table(), name, key, sizeof key)) nearest = key;
  }
  if (nearest == NULL && tri_help_nearest_key(name, key)) nearest = key;
  const char *answer = tri_key_answer(name);
  if (answer == NULL) answer = tri_command_answer(name);
  if (answer != NULL) {
    return tri_fail(TRI_BAD_USAGE, "help: `%s` is neither a command nor a kind of file nor a key; %s", name, answer);
  }
  if (nearest != NULL) {
    return tri_fail(TRI_BAD_USAGE, "help: `%s` is neither a command nor a kind of file nor a key; did you mean `%s`?",
                    name, nearest);
  }
  return tri_fail(TRI_BAD_USAGE,
                  "help: `%s` is neither a command nor a kind of file nor a key; `trireme --help` lists them", name);
}

/* Prints the page of the program ("trireme"), of a command or of a topic. Returns false if no page has this name. */
static bool print_page(const tri_commands *commands, const char *name, FILE *to) {
  const tri_command *command = tri_command_find(commands, name);
  const tri_topic *topic = tri_topic_find(name);
  if (strcmp(name, "trireme") == 0) {
    tri_man_program(commands->list, commands->count, to);
  } else if (command != NULL) {
    tri_man_command(command, to);
  } else if (topic != NULL) {
    tri_man_topic(topic, to);
  }
  return strcmp(name, "trireme") == 0 || command != NULL || topic != NULL;
}

/* Writes a page to FOLDER/trireme-NAME.SECTION. The name of the page of the program, "trireme", gives
 * FOLDER/trireme.SECTION. */
static tri_status write_page(const tri_commands *commands, const char *folder, const char *name, int section) {
  char path[TRI_PATH_BYTES], file[96];
  bool program = strcmp(name, "trireme") == 0;
  snprintf(file, sizeof file, "%s%s.%d", program ? "" : "trireme-", name, section);
  TRI_TRY(tri_path_join(path, folder, file));
  FILE *to = fopen(path, "we");
  if (to == NULL) return tri_fail(TRI_IO_FAILED, "cannot write %s: %s", path, tri_write_fault(errno));
  print_page(commands, name, to);
  bool failed = ferror(to) != 0;
  if (fclose(to) == 0 && !failed) return TRI_OK;
  return tri_fail(TRI_IO_FAILED, "cannot write %s: %s", path, tri_write_fault(errno));
}

static tri_status write_pages(const tri_commands *commands, const char *folder) {
  const tri_topic *topic;
  TRI_TRY(tri_directory_create(folder));
  TRI_TRY(write_page(commands, folder, "trireme", 1));
  for (int i = 0; i < commands->count; i++) TRI_TRY(write_page(commands, folder, commands->list[i]->name, 1));
  for (int i = 0; (topic = tri_topic_at(i)) != NULL; i++) TRI_TRY(write_page(commands, folder, topic->name, 5));
  return TRI_OK;
}

static tri_status print_templates(void) {
  printf("Chat templates for --chat-template NAME, each with the models that have it:\n\n");
  TRI_TRY(tri_template_presets_print(stdout));
  printf("\n./NAME and NAME.jinja are files.\n");
  return TRI_OK;
}

const char tri_help_usage_text[] =
    "usage: trireme help [COMMAND | run | study | model | cluster | system | templates | KEY | SECTION]\n"
    "       trireme help --man PAGE\n"
    "       trireme help --man-pages FOLDER\n"
    "\n"
    "Describes a command, or lists every key of a kind of file (run, study, model, cluster or system) with its type, "
    "its\n"
    "default and its meaning. With a KEY of these files (optimizer.lr, or lr) or a SECTION (optimizer) describes that\n"
    "alone; with `templates` lists the chat templates by name.\n"
    "\n";
const tri_option tri_help_options[] = {
    {.name = "man",
     .kind = TRI_OPTION_TEXT,
     .help =
         "  --man PAGE          print the manual page of a command, of a kind of file, or of trireme, for man(1)\n"},
    {.name = "man-pages",
     .kind = TRI_OPTION_PATH,
     .help = "  --man-pages FOLDER  write each manual page to a file in FOLDER\n"},
    {0}};
const char tri_help_examples[] =
    "\n"
    "example: trireme help run | grep checkpoint\n"
    "         trireme help optimizer.lr\n";

tri_status tri_help_run(const tri_commands *commands, int count, char **arguments) {
  if (count == 1) {
    tri_help_usage(commands, stdout);
    return TRI_OK;
  }
  if (count == 3 && strcmp(arguments[1], "--man") == 0) {
    if (print_page(commands, arguments[2], stdout)) return TRI_OK;
    return tri_fail(TRI_BAD_USAGE, "no manual page `%s`; the pages are trireme, each command's and each file's",
                    arguments[2]);
  }
  if (count == 3 && strcmp(arguments[1], "--man-pages") == 0) return write_pages(commands, arguments[2]);
  if (count > 2 || arguments[1][0] == '-') {
    return tri_fail(TRI_BAD_USAGE, "help: one command or one kind of file; see trireme help --help");
  }
  if (strcmp(arguments[1], "templates") == 0) return print_templates();
  const tri_command *command = tri_command_find(commands, arguments[1]);
  const tri_topic *topic = tri_topic_find(arguments[1]);
  if (command == NULL && topic == NULL) {
    return tri_help_keys(arguments[1], stdout) > 0 ? TRI_OK : page_unknown(commands, arguments[1]);
  }
  if (command != NULL) {
    tri_command_print_help(command, stdout);
  } else {
    tri_help_topic(topic, stdout);
  }
  return TRI_OK;
}
