/* Starts and stops a server, and passes libmicrohttpd's calls on to requests (request.c). */
#include "http/server.h"

#ifndef TRIREME_HAVE_MICROHTTPD

tri_status tri_http_server_start(const tri_http_options *options, const tri_http_service *service,
                                 tri_http_server **out) {
  (void)options, (void)out;
  return tri_fail(TRI_UNSUPPORTED,
                  "%s: this trireme was built without libmicrohttpd; install it (on Debian "
                  "libmicrohttpd-dev; scripts/install-deps.sh does) and configure and build again",
                  service->command);
}

#else

#include "base/memory.h"
#include "http/internal.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* ---- calls of libmicrohttpd -------------------------------------------------------------------------------------- */

/* Adds a connection to the clients when it begins, and removes it when it ends. The socket is still open both times. */
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
  (void)context, (void)how;
  tri_client_wait(tri_http_client(connection));
  if (*state != NULL) tri_http_request_finish(*state);
  *state = NULL;
}

static enum MHD_Result refuse(tri_http_request *request, int code, const char *why) {
  const tri_http_service *service = &request->server->service;
  tri_http_reply reply =
      service->refuse == NULL ? tri_http_words(code, why) : service->refuse(service->context, code, why);
  return tri_http_reply_now(request, &reply);
}

/* Returns whether the request announces a body that is far longer than the limit. Up to that length, a body is read and
 * dropped before the refusal, since many clients read the reply only after they have sent everything. */
static bool announces_too_much(const tri_http_request *request) {
  enum { FAR = 16 };
  const char *said = tri_http_header(request, "Content-Length");
  return said != NULL && strtoull(said, NULL, 10) / FAR > request->server->service.limits.body_bytes;
}

/* Refuses a request whose headers are wrong, and, if the server has an `origin`, answers OPTIONS (the request that a
 * browser sends before one to another origin). All other replies follow the body, also if it is empty: libmicrohttpd
 * closes the connection after a reply that precedes the body. */
static enum MHD_Result begin_reading(tri_http_request *request) {
  const tri_http_service *service = &request->server->service;
  tri_http_reply allowed = {.code = MHD_HTTP_NO_CONTENT};
  if (!tri_http_names_server(request)) return refuse(request, MHD_HTTP_MISDIRECTED_REQUEST, service->of_other_host);
  if (request->server->origin != NULL && strcmp(request->method, "OPTIONS") == 0)
    return tri_http_reply_now(request, &allowed);
  if (!tri_http_is(request, "GET") && (service->limits.body_bytes == 0 || !tri_http_is(request, "POST")))
    return refuse(request, MHD_HTTP_METHOD_NOT_ALLOWED, service->of_other_method);
  if (announces_too_much(request))
    return refuse(request, MHD_HTTP_CONTENT_TOO_LARGE, "The request's body is too long.\n");
  return MHD_YES;
}

/* Replies to a request whose body has been read. */
static enum MHD_Result end_reading(tri_http_request *request) {
  const tri_http_service *service = &request->server->service;
  tri_client_think(tri_http_client(request->connection));
  if (request->too_large) return refuse(request, MHD_HTTP_CONTENT_TOO_LARGE, "The request's body is too long.\n");
  tri_http_reply reply = service->reply(service->context, request);
  return reply.code == 0 ? tri_http_reply_if_ready(request) : tri_http_reply_now(request, &reply);
}

/* Answers a request. libmicrohttpd calls this function first with the headers, then with each part of the body, then
 * after the body, and again when a suspended connection is resumed. */
