/* An HTTP server on libmicrohttpd: it listens, checks who may ask, limits connections, and sends the replies that a
 * service gives it. A command that serves something (board, serve) is such a service.
 *
 * Access. The Host header must name this server; otherwise any page in the same browser could read everything by DNS
 * rebinding. If other machines can reach the port, or if the service or the user requires it, requests need a secret
 * key: in the header `Authorization: Bearer KEY`, or in the address (`?token=KEY`). The service checks the key
 * (tri_http_key), and may leave some addresses open. */
#ifndef TRI_HTTP_SERVER_H
#define TRI_HTTP_SERVER_H

#include "base/status.h"
#include "http/clients.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tri_http_server tri_http_server;

/* A complete request. It is valid while the service replies to it, and longer if the service keeps it
 * (tri_http_later). */
typedef struct tri_http_request tri_http_request;

/* Queries of a request, for the service's function `reply` only, until it calls tri_http_later. */

/* Returns whether the request's method is this one; HEAD counts as GET. */
bool tri_http_is(const tri_http_request *request, const char *method);
/* Returns the path of the request's address, "/" and what follows up to the question mark. */
const char *tri_http_path(const tri_http_request *request);
/* Returns the value of an argument of the address, as in "?key=value"; "" for "?key="; NULL for "?key", or if it is
 * absent. */
const char *tri_http_argument(const tri_http_request *request, const char *key);
/* Returns a header's value; NULL: it is absent. */
const char *tri_http_header(const tri_http_request *request, const char *name);
/* Returns the body [*bytes], followed by a NUL; "" if the request has none. */
const char *tri_http_body(const tri_http_request *request, size_t *bytes);
/* Returns the index of the key that the request has (tri_http_options.keys; a drawn key has index 0), 0 if the server
 * requires no key, and -1 if the request lacks a required key. */
int tri_http_key(const tri_http_request *request);

/* The owner of a reply's text. */
typedef enum tri_http_memory {
  TRI_HTTP_KEPT,   /* the service: the text stays valid until the server stops */
  TRI_HTTP_COPIED, /* the service: the server copies the text at once */
  TRI_HTTP_GIVEN,  /* the server, which releases it with free() */
} tri_http_memory;

enum { TRI_HTTP_OWN_HEADERS = 2, TRI_HTTP_HEADER_BYTES = 256 };

typedef struct tri_http_reply {
  int code;         /* status of HTTP: 200, 404, ... */
  const char *type; /* Content-Type, valid until the server stops; NULL: no such header */
  const void *text;
  size_t bytes;
  /* Owner of text[bytes]. */
  tri_http_memory memory;
  struct {
    const char *name;                  /* NULL: unused */
    char value[TRI_HTTP_HEADER_BYTES]; /* printable ASCII */
  } headers[TRI_HTTP_OWN_HEADERS];     /* headers of this reply, in addition to the service's */
} tri_http_reply;

/* Returns a reply of plain text, which is copied. */
tri_http_reply tri_http_words(int code, const char *words);

/* ---- replies that come later ------------------------------------------------------------------------------------- */

/* Keeps the request: the service returns this value instead of a reply, and replies later from any thread, with
 * tri_http_send or with tri_http_begin, tri_http_add and tri_http_end. The service releases the request with
 * tri_http_release. The connection waits meanwhile, without a time limit. */
tri_http_reply tri_http_later(tri_http_request *request);
/* Sends the reply. If the client has left, this function and those below send nothing (but a text that is given to the
 * server is freed). */
void tri_http_send(tri_http_request *request, const tri_http_reply *reply);
/* Begins a reply whose text comes in pieces, so that its length is not known beforehand. reply->text is the first
 * piece; it is copied, and the service keeps it. */
void tri_http_begin(tri_http_request *request, const tri_http_reply *reply);
/* Adds a piece to the text, which is sent after tri_http_flush or tri_http_end. Pieces that a client has not received
 * wait in memory. */
void tri_http_add(tri_http_request *request, const char *text, size_t bytes);
/* Sends the pieces so far. A thread that writes to many connections adds all pieces first: each flush wakes a thread of
 * the server, which would compete with the writer for a core. */
void tri_http_flush(tri_http_request *request);
/* Ends the text, and sends its last pieces. */
void tri_http_end(tri_http_request *request);
/* Returns whether the client has left: its connection has ended, or it sends no more (a client that only closes its
 * sending side counts as gone). */
