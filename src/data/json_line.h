/* One string out of a line of JSON, fast. */
#ifndef TRI_DATA_JSON_LINE_H
#define TRI_DATA_JSON_LINE_H

#include <stdbool.h>
#include <stddef.h>

/* Finds the string under `key` of the object that the line is; a key that is there twice counts with its last value.
 * True only if the line is valid JSON as a whole. False says nothing: the line may be bad, lack the key, or be of a
 * kind that is left to a complete parser (escapes in keys, deep nesting). Escapes in the string are undone in place, so
 * that a line can be asked once; where the result is false the line is unchanged. */
bool tri_json_line_string(char *line, size_t bytes, const char *key, const char **out, size_t *out_bytes);

#endif
