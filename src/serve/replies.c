#include "serve/replies.h"

#include "tokenizer/json_text.h"

#include <stdio.h>
#include <string.h>

int tri_serve_code(tri_status status) {
  switch ((int)status) {
    case TRI_BAD_FILE: return 404; /* another model */
    case TRI_OUT_OF_MEMORY:
    case TRI_DIVERGED: return 500; /* not finite logits */
    default: return 400;
  }
}

tri_http_reply tri_serve_json(int code, json_t *value) {
  char *text = value == NULL ? NULL : json_dumps(value, JSON_COMPACT);
  json_decref(value);
  if (text == NULL) return tri_http_words(500, "out of memory\n");
  return (tri_http_reply){.code = code,
                          .type = "application/json; charset=utf-8",
                          .text = text,
                          .bytes = strlen(text),
                          .memory = TRI_HTTP_GIVEN};
}

static const char *kind_of(int code) {
  if (code == 401) return "authentication_error";
  if (code == 404) return "not_found_error";
  if (code == 429) return "rate_limit_error";
  return code >= 500 ? "server_error" : "invalid_request_error";
}

json_t *tri_serve_error_json(int code, const char *message, const char *param) {
  return json_pack("{s:{s:o, s:s, s:s?, s:i}}", "error", "message", tri_json_text(message, strlen(message)), "type",
                   kind_of(code), "param", param, "code", code);
}

tri_http_reply tri_serve_error(int code, const char *message, const char *param) {
  tri_http_reply reply = tri_serve_json(code, tri_serve_error_json(code, message, param));
  if (code == 401) {
    reply.headers[0].name = "WWW-Authenticate";
    snprintf(reply.headers[0].value, sizeof reply.headers[0].value, "Bearer");
  }
  if (code == 429 || code == 503) {
    reply.headers[0].name = "Retry-After";
    snprintf(reply.headers[0].value, sizeof reply.headers[0].value, "1");
  }
  return reply;
}
