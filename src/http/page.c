#include "http/page.h"

#include <string.h>

static const char *type_of(const char *name) {
  const char *ending = strrchr(name, '.');
  if (ending != NULL && strcmp(ending, ".js") == 0) return "text/javascript; charset=utf-8";
  if (ending != NULL && strcmp(ending, ".css") == 0) return "text/css; charset=utf-8";
  return "text/html; charset=utf-8";
}

const tri_page_file *tri_page_find(const tri_page_file *files, const char *path, const char *index) {
  const char *name = strcmp(path, "/") == 0 ? index : path + 1;
  for (const tri_page_file *file = files; file->name != NULL; file++) {
    if (strcmp(file->name, name) == 0) return file;
  }
  return NULL;
}

tri_http_reply tri_page_reply(const tri_page_file *file) {
  return (tri_http_reply){.code = 200,
                          .type = type_of(file->name),
                          .text = file->text,
                          .bytes = (size_t)(file->end - file->text),
                          .memory = TRI_HTTP_KEPT};
}
