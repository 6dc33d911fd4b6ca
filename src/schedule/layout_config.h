/* Layouts as text: the table of their keys, "tensor=4,pipeline=16" on a command line, printing. */
#ifndef TRI_SCHEDULE_LAYOUT_CONFIG_H
#define TRI_SCHEDULE_LAYOUT_CONFIG_H

#include "config/config.h"
#include "schedule/layout.h"

/* The keys of `layout:`; offsets into tri_layout. */
extern const tri_config_table tri_layout_table;

/* What can be recomputed, each with its word. */
extern const tri_config_word *const tri_recompute_words;

/* "tensor=4,pipeline=16,zero=1"; keys that are not there have their defaults, `data` auto. The same checks as a run
 * file's. */
tri_status tri_layout_parse(const char *text, tri_layout *out);

/* The same back: the axes and micro_batch, and whatever is not the default. Returns buffer. */
enum { TRI_LAYOUT_TEXT_BYTES = 768 };
char *tri_layout_text(const tri_layout *layout, char *buffer, size_t bytes);
/* Takes the next "key=value" off such a text, which moves behind it: word[80]. False at its end. */
enum { TRI_LAYOUT_WORD_BYTES = 80 };
bool tri_layout_next_word(const char **text, char word[TRI_LAYOUT_WORD_BYTES]);

/* All keys: to lay over another layout. */
char *tri_layout_text_of_all(const tri_layout *layout, char *buffer, size_t bytes);

#endif
