/* Reads one string from a line of JSON, fast. */
#ifndef TRI_DATA_JSON_LINE_H
#define TRI_DATA_JSON_LINE_H

#include <stdbool.h>
#include <stddef.h>

/* Finds the string under `key` in a line that is a JSON object; the last value of a repeated key counts. Returns true
 * only if the whole line is valid JSON. Returns false, and leaves the line unchanged, if the line is invalid, if a
 * value of the key is not a string, if the key is missing, or if the line needs a complete parser (escapes in keys,
 * deep nesting). *out points into the line and does not end with a NUL. Escapes in the string are decoded in place, so
 * a line can be read only once. */
bool tri_json_line_string(char *line, size_t bytes, const char *key, const char **out, size_t *out_bytes);

#endif
