/* Serves a board with libmicrohttpd, and protects it from other pages in the same browser. The Host header must name
 * this server; otherwise any page could read everything by DNS rebinding. Pages of other origins may not use the
 * answers. The page itself loads nothing from elsewhere. If other machines can reach the port, or with --token, the
 * page and all answers require a secret token in the address; the page's scripts and styles do not require it. */
#include "board/server.h"

#include "base/memory.h"
#include "board/clients.h"
#include "board/page.h"

#include <stdlib.h>
#include <string.h>

#ifndef TRIREME_HAVE_MICROHTTPD

tri_status tri_server_start(const tri_server_options *options, tri_board *board, tri_server **out) {
  (void)options, (void)board, (void)out;
  return tri_fail(TRI_UNSUPPORTED,
                  "board: this trireme was built without libmicrohttpd; install it (on Debian "
                  "libmicrohttpd-dev; scripts/install-deps.sh does) and configure and build again");
}

void tri_server_stop(tri_server *server) { (void)server; }

const char *tri_server_address(const tri_server *server) {
  (void)server;
  return "";
}

#else

#include <errno.h>
#include <math.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

/* Some connections are always free for new clients, because clients.h ends old connections before all are in use. If
 * other machines can reach the port, one machine gets at most half of the connections. */
enum { TOKEN_BYTES = 24, THREADS = 2, MOST_CONNECTIONS = 64, PEER_CONNECTIONS = 32, IDLE_S = 30, ADDRESS_BYTES = 512 };
/* A browser keeps a connection for its next request. IDLE_S ends a connection on which nothing is transferred. */
static const tri_clients_limits client_limits = {.most = 40, .request_s = 45, .answer_s = 30, .slowest_bytes_s = 32768};

struct tri_server {
  struct MHD_Daemon *daemon;
  tri_clients *clients;
  tri_board *board;
  int64_t port;
  bool is_open; /* whether other machines can reach the port; then the token is checked, and the Host header is not */
  char token[2 * TOKEN_BYTES + 1]; /* "" if no token is required */
  char address[ADDRESS_BYTES];
};

/* ---- connections ------------------------------------------------------------------------------------------------- */

static tri_client *client_of(struct MHD_Connection *connection) {
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  return info == NULL ? NULL : info->socket_context;
}

/* Adds a connection to the clients when it begins, and removes it when it ends. libmicrohttpd calls this function; the
 * socket is still open both times. */
