/* Who is connected to the server, so that one who is slow does not keep others out. A connection has a time limit
 * from the end of one request to the whole of the next, and one, by its length, to take the answer; a byte now and
 * then does not make it wait longer. Where many are connected, a new one takes the place of the one that has been
 * waited for longest. */
#ifndef TRI_BOARD_CLIENTS_H
#define TRI_BOARD_CLIENTS_H

#include "base/status.h"

#include <stddef.h>

typedef struct tri_clients tri_clients;
typedef struct tri_client tri_client;

typedef struct tri_clients_limits {
  int most;                   /* connections, before new ones take the place of others */
  double request_s, answer_s; /* for a request; for an answer, beside what its length takes */
  double slowest_bytes_s;     /* at which it is taken */
} tri_clients_limits;

/* Starts a thread that ends connections whose time is up: it shuts their sockets down, and the server, which reads
 * their end then, closes them. */
tri_status tri_clients_create(const tri_clients_limits *limits, tri_clients **out);
/* When no connection is left. NULL is ignored. */
void tri_clients_destroy(tri_clients *clients);

/* From any thread. A connection that was made just now; NULL if there is no memory for it: then it is not watched.
 */
tri_client *tri_clients_add(tri_clients *clients, int socket);
/* Before its socket is closed. NULL is ignored here and below. */
void tri_client_remove(tri_client *client);

/* Its request is whole: what takes time now is ours. */
void tri_client_think(tri_client *client);
/* An answer of that length is on its way. */
void tri_client_answer(tri_client *client, size_t bytes);
/* The answer has arrived, and the next request may come. */
void tri_client_wait(tri_client *client);

#endif
