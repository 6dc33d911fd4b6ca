/* The folders in which the user's Python stores its packages. Some of these folders contain vendors' libraries. */
#ifndef TRI_DEVICE_GPU_PYTHON_PATH_H
#define TRI_DEVICE_GPU_PYTHON_PATH_H

#include "base/status.h"

/* Sets *out to a list of the folders that python3 searches, one per line; release it with tri_free. python3 runs in a
 * process of its own, which is killed after at most ten seconds. The list is "" if python3 is missing, does not answer
 * in time, or answers with 64 KiB or more. */
tri_status tri_python_path(char **out);

#endif
