#include "http/server.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

tri_http_reply tri_http_words(int code, const char *words) {
  return (tri_http_reply){.code = code,
                          .type = "text/plain; charset=utf-8",
                          .text = words,
                          .bytes = strlen(words),
                          .memory = TRI_HTTP_COPIED};
}

#ifndef TRIREME_HAVE_MICROHTTPD

tri_status tri_http_server_start(const tri_http_options *options, const tri_http_service *service,
                                 tri_http_server **out) {
  (void)options, (void)out;
  return tri_fail(TRI_UNSUPPORTED,
                  "%s: this trireme was built without libmicrohttpd; install it (on Debian "
                  "libmicrohttpd-dev; scripts/install-deps.sh does) and configure and build again",
                  service->command);
}

void tri_http_server_stop(tri_http_server *server) { (void)server; }

const char *tri_http_server_address(const tri_http_server *server) {
  (void)server;
  return "";
}

const char *tri_http_path(const tri_http_request *request) {
  (void)request;
  return "";
}

const char *tri_http_argument(const tri_http_request *request, const char *key) {
  (void)request, (void)key;
  return NULL;
}

bool tri_http_has_token(const tri_http_request *request) {
  (void)request;
  return false;
}

#else

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TOKEN_BYTES = 24, ADDRESS_BYTES = 512 };

struct tri_http_server {
  struct MHD_Daemon *daemon;
  tri_clients *clients;
  tri_http_service service;
  int64_t port;
  bool is_open; /* whether other machines can reach the port; then the token is checked, and the Host header is not */
  char token[2 * TOKEN_BYTES + 1]; /* "" if no token is required */
  char address[ADDRESS_BYTES];
};

struct tri_http_request {
  const tri_http_server *server;
  struct MHD_Connection *connection;
  const char *path;
};

const char *tri_http_path(const tri_http_request *request) { return request->path; }

const char *tri_http_argument(const tri_http_request *request, const char *key) {
  return MHD_lookup_connection_value(request->connection, MHD_GET_ARGUMENT_KIND, key);
}

/* ---- connections ------------------------------------------------------------------------------------------------- */

static tri_client *client_of(struct MHD_Connection *connection) {
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  return info == NULL ? NULL : info->socket_context;
}

/* Adds a connection to the clients when it begins, and removes it when it ends. libmicrohttpd calls this function; the
 * socket is still open both times. */
static void note_connection(void *context, struct MHD_Connection *connection, void **client,
                            enum MHD_ConnectionNotificationCode what) {
  const tri_http_server *server = context;
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
    tri_client_remove(*client);
    *client = NULL;
  } else if (info != NULL) {
    *client = tri_clients_add(server->clients, info->connect_fd);
  }
}

static void note_end(void *context, struct MHD_Connection *connection, void **state,
                     enum MHD_RequestTerminationCode how) {
  (void)context, (void)state, (void)how;
  tri_client_wait(client_of(connection));
}

/* ---- replies ----------------------------------------------------------------------------------------------------- */

static enum MHD_ResponseMemoryMode mode_of(tri_http_memory memory) {
  switch (memory) {
    case TRI_HTTP_KEPT: return MHD_RESPMEM_PERSISTENT;
    case TRI_HTTP_COPIED: return MHD_RESPMEM_MUST_COPY;
    case TRI_HTTP_GIVEN: break;
  }
  return MHD_RESPMEM_MUST_FREE;
}

static enum MHD_Result send_reply(const tri_http_request *to, const tri_http_reply *reply) {
  const tri_http_service *service = &to->server->service;
  const enum MHD_ResponseMemoryMode mode = mode_of(reply->memory);
  void *text = (void *)(uintptr_t)reply->text;
  struct MHD_Response *response = MHD_create_response_from_buffer(reply->bytes, text, mode);
  if (response == NULL) {
    if (mode == MHD_RESPMEM_MUST_FREE) free(text);
    return MHD_NO;
  }
  MHD_add_response_header(response, "Content-Type", reply->type);
  for (size_t i = 0; i < service->num_headers; i++)
    MHD_add_response_header(response, service->headers[i][0], service->headers[i][1]);
  if (reply->code == MHD_HTTP_METHOD_NOT_ALLOWED) MHD_add_response_header(response, "Allow", "GET, HEAD");
  tri_client_answer(client_of(to->connection), reply->bytes);
  const enum MHD_Result result = MHD_queue_response(to->connection, (unsigned)reply->code, response);
  MHD_destroy_response(response);
  return result;
}

