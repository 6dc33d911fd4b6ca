/* What the files of libtrireme share: statuses and types on their way between the library's own words and those of its
 * public headers (include/trireme), which stay what they are when the others change. */
#ifndef TRI_API_API_H
#define TRI_API_API_H

#include "base/status.h"
#include "device/dtype.h"

#include "trireme/base.h"

#include <locale.h>
#include <stdbool.h>

trireme_status tri_api_status(tri_status status);

/* False if it is not one. */
bool tri_api_type(trireme_type type, tri_dtype *out);

/* A NULL where something must be: TRIREME_BAD_USAGE, with the function's and the argument's name. */
trireme_status tri_api_missing(const char *function, const char *argument);
#define TRI_API_WANTS(ARGUMENT)                                                                                        \
  do {                                                                                                                 \
    if ((ARGUMENT) == NULL) return tri_api_missing(__func__, #ARGUMENT);                                               \
  } while (0)

/* As TRI_TRY, from a function of the library's own in one that is public. */
#define TRI_API_TRY(call)                                                                                              \
  do {                                                                                                                 \
    tri_status tri_api_status_ = (call);                                                                               \
    if (tri_api_status_ != TRI_OK) return tri_api_status(tri_api_status_);                                             \
  } while (0)

/* For the rest of a function that reads or writes numbers as text: the caller may have called setlocale, and in many a
 * language's locale strtod stops at the point of 0.5. The thread's own locale changes, and changes back on every
 * return; other threads keep theirs. */
locale_t tri_api_locale_enter(void);
void tri_api_locale_leave(locale_t *before);
#define TRI_API_PLAIN_NUMBERS                                                                                          \
  __attribute__((cleanup(tri_api_locale_leave), unused)) locale_t tri_api_locale_ = tri_api_locale_enter()

#endif
