/* What a run file leaves to the corpora and to what the run was before (data.documents, packing, too_long: auto). */
#ifndef TRI_RUN_RESOLVE_AUTO_H
#define TRI_RUN_RESOLVE_AUTO_H

#include "run/run_config.h"

/* LOCAL. Settles the three keys where they are `auto`: a run that goes on keeps what its config.yaml, or the run file
 * of the checkpoint that `resume` names, says; a new one has documents masked and packed, and those that are too long
 * truncated, where one of its training corpora has a mask. `resume` is train's: "auto", "never" or a folder. */
tri_status tri_run_resolve_auto(tri_run_config *config, const char *resume);

/* Of a run file that was printed as it was settled, by a version that did not know one of the keys. */
void tri_run_resolve_auto_older(tri_run_config *config);

#endif
