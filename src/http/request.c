/* Requests and their replies. A request is an object with a stage (internal.h), since its reply may come later, from
 * another thread, and in pieces. */
#ifdef TRIREME_HAVE_MICROHTTPD

#include "base/memory.h"
#include "http/internal.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

/* ---- queries ----------------------------------------------------------------------------------------------------- */

bool tri_http_is(const tri_http_request *request, const char *method) {
  return strcmp(request->method, method) == 0 || (strcmp(method, "GET") == 0 && strcmp(request->method, "HEAD") == 0);
}

const char *tri_http_path(const tri_http_request *request) { return request->path; }

const char *tri_http_argument(const tri_http_request *request, const char *key) {
  return MHD_lookup_connection_value(request->connection, MHD_GET_ARGUMENT_KIND, key);
}

const char *tri_http_header(const tri_http_request *request, const char *name) {
  return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

const char *tri_http_body(const tri_http_request *request, size_t *bytes) {
  *bytes = request->body_bytes;
  return request->body == NULL ? "" : request->body;
}

tri_client *tri_http_client(struct MHD_Connection *connection) {
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  return info == NULL ? NULL : info->socket_context;
}

/* ---- begin and end ----------------------------------------------------------------------------------------------- */

tri_http_request *tri_http_request_begin(tri_http_server *server, struct MHD_Connection *connection, const char *method,
                                         const char *path) {
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  tri_http_request *request = NULL;
  if (info == NULL || tri_alloc("a request", 1, sizeof *request, &request) != TRI_OK) return NULL;
  *request = (tri_http_request){.server = server,
                                .connection = connection,
                                .holders = 1,
                                .socket = info->connect_fd,
                                .method = method,
                                .path = path};
  pthread_mutex_lock(&server->mutex);
  request->behind = server->first;
  if (server->first != NULL) server->first->before = request;
  server->first = request;
  pthread_mutex_unlock(&server->mutex);
  return request;
}

void tri_http_request_add(tri_http_request *request, const char *text, size_t bytes) {
  const size_t most = request->server->service.limits.body_bytes;
  if (request->too_large || bytes > most - request->body_bytes ||
      tri_reserve("a request", 1, request->body_bytes + bytes + 1, &request->body_room, &request->body) != TRI_OK) {
    request->too_large = true;
    return;
  }
  memcpy(request->body + request->body_bytes, text, bytes);
  request->body_bytes += bytes;
  request->body[request->body_bytes] = '\0';
}

/* Releases the text of a reply that was not sent. */
static void drop_reply(tri_http_request *request) {
  if (request->stage == TRI_HTTP_READY && request->reply.memory == TRI_HTTP_GIVEN)
    free((void *)(uintptr_t)request->reply.text);
}

/* Removes one holder, and frees the request if it was the last one; the mutex must be locked, and is unlocked. */
static void let_go(tri_http_request *request) {
  tri_http_server *server = request->server;
  const bool last = --request->holders == 0;
  pthread_mutex_unlock(&server->mutex);
  if (!last) return;
  drop_reply(request);
  tri_free(request->body);
  tri_free(request->text);
  tri_free(request);
}

void tri_http_request_finish(tri_http_request *request) {
  tri_http_server *server = request->server;
  pthread_mutex_lock(&server->mutex);
  request->connection = NULL;
  if (request->before != NULL) request->before->behind = request->behind;
  if (request->behind != NULL) request->behind->before = request->before;
  if (server->first == request) server->first = request->behind;
  pthread_cond_broadcast(&server->idle);
  let_go(request);
}

/* ---- replies ----------------------------------------------------------------------------------------------------- */

tri_http_reply tri_http_words(int code, const char *words) {
  return (tri_http_reply){.code = code,
                          .type = "text/plain; charset=utf-8",
                          .text = words,
                          .bytes = strlen(words),
                          .memory = TRI_HTTP_COPIED};
}

static enum MHD_ResponseMemoryMode mode_of(tri_http_memory memory) {
  switch (memory) {
    case TRI_HTTP_KEPT: return MHD_RESPMEM_PERSISTENT;
    case TRI_HTTP_COPIED: return MHD_RESPMEM_MUST_COPY;
    case TRI_HTTP_GIVEN: break;
  }
  return MHD_RESPMEM_MUST_FREE;
}

static void add_headers(const tri_http_request *request, const tri_http_reply *reply, struct MHD_Response *response) {
  const tri_http_server *server = request->server;
  const tri_http_service *service = &server->service;
  if (reply->type != NULL) MHD_add_response_header(response, "Content-Type", reply->type);
  for (size_t i = 0; i < service->num_headers; i++)
    MHD_add_response_header(response, service->headers[i][0], service->headers[i][1]);
  for (int i = 0; i < TRI_HTTP_OWN_HEADERS && reply->headers[i].name != NULL; i++)
    MHD_add_response_header(response, reply->headers[i].name, reply->headers[i].value);
  if (reply->code == MHD_HTTP_METHOD_NOT_ALLOWED)
    MHD_add_response_header(response, "Allow", service->limits.body_bytes > 0 ? "GET, HEAD, POST" : "GET, HEAD");
  if (server->origin == NULL) return;
  MHD_add_response_header(response, "Access-Control-Allow-Origin", server->origin);
  MHD_add_response_header(response, "Vary", "Origin");
  MHD_add_response_header(response, "Access-Control-Allow-Headers", "Authorization, Content-Type");
  MHD_add_response_header(response, "Access-Control-Allow-Methods", "GET, POST");
}

enum MHD_Result tri_http_reply_now(tri_http_request *request, tri_http_reply *reply) {
  const enum MHD_ResponseMemoryMode mode = mode_of(reply->memory);
  void *text = (void *)(uintptr_t)reply->text;
  struct MHD_Response *response = MHD_create_response_from_buffer(reply->bytes, text, mode);
  if (response == NULL && mode == MHD_RESPMEM_MUST_FREE) free(text);
  request->stage = TRI_HTTP_SENT;
  if (response == NULL) return MHD_NO;
  add_headers(request, reply, response);
  tri_client_answer(tri_http_client(request->connection), reply->bytes);
  const enum MHD_Result result = MHD_queue_response(request->connection, (unsigned)reply->code, response);
  MHD_destroy_response(response);
  return result;
}

/* ---- replies that come later ------------------------------------------------------------------------------------- */

/* Suspends the connection until there is something to send; the mutex must be locked. */
static void wait_for_text(tri_http_request *request) {
  tri_client_think(tri_http_client(request->connection));
  request->suspended = true;
  MHD_suspend_connection(request->connection);
}

/* Resumes the connection if it is suspended; the mutex must be locked. */
static void wake(tri_http_request *request) {
  if (!request->suspended) return;
  request->suspended = false;
  MHD_resume_connection(request->connection);
}

/* Copies the next bytes of a stream for libmicrohttpd. Returns their number, or one of its codes for the end of the
 * text. If there are no bytes yet, suspends the connection until there are, and returns 0. */
static ssize_t read_text(void *context, uint64_t at, char *out, size_t most) {
  tri_http_request *request = context;
  ssize_t taken = 0;
  (void)at;
  pthread_mutex_lock(&request->server->mutex);
  const size_t left = request->bytes - request->sent_bytes;
  if (left > 0) {
    taken = (ssize_t)(left < most ? left : most);
    memcpy(out, request->text + request->sent_bytes, (size_t)taken);
    request->sent_bytes += (size_t)taken;
    tri_client_answer(tri_http_client(request->connection), left);
    if (request->sent_bytes == request->bytes) request->sent_bytes = request->bytes = 0;
  } else if (request->ended) {
    taken = request->broken ? MHD_CONTENT_READER_END_WITH_ERROR : MHD_CONTENT_READER_END_OF_STREAM;
  } else {
    wait_for_text(request);
  }
  pthread_mutex_unlock(&request->server->mutex);
  return taken;
}

static enum MHD_Result begin_stream(tri_http_request *request) {
  enum { BLOCK_BYTES = 16 << 10 };
  struct MHD_Response *response =
      MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, read_text, request, NULL);
  request->stage = TRI_HTTP_SENT;
  if (response == NULL) return MHD_NO;
  add_headers(request, &request->reply, response);
  const enum MHD_Result result = MHD_queue_response(request->connection, (unsigned)request->reply.code, response);
  MHD_destroy_response(response);
  return result;
}

