/* Reading a description that is either a preset (configs/FOLDER/NAME.yaml) or a file by its path. */
#ifndef TRI_PLAN_PRESET_FILE_H
#define TRI_PLAN_PRESET_FILE_H

#include "config/config.h"

#include <stdbool.h>

typedef struct tri_preset_file {
  const char *folder; /* name of a folder of configs/ */
  const char *noun;   /* "cluster" */
  const tri_config_table *table;
  bool also;   /* files may list alternative names of the preset under `also` */
  char *about; /* NULL, or [about_bytes]: set to the first sentence of the comment that the file begins with */
  size_t about_bytes;
  tri_status (*check)(const void *values); /* called after *values and its name are read; an error message that begins
                                              with a key in backquotes gets the line of that key. May be NULL */
} tri_preset_file;

/* Reads *values. If the file does not have the key `name`, sets `name` to the name of the preset or file. If the name
 * is unknown, the TRI_BAD_CONFIG message lists all presets; if several presets have it in `also`, it lists these. */
tri_status tri_preset_file_load(const tri_preset_file *kind, const char *name_or_file, void *values, char *name,
                                size_t bytes);

#endif
