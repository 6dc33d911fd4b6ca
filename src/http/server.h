/* An HTTP server on libmicrohttpd: it listens, checks who may ask, limits connections, and sends the replies that a
 * service gives it. A command that serves something (board) is such a service.
 *
 * Access. The Host header must name this server; otherwise any page in the same browser could read everything by DNS
 * rebinding. If other machines can reach the port, or if the user requires it, requests need a secret token in the
 * address. The service decides which replies do (tri_http_has_token). */
#ifndef TRI_HTTP_SERVER_H
#define TRI_HTTP_SERVER_H

#include "base/status.h"
#include "http/clients.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tri_http_server tri_http_server;

/* A complete request, valid while the service replies to it. */
typedef struct tri_http_request tri_http_request;

/* Returns the path of the request's address, "/" and what follows up to the question mark. */
const char *tri_http_path(const tri_http_request *request);
/* Returns an argument of the address, "" if it has no value; NULL: it is absent. */
const char *tri_http_argument(const tri_http_request *request, const char *key);
/* Returns whether the request has the server's token, or the server has none. */
bool tri_http_has_token(const tri_http_request *request);

/* The owner of a reply's text. */
typedef enum tri_http_memory {
  TRI_HTTP_KEPT,   /* the service: the text stays valid until the server stops */
  TRI_HTTP_COPIED, /* the service: the server copies the text at once */
  TRI_HTTP_GIVEN,  /* the server, which releases it with free() */
} tri_http_memory;

typedef struct tri_http_reply {
  int code;         /* status of HTTP: 200, 404, ... */
  const char *type; /* Content-Type */
  const void *text;
  size_t bytes;
  tri_http_memory memory;
} tri_http_reply;

/* Returns a reply of plain text, which is copied. */
tri_http_reply tri_http_words(int code, const char *words);

/* The limits of a server's connections. */
typedef struct tri_http_limits {
  int connections;    /* largest number at once; some are always free for new clients, because clients.h ends old
                         connections before all are in use: more than clients.most */
  int of_one_machine; /* largest number of one machine, if other machines can reach the port */
  int idle_s;         /* seconds without a byte after which a connection ends */
  int threads;
  tri_clients_limits clients;
} tri_http_limits;

/* A service, whose texts and functions outlive the server. */
typedef struct tri_http_service {
  const char *command; /* begins error messages: "board" */
  /* Replies to a GET or HEAD with the right Host; called from several threads at once. */
  tri_http_reply (*reply)(void *context, const tri_http_request *request);
  void *context;
  const char *const (*headers)[2]; /* [num_headers], name and value of the headers of every reply */
  size_t num_headers;
  const char *of_other_host, *of_other_method; /* texts of the refusals of another Host and of other methods */
  tri_http_limits limits;
} tri_http_service;

typedef struct tri_http_options {
  const char *host; /* an address of this machine; NULL: 127.0.0.1, which other machines cannot reach */
  int64_t port;     /* 0: any free port */
  bool wants_token; /* whether to require a secret token in the address; the server always requires a token if other
                       machines can reach the port */
} tri_http_options;

/* Starts threads that answer requests until tri_http_server_stop. Fails with TRI_BAD_USAGE if the host is not an
 * address of this machine, with TRI_BUSY if the port is in use, and with TRI_UNSUPPORTED if the program was built
 * without libmicrohttpd. */
tri_status tri_http_server_start(const tri_http_options *options, const tri_http_service *service,
                                 tri_http_server **out);
/* Ends all connections and threads. Ignores NULL. */
void tri_http_server_stop(tri_http_server *server);

/* Returns the address to open in a browser, such as "http://127.0.0.1:8650/", with the token if the server requires
 * one. */
const char *tri_http_server_address(const tri_http_server *server);

#endif
