/* The user's cache folder: compiled kernels, measured peaks, and other files that can be recreated. */
#ifndef TRI_FILES_CACHE_FOLDER_H
#define TRI_FILES_CACHE_FOLDER_H

#include "files/file.h"

/* Writes $TRIREME_CACHE, else $XDG_CACHE_HOME/trireme, else $HOME/.cache/trireme. Returns false if none of the three
 * variables is set, if the path is too long, or if TRIREME_CACHE is "none": then nothing is cached. The folder may not
 * exist yet. */
bool tri_cache_folder(char out[TRI_PATH_BYTES]);

#endif