/* ---- access ------------------------------------------------------------------------------------------------------ */

/* Returns whether `said` is "NAME" or "NAME:PORT" of this server. */
static bool is_host(const tri_http_server *server, const char *said, const char *name) {
  size_t bytes = strlen(name);
  char port[32];
  if (strncasecmp(said, name, bytes) != 0) return false;
  snprintf(port, sizeof port, ":%lld", (long long)server->port);
  return strcmp(said + bytes, port) == 0 || (said[bytes] == '\0' && server->port == 80);
}

static bool may_name(const tri_http_request *request) {
  const tri_http_server *server = request->server;
  const char *said = MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, "Host");
  if (server->is_open) return true; /* a machine may have many names; the token decides instead */
  if (said == NULL) return false;
  return is_host(server, said, "127.0.0.1") || is_host(server, said, "localhost") || is_host(server, said, "[::1]");
}

/* The time of the comparison does not depend on how much of the token is right. */
bool tri_http_has_token(const tri_http_request *request) {
  const tri_http_server *server = request->server;
  const char *said = tri_http_argument(request, "token");
  unsigned different = 0;
  size_t bytes = strlen(server->token);
  if (bytes == 0) return true;
  if (said == NULL || strlen(said) != bytes) return false;
  for (size_t i = 0; i < bytes; i++) different |= (unsigned)(said[i] ^ server->token[i]);
  return different == 0;
}

/* Answers a request. libmicrohttpd calls this function first with the headers, and again with the body, which is
 * ignored. */
static enum MHD_Result answer(void *context, struct MHD_Connection *to, const char *url, const char *method,
                              const char *version, const char *body, size_t *body_bytes, void **state) {
  const tri_http_server *server = context;
  const tri_http_service *service = &server->service;
  const tri_http_request request = {server, to, url};
  (void)version, (void)body, (void)state;
  if (*body_bytes > 0) {
    *body_bytes = 0;
    return MHD_YES;
  }
  tri_client_think(client_of(to));
  tri_http_reply reply = {.code = 0};
  if (!may_name(&request)) {
    reply = tri_http_words(MHD_HTTP_MISDIRECTED_REQUEST, service->of_other_host);
  } else if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
    reply = tri_http_words(MHD_HTTP_METHOD_NOT_ALLOWED, service->of_other_method);
  } else {
    reply = service->reply(service->context, &request);
  }
  return send_reply(&request, &reply);
}

/* ---- start ------------------------------------------------------------------------------------------------------- */

static bool is_loopback(const struct sockaddr *address) {
  if (address->sa_family == AF_INET) {
    return ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >> 24 == 127;
  }
  return address->sa_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
}

static tri_status fail_to_listen(const char *command, const tri_http_options *options, const char *host) {
  long long port = options->port;
  if (errno == EADDRINUSE) {
    return tri_fail(TRI_BUSY,
                    "%s: port %lld of %s is in use, perhaps by another %s; name another (--port %lld), or "
                    "let one be found (--port 0)",
                    command, port, host, command, port < 65535 ? port + 1 : port - 1);
  }
  if (errno == EADDRNOTAVAIL) {
    return tri_fail(TRI_BAD_USAGE, "%s: --host %s is not an address of this machine", command, host);
  }
  return tri_fail(TRI_IO_FAILED, "%s: cannot listen on port %lld of %s: %s%s", command, port, host, strerror(errno),
                  errno == EACCES ? "; ports below 1024 belong to the system: name another (--port)" : "");
}

/* Opens a listening socket, and sets *port to its port. */
static tri_status open_port(const tri_http_service *service, const tri_http_options *options, const char *host,
                            const struct addrinfo *at, int *out, int64_t *port) {
  const int yes = 1;
  char text[NI_MAXSERV] = "";
  struct sockaddr_storage bound = {0};
  socklen_t bytes = sizeof bound;
  int listener = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener < 0) return fail_to_listen(service->command, options, host);
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes,
             sizeof yes); /* so that connections that have just ended do not block the port */
  if (bind(listener, at->ai_addr, at->ai_addrlen) != 0 || listen(listener, service->limits.connections) != 0 ||
      getsockname(listener, (struct sockaddr *)&bound, &bytes) != 0 ||
      getnameinfo((struct sockaddr *)&bound, bytes, NULL, 0, text, sizeof text, NI_NUMERICSERV) != 0) {
    tri_status status = fail_to_listen(service->command, options, host);
    close(listener);
    return status;
  }
  *port = strtoll(text, NULL, 10);
  *out = listener;
  return TRI_OK;
}

