/* The section `data` of a run file. */
#ifndef TRI_RUN_DATA_KEYS_H
#define TRI_RUN_DATA_KEYS_H

#include "config/config.h"

extern const tri_config_table tri_data_table; /* offsets into tri_run_config */

#endif
