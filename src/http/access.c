/* Access to a server: the Host header and the keys. */
#ifdef TRIREME_HAVE_MICROHTTPD

#include "http/internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

/* Returns whether `said` is "NAME:PORT" with the server's port, or "NAME" if the port is 80. */
static bool is_host(const tri_http_server *server, const char *said, const char *name) {
  size_t bytes = strlen(name);
  char port[32];
  if (strncasecmp(said, name, bytes) != 0) return false;
  snprintf(port, sizeof port, ":%lld", (long long)server->port);
  return strcmp(said + bytes, port) == 0 || (said[bytes] == '\0' && server->port == 80);
}

/* Returns whether `said` is the host and port of the address that the server has printed. */
static bool is_printed_host(const tri_http_server *server, const char *said) {
  static const char scheme[] = "http://";
  const char *host = server->address + sizeof scheme - 1;
  const size_t bytes = strcspn(host, "/");
  return strlen(said) == bytes && strncasecmp(said, host, bytes) == 0;
}

bool tri_http_names_server(const tri_http_request *request) {
  const tri_http_server *server = request->server;
  const char *said = tri_http_header(request, "Host");
  /* A machine may have many names, and no web page reaches a socket of the file system: the key or the file's mode
   * decides instead. */
  if (server->is_open || server->is_local) return true;
  if (said == NULL) return false;
  if (is_printed_host(server, said)) return true;
  return is_host(server, said, "127.0.0.1") || is_host(server, said, "localhost") || is_host(server, said, "[::1]");
}

/* Returns whether two keys are equal, in a time that does not depend on how much of `said` is right. */
static bool is_key(const char *said, const char *key) {
  const size_t bytes = strlen(key), of_said = strlen(said);
  unsigned different = bytes != of_said;
  for (size_t i = 0; i < of_said; i++) different |= (unsigned)(said[i] ^ key[bytes == 0 ? 0 : i % bytes]);
  return different == 0;
}

/* Returns the index of a key; -1: the server has no such key. */
static int find_key(const tri_http_server *server, const char *said) {
  int found = -1;
  for (int i = 0; i < server->num_keys; i++) {
    if (is_key(said, server->keys[i])) found = i;
  }
  return found;
}

int tri_http_key(const tri_http_request *request) {
  static const char scheme[] = "Bearer ";
  const tri_http_server *server = request->server;
  const char *header = tri_http_header(request, "Authorization"), *argument = tri_http_argument(request, "token");
  if (server->num_keys == 0) return 0;
  if (header != NULL && strncasecmp(header, scheme, sizeof scheme - 1) == 0)
    return find_key(server, header + sizeof scheme - 1);
  return argument == NULL ? -1 : find_key(server, argument);
}

tri_status tri_http_draw_token(tri_http_server *server) {
  unsigned char drawn[TRI_HTTP_TOKEN_BYTES];
  if (getrandom(drawn, sizeof drawn, 0) != (ssize_t)sizeof drawn) {
    return tri_fail(TRI_IO_FAILED, "%s: cannot draw a token: %s", server->service.command, strerror(errno));
  }
  for (int i = 0; i < TRI_HTTP_TOKEN_BYTES; i++) snprintf(server->token + 2 * i, 3, "%02x", drawn[i]);
  server->own_key = server->token;
  server->keys = &server->own_key;
  server->num_keys = 1;
  return TRI_OK;
}

#endif
