/* Resolves keys of a run file from its corpora and from what the run used before: data.documents, packing and too_long
 * if they are `auto`, and the commit of `init`. */
#ifndef TRI_RUN_RESOLVE_AUTO_H
#define TRI_RUN_RESOLVE_AUTO_H

#include "run/run_config.h"

/* LOCAL. Resolves data.documents, data.packing and data.too_long if they are `auto`. A resumed run keeps the values in
 * its config.yaml, or in the run file of the checkpoint that `resume` names. A new run masks and packs documents and
 * truncates those that are too long if one of its training corpora has a mask; else it joins documents, and cuts them
 * into windows. If `init` is a name on the hub without a revision, a resumed run (`resume` auto) keeps the commit with
 * which it began. Fails with TRI_BAD_CONFIG if too_long needs packed documents and they are not packed. `resume` is the
 * option of `train`: "auto", "never" or a folder. */
tri_status tri_run_resolve_auto(tri_run_config *config, const char *resume);

/* Resolves the keys that are still `auto` to the behaviour of older versions, whose run files lack these keys:
 * documents are joined, and cut into windows. */
void tri_run_resolve_auto_older(tri_run_config *config);

#endif
