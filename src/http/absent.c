/* The functions of a server in a program that was built without libmicrohttpd. tri_http_server_start fails there, so no
 * request comes, and only tri_http_server_stop is called, with NULL. */
#ifndef TRIREME_HAVE_MICROHTTPD

#include "http/server.h"

bool tri_http_is(const tri_http_request *request, const char *method) {
  (void)request, (void)method;
  return false;
}

const char *tri_http_path(const tri_http_request *request) {
  (void)request;
  return "";
}

const char *tri_http_argument(const tri_http_request *request, const char *key) {
  (void)request, (void)key;
  return NULL;
}

const char *tri_http_header(const tri_http_request *request, const char *name) {
  (void)request, (void)name;
  return NULL;
}

const char *tri_http_body(const tri_http_request *request, size_t *bytes) {
  (void)request;
  *bytes = 0;
  return "";
}

int tri_http_key(const tri_http_request *request) {
  (void)request;
  return -1;
}

tri_http_reply tri_http_words(int code, const char *words) {
  return (tri_http_reply){.code = code, .text = words, .memory = TRI_HTTP_KEPT};
}

tri_http_reply tri_http_later(tri_http_request *request) {
  (void)request;
  return (tri_http_reply){.code = 0};
}

void tri_http_send(tri_http_request *request, const tri_http_reply *reply) { (void)request, (void)reply; }

void tri_http_begin(tri_http_request *request, const tri_http_reply *reply) { (void)request, (void)reply; }

void tri_http_add(tri_http_request *request, const char *text, size_t bytes) { (void)request, (void)text, (void)bytes; }

void tri_http_flush(tri_http_request *request) { (void)request; }

void tri_http_end(tri_http_request *request) { (void)request; }

bool tri_http_has_left(tri_http_request *request) {
  (void)request;
  return true;
}

void tri_http_release(tri_http_request *request) { (void)request; }

void tri_http_server_drain(tri_http_server *server, double seconds) { (void)server, (void)seconds; }

void tri_http_server_refuse(tri_http_server *server, double seconds) { (void)server, (void)seconds; }

void tri_http_server_stop(tri_http_server *server) { (void)server; }

const char *tri_http_server_address(const tri_http_server *server) {
  (void)server;
  return "";
}

const char *tri_http_server_token(const tri_http_server *server) {
  (void)server;
  return "";
}

#endif
