/* Frame of a report's HTML page. The page contains its styles, loads nothing and has no script; it fits phones and
 * paper. */
#ifndef TRI_PAGE_HTML_H
#define TRI_PAGE_HTML_H

#include "base/status.h"

#include <stddef.h>
#include <stdio.h>

/* LOCAL. A page or picture that is written to memory and then replaces the file at `path`. After a successful
 * tri_page_open, call tri_page_close in any case: it writes the file and releases the memory. */
typedef struct tri_page {
  FILE *to;
  char *text; /* [bytes] */
  size_t bytes;
} tri_page;
/* Fails with TRI_BAD_USAGE, in the name of an option such as "--html", if the folder of `path` does not exist or if
 * `path` is a folder. Called before work that takes long. `path` NULL: does nothing. */
tri_status tri_page_check(const char *option, const char *path);
tri_status tri_page_open(tri_page *page, const char *path);
/* Replaces the file at `path` if `status`, the caller's own, is TRI_OK. Returns `status`, or the failure. */
tri_status tri_page_close(tri_page *page, const char *path, tri_status status);

/* Write the part of a page before its first paragraph, with the title as a heading; and the part after the last
 * paragraph. */
void tri_html_begin(const char *title, FILE *to);
void tri_html_end(FILE *to);

/* Writes text with <, >, & and quotes escaped, and without control characters; for SVG, too. */
void tri_html_text(const char *text, FILE *to);
/* Writes words separated by commas, escaped, with possible line breaks after the commas. */
void tri_html_list(const char *text, FILE *to);

#endif
