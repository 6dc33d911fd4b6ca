/* Identity of a process, by which another process, maybe later or on another host, can test whether the first still
 * runs.
 */
#ifndef TRI_BASE_PROCESS_IDENTITY_H
#define TRI_BASE_PROCESS_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

enum { TRI_IDENTITY_WORD_BYTES = 200 };

typedef struct tri_process_identity {
  char host[TRI_IDENTITY_WORD_BYTES];
  char boot[TRI_IDENTITY_WORD_BYTES]; /* id of the kernel's start, "unknown" if there is no /proc */
  uint64_t processes;                 /* id of the name space of process ids (containers have their own); 0: unknown */
  int64_t process;                    /* process id */
  uint64_t start; /* start of the process, in ticks since the boot, because process ids are reused; 0: unknown */
} tri_process_identity;

typedef enum tri_process_fate {
  TRI_PROCESS_DEAD,
  TRI_PROCESS_ALIVE,
  TRI_PROCESS_UNKNOWN,
} tri_process_fate;

/* Returns the identity of this process. */
tri_process_identity tri_process_identity_self(void);

/* Returns whether `boot`, `processes` and `start` are known. Without them process ids cannot be compared. */
bool tri_process_identity_is_known(const tri_process_identity *self);

/* Looks up a process of this host, boot and name space. Returns TRI_PROCESS_DEAD if it has ended (a zombie has), or the
 * process with that id was started at another time; TRI_PROCESS_UNKNOWN if a process with that id exists and is hidden
 * from this user. */
tri_process_fate tri_process_find(int64_t process, uint64_t start);

/* Returns whether a process was started with `text` in its environment. The original environment stays readable,
 * whatever the process does. Returns false for processes of other users. */
bool tri_process_environment_has(int64_t process, const char *text);

#endif
