/* Shared by the files of libtrireme: conversion of statuses and types between the library and its public headers
 * (include/trireme), which stay the same when the library's own types change. */
#ifndef TRI_API_API_H
#define TRI_API_API_H

#include "base/status.h"
#include "device/dtype.h"

#include "trireme/base.h"

#include <locale.h>
#include <stdbool.h>

trireme_status tri_api_status(tri_status status);

/* Converts a public type; returns false if it is not valid. */
bool tri_api_type(trireme_type type, tri_dtype *out);

/* Fails because a required argument is NULL: TRIREME_BAD_USAGE, with the function's and the argument's name. */
trireme_status tri_api_missing(const char *function, const char *argument);
#define TRI_API_WANTS(ARGUMENT)                                                                                        \
  do {                                                                                                                 \
    if ((ARGUMENT) == NULL) return tri_api_missing(__func__, #ARGUMENT);                                               \
  } while (0)

/* Like TRI_TRY, for an internal call in a public function. */
#define TRI_API_TRY(call)                                                                                              \
  do {                                                                                                                 \
    tri_status tri_api_status_ = (call);                                                                               \
    if (tri_api_status_ != TRI_OK) return tri_api_status(tri_api_status_);                                             \
  } while (0)

/* Sets the plain locale for the rest of a function that reads or writes numbers as text: the caller may have called
 * setlocale, and with many locales strtod stops at the point of 0.5. Only the thread's own locale changes, and it is
 * restored on every return. */
locale_t tri_api_locale_enter(void);
void tri_api_locale_leave(locale_t *before);
#define TRI_API_PLAIN_NUMBERS                                                                                          \
  __attribute__((cleanup(tri_api_locale_leave), unused)) locale_t tri_api_locale_ = tri_api_locale_enter()

#endif
