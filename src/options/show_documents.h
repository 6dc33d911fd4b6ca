/* `inspect CORPUS --show`: prints documents of a corpus as text, with the learnt tokens marked. */
#ifndef TRI_OPTIONS_SHOW_DOCUMENTS_H
#define TRI_OPTIONS_SHOW_DOCUMENTS_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tri_show_request {
  const char *prefix;    /* prefix of the corpus files */
  const char *tokenizer; /* tokenizer.json or its folder; NULL: the one in the corpus's folder */
  int64_t count;         /* documents, or pairs of preferences, to print */
  int64_t seed;          /* draws them at random; -1: the first ones */
  bool ids;              /* also prints each token with its id */
  bool json;             /* prints a line of JSON for each document */
} tri_show_request;

/* Prints the documents to standard output. On a terminal the learnt tokens are green, else they are in [[ ]]. Fails
 * with TRI_BAD_FILE if there is no tokenizer. */
tri_status tri_show_documents(const tri_show_request *request);

#endif
