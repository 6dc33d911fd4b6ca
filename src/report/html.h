/* The frame of a page of a report: styles are in it, nothing is fetched, and there is no script; it fits a phone, and
 * paper. */
#ifndef TRI_REPORT_HTML_H
#define TRI_REPORT_HTML_H

#include "base/status.h"

#include <stddef.h>
#include <stdio.h>

/* LOCAL. A page, or a picture, that is written in memory and then replaces the file at `path`; close comes in any case
 * when open went well. */
typedef struct tri_page {
  FILE *to;
  char *text; /* [bytes] */
  size_t bytes;
} tri_page;
tri_status tri_page_open(tri_page *page, const char *path);
tri_status tri_page_close(tri_page *page, const char *path);

/* All before the first paragraph, with the title as a heading; and all behind the last. */
void tri_html_begin(const char *title, FILE *to);
void tri_html_end(FILE *to);

/* Text with its <, >, & and quotes written so that they mean themselves, and without control characters; for pictures,
 * too. */
void tri_html_text(const char *text, FILE *to);
/* The same of words with commas between them, behind which a line may end. */
void tri_html_list(const char *text, FILE *to);

#endif
