#include "files/write_fault.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

const char *tri_write_fault(int error) {
  struct rlimit limit;
  switch (error) {
    case EFBIG:
      if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY) {
        return "File too large for this file system; choose a folder on another one";
      }
      return "File too large: beyond this process's file size limit (ulimit -f); raise it";
    case ENOSPC: return "No space left on device; make room, or choose a folder on another disk";
    case EDQUOT: return "Disk quota exceeded; make room, or choose a folder on another disk";
    case EBADF: return "it is closed";
    default: return strerror(error);
  }
}
