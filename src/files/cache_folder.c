#include "files/cache_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool tri_cache_folder(char out[TRI_PATH_BYTES]) {
  static const struct {
    const char *variable, *below;
  } places[] = {{"TRIREME_CACHE", ""}, {"XDG_CACHE_HOME", "/trireme"}, {"HOME", "/.cache/trireme"}};
  for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
    const char *root = getenv(places[i].variable);
    if (root == NULL || root[0] == '\0') continue;
    if (i == 0 && strcmp(root, "none") == 0) return false;
    return snprintf(out, TRI_PATH_BYTES, "%s%s", root, places[i].below) < TRI_PATH_BYTES;
  }
  return false;
}
