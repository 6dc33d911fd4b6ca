/* Replies in JSON, and errors in OpenAI's form. */
#ifndef TRI_SERVE_REPLIES_H
#define TRI_SERVE_REPLIES_H

#include "http/server.h"

#include <jansson.h>

/* Returns the HTTP status for a request that failed with `status` before it was accepted. */
int tri_serve_code(tri_status status);
/* Returns an error in OpenAI's form; bytes of the message that are not UTF-8, as of a character that was cut, become
 * U+FFFD. NULL if memory is exhausted. */
json_t *tri_serve_error_json(int code, const char *message, const char *param);
/* Returns the reply with an error in OpenAI's form, with the header WWW-Authenticate if `code` is 401, and Retry-After
 * if it is 429 or 503. `param`: name of the wrong field; NULL: none. */
tri_http_reply tri_serve_error(int code, const char *message, const char *param);
/* Returns a JSON reply; takes the reference. If `value` is NULL or memory is exhausted, the reply is an error 500 in
 * plain text. */
tri_http_reply tri_serve_json(int code, json_t *value);

#endif
