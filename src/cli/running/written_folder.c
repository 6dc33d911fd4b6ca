#include "cli/running/written_folder.h"

#include "files/file.h"
#include "options/json.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int no_dots(const struct dirent *entry) { return entry->d_name[0] != '.'; }

/* Adds the names and sizes of the files of a folder, sorted by name. */
static tri_status add_files(const char *folder, json_t *files, json_int_t *bytes) {
  struct dirent **names = NULL;
  const int count = scandir(folder, &names, no_dots, alphasort), reason = errno;
  if (count < 0) return tri_fail(TRI_IO_FAILED, "cannot read %s: %s", folder, strerror(reason));
  for (int i = 0; i < count; i++) {
    char path[TRI_PATH_BYTES];
    struct stat found;
    if (tri_path_join(path, folder, names[i]->d_name) == TRI_OK && stat(path, &found) == 0 && S_ISREG(found.st_mode)) {
      *bytes += (json_int_t)found.st_size;
      json_array_append_new(files,
                            json_pack("{s:s, s:I}", "name", names[i]->d_name, "bytes", (json_int_t)found.st_size));
    }
    free(names[i]);
  }
  free(names);
  return TRI_OK;
}

tri_status tri_print_written_folder(const char *to, const char *const *from, int64_t count, const char *kind,
                                    const char *type) {
  json_t *files = json_array(), *models = json_array();
  json_int_t bytes = 0;
  for (int64_t i = 0; i < count; i++) json_array_append_new(models, json_string(from[i]));
  const tri_status status = add_files(to, files, &bytes);
  json_t *document = json_pack("{s:s, s:o, s:s, s:s, s:I, s:o}", "folder", to, "from", models, "kind", kind, "type",
                               type, "bytes", bytes, "files", files);
  if (status == TRI_OK) return tri_print_json(document);
  json_decref(document);
  return status;
}