bool tri_http_has_left(tri_http_request *request);
/* Releases a request that the service keeps. Closes the connection if the service has not sent all of the reply.
 * Ignores NULL. */
void tri_http_release(tri_http_request *request);

/* ---- the server -------------------------------------------------------------------------------------------------- */

/* The limits of a server's connections. */
typedef struct tri_http_limits {
  int connections;    /* largest number at once; above clients.most, so that a new client can connect while clients.h
                         ends an old connection */
  int of_one_machine; /* largest number of one machine, if other machines can reach the port */
  int idle_s;         /* seconds without a byte after which a connection ends */
  int threads;
  size_t body_bytes; /* largest body of a request; 0: only GET and HEAD are answered */
  tri_clients_limits clients;
} tri_http_limits;

/* A service, whose texts and functions outlive the server. */
typedef struct tri_http_service {
  const char *command; /* begins error messages: "board" */
  /* Returns the reply to a request with the right Host, or the value of tri_http_later; called from several threads at
   * once. The method is GET, HEAD or, if limits.body_bytes is above 0, POST. */
  tri_http_reply (*reply)(void *context, tri_http_request *request);
  /* Makes the reply to a request that the server refuses by itself; NULL: plain text. */
  tri_http_reply (*refuse)(void *context, int code, const char *why);
  void *context;
  const char *const (*headers)[2]; /* [num_headers], name and value of the headers of every reply */
  size_t num_headers;
  const char *of_other_host, *of_other_method; /* texts of the refusals of another Host and of other methods */
  tri_http_reply of_end; /* reply of tri_http_server_refuse and tri_http_server_stop to the requests that the service
                            keeps; its text stays valid until the server has stopped (TRI_HTTP_KEPT); code 0: plain
                            text, with status 503 */
  const char *of_broken_text; /* text that tri_http_server_refuse and tri_http_server_stop add to an unfinished reply
                                 that is sent in pieces; NULL: the connection ends with an error */
  tri_http_limits limits;
} tri_http_service;

typedef struct tri_http_options {
  const char *host; /* an address of this machine; NULL: 127.0.0.1, which other machines cannot reach */
  int64_t port;     /* 0: any free port */
  const char *path; /* path of a socket to listen at instead of a port (mode 0600), so that only this user can ask;
                       NULL: none */
  bool wants_token; /* whether to require a key, which is drawn unless `keys` has some; the server always requires a key
                       if other machines can reach the port */
  const char *const *keys; /* [num_keys] keys that the server accepts; they outlive the server */
  int num_keys;
  const char *origin; /* origin whose pages may use the replies (CORS); NULL: none */
} tri_http_options;

/* Starts threads that answer requests until tri_http_server_stop. Fails with TRI_BAD_USAGE if the host is not an
 * address of this machine or the socket's path is too long, with TRI_BUSY if the port or the socket is in use, with
 * TRI_IO_FAILED if the server cannot listen for another reason, and with TRI_UNSUPPORTED if the program was built
 * without libmicrohttpd. */
tri_status tri_http_server_start(const tri_http_options *options, const tri_http_service *service,
                                 tri_http_server **out);
/* Waits until the clients have the replies to all requests that the service has kept, but for at most `seconds`
 * seconds. Requests that are still being read, and those that were replied to at once, are not waited for. */
void tri_http_server_drain(tri_http_server *server, double seconds);
/* Replies with tri_http_service.of_end to all requests that the service keeps, and ends unfinished replies that are
 * sent in pieces; then waits as tri_http_server_drain does. Any thread may call this at any time. */
void tri_http_server_refuse(tri_http_server *server, double seconds);
/* Refuses like tri_http_server_refuse, waits for a second at most, ends all connections and threads, and removes the
 * socket of a server that listens at a path. The service must have released all requests. Ignores NULL. */
void tri_http_server_stop(tri_http_server *server);

/* Returns the address to open in a browser, such as "http://127.0.0.1:8650/", with the key if one was drawn; or
 * the path of the socket. */
const char *tri_http_server_address(const tri_http_server *server);
/* Returns the key that was drawn; "" if none was. */
const char *tri_http_server_token(const tri_http_server *server);

#endif
