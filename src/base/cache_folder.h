/* The folder of this user for what is found out again where it is missing: compiled kernels, the best peaks. */
#ifndef TRI_BASE_CACHE_FOLDER_H
#define TRI_BASE_CACHE_FOLDER_H

#include "base/file.h"

/* $TRIREME_CACHE, else $XDG_CACHE_HOME/trireme, else ~/.cache/trireme. False where no variable says one, or
 * TRIREME_CACHE is "none": then nothing is kept. It need not be there. */
bool tri_cache_folder(char out[TRI_PATH_BYTES]);

#endif