static enum MHD_Result answer(void *context, struct MHD_Connection *to, const char *url, const char *method,
                              const char *version, const char *body, size_t *body_bytes, void **state) {
  tri_http_request *request = *state;
  (void)version;
  if (request == NULL) {
    *state = request = tri_http_request_begin(context, to, method, url);
    return request == NULL ? MHD_NO : begin_reading(request);
  }
  if (*body_bytes > 0) {
    tri_client_receive(tri_http_client(to), *body_bytes);
    if (request->stage == TRI_HTTP_READING) tri_http_request_add(request, body, *body_bytes);
    *body_bytes = 0;
    return MHD_YES;
  }
  switch (request->stage) {
    case TRI_HTTP_READING: return end_reading(request);
    case TRI_HTTP_KEPT_BACK:
    case TRI_HTTP_READY:
    case TRI_HTTP_STREAMS:
    case TRI_HTTP_DROPPED:
    case TRI_HTTP_SENT: break;
  }
  return tri_http_reply_if_ready(request);
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

/* Opens a listening Unix socket at `path`, which only this user may use. Replaces a socket that an earlier process has
 * left there. Fails with TRI_BUSY if the socket there accepts connections. */
static tri_status open_path(const tri_http_service *service, const char *path, int *out) {
  struct sockaddr_un at = {.sun_family = AF_UNIX};
  struct stat there;
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener < 0) return tri_fail(TRI_IO_FAILED, "%s: cannot open a socket: %s", service->command, strerror(errno));
  tri_status status = TRI_OK;
  if (strlen(path) >= sizeof at.sun_path) {
    status = tri_fail(TRI_BAD_USAGE, "%s: --socket %s: the path of a socket has at most %zu bytes", service->command,
                      path, sizeof at.sun_path - 1);
    goto close;
  }
  strcpy(at.sun_path, path);
  if (connect(listener, (struct sockaddr *)&at, sizeof at) == 0 || errno == EAGAIN) { /* EAGAIN: its backlog is full */
    status = tri_fail(TRI_BUSY, "%s: --socket %s is in use by another process", service->command, path);
    goto close;
  }
  if (lstat(path, &there) == 0 && S_ISSOCK(there.st_mode)) (void)unlink(path);
  const mode_t mask = umask(0177);
  const bool listens =
      bind(listener, (struct sockaddr *)&at, sizeof at) == 0 && listen(listener, service->limits.connections) == 0;
  const int why = errno;
  (void)umask(mask);
  if (!listens)
    status = tri_fail(TRI_IO_FAILED, "%s: cannot listen at --socket %s: %s", service->command, path, strerror(why));
close:
  if (status != TRI_OK) close(listener);
  *out = listener;
  return status;
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

/* Raises this process's limit of open files, as far as allowed, for that many connections besides its own files. */
static void allow_files(int connections) {
  enum { OWN = 256 };
  struct rlimit limit;
  const rlim_t wanted = (rlim_t)connections + OWN;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
  limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

/* Raises the process's limit of open files if necessary, and starts libmicrohttpd's threads. Closes the listener on
 * failure. They use poll: with epoll, libmicrohttpd misses the end of a connection that is closed before the bytes
 * ahead of it are read, and such connections stay open until their time is over. */
static tri_status begin_daemon(tri_http_server *server, int listener) {
  const tri_http_limits *limits = &server->service.limits;
  allow_files(limits->connections);
  const unsigned of_one = server->is_open ? (unsigned)limits->of_one_machine : 0; /* 0: no limit */
  server->daemon = MHD_start_daemon(
      MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, answer, server,
      MHD_OPTION_LISTEN_SOCKET, listener, MHD_OPTION_THREAD_POOL_SIZE, (unsigned)limits->threads,
      MHD_OPTION_CONNECTION_LIMIT, (unsigned)limits->connections, MHD_OPTION_PER_IP_CONNECTION_LIMIT, of_one,
      MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)limits->idle_s, MHD_OPTION_NOTIFY_CONNECTION, note_connection, server,
      MHD_OPTION_NOTIFY_COMPLETED, note_end, server, MHD_OPTION_END);
  if (server->daemon != NULL) return TRI_OK;
  close(listener);
  return tri_fail(TRI_IO_FAILED, "%s: libmicrohttpd cannot start its threads: %s", server->service.command,
                  strerror(errno));
}

static tri_status choose_keys(tri_http_server *server, const tri_http_options *options) {
  server->keys = options->keys;
  server->num_keys = options->num_keys;
  if (options->num_keys > 0 || !(server->is_open || options->wants_token)) return TRI_OK;
  return tri_http_draw_token(server);
}

static tri_status open_at_path(tri_http_server *server, const tri_http_options *options) {
  int listener = -1;
  server->is_local = true;
  TRI_TRY(choose_keys(server, options));
  TRI_TRY(open_path(&server->service, options->path, &listener));
  snprintf(server->address, sizeof server->address, "%s", options->path);
  return begin_daemon(server, listener);
}

static tri_status open_at_port(tri_http_server *server, const tri_http_options *options) {
  const char *host = options->host == NULL ? "127.0.0.1" : options->host;
  const struct addrinfo wanted = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
  struct addrinfo *found = NULL;
  char port[32];
  int listener = -1;
  snprintf(port, sizeof port, "%lld", (long long)options->port);
  const int fault = getaddrinfo(host, port, &wanted, &found);
  if (fault != 0)
    return tri_fail(TRI_BAD_USAGE, "%s: --host %s: %s", server->service.command, host, gai_strerror(fault));
  server->is_open = !is_loopback(found->ai_addr);
  tri_status status = choose_keys(server, options);
  if (status == TRI_OK) status = open_port(&server->service, options, host, found, &listener, &server->port);
  freeaddrinfo(found);
  TRI_TRY(status);
  write_address(server, host);
  return begin_daemon(server, listener);
}

static void destroy(tri_http_server *server) {
  tri_clients_destroy(server->clients);
  pthread_mutex_destroy(&server->mutex);
  pthread_cond_destroy(&server->idle);
  tri_free(server);
}

tri_status tri_http_server_start(const tri_http_options *options, const tri_http_service *service,
                                 tri_http_server **out) {
  tri_http_server *server = NULL;
  pthread_condattr_t attributes;
  TRI_TRY(tri_alloc("a server", 1, sizeof *server, &server));
  server->service = *service;
  server->origin = options->origin;
  pthread_mutex_init(&server->mutex, NULL);
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&server->idle, &attributes);
  pthread_condattr_destroy(&attributes);
  tri_status status = tri_clients_create(&service->limits.clients, &server->clients);
  if (status == TRI_OK && options->path != NULL) status = open_at_path(server, options);
  if (status == TRI_OK && options->path == NULL) status = open_at_port(server, options);
  if (status == TRI_OK) *out = server;
  if (status != TRI_OK) destroy(server);
  return status;
}

