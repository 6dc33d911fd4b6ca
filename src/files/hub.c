#include "files/hub.h"

#include "base/memory.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_PART = 96, MOST_REVISION = 256, MOST_DEPTH = 8 };

typedef struct hub_name {
  char organisation[MOST_PART + 1], name[MOST_PART + 1],
      revision[MOST_REVISION + 1]; /* revision: the part after @, or "" */
} hub_name;

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* Returns the length of a part of a name by the hub's rule: letters, digits, `.`, `_` and `-`, at most 96, beginning
 * and ending with a letter or digit; 0 if the text does not begin with such a part. */
static size_t part_length(const char *text) {
  size_t length = 0;
  while (isalnum((unsigned char)text[length]) || (text[length] != '\0' && strchr("._-", text[length]) != NULL))
    length++;
  if (length == 0 || length > MOST_PART) return 0;
  return isalnum((unsigned char)text[0]) && isalnum((unsigned char)text[length - 1]) ? length : 0;
}

static bool read_name(const char *text, hub_name *out) {
  const size_t organisation = part_length(text);
  if (organisation == 0 || text[organisation] != '/') return false;
  const char *name = text + organisation + 1;
  const size_t length = part_length(name);
  if (length == 0 || (name[length] != '\0' && name[length] != '@')) return false;
  const char *revision = name[length] == '@' ? name + length + 1 : "";
  const bool strange = strstr(revision, "..") != NULL || revision[0] == '/' || strlen(revision) > MOST_REVISION;
  if (strange || (name[length] == '@' && revision[0] == '\0')) return false;
  snprintf(out->organisation, sizeof out->organisation, "%.*s", (int)organisation, text);
  snprintf(out->name, sizeof out->name, "%.*s", (int)length, name);
  snprintf(out->revision, sizeof out->revision, "%s", revision);
  return true;
}

size_t tri_hub_name_length(const char *name) {
  hub_name parts;
  return read_name(name, &parts) ? strlen(parts.organisation) + 1 + strlen(parts.name) : 0;
}

bool tri_hub_same_model(const char *a, const char *b) {
  const size_t length = tri_hub_name_length(a);
  return length > 0 && length == tri_hub_name_length(b) && strncmp(a, b, length) == 0;
}

/* ---- the cache --------------------------------------------------------------------------------------------------- */

/* Writes the path of the cache; returns false if none of the variables is set, or the path is too long. */
static bool find_cache(char out[TRI_PATH_BYTES]) {
  static const struct {
    const char *variable, *below;
  } places[] = {{"HF_HUB_CACHE", ""},
                {"HUGGINGFACE_HUB_CACHE", ""},
                {"HF_HOME", "/hub"},
                {"XDG_CACHE_HOME", "/huggingface/hub"},
                {"HOME", "/.cache/huggingface/hub"}};
  for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
    const char *value = getenv(places[i].variable), *home = getenv("HOME");
    if (value == NULL || value[0] == '\0') continue;
    const bool short_home = strncmp(value, "~/", 2) == 0 && home != NULL;
    const int length =
        snprintf(out, TRI_PATH_BYTES, "%s%s%s", short_home ? home : "", value + (short_home ? 1 : 0), places[i].below);
    return length < TRI_PATH_BYTES;
  }
  return false;
}

static tri_status not_whole(const char *given, const char *what, const char *path) {
  return tri_fail(TRI_BAD_FILE, "%s: %s: %s; download it again: hf download %.*s", given, what, path,
                  (int)tri_hub_name_length(given), given);
}

/* Reads the commit of a file of refs/; "" if there is no such file. Fails with TRI_BAD_FILE if the file does not
 * contain a commit. */
static tri_status read_ref(const char *root, const char *revision, char commit[MOST_REVISION + 1]) {
  char path[TRI_PATH_BYTES], *text = NULL;
  size_t bytes = 0;
  commit[0] = '\0';
  const int length = snprintf(path, sizeof path, "%s/refs/%s", root, revision);
  if (length >= TRI_PATH_BYTES || !tri_path_exists(path)) return TRI_OK;
  TRI_TRY(tri_file_read_plain(path, MOST_REVISION, &text, &bytes));
  bytes = strspn(text, "0123456789abcdefABCDEF");
  snprintf(commit, MOST_REVISION + 1, "%.*s", (int)bytes, text);
  const bool ends = text[bytes + strspn(text + bytes, " \r\n")] == '\0';
  tri_free(text);
  if (ends && bytes > 0) return TRI_OK;
  return tri_fail(TRI_BAD_FILE, "%s does not contain a commit; remove it and download the model again", path);
}

