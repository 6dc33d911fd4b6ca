/* `inspect CORPUS --show`: prints documents of a corpus as text, with the learnt tokens marked. */
#ifndef TRI_OPTIONS_SHOW_DOCUMENTS_H
#define TRI_OPTIONS_SHOW_DOCUMENTS_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tri_show_request {
  const char *prefix;    /* prefix of the corpus files */
  const char *tokenizer; /* tokenizer.json or its folder; NULL: the one in the corpus's folder */
  int64_t count;         /* number of documents, or of pairs of preferences, to print */
  int64_t seed;          /* seed of a random choice of the documents; -1: the first documents are printed */
  bool ids;              /* whether each token is printed with its id, too */
  bool json;             /* whether a line of JSON is printed for each document */
} tri_show_request;

/* Prints the documents to standard output. On a terminal the learnt tokens are green, else they are in [[ ]]. Fails
 * with TRI_BAD_FILE if there is no tokenizer, or if the corpus was made with another one. */
tri_status tri_show_documents(const tri_show_request *request);

#endif