enum MHD_Result tri_http_reply_if_ready(tri_http_request *request) {
  enum MHD_Result result = MHD_YES;
  pthread_mutex_lock(&request->server->mutex);
  switch (request->stage) {
    case TRI_HTTP_KEPT_BACK: wait_for_text(request); break;
    case TRI_HTTP_READY: result = tri_http_reply_now(request, &request->reply); break;
    case TRI_HTTP_STREAMS: result = begin_stream(request); break;
    case TRI_HTTP_DROPPED: result = MHD_NO; break; /* closes the connection */
    case TRI_HTTP_READING:
    case TRI_HTTP_SENT: break;
  }
  pthread_mutex_unlock(&request->server->mutex);
  return result;
}

tri_http_reply tri_http_later(tri_http_request *request) {
  pthread_mutex_lock(&request->server->mutex);
  request->holders++;
  request->kept = true;
  request->stage = TRI_HTTP_KEPT_BACK;
  pthread_mutex_unlock(&request->server->mutex);
  return (tri_http_reply){.code = 0};
}

/* Copies the text of a reply if it is TRI_HTTP_COPIED, so that the service may release it. The text is empty if memory
 * is exhausted. */
static void keep_text(tri_http_reply *reply) {
  if (reply->memory != TRI_HTTP_COPIED) return;
  char *copy = malloc(reply->bytes + 1);
  if (copy != NULL && reply->bytes > 0) memcpy(copy, reply->text, reply->bytes);
  if (copy == NULL) reply->bytes = 0;
  reply->text = copy;
  reply->memory = TRI_HTTP_GIVEN;
}