/* Returns whether a request is in progress; `kept`: one that the service keeps or has kept. The mutex must be locked.
 */
static bool is_busy(const tri_http_server *server, bool kept) {
  for (const tri_http_request *request = server->first; request != NULL; request = request->behind) {
    if (request->kept || !kept) return true;
  }
  return false;
}

static void wait_until_idle(tri_http_server *server, bool kept, double seconds) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  const time_t whole = (time_t)seconds;
  until.tv_sec += whole;
  until.tv_nsec += (long)(1e9 * (seconds - (double)whole));
  if (until.tv_nsec >= 1000000000L) until.tv_sec++, until.tv_nsec -= 1000000000L;
  pthread_mutex_lock(&server->mutex);
  while (is_busy(server, kept) && pthread_cond_timedwait(&server->idle, &server->mutex, &until) == 0) {
  }
  pthread_mutex_unlock(&server->mutex);
}

void tri_http_server_drain(tri_http_server *server, double seconds) { wait_until_idle(server, true, seconds); }

void tri_http_server_refuse(tri_http_server *server, double seconds) {
  tri_http_refuse_all(server);
  wait_until_idle(server, true, seconds);
}

void tri_http_server_stop(tri_http_server *server) {
  enum { SEND_S = 1 };
  if (server == NULL) return;
  tri_http_refuse_all(server);
  wait_until_idle(server, false, SEND_S);
  MHD_stop_daemon(server->daemon);
  if (server->is_local) (void)unlink(server->address);
  destroy(server);
}

const char *tri_http_server_address(const tri_http_server *server) { return server->address; }

const char *tri_http_server_token(const tri_http_server *server) { return server->token; }

#endif
