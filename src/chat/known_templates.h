/* Published templates without generation blocks in which the answers cannot be found otherwise: their texts are known
 * by a hash, and get blocks where TRL puts them (trl/chat_templates, NAME_training.jinja). */
#ifndef TRI_CHAT_KNOWN_TEMPLATES_H
#define TRI_CHAT_KNOWN_TEMPLATES_H

#include "base/status.h"

#include <stddef.h>

/* If source[bytes], which ends with a NUL and has normalized newlines, is a known template, sets *out to a copy with
 * generation blocks, and *out_bytes to its length; the rendered text is the same. Otherwise sets *out to NULL. Release
 * *out with tri_free. */
tri_status tri_chat_known_template(const char *source, size_t bytes, char **out, size_t *out_bytes);

#endif
