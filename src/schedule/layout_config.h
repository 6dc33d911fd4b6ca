/* Layouts as text: the table of their keys, and texts such as "tensor=4,pipeline=16". */
#ifndef TRI_SCHEDULE_LAYOUT_CONFIG_H
#define TRI_SCHEDULE_LAYOUT_CONFIG_H

#include "config/config.h"
#include "schedule/layout.h"

/* The keys of `layout:` in a run file. Their offsets are those in tri_layout. */
extern const tri_config_table tri_layout_table;

/* The words of `layout.recompute`. */
extern const tri_config_word *const tri_recompute_words;

/* Reads a layout from a text such as "tensor=4,pipeline=16,zero=1". Keys that the text does not have get their
 * defaults, so `data` is auto. The checks are the same as for a run file. */
tri_status tri_layout_parse(const char *text, tri_layout *out);

/* Writes a layout as a text for tri_layout_parse: tensor, pipeline, data, micro_batch, and all keys that have an effect
 * and differ from their defaults. Returns buffer. */
enum { TRI_LAYOUT_TEXT_BYTES = 2560 };
char *tri_layout_text(const tri_layout *layout, char *buffer, size_t bytes);
/* Copies the first "key=value" of the layout text *text to `word`, and advances *text past it and its comma. Returns
 * false at the end of the text. */
enum { TRI_LAYOUT_WORD_BYTES = 1600 };
bool tri_layout_next_word(const char **text, char word[TRI_LAYOUT_WORD_BYTES]);

/* Writes all keys of a layout with their values, so that the text overrides every key of another layout. Returns
 * buffer. */
char *tri_layout_text_of_all(const tri_layout *layout, char *buffer, size_t bytes);

#endif
