/* Addresses, checks and the queue. These functions run on HTTP's threads. */
#include "serve/service.h"

#include "http/exposition.h"
#include "http/page.h"
#include "serve/job.h"
#include "serve/metrics.h"
#include "serve/replies.h"
#include "serve/tokens.h"

#include <string.h>

static const char *const headers[][2] = {
    {"Cache-Control", "no-store"},
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action "
     "'none'; "
     "frame-ancestors 'none'"},
    {"Referrer-Policy", "no-referrer"},
    {"X-Content-Type-Options", "nosniff"},
};

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

static tri_http_reply refuse_request(void *context, int code, const char *why) {
  (void)context;
  return tri_serve_error(code, why, NULL);
}

/* ---- the queue --------------------------------------------------------------------------------------------------- */

static void count_refused(tri_serve_front *front) {
  pthread_mutex_lock(&front->mutex);
  front->counters.refused++;
  pthread_mutex_unlock(&front->mutex);
}

/* Appends a job to the queue, and keeps its request (tri_http_later). Returns 0, or the HTTP status of the refusal: 503
 * if the server ends, 429 if the queue is full. */
static int append_job(tri_serve_front *front, tri_serve_job *job, tri_http_request *from) {
  int code = 0;
  pthread_mutex_lock(&front->mutex);
  if (front->closing) code = 503;
  if (code == 0 && front->counters.waiting >= front->defaults.limits.queue) code = 429;
  if (code == 0) {
    (void)tri_http_later(from);
    job->request = from;
    if (front->last == NULL) front->first = job;
    if (front->last != NULL) front->last->next = job;
    front->last = job;
    front->counters.waiting++;
    front->counters.accepted++;
    pthread_cond_signal(&front->wake);
  } else {
    front->counters.refused++;
  }
  pthread_mutex_unlock(&front->mutex);
  return code;
}

static tri_http_reply queue_job(tri_serve_front *front, tri_http_request *from, const char *body, size_t bytes,
                                bool chat) {
  tri_http_reply fault = {.code = 0};
  tri_serve_job *job = tri_serve_job_create(front, body, bytes, chat, tri_http_key(from), &fault);
  if (job == NULL) {
    count_refused(front);
    return fault;
  }
  const int code = append_job(front, job, from);
  if (code == 0) return (tri_http_reply){.code = 0};
  tri_serve_job_destroy(job);
  return tri_serve_error(code, code == 429 ? "the queue is full; try again" : "the server ends", NULL);
}

/* ---- addresses --------------------------------------------------------------------------------------------------- */

static tri_http_reply reply_models(const tri_serve_front *front) {
  return tri_serve_json(
      200, json_pack("{s:s, s:[{s:s, s:s, s:I, s:s, s:I}]}", "object", "list", "data", "id", front->defaults.model,
                     "object", "model", "created", (json_int_t)front->created_s, "owned_by", "trireme", "max_model_len",
                     (json_int_t)front->sizes.positions));
}

static tri_http_reply reply_ready(tri_serve_front *front) {
  pthread_mutex_lock(&front->mutex);
  const bool takes = !front->closing && front->counters.waiting < front->defaults.limits.queue;
  pthread_mutex_unlock(&front->mutex);
  if (takes) return tri_http_words(200, "ready\n");
  return tri_serve_error(503, "the server takes no requests at present", NULL);
}

static tri_http_reply reply_metrics(tri_serve_front *front) {
  char *text = tri_serve_metrics(front);
  if (text == NULL) return tri_http_words(500, "out of memory\n");
  return (tri_http_reply){
      .code = 200, .type = TRI_EXPOSITION_TYPE, .text = text, .bytes = strlen(text), .memory = TRI_HTTP_GIVEN};
}

/* Returns whether the request's Content-Type is JSON. A browser sends such a request for a web page of another origin
 * only if the server has allowed it in a reply to OPTIONS (CORS). */
