/* The folders in which the user's Python keeps its packages: some of them contain vendors' libraries. */
#ifndef TRI_DEVICE_GPU_PYTHON_PATH_H
#define TRI_DEVICE_GPU_PYTHON_PATH_H

#include "base/status.h"

/* Lists the folders that python3 searches, one per line: *out, released with tri_free. python3 runs in a process of its
 * own, which is killed after at most ten seconds. "" if there is no python3 or it does not answer. */
tri_status tri_python_path(char **out);

#endif