void tri_http_send(tri_http_request *request, const tri_http_reply *reply) {
  pthread_mutex_lock(&request->server->mutex);
  if (request->stage == TRI_HTTP_KEPT_BACK) {
    request->reply = *reply;
    keep_text(&request->reply);
    request->stage = TRI_HTTP_READY;
    wake(request);
  } else if (reply->memory == TRI_HTTP_GIVEN) {
    free((void *)(uintptr_t)reply->text);
  }
  pthread_mutex_unlock(&request->server->mutex);
}

/* Appends a piece to the text of a reply; the mutex must be locked. If memory is exhausted, the text ends with an
 * error. */
static void append(tri_http_request *request, const char *text, size_t bytes) {
  if (request->connection == NULL || request->ended || bytes == 0) return;
  if (tri_reserve("a reply", 1, request->bytes + bytes, &request->room, &request->text) != TRI_OK) {
    request->ended = request->broken = true;
    return;
  }
  memcpy(request->text + request->bytes, text, bytes);
  request->bytes += bytes;
}

void tri_http_begin(tri_http_request *request, const tri_http_reply *reply) {
  pthread_mutex_lock(&request->server->mutex);
  if (request->stage == TRI_HTTP_KEPT_BACK) {
    request->reply = *reply;
    request->stage = TRI_HTTP_STREAMS;
    append(request, reply->text, reply->bytes);
    wake(request);
  }
  pthread_mutex_unlock(&request->server->mutex);
}

void tri_http_add(tri_http_request *request, const char *text, size_t bytes) {
  pthread_mutex_lock(&request->server->mutex);
  append(request, text, bytes);
  pthread_mutex_unlock(&request->server->mutex);
}

void tri_http_flush(tri_http_request *request) {
  pthread_mutex_lock(&request->server->mutex);
  if (request->bytes > request->sent_bytes) wake(request);
  pthread_mutex_unlock(&request->server->mutex);
}

void tri_http_end(tri_http_request *request) {
  pthread_mutex_lock(&request->server->mutex);
  request->ended = true;
  wake(request);
  pthread_mutex_unlock(&request->server->mutex);
}

bool tri_http_has_left(tri_http_request *request) {
  pthread_mutex_lock(&request->server->mutex);
  bool left = request->connection == NULL;
  if (!left) { /* the socket is still open: tri_http_request_finish locks the mutex before the connection is closed */
    struct pollfd socket = {.fd = request->socket, .events = POLLRDHUP};
    left = poll(&socket, 1, 0) > 0 && (socket.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
  }
  pthread_mutex_unlock(&request->server->mutex);
  return left;
}

/* Ends the reply of a request that the service releases. If the service has not sent all of the reply, for example
 * because the client has left, the connection is closed. The connection is resumed for that, since a suspended
 * connection stays open for ever. The mutex must be locked. */
static void abandon(tri_http_request *request) {
  if (request->stage == TRI_HTTP_KEPT_BACK) request->stage = TRI_HTTP_DROPPED;
  if (!request->ended) request->broken = true;
  request->ended = true;
  wake(request);
}

void tri_http_release(tri_http_request *request) {
  if (request == NULL) return;
  pthread_mutex_lock(&request->server->mutex);
  abandon(request);
  let_go(request);
}

/* Ends an unfinished reply that is sent in pieces: appends service.of_broken_text or, if that is NULL, lets the
 * connection end with an error. The mutex must be locked. */
static void break_off(tri_http_request *request) {
  const char *last = request->server->service.of_broken_text;
  if (request->ended) return;
  if (last == NULL) request->broken = true;
  if (last != NULL) append(request, last, strlen(last));
}

void tri_http_refuse_all(tri_http_server *server) {
  const tri_http_reply *of_end = &server->service.of_end;
  pthread_mutex_lock(&server->mutex);
  for (tri_http_request *request = server->first; request != NULL; request = request->behind) {
    if (request->stage == TRI_HTTP_KEPT_BACK) {
      request->reply = *of_end;
      if (of_end->code == 0) request->reply = tri_http_words(MHD_HTTP_SERVICE_UNAVAILABLE, "The server ends.\n");
      request->reply.memory = TRI_HTTP_KEPT;
      request->stage = TRI_HTTP_READY;
    } else if (request->kept) {
      break_off(request);
    }
    request->ended = true;
    wake(request);
  }
  pthread_mutex_unlock(&server->mutex);
}

#endif
