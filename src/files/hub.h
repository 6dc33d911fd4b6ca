/* Models by their names on the Hugging Face hub, ORG/NAME or ORG/NAME@REVISION, in the hub's cache on this machine.
 * Nothing is downloaded.
 *
 * The cache is $HF_HUB_CACHE, else $HUGGINGFACE_HUB_CACHE, else $HF_HOME/hub, else $XDG_CACHE_HOME/huggingface/hub,
 * else ~/.cache/huggingface/hub. A model is the folder models--ORG--NAME in it, with refs/REVISION (a file with a
 * commit; REVISION is main unless given), snapshots/COMMIT and blobs/: the files of a snapshot are links to blobs.
 * Source: huggingface_hub's guide "Understand caching". */
#ifndef TRI_FILES_HUB_H
#define TRI_FILES_HUB_H

#include "files/file.h"

/* LOCAL. Finds the path for `given`, which may be a path or a name on the hub. The result is `given` itself if that
 * path exists or does not have the form of a name on the hub; else the folder of the model's snapshot in the cache; or
 * `given` if the cache does not have the model. Fails with TRI_BAD_FILE if the cache has the model but not this
 * revision, or if a link of the snapshot is broken or leaves the model's blobs. */
tri_status tri_hub_resolve(const char *given, char path[TRI_PATH_BYTES]);

/* LOCAL. Replaces name[TRI_PATH_BYTES] by ORG/NAME@COMMIT if tri_hub_resolve would find the model in the cache. Sets
 * *pinned to whether the name was replaced. Fails as tri_hub_resolve does. */
tri_status tri_hub_pin(char *name, bool *pinned);

/* Returns whether two names are names of the same model, whatever their revisions. */
bool tri_hub_same_model(const char *a, const char *b);

/* Returns the length of the name without @REVISION; 0 if the name does not have the form of a name on the hub. */
size_t tri_hub_name_length(const char *name);

/* LOCAL. Writes the end of a message about a missing path. If the path has the form of a name on the hub, it explains
 * how to get the model; if it is a URL of the hub, it suggests the name in the URL; else it is "". Returns out. */
enum { TRI_HUB_ADVICE_BYTES = 3 * TRI_PATH_BYTES };
const char *tri_hub_advice(const char *given, char out[TRI_HUB_ADVICE_BYTES]);

#endif
