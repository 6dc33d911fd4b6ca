/* Shared by all headers of libtrireme: statuses and their messages, number types, and memory.
 *
 * Every function that can fail returns a trireme_status. Its outputs are set only on success, and trireme_message()
 * returns the error message: what went wrong, where, and what to do. Objects are opaque: NAME_create or NAME_open
 * creates one, and NAME_destroy or NAME_close, which accept NULL, destroys it. Different objects may be used from
 * different threads; one object by one thread at a time unless its header says more. The library needs no MPI and
 * starts no program. A few functions print a line to standard error if a file is usable but unusual. Numbers in texts
 * have a decimal point in every locale of the program. */
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
  TRIREME_BAD_USAGE = 1,     /* an argument is not valid */
  TRIREME_BAD_CONFIG = 2,    /* a key or a value in a description is not valid */
  TRIREME_BAD_LAYOUT = 3,    /* a layout is not possible */
  TRIREME_BAD_FILE = 4,      /* missing, unreadable, truncated or hostile */
  TRIREME_IO_FAILED = 5,     /* the system refused a read or a write */
  TRIREME_OUT_OF_MEMORY = 6, /* here, or on the machine of a question */
  TRIREME_UNSUPPORTED = 7,   /* legal, but not in this library */
  TRIREME_INTERNAL = 8       /* an error in the library */
} trireme_status;

/* Returns the message of the last failure in this thread; "" if there was none. Valid until the thread's next call. */
TRIREME_API const char *trireme_message(void);

/* Returns the version of the library at run time, such as "0.1.0". */
TRIREME_API const char *trireme_version(void);

/* Frees memory that a function of the library has returned; NULL is ignored. */
TRIREME_API void trireme_free(void *memory);

/* Types of stored numbers. */
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
