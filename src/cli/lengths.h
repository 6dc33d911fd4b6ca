/* How long the documents are that a run is planned for. */
#ifndef TRI_CLI_LENGTHS_H
#define TRI_CLI_LENGTHS_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* The share of attention's area that masks leave in sequences of so many tokens, of documents packed whole or cut by
 * windows: by a corpus's prefix, or by a file that `inspect CORPUS --json` printed. */
tri_status tri_lengths_area(const char *name, int64_t sequence, bool packed, double *out);

#endif
