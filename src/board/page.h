/* Files of the page, src/board/page/, which CMake embeds in the program. */
#ifndef TRI_BOARD_PAGE_H
#define TRI_BOARD_PAGE_H

typedef struct tri_page_file {
  const char *name; /* "board.js"; NULL ends the list */
  const char *text, *end;
} tri_page_file;

extern const tri_page_file tri_page_files[];

#endif
