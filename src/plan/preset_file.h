/* Reading a description that is either a preset (configs/FOLDER/NAME.yaml) or a file by its path. */
#ifndef TRI_PLAN_PRESET_FILE_H
#define TRI_PLAN_PRESET_FILE_H

#include "config/config.h"

typedef struct tri_preset_file {
  const char *folder; /* of configs/ */
  const char *noun;   /* "cluster" */
  const tri_config_table *table;
} tri_preset_file;

/* Reads *values. `name` is set to the name of the preset or file, if the file does not have the key. TRI_BAD_CONFIG
 * lists the presets if the name is unknown. */
tri_status tri_preset_file_load(const tri_preset_file *kind, const char *name_or_file, void *values, char *name,
                                size_t bytes);

#endif