static void note_connection(void *context, struct MHD_Connection *connection, void **client,
                            enum MHD_ConnectionNotificationCode what) {
  const tri_server *server = context;
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

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static void add_headers(struct MHD_Response *response, const char *type) {
  static const char *const headers[][2] = {
      {"Cache-Control", "no-store"},
      {"Content-Security-Policy",
       "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
       "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
      {"Referrer-Policy", "no-referrer"},
      {"X-Content-Type-Options", "nosniff"},
  };
  MHD_add_response_header(response, "Content-Type", type);
  for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
    MHD_add_response_header(response, headers[i][0], headers[i][1]);
  }
}

static enum MHD_Result give(struct MHD_Connection *to, unsigned code, const char *type, void *text, size_t bytes,
                            enum MHD_ResponseMemoryMode mode) {
  struct MHD_Response *response = MHD_create_response_from_buffer(bytes, text, mode);
  if (response == NULL) {
    if (mode == MHD_RESPMEM_MUST_FREE) free(text);
    return MHD_NO;
  }
  add_headers(response, type);
  if (code == MHD_HTTP_METHOD_NOT_ALLOWED) MHD_add_response_header(response, "Allow", "GET, HEAD");
  tri_client_answer(client_of(to), bytes);
  enum MHD_Result result = MHD_queue_response(to, code, response);
  MHD_destroy_response(response);
  return result;
}

static enum MHD_Result give_words(struct MHD_Connection *to, unsigned code, const char *words) {
  return give(to, code, "text/plain; charset=utf-8", (void *)(uintptr_t)words, strlen(words), MHD_RESPMEM_MUST_COPY);
}

static unsigned code_of(tri_status status) {
  if (status == TRI_BAD_USAGE) return MHD_HTTP_NOT_FOUND;
  if (status == TRI_OUT_OF_MEMORY) return MHD_HTTP_INTERNAL_SERVER_ERROR;
  return MHD_HTTP_SERVICE_UNAVAILABLE;
}

static enum MHD_Result give_answer(struct MHD_Connection *to, tri_status status, const tri_answer *answer,
                                   const char *type) {
  if (status != TRI_OK) return give_words(to, code_of(status), tri_status_message());
  return give(to, MHD_HTTP_OK, type, answer->text, answer->bytes, MHD_RESPMEM_MUST_FREE);
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

static const char *asked(struct MHD_Connection *from, const char *key) {
  return MHD_lookup_connection_value(from, MHD_GET_ARGUMENT_KIND, key);
}

/* Returns the number with the key in the request; `fallback` if it is missing, not a number, or out of range. */
static double asked_number(struct MHD_Connection *from, const char *key, double fallback, double low, double high) {
  const char *text = asked(from, key);
  char *end = NULL;
  double value = text == NULL ? NAN : strtod(text, &end);
  return text != NULL && end != text && *end == '\0' && value >= low && value <= high ? value : fallback;
}

static tri_board_axis asked_axis(struct MHD_Connection *from) {
#define AXIS_WORD(VALUE, word) #word,
  static const char *const words[] = {TRI_BOARD_AXES(AXIS_WORD)};
  const char *text = asked(from, "x");
  for (size_t i = 0; text != NULL && i < sizeof words / sizeof *words; i++) {
    if (strcmp(text, words[i]) == 0) return (tri_board_axis)i;
  }
  return TRI_BOARD_AXIS_STEP;
}

/* Parses the numbers of runs in the request, such as "3,0,12", up to the first fault. Returns how many there are. */
static int64_t asked_runs(struct MHD_Connection *from, int64_t runs[TRI_BOARD_MOST_RUNS]) {
  const char *text = asked(from, "runs");
  int64_t count = 0;
  while (text != NULL && count < TRI_BOARD_MOST_RUNS) {
    char *end = NULL;
    long long number = strtoll(text, &end, 10);
    if (end == text) break;
    runs[count++] = number;
    if (*end != ',') break;
    text = end + 1;
  }
  return count;
}

static enum MHD_Result give_series(const tri_server *server, struct MHD_Connection *to) {
  tri_answer answer = {0};
  int64_t runs[TRI_BOARD_MOST_RUNS];
  int64_t num_runs = asked_runs(to, runs);
  tri_bucket_request request = {
      .axis = asked_axis(to),
      .from = asked_number(to, "from", NAN, -1e300, 1e300),
      .to = asked_number(to, "to", NAN, -1e300, 1e300),
      .points = (int64_t)asked_number(to, "points", 300, 1, TRI_BOARD_MOST_POINTS),
      .smoothing = asked_number(to, "smoothing", 1, 1, 1e9),
  };
  tri_status status = tri_board_answer_series(server->board, &request, runs, num_runs, &answer);
  return give_answer(to, status, &answer, "application/json");
}

typedef tri_status one_answer(tri_board *board, int64_t number, tri_answer *out);

static enum MHD_Result give_one(const tri_server *server, struct MHD_Connection *to, one_answer *answer_of,
                                const char *type) {
  tri_answer answer = {0};
  int64_t number = (int64_t)asked_number(to, "id", -1, 0, 1e9);
  return give_answer(to, answer_of(server->board, number, &answer), &answer, type);
}

static enum MHD_Result give_list(const tri_server *server, struct MHD_Connection *to) {
  tri_answer answer = {0};
  return give_answer(to, tri_board_answer_list(server->board, &answer), &answer, "application/json");
}

/* ---- access ------------------------------------------------------------------------------------------------------ */

/* Returns whether `said` is "NAME" or "NAME:PORT" of this server. */
static bool is_host(const tri_server *server, const char *said, const char *name) {
  size_t bytes = strlen(name);
  char port[32];
  if (strncasecmp(said, name, bytes) != 0) return false;
  snprintf(port, sizeof port, ":%lld", (long long)server->port);
  return strcmp(said + bytes, port) == 0 || (said[bytes] == '\0' && server->port == 80);
}

static bool may_name(const tri_server *server, struct MHD_Connection *from) {
  const char *said = MHD_lookup_connection_value(from, MHD_HEADER_KIND, "Host");
  if (server->is_open) return true; /* a machine may have many names; the token decides instead */
  if (said == NULL) return false;
  return is_host(server, said, "127.0.0.1") || is_host(server, said, "localhost") || is_host(server, said, "[::1]");
}

/* Returns whether the request has the token. The time of the comparison does not depend on how much of the token is
 * right. */
static bool has_token(const tri_server *server, struct MHD_Connection *from) {
  const char *said = asked(from, "token");
  unsigned different = 0;
  size_t bytes = strlen(server->token);
  if (bytes == 0) return true;
  if (said == NULL || strlen(said) != bytes) return false;
  for (size_t i = 0; i < bytes; i++) different |= (unsigned)(said[i] ^ server->token[i]);
  return different == 0;
}

/* ---- addresses --------------------------------------------------------------------------------------------------- */

static const char *type_of(const char *name) {
  const char *ending = strrchr(name, '.');
  if (ending != NULL && strcmp(ending, ".js") == 0) return "text/javascript; charset=utf-8";
  if (ending != NULL && strcmp(ending, ".css") == 0) return "text/css; charset=utf-8";
  return "text/html; charset=utf-8";
}

static const tri_page_file *page_file(const char *url) {
  const char *name = strcmp(url, "/") == 0 ? "board.html" : url + 1;
  for (const tri_page_file *file = tri_page_files; file->name != NULL; file++) {
    if (strcmp(file->name, name) == 0) return file;
  }
  return NULL;
}

static enum MHD_Result answer_get(const tri_server *server, struct MHD_Connection *to, const char *url) {
  static const char wants_token[] =
      "This board requires its token: open the address that `trireme board` has printed.\n";
  const tri_page_file *file = page_file(url);
  bool is_page = file != NULL && strcmp(file->name, "board.html") == 0;
  if ((file == NULL || is_page) && !has_token(server, to)) return give_words(to, MHD_HTTP_FORBIDDEN, wants_token);
  if (file != NULL) {
    return give(to, MHD_HTTP_OK, type_of(file->name), (void *)(uintptr_t)file->text, (size_t)(file->end - file->text),
                MHD_RESPMEM_PERSISTENT);
  }
  if (strcmp(url, "/api/list") == 0) return give_list(server, to);
  if (strcmp(url, "/api/series") == 0) return give_series(server, to);
  if (strcmp(url, "/api/run") == 0) return give_one(server, to, tri_board_answer_run, "application/json");
  if (strcmp(url, "/api/study") == 0) return give_one(server, to, tri_board_answer_study, "application/json");
  if (strcmp(url, "/api/timeline") == 0) return give_one(server, to, tri_board_answer_timeline, "application/json");
  if (strcmp(url, "/api/picture") == 0) return give_one(server, to, tri_board_answer_picture, "image/svg+xml");
  return give_words(to, MHD_HTTP_NOT_FOUND, "Not found.\n");
}

/* Answers a request. libmicrohttpd calls this function first with the headers, and again with the body, which is
 * ignored. */
static enum MHD_Result answer(void *context, struct MHD_Connection *to, const char *url, const char *method,
                              const char *version, const char *body, size_t *body_bytes, void **state) {
  static const char other[] =
      "This board can be opened only at its own address: http://127.0.0.1 or http://localhost with its port.\n";
  const tri_server *server = context;
  (void)version, (void)body, (void)state;
  if (*body_bytes > 0) {
    *body_bytes = 0;
    return MHD_YES;
  }
  tri_client_think(client_of(to));
  if (!may_name(server, to)) return give_words(to, MHD_HTTP_MISDIRECTED_REQUEST, other);
  if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
    return give_words(to, MHD_HTTP_METHOD_NOT_ALLOWED, "This board is read-only.\n");
  }
  return answer_get(server, to, url);
}

/* ---- start ------------------------------------------------------------------------------------------------------- */

static bool is_loopback(const struct sockaddr *address) {
  if (address->sa_family == AF_INET) {
    return ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >> 24 == 127;
  }
  return address->sa_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
}

static tri_status fail_to_listen(const tri_server_options *options, const char *host) {
  long long port = options->port;
  if (errno == EADDRINUSE) {
    return tri_fail(TRI_BUSY,
                    "board: port %lld of %s is in use, perhaps by another board; name another (--port %lld), or "
                    "let one be found (--port 0)",
                    port, host, port < 65535 ? port + 1 : port - 1);
  }
  if (errno == EADDRNOTAVAIL) {
    return tri_fail(TRI_BAD_USAGE, "board: --host %s is not an address of this machine", host);
  }
  return tri_fail(TRI_IO_FAILED, "board: cannot listen on port %lld of %s: %s%s", port, host, strerror(errno),
                  errno == EACCES ? "; ports below 1024 belong to the system: name another (--port)" : "");
}

/* Opens a listening socket, and sets *port to its port. */
static tri_status open_port(const tri_server_options *options, const char *host, const struct addrinfo *at, int *out,
                            int64_t *port) {
  const int yes = 1;
  char text[NI_MAXSERV] = "";
  struct sockaddr_storage bound = {0};
  socklen_t bytes = sizeof bound;
  int listener = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener < 0) return fail_to_listen(options, host);
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes,
             sizeof yes); /* so that connections that have just ended do not block the port */
  if (bind(listener, at->ai_addr, at->ai_addrlen) != 0 || listen(listener, MOST_CONNECTIONS) != 0 ||
      getsockname(listener, (struct sockaddr *)&bound, &bytes) != 0 ||
      getnameinfo((struct sockaddr *)&bound, bytes, NULL, 0, text, sizeof text, NI_NUMERICSERV) != 0) {
    tri_status status = fail_to_listen(options, host);
    close(listener);
    return status;
  }
  *port = strtoll(text, NULL, 10);
  *out = listener;
  return TRI_OK;
}

