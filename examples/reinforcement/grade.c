/* A reward in C for docs/reinforcement.md: the share of the sum's digits that are right.
 *
 * Reads a line of JSON for each completion and answers with its "id". "answer" is a key of the prompt's line. Build it
 * with `cc grade.c -ljansson -o grade`. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
  char *line = NULL;
  size_t room = 0;
  while (getline(&line, &room, stdin) > 0) {
    json_t *asked = json_loads(line, 0, NULL);
    const char *given = json_string_value(json_object_get(asked, "completion"));
    const char *wanted = json_string_value(json_object_get(asked, "answer"));
    size_t right = 0, digits = wanted == NULL ? 0 : strlen(wanted);
    for (size_t i = 0; given != NULL && i < digits && given[i] != '\0'; i++) right += given[i] == wanted[i];
    printf("{\"id\": %lld, \"reward\": %.17g}\n", (long long)json_integer_value(json_object_get(asked, "id")),
           digits == 0 ? 0.0 : (double)right / (double)digits);
    fflush(stdout);
    json_decref(asked);
  }
  free(line);
  return 0;
}
