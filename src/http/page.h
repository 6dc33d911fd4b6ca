/* Files of web pages, which CMake embeds in the program (cmake/board.cmake). */
#ifndef TRI_HTTP_PAGE_H
#define TRI_HTTP_PAGE_H

#include "http/server.h"

typedef struct tri_page_file {
  const char *name; /* "board.js"; NULL ends the list */
  /* First byte of the file's text, and the byte after the last one. */
  const char *text, *end;
} tri_page_file;

extern const tri_page_file tri_board_page[], tri_serve_page[];

/* Returns the file whose name is `path` without its "/"; for "/" the file `index`; NULL: none. */
const tri_page_file *tri_page_find(const tri_page_file *files, const char *path, const char *index);
/* Returns the reply with a file, whose text is not copied. */
tri_http_reply tri_page_reply(const tri_page_file *file);

#endif
