/* Status codes and the one message that goes with a failure.
 *
 * Every function that can fail returns tri_status. The function that finds the fault calls tri_fail, which records
 * the message (what, where, what to do) for this thread; callers pass the status on with TRI_TRY and add nothing.
 * The entry point prints the message once and turns the code into the exit status. */
#ifndef TRI_BASE_STATUS_H
#define TRI_BASE_STATUS_H

#include <stdnoreturn.h>

typedef enum tri_status {
  TRI_OK = 0,
  TRI_DIFFERENT,     /* two things that were compared are not the same  exit status 1 */
  TRI_BAD_USAGE,     /* command line                                    exit status 2 */
  TRI_BAD_CONFIG,    /* a configuration key or value                    exit status 3 */
  TRI_BAD_LAYOUT,    /* an impossible layout                            exit status 3 */
  TRI_BAD_FILE,      /* missing, unreadable, truncated or hostile file  exit status 4 */
  TRI_IO_FAILED,     /* the system refused a read or a write            exit status 5 */
  TRI_OUT_OF_MEMORY, /* predicted or real                               exit status 6 */
  TRI_UNSUPPORTED,   /* legal, but not on this device or in this build  exit status 7 */
  TRI_DIVERGED,      /* too many bad steps in a row                     exit status 8 */
  TRI_COMM,          /* another rank is gone, or MPI failed             exit status 9 */
  TRI_BUSY,          /* another run is alive in the folder              exit status 10 */
  TRI_DEVICE_FAILED, /* a kernel or a copy                              exit status 11 */
  TRI_INTERRUPTED,   /* a signal asked us to stop                       exit status 130 */
  TRI_INTERNAL,      /* a bug in this program                           exit status 70 */
} tri_status;

#if defined(__GNUC__)
#define TRI_PRINTF(format_index, first_argument) __attribute__((format(printf, format_index, first_argument)))
#else
#define TRI_PRINTF(format_index, first_argument)
#endif

/* Records the message (one line or a few, no trailing newline) for this thread and returns code. Words of more than
 * 1000 bytes, or paths of more than 4096, are cut and end with "..."; so is a message of more than
 * TRI_MESSAGE_BYTES. */
tri_status tri_fail(tri_status code, const char *format, ...) TRI_PRINTF(2, 3);

/* Records a message for a bug in this program, with the place in the source, and returns TRI_INTERNAL. */
#define tri_fail_internal(...) ((void)tri_fail_at(__FILE__, __LINE__, __VA_ARGS__), TRI_INTERNAL)
void tri_fail_at(const char *file, int line, const char *format, ...) TRI_PRINTF(3, 4);

/* clang's analyzer reads one file at a time and cannot see that a failure is never TRI_OK. */
#ifdef __clang_analyzer__
#define tri_fail(code, ...) ((void)(tri_fail)(code, __VA_ARGS__), (code))
#endif

enum { TRI_MESSAGE_BYTES = 16384 }; /* longer messages are truncated */

/* Returns the message of this thread's last tri_fail; "" if there was none. The text belongs to the thread, and is
 * valid until its next tri_fail. */
const char *tri_status_message(void);

/* A failure that is reported later, in another thread or after a clean-up that may fail as well. {0}: none. The struct
 * is large: put it into allocated memory, or on a stack of the usual size, and not into each frame of a deep recursion.
 */
typedef struct tri_saved_error {
  tri_status status;
  char message[TRI_MESSAGE_BYTES];
} tri_saved_error;

/* Saves a failure with this thread's message, unless a failure is saved already: the first counts. TRI_OK is not a
 * failure. */
void tri_error_save(tri_saved_error *kept, tri_status status);
/* Returns the saved failure, and sets this thread's message; TRI_OK if none is saved. */
tri_status tri_saved_error_restore(const tri_saved_error *kept);

/* Return the program's exit status for a code; and, for an exit status, the first code that has it, or TRI_COMM if no
 * code has it. */
int tri_status_exit(tri_status code);
tri_status tri_status_of_exit(int exit_status);

/* Evaluates a call that returns tri_status and returns from the calling function unless it is TRI_OK. */
#define TRI_TRY(call)                                                                                                  \
  do {                                                                                                                 \
    tri_status tri_try_status_ = (call);                                                                               \
    if (tri_try_status_ != TRI_OK) return tri_try_status_;                                                             \
  } while (0)

/* As TRI_TRY, but jumps to a clean-up label; needs a local `tri_status status`. */
#define TRI_TRY_GOTO(call, label)                                                                                      \
  do {                                                                                                                 \
    status = (call);                                                                                                   \
    if (status != TRI_OK) goto label;                                                                                  \
  } while (0)

#endif
