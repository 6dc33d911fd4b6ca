/* Serves a board over HTTP. It answers only GET and HEAD, identifies items by number and never by path, and writes
 * nothing. */
#ifndef TRI_BOARD_SERVER_H
#define TRI_BOARD_SERVER_H

#include "board/board.h"
#include "http/server.h"

/* Starts to serve a board, which must outlive the server (tri_http_server_start). */
tri_status tri_board_serve(const tri_http_options *options, tri_board *board, tri_http_server **out);

#endif
