/* Connections to a server, with time limits, so that slow clients do not keep other clients out. A client has a
 * limited time from the end of one request to the end of its next request, and a limited time to receive an answer.
 * Both depend on the number of bytes of the request's body and of the answer; single bytes hardly extend them. If there
 * are too many connections, a new connection replaces the one that the server has waited for longest. */
#ifndef TRI_HTTP_CLIENTS_H
#define TRI_HTTP_CLIENTS_H

#include "base/status.h"

#include <stddef.h>

typedef struct tri_clients tri_clients;
typedef struct tri_client tri_client;

typedef struct tri_clients_limits {
  int most; /* number of connections from which on a new connection ends an old one. An old one is only ended if the
               server waits for its client; a connection whose request is in work stays. */
  double request_s, answer_s; /* request_s: seconds for a request; answer_s: seconds for an answer, in addition to the
                                 time for its length */
  double slowest_bytes_s;     /* lowest rate at which a client may send a body or receive an answer, in bytes/s */
} tri_clients_limits;

/* Starts a thread that ends connections whose time is over. The thread shuts down the socket of such a connection, and
 * the server closes the socket when it reads the end. */
tri_status tri_clients_create(const tri_clients_limits *limits, tri_clients **out);
/* Ends the thread. Call it after all connections are removed. Ignores NULL. */
void tri_clients_destroy(tri_clients *clients);

/* Adds a new connection; may be called from any thread. If there are limits.most connections, shuts down the socket of
 * the one that the server has waited for longest. Returns NULL if memory is exhausted; the connection then has no time
 * limit. */
tri_client *tri_clients_add(tri_clients *clients, int socket);
/* Removes a connection. Call it before the socket is closed. This function and those below ignore NULL. */
void tri_client_remove(tri_client *client);

/* Notes that `bytes` bytes of a request's body have come, which extends the time for the request. */
void tri_client_receive(tri_client *client, size_t bytes);
/* Notes that the server begins to work on a complete request; this work has no time limit. */
void tri_client_think(tri_client *client);
/* Notes that the server begins to send an answer of `bytes` bytes. */
void tri_client_answer(tri_client *client, size_t bytes);
/* Notes that the answer is sent, and the server begins to wait for the next request. */
void tri_client_wait(tri_client *client);

#endif
