#include "page/html.h"

#include "files/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

tri_status tri_page_check(const char *option, const char *path) {
  char folder[TRI_PATH_BYTES];
  const char *slash = path == NULL ? NULL : strrchr(path, '/');
  if (path == NULL) return TRI_OK;
  if (path[0] == '\0') return tri_fail(TRI_BAD_USAGE, "%s is empty; name a file", option);
  if (tri_path_is_directory(path)) return tri_fail(TRI_BAD_USAGE, "%s %s is a folder; name a file", option, path);
  if (slash == NULL || slash == path) return TRI_OK;
  snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
  if (tri_path_is_directory(folder)) return TRI_OK;
  return tri_fail(TRI_BAD_USAGE, "%s %s: the folder %s does not exist; make it, or name another file", option, path,
                  folder);
}

tri_status tri_page_open(tri_page *page, const char *path) {
  *page = (tri_page){0};
  page->to = open_memstream(&page->text, &page->bytes);
  return page->to != NULL ? TRI_OK : tri_fail(TRI_OUT_OF_MEMORY, "no memory to write %s: %s", path, strerror(errno));
}

tri_status tri_page_close(tri_page *page, const char *path, tri_status status) {
  if (fclose(page->to) != 0 && status == TRI_OK)
    status = tri_fail(TRI_OUT_OF_MEMORY, "no memory to write %s: %s", path, strerror(errno));
  if (status == TRI_OK) status = tri_file_replace(path, page->text, page->bytes);
  free(page->text);
  return status;
}

void tri_html_text(const char *text, FILE *to) {
  for (; *text != '\0'; text++) {
    switch (*text) {
      case '<': fputs("&lt;", to); break;
      case '>': fputs("&gt;", to); break;
      case '&': fputs("&amp;", to); break;
      case '"': fputs("&quot;", to); break;
      default:
        if ((unsigned char)*text >= 0x20 || *text == '\n' || *text == '\t') fputc(*text, to); /* as XML allows */
    }
  }
}

void tri_html_list(const char *text, FILE *to) {
  for (; *text != '\0'; text++) {
    tri_html_text((char[]){*text, '\0'}, to);
    if (*text == ',') fputs("<wbr>", to);
  }
}

void tri_html_begin(const char *title, FILE *to) {
  fprintf(to,
          "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><link rel=\"icon\" "
          "href=\"data:,\">\n<title>");
  tri_html_text(title, to);
  fprintf(to,
          "</title>\n<style>\n"
          "body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 "
          "1rem;color:#1b2733;background:#fff}\n"
          "h1{font-size:1.6rem}h2{font-size:1.15rem;margin-top:2rem}svg{width:100%%;height:auto;font:12px "
          "system-ui,sans-serif}\n"
          ".done{fill:#7aa5cf}.known{fill:#2f7d4f;stroke:#2f7d4f;stroke-dasharray:5 "
          "4}.best{fill:none;stroke:#b5432a;stroke-width:2}.bar{fill:#4a7fb0}."
          "failing{fill:#d98a75}.edge{fill:#b5432a}.key{display:inline-block;width:.8em;height:.8em}b.bar{background:#"
          "4a7fb0}b.failing{background:#d98a75}"
          ".panels{display:grid;grid-template-columns:repeat(auto-fit,minmax(17rem,1fr));gap:.5rem}"
          ".kin{stroke:#b9c7d6}.taken{stroke:#d98a75;stroke-dasharray:4 3}."
          "bad{fill:#b5432a}\n"
          "svg text{fill:#45525f}.wide{overflow-x:auto;width:max-content;min-width:100%%;max-width:calc(100vw - "
          "3rem);position:relative;left:50%%;transform:translateX(-50%%)}table{border-collapse:collapse;width:100%%;"
          "font-size:.85rem}\n"
          "th,td{text-align:left;padding:.25rem .5rem;border-bottom:1px solid "
          "#dde3ea;white-space:nowrap}td:last-child,.name{white-space:normal}.name{overflow-wrap:anywhere;min-width:"
          "9em}.winner{background:#fdf1e3}\n"
          "p{overflow-wrap:anywhere}@media(max-width:600px){svg:not(.panel){font-size:19px}}"
          "@media "
          "print{body{margin:0;max-width:none}.winner{background:none;font-weight:bold}}\n</style></head><body>\n<h1>");
  tri_html_text(title, to);
  fprintf(to, "</h1>\n");
}

void tri_html_end(FILE *to) { fprintf(to, "</body></html>\n"); }
