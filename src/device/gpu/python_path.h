/* Where the Python in front of the user keeps its packages: some of them are vendors' libraries. */
#ifndef TRI_DEVICE_GPU_PYTHON_PATH_H
#define TRI_DEVICE_GPU_PYTHON_PATH_H

#include "base/status.h"

/* The folders that python3 looks in, one a line: *out, released with tri_free. It is asked in a process of its own,
 * which is ended where it takes longer than ten seconds. "" if there is no python3 or it does not answer. */
tri_status tri_python_path(char **out);

#endif
