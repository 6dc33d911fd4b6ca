#include "report/drawing_path.h"

#include "files/file.h"
#include "files/write_fault.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
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

/* Writes the folder of a file to `out`, TRI_PATH_BYTES bytes, and returns the name in it. */
static const char *split(const char *path, char *out) {
  const char *slash = strrchr(path, '/');
  snprintf(out, TRI_PATH_BYTES, "%.*s", slash == NULL ? 1 : (int)(slash - path) + 1, slash == NULL ? "." : path);
  return slash == NULL ? path : slash + 1;
}

bool tri_drawing_same(const char *a, const char *b) {
  char folder_a[TRI_PATH_BYTES], folder_b[TRI_PATH_BYTES];
  const char *name_a = split(a, folder_a), *name_b = split(b, folder_b);
  const int length = tri_drawing_stem(name_a);
  struct stat in_a, in_b;
  if (length != tri_drawing_stem(name_b) || strncmp(name_a, name_b, (size_t)length) != 0) return false;
  if (stat(folder_a, &in_a) != 0 || stat(folder_b, &in_b) != 0) return false;
  return in_a.st_dev == in_b.st_dev && in_a.st_ino == in_b.st_ino;
}

tri_status tri_drawing_check(const char *option, const char *path) {
  char folder[TRI_PATH_BYTES];
  split(path, folder);
  if (tri_drawing_stem(path) == 0) return tri_fail(TRI_BAD_USAGE, "%s: the name is empty; write FILE.svg", option);
  if (access(folder, W_OK | X_OK) == 0) return TRI_OK;
  return tri_fail(TRI_IO_FAILED, "%s %s: cannot write to the folder %s: %s", option, path, folder,
                  tri_write_fault(errno));
}

tri_status tri_drawing_name(const char *option, const char *path, const char *ending, char *out) {
  const int length = snprintf(out, TRI_PATH_BYTES, "%.*s%s", tri_drawing_stem(path), path, ending);
  return length < TRI_PATH_BYTES ? TRI_OK : tri_fail(TRI_BAD_USAGE, "%s: the name is too long", option);
}