static tri_status find_commit(const char *given, const hub_name *name, const char *root,
                              char commit[MOST_REVISION + 1]) {
  char path[TRI_PATH_BYTES];
  const char *revision = name->revision[0] == '\0' ? "main" : name->revision;
  TRI_TRY(read_ref(root, revision, commit));
  if (commit[0] == '\0' && strspn(revision, "0123456789abcdef") == strlen(revision)) {
    snprintf(commit, MOST_REVISION + 1, "%s", revision);
  }
  if (commit[0] == '\0') {
    return tri_fail(TRI_BAD_FILE,
                    "%s: the cache %s has no revision `%s` of this model; name one that it has (%.*s@COMMIT, see "
                    "snapshots/ there), or download it: hf download %.*s --revision %s",
                    given, root, revision, (int)tri_hub_name_length(given), given, (int)tri_hub_name_length(given),
                    given, revision);
  }
  const int length = snprintf(path, sizeof path, "%s/snapshots/%s", root, commit);
  if (length < TRI_PATH_BYTES && tri_path_is_directory(path)) return TRI_OK;
  return not_whole(given, "the cache does not have the commit that is asked for", path);
}

/* Checks that a link of a snapshot leads to a blob of the model. */
static tri_status check_link(const char *given, const char *blobs, const char *path) {
  char target[TRI_PATH_BYTES];
  const size_t length = strlen(blobs);
  if (realpath(path, target) == NULL) return not_whole(given, "a file of the cache is missing its content", path);
  if (strncmp(target, blobs, length) == 0 && target[length] == '/') return TRI_OK;
  return tri_fail(TRI_BAD_FILE, "%s: %s is a link out of this model's blobs, to %s; such a link is not followed", given,
                  path, target);
}

static tri_status check_folder(const char *given, const char *blobs, const char *folder, int depth) {
  char path[TRI_PATH_BYTES];
  struct dirent *entry = NULL;
  tri_status status = TRI_OK;
  DIR *directory = depth == MOST_DEPTH ? NULL : opendir(folder);
  if (directory == NULL) {
    return tri_fail(TRI_BAD_FILE, "%s: cannot read %s: %s", given, folder,
                    depth == MOST_DEPTH ? "too many folders in folders" : strerror(errno));
  }
  while (status == TRI_OK && (entry = readdir(directory)) != NULL) {
    struct stat facts;
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    status = tri_path_join(path, folder, entry->d_name);
    if (status != TRI_OK || lstat(path, &facts) != 0) continue;
    if (S_ISLNK(facts.st_mode)) status = check_link(given, blobs, path);
    if (S_ISDIR(facts.st_mode)) status = check_folder(given, blobs, path, depth + 1);
  }
  closedir(directory);
  return status;
}

/* Checks that the snapshot is inside the model's folder. `root`: the model's folder with links resolved. */
static tri_status check_snapshot(const char *given, const char *root, const char *commit, const char *path) {
  char wanted[TRI_PATH_BYTES], target[TRI_PATH_BYTES];
  const int length = snprintf(wanted, sizeof wanted, "%s/snapshots/%s", root, commit);
  if (length >= TRI_PATH_BYTES) return tri_fail(TRI_BAD_USAGE, "the path %s is too long", root);
  if (realpath(path, target) == NULL) return not_whole(given, "the cache cannot be read", path);
  if (strcmp(target, wanted) == 0) return TRI_OK;
  return tri_fail(
      TRI_BAD_FILE,
      "%s: %s is a link out of this model's snapshots, to %s; such a link is not followed: name that folder "
      "itself, or download the model again: hf download %.*s",
      given, path, target, (int)tri_hub_name_length(given), given);
}

/* Looks up the snapshot of a name and its commit, and checks that none of its links leaves the model's folder. Sets
 * *found to whether the cache has the model. */
