/* Connections to the server, with time limits, so that slow clients do not keep others out. A client has a limited time
 * from the end of one request to the end of the next, and a time that depends on the length of an answer to receive it;
 * single bytes do not extend it. If there are too many connections, a new one replaces the one that has been waited for
 * longest. */
#ifndef TRI_BOARD_CLIENTS_H
#define TRI_BOARD_CLIENTS_H

#include "base/status.h"

#include <stddef.h>

typedef struct tri_clients tri_clients;
typedef struct tri_client tri_client;

typedef struct tri_clients_limits {
  int most;                   /* connections, before new ones replace others */
  double request_s, answer_s; /* seconds for a request; for an answer, in addition to the time for its length */
  double slowest_bytes_s;     /* lowest rate of an answer */
} tri_clients_limits;

/* Starts a thread that ends connections whose time is over: it shuts their sockets down, and the server closes them
 * when it reads the end. */
tri_status tri_clients_create(const tri_clients_limits *limits, tri_clients **out);
/* Call it after all connections are removed. NULL is ignored. */
void tri_clients_destroy(tri_clients *clients);

/* From any thread. Adds a new connection; returns NULL if memory is exhausted: the connection then has no time limit.
 */
tri_client *tri_clients_add(tri_clients *clients, int socket);
/* Call it before the socket is closed. NULL is ignored here and below. */
void tri_client_remove(tri_client *client);

/* Begins the server's work on a complete request, which has no time limit. */
void tri_client_think(tri_client *client);
/* Begins to send an answer of `bytes` bytes. */
void tri_client_answer(tri_client *client, size_t bytes);
/* Begins to wait for the next request, after the answer is sent. */
void tri_client_wait(tri_client *client);

#endif
