#include "config/template_preset.h"

#include "base/text.h"
#include "config/preset.h"
#include "files/lines.h"

#include <string.h>

enum { LONGEST_LINE_BYTES = 4096 };

tri_status tri_template_preset_find(const char *given, char path[TRI_PATH_BYTES], bool *is_preset) {
  const bool is_path = strchr(given, '/') != NULL || tri_ends_with(given, ".jinja");
  char all[TRI_PRESET_ALL_BYTES], nearest[TRI_PRESET_NAME_BYTES];
  *is_preset = !is_path && tri_preset_find("templates", given, path);
  if (*is_preset) return TRI_OK;
  if (snprintf(path, TRI_PATH_BYTES, "%s", given) >= TRI_PATH_BYTES) {
    return tri_fail(TRI_BAD_USAGE, "the path %.60s... is too long", given);
  }
  if (is_path || tri_path_exists(given)) return TRI_OK;
  tri_preset_suggest("templates", given, all, nearest);
  return tri_fail(TRI_BAD_FILE, "`%s` is neither a file nor a template%s%s%s trireme help templates lists them", given,
                  nearest[0] == '\0' ? ";" : "; did you mean `", nearest, nearest[0] == '\0' ? "" : "`?");
}

void tri_template_markers(const char *source, size_t bytes, char out[TRI_MARKERS_BYTES]) {
  static const char key[] = "markers: ";
  out[0] = '\0';
  if (bytes < 2 || memcmp(source, "{#", 2) != 0) return;
  const char *end = memmem(source, bytes, "#}", 2);
  const char *begin = end == NULL ? NULL : memmem(source, (size_t)(end - source), key, strlen(key));
  if (begin == NULL) return;
  begin += strlen(key);
  while (end > begin && strchr("- \n", end[-1]) != NULL) end--;
  snprintf(out, TRI_MARKERS_BYTES, "%.*s", (int)(end - begin), begin);
}

/* Prints a line with the name of a template and, if its file begins with a comment, the first line of that. */
static tri_status print_models(const char *name, const char *path, FILE *to) {
  tri_lines *lines = NULL;
  tri_line line = {.text = ""};
  bool there = false;
  TRI_TRY(tri_lines_open(path, LONGEST_LINE_BYTES, &lines));
  const tri_status status = tri_lines_next_any(lines, &line, &there);
  if (status == TRI_OK && there && tri_begins_with(line.text, "{#- ")) {
    const char *text = line.text + strlen("{#- ");
    const size_t bytes = strlen(text) - (tri_ends_with(text, " -#}") ? strlen(" -#}") : 0);
    fprintf(to, "  %-12s %.*s\n", name, (int)bytes, text);
  } else if (status == TRI_OK) {
    fprintf(to, "  %s\n", name);
  }
  tri_lines_close(lines);
  return status;
}

tri_status tri_template_presets_print(FILE *to) {
  char names[TRI_PRESET_MOST][TRI_PRESET_NAME_BYTES], path[TRI_PATH_BYTES];
  const size_t count = tri_preset_list("templates", names);
  for (size_t i = 0; i < count; i++) {
    if (tri_preset_find("templates", names[i], path)) TRI_TRY(print_models(names[i], path, to));
  }
  return TRI_OK;
}