static tri_status find_snapshot(const char *given, const hub_name *name, char path[TRI_PATH_BYTES],
                                char commit[MOST_REVISION + 1], bool *found) {
  char cache[TRI_PATH_BYTES], root[TRI_PATH_BYTES], blobs[TRI_PATH_BYTES];
  *found = false;
  if (!find_cache(cache)) return TRI_OK;
  int length = snprintf(root, sizeof root, "%s/models--%s--%s", cache, name->organisation, name->name);
  if (length >= TRI_PATH_BYTES || !tri_path_is_directory(root)) return TRI_OK;
  TRI_TRY(find_commit(given, name, root, commit));
  length = snprintf(path, TRI_PATH_BYTES, "%s/snapshots/%s", root, commit);
  if (length >= TRI_PATH_BYTES) return tri_fail(TRI_BAD_USAGE, "the path %s is too long", root);
  if (realpath(root, cache) == NULL) return not_whole(given, "the cache cannot be read", root);
  length = snprintf(blobs, sizeof blobs, "%s/blobs", cache);
  if (length >= TRI_PATH_BYTES) return tri_fail(TRI_BAD_USAGE, "the path %s is too long", root);
  TRI_TRY(check_snapshot(given, cache, commit, path));
  TRI_TRY(check_folder(given, blobs, path, 0));
  *found = true;
  return TRI_OK;
}

tri_status tri_hub_resolve(const char *given, char path[TRI_PATH_BYTES]) {
  hub_name name;
  bool found = false;
  char commit[MOST_REVISION + 1];
  if (!tri_path_exists(given) && read_name(given, &name)) TRI_TRY(find_snapshot(given, &name, path, commit, &found));
  if (found) return TRI_OK;
  const int length = snprintf(path, TRI_PATH_BYTES, "%s", given);
  return length < TRI_PATH_BYTES ? TRI_OK : tri_fail(TRI_BAD_USAGE, "the path %s is too long", given);
}

tri_status tri_hub_pin(char *given, bool *pinned) {
  hub_name name;
  char commit[MOST_REVISION + 1], path[TRI_PATH_BYTES];
  *pinned = false;
  if (given[0] == '\0' || tri_path_exists(given) || !read_name(given, &name)) return TRI_OK;
  TRI_TRY(find_snapshot(given, &name, path, commit, pinned));
  if (*pinned) snprintf(given, TRI_PATH_BYTES, "%s/%s@%s", name.organisation, name.name, commit);
  return TRI_OK;
}

/* ---- advice ------------------------------------------------------------------------------------------------------ */

/* Extracts the name on the hub from a URL of the hub, or from a name with a trailing `/`; "" if `given` is neither. */
static void name_within(const char *given, char out[TRI_PATH_BYTES]) {
  static const char *const before[] = {
      "https://huggingface.co/", "http://huggingface.co/", "https://hf.co/", "huggingface.co/", "hf.co/", "hf://"};
  hub_name name;
  const char *at = given;
  for (size_t i = 0; i < sizeof before / sizeof before[0] && at == given; i++) {
    if (strncmp(given, before[i], strlen(before[i])) == 0) at += strlen(before[i]);
  }
  snprintf(out, TRI_PATH_BYTES, "%s", at);
  while (out[0] != '\0' && out[strlen(out) - 1] == '/') out[strlen(out) - 1] = '\0';
  if (strcmp(out, given) == 0 || !read_name(out, &name) || tri_path_exists(name.organisation)) out[0] = '\0';
}

const char *tri_hub_advice(const char *given, char out[TRI_HUB_ADVICE_BYTES]) {
  hub_name name;
  char cache[TRI_PATH_BYTES];
  out[0] = '\0';
  name_within(given, cache);
  if (cache[0] != '\0') {
    snprintf(out, TRI_HUB_ADVICE_BYTES, "; a model on the Hugging Face hub is named %s", cache);
    return out;
  }
  /* If the first part is an existing folder, a path is meant. */
  if (!read_name(given, &name) || tri_path_exists(name.organisation) || !find_cache(cache)) return out;
  const bool has_revision = name.revision[0] != '\0';
  snprintf(
      out, TRI_HUB_ADVICE_BYTES,
      "; as a name on the Hugging Face hub it is not in the cache %s. Trireme downloads nothing: hf download %s/%s%s%s "
      "--local-dir models/%s, then name models/%s",
      cache, name.organisation, name.name, has_revision ? " --revision " : "", name.revision, name.name, name.name);
  return out;
}
