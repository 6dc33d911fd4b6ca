/* Reads a description that is either a preset (configs/FOLDER/NAME.yaml) or a file by its path. */
#ifndef TRI_PLAN_PRESET_FILE_H
#define TRI_PLAN_PRESET_FILE_H

#include "config/config.h"

#include <stdbool.h>

/* The kind of description, and where to store its parts. */
typedef struct tri_preset_file {
  const char *folder;            /* name of a folder of configs/ */
  const char *noun;              /* noun of the description in messages, such as "cluster" */
  const tri_config_table *table; /* keys of the file */
  bool also;                     /* the files may list other names of a preset under the key `also` */
  char *about; /* text [about_bytes], set to the first sentence of the comment at the top of the file; NULL: not read */
  size_t about_bytes;
  tri_status (*check)(
      const void *values); /* checks *values after it has been read, with its name. If an error message begins with a
                              key in backquotes, the line of that key is added. May be NULL */
} tri_preset_file;

/* Reads *values, a struct with the offsets of kind->table. If the file does not have the key `name`, sets
 * name[bytes] to the name of the preset or file. Fails with TRI_BAD_CONFIG for an unknown name (the message lists
 * all presets) or a name that several presets list in `also` (the message lists these). */
tri_status tri_preset_file_load(const tri_preset_file *kind, const char *name_or_file, void *values, char *name,
                                size_t bytes);

#endif
