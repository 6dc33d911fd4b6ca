/* Shared by the files of libtrireme. Converts statuses and types between the library and its public headers
 * (include/trireme), which stay the same when the library's own types change. */
#ifndef TRI_API_API_H
#define TRI_API_API_H

#include "base/status.h"
#include "device/dtype.h"

#include "trireme/base.h"

#include <locale.h>
#include <stdbool.h>

/* Converts a status; to TRIREME_INTERNAL if the public type has no such status. */
trireme_status tri_api_status(tri_status status);

/* Converts a public type to *out. Returns false if the type is not valid. */
bool tri_api_type(trireme_type type, tri_dtype *out);

/* Fails with TRIREME_BAD_USAGE because a required argument is NULL. The message names the function and the argument. */
trireme_status tri_api_missing(const char *function, const char *argument);
#define TRI_API_WANTS(ARGUMENT)                                                                                        \
  do {                                                                                                                 \
    if ((ARGUMENT) == NULL) return tri_api_missing(__func__, #ARGUMENT);                                               \
  } while (0)

/* Like TRI_TRY, for a call of an internal function in a public function. */
#define TRI_API_TRY(call)                                                                                              \
  do {                                                                                                                 \
    tri_status tri_api_status_ = (call);                                                                               \
    if (tri_api_status_ != TRI_OK) return tri_api_status(tri_api_status_);                                             \
  } while (0)

/* TRI_API_PLAIN_NUMBERS sets the plain locale for the rest of a function that reads or writes numbers as text. The
 * caller may have called setlocale, and in many locales strtod stops at the point of 0.5. Only the thread's own locale
 * changes. Every return from the function restores it. */
locale_t tri_api_locale_enter(void);
void tri_api_locale_leave(locale_t *before);
#define TRI_API_PLAIN_NUMBERS                                                                                          \
  __attribute__((cleanup(tri_api_locale_leave), unused)) locale_t tri_api_locale_ = tri_api_locale_enter()

#endif
