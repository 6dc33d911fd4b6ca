#include "board/folders.h"

#include "base/memory.h"
#include "tune/store.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static tri_status found_add(tri_found_list *list, tri_found_kind kind, const char *root, const char *relative) {
  TRI_TRY(tri_grow("entries of folders", sizeof *list->items, list->count, &list->room, &list->items));
  tri_found *item = &list->items[list->count];
  *item = (tri_found){.kind = kind, .root = root};
  if (relative[0] == '\0') {
    snprintf(item->path, sizeof item->path, "%s", root);
  } else if (tri_path_join(item->path, root, relative) != TRI_OK) {
    return TRI_OK; /* the path is too long, so the item is skipped */
  }
  list->count++;
  return TRI_OK;
}

static bool ends_with(const char *name, const char *ending) {
  size_t bytes = strlen(name), wanted = strlen(ending);
  return bytes > wanted && strcmp(name + bytes - wanted, ending) == 0;
}

/* Returns whether a folder is `checkpoints`, or one such as `checkpoints.old-2` with checkpoints and metrics that a run
 * has moved aside (run/output.c). */
static bool is_of_checkpoints(const char *name) {
  static const char own[] = "checkpoints", old[] = "checkpoints.old-";
  return strcmp(name, own) == 0 || strncmp(name, old, strlen(old)) == 0;
}

/* Returns whether a file NAME.json begins as tri_timeline_write_json writes it and has a picture NAME.svg. */
static bool is_timeline(const char *root, const char *relative) {
  static const char begin[] = "{\"displayTimeUnit\":";
  char picture[TRI_PATH_BYTES], text[sizeof begin] = "";
  struct stat about;
  int file = -1;
  snprintf(picture, sizeof picture, "%.*s.svg", (int)strlen(relative) - 5, relative);
  if (!tri_file_find_below(root, picture, &about) || tri_file_open_below(root, relative, &file) != TRI_OK) return false;
  bool is_one = read(file, text, sizeof begin - 1) == (ssize_t)sizeof begin - 1 && strcmp(text, begin) == 0;
  close(file);
  return is_one;
}

static bool is_store(const char *root, const char *relative) {
  int file = -1;
  if (tri_file_open_below(root, relative, &file) != TRI_OK) return false;
  bool is_one = tri_store_begins(file);
  close(file);
  return is_one;
}

/* Adds the item that the plain file `relative` in `folder` belongs to, if any. */
static tri_status add_file(const char *root, const char *folder, const char *name, const char *relative,
                           tri_found_list *out) {
  if (strcmp(name, "metrics.jsonl") == 0) return found_add(out, TRI_FOUND_RUN, root, folder);
  if (ends_with(name, ".db") && is_store(root, relative)) return found_add(out, TRI_FOUND_STUDY, root, relative);
  if (ends_with(name, ".json") && is_timeline(root, relative))
    return found_add(out, TRI_FOUND_TIMELINE, root, relative);
  return TRI_OK;
}

/* Returns the type of an entry. Some file systems do not report it in readdir. */
static unsigned char type_of(int folder, const struct dirent *entry) {
  struct stat found;
  if (entry->d_type != DT_UNKNOWN) return entry->d_type;
  if (fstatat(folder, entry->d_name, &found, AT_SYMLINK_NOFOLLOW) != 0) return DT_UNKNOWN;
  return IFTODT(found.st_mode);
}

/* Adds the items in a folder and below it. The recursion is at most TRI_FOUND_MOST_DEPTH deep. */
/* NOLINTNEXTLINE(misc-no-recursion) */
static tri_status search_folder(const char *root, const char *folder, int depth, tri_found_list *out) {
  int file = -1;
  tri_status status = TRI_OK;
  if (tri_folder_open_below(root, folder, &file) != TRI_OK) return TRI_OK;
  DIR *names = fdopendir(file);
  if (names == NULL) {
    close(file);
    return TRI_OK;
  }
  for (struct dirent *entry; status == TRI_OK && (entry = readdir(names)) != NULL;) {
    char relative[TRI_PATH_BYTES];
    if (entry->d_name[0] == '.' || ++out->looked_at > TRI_FOUND_MOST_NAMES) continue;
    if (tri_path_join(relative, folder, entry->d_name) != TRI_OK) continue;
    unsigned char type = type_of(file, entry);
    if (type == DT_REG) status = add_file(root, folder, entry->d_name, relative, out);
    if (type != DT_DIR) continue;
    if (is_of_checkpoints(entry->d_name) || ends_with(entry->d_name, ".db.trials")) continue;
    if (depth < TRI_FOUND_MOST_DEPTH) status = search_folder(root, relative, depth + 1, out);
  }
  closedir(names);
  return status;
}

tri_status tri_found_below(const char *folder, tri_found_list *out) { return search_folder(folder, "", 0, out); }

void tri_found_release(tri_found_list *list) {
  tri_free(list->items);
  *list = (tri_found_list){0};
}
