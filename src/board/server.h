/* Serves a board over HTTP. It answers only GET and HEAD, identifies items by number and never by path, and writes
 * nothing. */
#ifndef TRI_BOARD_SERVER_H
#define TRI_BOARD_SERVER_H

#include "base/status.h"
#include "board/board.h"

typedef struct tri_server tri_server;

typedef struct tri_server_options {
  const char *host; /* an address of this machine; NULL: 127.0.0.1, which other machines cannot reach */
  int64_t port;     /* 0: any free port */
  bool wants_token; /* whether to require a secret token in the address; the server always requires a token if other
                       machines can reach the port */
} tri_server_options;

/* Starts threads that answer requests until tri_server_stop. Fails with TRI_BAD_USAGE if the host is not an address of
 * this machine, with TRI_BUSY if the port is in use, and with TRI_UNSUPPORTED if the program was built without
 * libmicrohttpd. */
tri_status tri_server_start(const tri_server_options *options, tri_board *board, tri_server **out);
void tri_server_stop(tri_server *server);

/* Returns the address to open in a browser, such as "http://127.0.0.1:8650/", with the token if the server requires
 * one. */
const char *tri_server_address(const tri_server *server);

#endif