static tri_status draw_token(tri_server *server) {
  unsigned char drawn[TOKEN_BYTES];
  if (getrandom(drawn, sizeof drawn, 0) != (ssize_t)sizeof drawn) {
    return tri_fail(TRI_IO_FAILED, "board: cannot draw a token: %s", strerror(errno));
  }
  for (int i = 0; i < TOKEN_BYTES; i++) snprintf(server->token + 2 * i, 3, "%02x", drawn[i]);
  return TRI_OK;
}

/* Writes the address to open in a browser. If the server listens at all interfaces, whose address cannot be opened, the
 * machine's name replaces that address. */
static void write_address(tri_server *server, const char *host) {
  char name[256] = "";
  bool any = strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
  if (any && gethostname(name, sizeof name - 1) != 0) snprintf(name, sizeof name, "localhost");
  if (!any) snprintf(name, sizeof name, strchr(host, ':') != NULL ? "[%s]" : "%s", host);
  snprintf(server->address, sizeof server->address, "http://%s:%lld/%s%s", name, (long long)server->port,
           server->token[0] != '\0' ? "?token=" : "", server->token);
}

static tri_status begin_daemon(tri_server *server, int listener) {
  const unsigned of_one = server->is_open ? PEER_CONNECTIONS : 0; /* connections of one machine; 0: no limit */
  server->daemon =
      MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL, 0, NULL, NULL, answer, server,
                       MHD_OPTION_LISTEN_SOCKET, listener, MHD_OPTION_THREAD_POOL_SIZE, (unsigned)THREADS,
                       MHD_OPTION_CONNECTION_LIMIT, (unsigned)MOST_CONNECTIONS, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
                       of_one, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S, MHD_OPTION_NOTIFY_CONNECTION,
                       note_connection, server, MHD_OPTION_NOTIFY_COMPLETED, note_end, server, MHD_OPTION_END);
  if (server->daemon != NULL) return TRI_OK;
  close(listener);
  return tri_fail(TRI_IO_FAILED, "board: libmicrohttpd cannot start its threads: %s", strerror(errno));
}

