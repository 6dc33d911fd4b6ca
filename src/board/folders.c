#include "board/folders.h"

#include "base/memory.h"
#include "tune/store.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static tri_status found_add(tri_found_list *list, tri_found_kind kind, const char *path) {
  if (list->count == list->room) {
    int64_t room = list->room == 0 ? 16 : list->room * 2;
    TRI_TRY(tri_realloc("what lies in folders", (size_t)room, sizeof *list->items, &list->items));
    list->room = room;
  }
  tri_found *item = &list->items[list->count++];
  *item = (tri_found){.kind = kind};
  snprintf(item->path, sizeof item->path, "%s", path);
  return TRI_OK;
}

static bool ends_with(const char *name, const char *ending) {
  size_t bytes = strlen(name), wanted = strlen(ending);
  return bytes > wanted && strcmp(name + bytes - wanted, ending) == 0;
}

static bool is_plain(const char *path) {
  struct stat found;
  return lstat(path, &found) == 0 && S_ISREG(found.st_mode);
}

/* By how tri_timeline_write_json begins. */
static bool is_timeline(const char *path) {
  static const char begin[] = "{\"displayTimeUnit\":";
  char picture[TRI_PATH_BYTES], text[sizeof begin] = "";
  snprintf(picture, sizeof picture, "%.*s.svg", (int)strlen(path) - 5, path);
  if (!is_plain(picture)) return false;
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) return false;
  bool is_one = read(file, text, sizeof begin - 1) == (ssize_t)sizeof begin - 1 && strcmp(text, begin) == 0;
  close(file);
  return is_one;
}

static tri_status look_at_file(const char *folder, const char *name, const char *path, tri_found_list *out) {
  if (strcmp(name, "metrics.jsonl") == 0) return is_plain(path) ? found_add(out, TRI_FOUND_RUN, folder) : TRI_OK;
  if (ends_with(name, ".db") && is_plain(path) && tri_store_is_one(path)) return found_add(out, TRI_FOUND_STUDY, path);
  if (ends_with(name, ".json") && is_plain(path) && is_timeline(path)) return found_add(out, TRI_FOUND_TIMELINE, path);
  return TRI_OK;
}

static bool is_folder(const char *path) {
  struct stat found;
  return lstat(path, &found) == 0 && S_ISDIR(found.st_mode);
}

/* Depth is counted, and never more than TRI_FOUND_MOST_DEPTH. */
/* NOLINTNEXTLINE(misc-no-recursion) */
static tri_status look_below(const char *folder, int depth, tri_found_list *out) {
  DIR *names = opendir(folder);
  tri_status status = TRI_OK;
  if (names == NULL) return TRI_OK;
  for (struct dirent *entry; status == TRI_OK && (entry = readdir(names)) != NULL;) {
    char path[TRI_PATH_BYTES];
    if (entry->d_name[0] == '.' || ++out->looked_at > TRI_FOUND_MOST_NAMES) continue;
    if (tri_path_join(path, folder, entry->d_name) != TRI_OK) continue;
    if (entry->d_type == DT_REG || (entry->d_type == DT_UNKNOWN && is_plain(path))) {
      status = look_at_file(folder, entry->d_name, path, out);
      continue;
    }
    if (entry->d_type != DT_DIR && (entry->d_type != DT_UNKNOWN || !is_folder(path))) continue;
    if (strcmp(entry->d_name, "checkpoints") == 0 || ends_with(entry->d_name, ".db.trials")) continue;
    if (depth < TRI_FOUND_MOST_DEPTH) status = look_below(path, depth + 1, out);
  }
  closedir(names);
  return status;
}

tri_status tri_found_below(const char *folder, tri_found_list *out) { return look_below(folder, 0, out); }

void tri_found_release(tri_found_list *list) {
  tri_free(list->items);
  *list = (tri_found_list){0};
}
