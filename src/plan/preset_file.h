/* Reads a description that is either a preset (configs/FOLDER/NAME.yaml) or a file by its path. */
#ifndef TRI_PLAN_PRESET_FILE_H
#define TRI_PLAN_PRESET_FILE_H

#include "config/config.h"
#include "config/yaml.h"

#include <stdbool.h>

/* A kind of description, and the places for its parts. */
typedef struct tri_preset_file {
  const char *folder;            /* name of a folder of configs/ */
  const char *noun;              /* noun of the description in messages, such as "cluster" */
  const tri_config_table *table; /* keys of the file */
  bool also;                     /* whether files may list other names of a preset under the key `also` */
  /* Text [about_bytes], set to the first sentence of the comment at the top of the file; NULL: not read. */
  char *about;
  size_t about_bytes;
  /* Completes *values with values that depend on the keys that the file has; called before `check`; may be NULL. */
  void (*complete)(const tri_yaml *root, void *values);
  /* Checks *values, and its name, after they have been read; may be NULL. If its error message begins with a key in
   * backquotes, the line of that key is added to the message. */
  tri_status (*check)(const void *values);
} tri_preset_file;

/* Reads *values, a struct with the offsets of kind->table. Sets name[bytes] to the name of the preset or file if the
 * file does not have the key `name`. Fails with TRI_BAD_CONFIG if the name is unknown (the message lists all
 * presets), if the file does not exist, or if several presets list the name in `also` (the message lists these). */
tri_status tri_preset_file_load(const tri_preset_file *kind, const char *name_or_file, void *values, char *name,
                                size_t bytes);

#endif