static tri_status server_open(tri_server *server, const tri_server_options *options, const char *host,
                              const struct addrinfo *at) {
  int listener = -1;
  server->is_open = !is_loopback(at->ai_addr);
  if (server->is_open || options->wants_token) TRI_TRY(draw_token(server));
  TRI_TRY(tri_clients_create(&client_limits, &server->clients));
  TRI_TRY(open_port(options, host, at, &listener, &server->port));
  write_address(server, host);
  return begin_daemon(server, listener);
}

tri_status tri_server_start(const tri_server_options *options, tri_board *board, tri_server **out) {
  const char *host = options->host == NULL ? "127.0.0.1" : options->host;
  const struct addrinfo wanted = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
  struct addrinfo *found = NULL;
  tri_server *server = NULL;
  char port[32];
  snprintf(port, sizeof port, "%lld", (long long)options->port);
  int fault = getaddrinfo(host, port, &wanted, &found);
  if (fault != 0) return tri_fail(TRI_BAD_USAGE, "board: --host %s: %s", host, gai_strerror(fault));
  tri_status status = tri_alloc("a server", 1, sizeof *server, &server);
  if (status == TRI_OK) {
    server->board = board;
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

void tri_server_stop(tri_server *server) {
  if (server == NULL) return;
  MHD_stop_daemon(server->daemon);
  tri_clients_destroy(server->clients);
  tri_free(server);
}

const char *tri_server_address(const tri_server *server) { return server->address; }

#endif
