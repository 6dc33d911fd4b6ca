/* Requests that ask for no text, in vLLM's and llama-server's forms. */
#ifndef TRI_SERVE_TOKENS_H
#define TRI_SERVE_TOKENS_H

#include "http/server.h"
#include "serve/front.h"

/* Return the replies to /tokenize and /detokenize with these bodies, and to /tokenizer_info. Any thread may call these.
 */
tri_http_reply tri_serve_tokenize(tri_serve_front *front, const char *body, size_t bytes);
tri_http_reply tri_serve_detokenize(const tri_serve_front *front, const char *body, size_t bytes);
tri_http_reply tri_serve_tokenizer_info(const tri_serve_front *front);

#endif
