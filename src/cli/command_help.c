#include "cli/command_help.h"

int tri_command_help(const tri_command *command, const char *parts[TRI_HELP_PARTS]) {
  int count = 0;
  parts[count++] = command->usage;
  tri_options_help(command->options, parts, &count);
  parts[count++] = command->examples;
  return count;
}

void tri_command_print_help(const tri_command *command, FILE *to) {
  const char *parts[TRI_HELP_PARTS];
  const int count = tri_command_help(command, parts);
  for (int i = 0; i < count; i++) fputs(parts[i], to);
}
