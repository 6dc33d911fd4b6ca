/* A server and its requests. Private to this folder.
 *
 * All requests share the server's mutex. libmicrohttpd *suspends* the connection of a request that is answered later:
 * it does not poll its socket until the connection is resumed. A suspended connection cannot end, so `connection` is
 * valid while `suspended` is set. */
#ifndef TRI_HTTP_INTERNAL_H
#define TRI_HTTP_INTERNAL_H

#include "http/server.h"

#include <microhttpd.h>
#include <pthread.h>

enum { TRI_HTTP_TOKEN_BYTES = 24, TRI_HTTP_ADDRESS_BYTES = 512 };

struct tri_http_server {
  struct MHD_Daemon *daemon;
  tri_clients *clients;
  tri_http_service service;
  int64_t port;
  bool is_open;  /* whether other machines can reach the port; then a key is required, and the Host header is not
                    checked */
  bool is_local; /* whether the server listens at a socket of the file system */
  char token[2 * TRI_HTTP_TOKEN_BYTES + 1]; /* the drawn key; "" if none was drawn */
  const char *own_key;                      /* `token`: `keys` points to this member if the key was drawn */
  const char *const *keys;                  /* [num_keys]; num_keys 0: no key is required */
  int num_keys;
  const char *origin;
  char address[TRI_HTTP_ADDRESS_BYTES];

  pthread_mutex_t mutex;
  pthread_cond_t idle;     /* signalled when a request ends */
  tri_http_request *first; /* requests in progress */
};

typedef enum tri_http_stage {
  TRI_HTTP_READING,   /* libmicrohttpd passes on the body */
  TRI_HTTP_KEPT_BACK, /* the service replies later */
  TRI_HTTP_READY,     /* `reply` is to be sent */
  TRI_HTTP_STREAMS,   /* a reply in pieces is to be begun; `reply` has its status and headers */
  TRI_HTTP_DROPPED,   /* the service has released the request without a reply */
  TRI_HTTP_SENT       /* libmicrohttpd has the reply, or reads its pieces */
} tri_http_stage;

struct tri_http_request {
  tri_http_server *server;
  struct MHD_Connection *connection; /* NULL: the request has ended for libmicrohttpd */
  tri_http_request *before, *behind; /* neighbours in server->first */
  int holders;                       /* 0 to 2: libmicrohttpd and the service, each while it may use the request */
  int socket;
  const char *method, *path; /* owned by libmicrohttpd */
  tri_http_stage stage;
  bool kept; /* whether the service keeps or has kept the request, to reply later */
  /* Whether libmicrohttpd has suspended the connection. */
  bool suspended;
  bool too_large; /* whether the body is longer than the limit */
  char *body;     /* [body_bytes], with a NUL after it */
  size_t body_bytes, body_room;
  tri_http_reply reply;
  char *text;                     /* [bytes], pieces of a stream */
  size_t bytes, room, sent_bytes; /* sent_bytes: leading bytes that libmicrohttpd has taken */
  bool ended;                     /* whether no more pieces come */
  bool broken;                    /* whether the text was cut off: the connection ends with an error after it */
};

/* Returns the record of a connection; NULL: it has none (tri_clients_add). */
tri_client *tri_http_client(struct MHD_Connection *connection);
/* Returns whether the request's Host header names this server, or is not checked (is_open, is_local). */
bool tri_http_names_server(const tri_http_request *request);
/* Draws a random key, and makes it the server's only key. Fails with TRI_IO_FAILED if the system gives no random
 * bytes. */
tri_status tri_http_draw_token(tri_http_server *server);

/* Creates the record of a request that libmicrohttpd begins; NULL if memory is exhausted. */
tri_http_request *tri_http_request_begin(tri_http_server *server, struct MHD_Connection *connection, const char *method,
                                         const char *path);
/* Appends to the body. Sets too_large, and drops the bytes, if the body exceeds service.limits.body_bytes or memory is
 * exhausted. */
void tri_http_request_add(tri_http_request *request, const char *text, size_t bytes);
/* Notes that libmicrohttpd has ended the request. Frees the request, unless the service has yet to release it. */
void tri_http_request_finish(tri_http_request *request);
/* Gives the reply to libmicrohttpd, and starts the time limit of the answer. Returns MHD_NO, which closes the
 * connection, if memory is exhausted. */
enum MHD_Result tri_http_reply_now(tri_http_request *request, tri_http_reply *reply);
/* Gives the reply to libmicrohttpd if the service has sent or begun one; else suspends the connection. If the service
 * has released the request without a reply, returns MHD_NO, which closes the connection. */
enum MHD_Result tri_http_reply_if_ready(tri_http_request *request);
/* Replies with service.of_end to all requests that the service keeps, and ends the unfinished replies that are
 * sent in pieces, so that their connections can end. */
void tri_http_refuse_all(tri_http_server *server);

#endif
