/* What all of libtrireme's headers share: statuses and their messages, number types, and memory.
 *
 * Every function that can fail returns a trireme_status. Its outputs are set only on success, and trireme_message()
 * says in words what went wrong, where, and what to do. Objects are opaque: NAME_create or NAME_open makes one and
 * NAME_destroy or NAME_close, which take NULL too, end it. Different objects may be used from different threads; one
 * object by one thread at a time unless its header says more. The library needs no MPI and starts no program. A few
 * functions write a line to standard error where a file is usable and odd. Numbers in texts have a point, whatever
 * locale the program has set. */
#ifndef TRIREME_BASE_H
#define TRIREME_BASE_H

#include "trireme/version.h"

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TRIREME_API __attribute__((visibility("default")))
#else
#define TRIREME_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum trireme_status {
  TRIREME_OK = 0,
  TRIREME_BAD_USAGE = 1,     /* an argument of the call                       */
  TRIREME_BAD_CONFIG = 2,    /* a key or a value of a description             */
  TRIREME_BAD_LAYOUT = 3,    /* an impossible layout                          */
  TRIREME_BAD_FILE = 4,      /* missing, unreadable, truncated or hostile     */
  TRIREME_IO_FAILED = 5,     /* the system refused a read or a write          */
  TRIREME_OUT_OF_MEMORY = 6, /* here, or on the machine that was asked about  */
  TRIREME_UNSUPPORTED = 7,   /* legal, but not in this library                */
  TRIREME_INTERNAL = 8       /* the library's own mistake                     */
} trireme_status;

/* The words for the last failure in this thread; "" if there was none. Valid until the thread's next call. */
TRIREME_API const char *trireme_message(void);

/* "0.1.0", of the library that is running. */
TRIREME_API const char *trireme_version(void);

/* Releases what a function of the library gave away; NULL is ignored. */
TRIREME_API void trireme_free(void *memory);

/* How numbers are stored. */
typedef enum trireme_type {
  TRIREME_FP32 = 0, /* float */
  TRIREME_BF16 = 1, /* the upper 16 bits of a float */
  TRIREME_FP64 = 2, /* double */
  TRIREME_INT32 = 3
} trireme_type;

#ifdef __cplusplus
}
#endif

#endif
