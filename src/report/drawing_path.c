#include "report/drawing_path.h"

#include "files/file.h"
#include "files/write_fault.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int tri_drawing_stem(const char *path) {
  static const char *const endings[] = {".json", ".svg"};
  const size_t length = strlen(path);
  for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
    const size_t ending = strlen(endings[i]);
    if (length > ending && strcmp(path + length - ending, endings[i]) == 0) return (int)(length - ending);
  }
  return (int)length;
}

tri_status tri_drawing_check(const char *option, const char *path) {
  char folder[TRI_PATH_BYTES] = ".";
  const char *slash = strrchr(path, '/');
  if (tri_drawing_stem(path) == 0) return tri_fail(TRI_BAD_USAGE, "%s: the name is empty; write FILE.svg", option);
  if (slash != NULL) snprintf(folder, sizeof folder, "%.*s", (int)(slash - path) + 1, path);
  if (access(folder, W_OK | X_OK) == 0) return TRI_OK;
  return tri_fail(TRI_IO_FAILED, "%s %s: cannot write to the folder %s: %s", option, path, folder,
                  tri_write_fault(errno));
}

tri_status tri_drawing_name(const char *option, const char *path, const char *ending, char *out) {
  const int length = snprintf(out, TRI_PATH_BYTES, "%.*s%s", tri_drawing_stem(path), path, ending);
  return length < TRI_PATH_BYTES ? TRI_OK : tri_fail(TRI_BAD_USAGE, "%s: the name is too long", option);
}