static tri_status draw_token(tri_http_server *server) {
  unsigned char drawn[TOKEN_BYTES];
  if (getrandom(drawn, sizeof drawn, 0) != (ssize_t)sizeof drawn) {
    return tri_fail(TRI_IO_FAILED, "%s: cannot draw a token: %s", server->service.command, strerror(errno));
  }
  for (int i = 0; i < TOKEN_BYTES; i++) snprintf(server->token + 2 * i, 3, "%02x", drawn[i]);
  return TRI_OK;
}

/* Writes the address to open in a browser. If the server listens at all interfaces, whose address cannot be opened, the
 * machine's name replaces that address. */
static void write_address(tri_http_server *server, const char *host) {
  char name[256] = "";
  bool any = strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
  if (any && gethostname(name, sizeof name - 1) != 0) snprintf(name, sizeof name, "localhost");
  if (!any) snprintf(name, sizeof name, strchr(host, ':') != NULL ? "[%s]" : "%s", host);
  snprintf(server->address, sizeof server->address, "http://%s:%lld/%s%s", name, (long long)server->port,
           server->token[0] != '\0' ? "?token=" : "", server->token);
}

static tri_status begin_daemon(tri_http_server *server, int listener) {
  const tri_http_limits *limits = &server->service.limits;
  const unsigned of_one = server->is_open ? (unsigned)limits->of_one_machine : 0; /* 0: no limit */
  server->daemon =
      MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL, 0, NULL, NULL, answer, server,
                       MHD_OPTION_LISTEN_SOCKET, listener, MHD_OPTION_THREAD_POOL_SIZE, (unsigned)limits->threads,
                       MHD_OPTION_CONNECTION_LIMIT, (unsigned)limits->connections, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
                       of_one, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)limits->idle_s, MHD_OPTION_NOTIFY_CONNECTION,
                       note_connection, server, MHD_OPTION_NOTIFY_COMPLETED, note_end, server, MHD_OPTION_END);
  if (server->daemon != NULL) return TRI_OK;
  close(listener);
  return tri_fail(TRI_IO_FAILED, "%s: libmicrohttpd cannot start its threads: %s", server->service.command,
                  strerror(errno));
}

static tri_status server_open(tri_http_server *server, const tri_http_options *options, const char *host,
                              const struct addrinfo *at) {
  int listener = -1;
  server->is_open = !is_loopback(at->ai_addr);
  if (server->is_open || options->wants_token) TRI_TRY(draw_token(server));
  TRI_TRY(tri_clients_create(&server->service.limits.clients, &server->clients));
  TRI_TRY(open_port(&server->service, options, host, at, &listener, &server->port));
  write_address(server, host);
  return begin_daemon(server, listener);
}

tri_status tri_http_server_start(const tri_http_options *options, const tri_http_service *service,
                                 tri_http_server **out) {
  const char *host = options->host == NULL ? "127.0.0.1" : options->host;
  const struct addrinfo wanted = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
  struct addrinfo *found = NULL;
  tri_http_server *server = NULL;
  char port[32];
  snprintf(port, sizeof port, "%lld", (long long)options->port);
  int fault = getaddrinfo(host, port, &wanted, &found);
  if (fault != 0) return tri_fail(TRI_BAD_USAGE, "%s: --host %s: %s", service->command, host, gai_strerror(fault));
  tri_status status = tri_alloc("a server", 1, sizeof *server, &server);
  if (status == TRI_OK) {
    server->service = *service;
    status = server_open(server, options, host, found);
  }
  freeaddrinfo(found);
  if (status == TRI_OK) {
    *out = server;
  } else if (server != NULL) {
    tri_clients_destroy(server->clients);
    tri_free(server);
  }
  return status;
}

void tri_http_server_stop(tri_http_server *server) {
  if (server == NULL) return;
  MHD_stop_daemon(server->daemon);
  tri_clients_destroy(server->clients);
  tri_free(server);
}

const char *tri_http_server_address(const tri_http_server *server) { return server->address; }

#endif
