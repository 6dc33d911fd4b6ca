#include "files/home.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GPT2 "gpt2:"

/* Returns the offset of the path in a text, which may begin with "gpt2:". */
static size_t beginning(const char *text) { return strncmp(text, GPT2, strlen(GPT2)) == 0 ? strlen(GPT2) : 0; }

/* Returns true for "~/x" and "~ann/x"; "~x" is the name of a file. */
bool tri_home_begins(const char *path) {
  path += beginning(path);
  return path[0] == '~' && strchr(path, '/') != NULL;
}

const char *tri_home_path(const char *path, char out[TRI_PATH_BYTES], char fault[TRI_HOME_FAULT_BYTES]) {
  const char *home = getenv("HOME"), *at = path + beginning(path);
  if (!tri_home_begins(path)) {
    if (snprintf(out, TRI_PATH_BYTES, "%s", path) < TRI_PATH_BYTES) return NULL;
    snprintf(fault, TRI_HOME_FAULT_BYTES, "`%.60s...` is too long a path", path);
    return fault;
  }
  if (at[1] != '/') {
    int name = (int)strcspn(at + 1, "/");
    snprintf(fault, TRI_HOME_FAULT_BYTES,
             "`%.200s` names the home folder of another user, `%.*s`, which is not supported; write the whole path, or "
             "./%.60s if that is a folder's name",
             path, name > 60 ? 60 : name, at + 1, at);
    return fault;
  }
  if (home == NULL || *home == '\0') {
    snprintf(fault, TRI_HOME_FAULT_BYTES, "`%.200s` is in the home folder, but HOME is %s; write the whole path", path,
             home == NULL ? "not set" : "empty");
    return fault;
  }
  size_t ending = strlen(home);
  bool doubled = home[ending - 1] == '/'; /* whether HOME ends in a slash, as "/" does */
  if (snprintf(out, TRI_PATH_BYTES, "%.*s%s%s", (int)(at - path), path, home, at + 1 + doubled) < TRI_PATH_BYTES) {
    return NULL;
  }
  snprintf(fault, TRI_HOME_FAULT_BYTES, "`%.60s...` is too long a path", path);
  return fault;
}
