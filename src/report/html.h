/* The frame of a page of a report: styles are in it, nothing is fetched, and there is no script; it fits a phone, and
 * paper. */
#ifndef TRI_REPORT_HTML_H
#define TRI_REPORT_HTML_H

#include <stdio.h>

/* All before the first paragraph, with the title as a heading; and all behind the last. */
void tri_html_begin(const char *title, FILE *to);
void tri_html_end(FILE *to);

/* Text with its <, >, & and quotes written so that they mean themselves, and without control characters; for pictures,
 * too. */
void tri_html_text(const char *text, FILE *to);

#endif