static bool has_json(const tri_http_request *from) {
  static const char wanted[] = "application/json";
  const char *type = tri_http_header(from, "Content-Type");
  if (type == NULL || strncasecmp(type, wanted, sizeof wanted - 1) != 0) return false;
  return strchr(" \t;", type[sizeof wanted - 1]) != NULL; /* a NUL, too, is found */
}

static tri_http_reply reply_to_post(tri_serve_front *front, tri_http_request *from) {
  const char *path = tri_http_path(from);
  size_t bytes = 0;
  const char *body = tri_http_body(from, &bytes);
  if (!has_json(from)) return tri_serve_error(415, "the Content-Type should be application/json", NULL);
  if (strcmp(path, "/v1/completions") == 0) return queue_job(front, from, body, bytes, false);
  if (strcmp(path, "/v1/chat/completions") == 0) return queue_job(front, from, body, bytes, true);
  if (strcmp(path, "/tokenize") == 0) return tri_serve_tokenize(front, body, bytes);
  if (strcmp(path, "/detokenize") == 0) return tri_serve_detokenize(front, body, bytes);
  return tri_serve_error(404, "there is no such address", NULL);
}

static tri_http_reply reply_to_get(tri_serve_front *front, const tri_http_request *from) {
  const char *path = tri_http_path(from);
  if (strcmp(path, "/v1/models") == 0) return reply_models(front);
  if (strcmp(path, "/metrics") == 0) return reply_metrics(front);
  if (strcmp(path, "/tokenizer_info") == 0) return tri_serve_tokenizer_info(front);
  return tri_serve_error(404, "there is no such address", NULL);
}

static tri_http_reply reply(void *context, tri_http_request *from) {
  tri_serve_front *front = context;
  const char *path = tri_http_path(from);
  if (strcmp(path, "/health") == 0) return tri_http_words(200, "alive\n");
  if (strcmp(path, "/ready") == 0) return reply_ready(front);
  const tri_page_file *file = tri_page_find(tri_serve_page, path, "serve.html"); /* has no secrets: it needs no key */
  if (file != NULL && tri_http_is(from, "GET")) return tri_page_reply(file);
  if (tri_http_key(from) < 0) {
    count_refused(front);
    return tri_serve_error(401, "this server requires its key: send the header Authorization: Bearer KEY", NULL);
  }
  return tri_http_is(from, "GET") ? reply_to_get(front, from) : reply_to_post(front, from);
}

#define ENDED                                                                                                          \
  "{\"error\":{\"message\":\"the server ended before the "                                                             \
  "answer\",\"type\":\"server_error\",\"param\":null,\"code\":503}}"
static const char ended[] = ENDED;

enum { SPARE_CONNECTIONS = 32 }; /* so that new clients can connect while old ones are ended */

tri_http_service tri_serve_service(tri_serve_front *front) {
  const tri_serve_limits *limits = &front->defaults.limits;
  return (tri_http_service){
      .command = "serve",
      .reply = reply,
      .refuse = refuse_request,
      .context = front,
      .headers = headers,
      .num_headers = sizeof headers / sizeof *headers,
      .of_other_host =
          "the Host header does not name this server: use http://127.0.0.1 or http://localhost with its "
          "port",
      .of_other_method = "the methods of this server are GET, HEAD and POST",
      .of_end = {.code = 503, .type = "application/json; charset=utf-8", .text = ended, .bytes = sizeof ended - 1},
      .of_broken_text = "data: " ENDED "\n\n",
      .limits =
          {.connections = (int)limits->connections + SPARE_CONNECTIONS,
           .of_one_machine = (int)limits->of_one_machine,
           .idle_s = 60,
           .threads = 2,
           .body_bytes = (size_t)limits->body_bytes,
           .clients = {.most = (int)limits->connections, .request_s = 60, .answer_s = 60, .slowest_bytes_s = 4096}},
  };
}
