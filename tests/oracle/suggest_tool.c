/* suggest_tool SPACE.yaml METHOD SEED INITIAL: runs the search alone, over any space; the caller evaluates the points.
 * Lines of standard input: `ask` prints a point, or `none`; `tell VALUE [MEMORY]` and `fail [MEMORY]` report the result
 * of the oldest point without one. */
#include "base/memory.h"
#include "tune/suggest.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const tri_config_key keys[] = {
    {.name = "space",
     .type = TRI_CONFIG_LIST,
     .offset = offsetof(tri_space, knobs),
     .table = &tri_knob_table,
     .bytes = sizeof(tri_knob),
     .count = offsetof(tri_space, num_knobs),
     .range = {.low = 1, .high = TRI_KNOBS},
     .example = "[{name: a, values: 1 2}]",
     .help = "what is varied"},
    {.name = "constraints",
     .type = TRI_CONFIG_LIST,
     .offset = offsetof(tri_space, rules),
     .table = &tri_rule_table,
     .bytes = sizeof(tri_rule),
     .count = offsetof(tri_space, num_rules),
     .range = {.low = 0, .high = TRI_RULES},
     .fallback = "",
     .help = "what must hold"},
};
static const tri_config_table table = {.noun = "space", .keys = keys, .num_keys = sizeof keys / sizeof *keys};

static tri_status load(const char *path, tri_space *out) {
  tri_yaml_tree *tree = NULL;
  tri_yaml *root = NULL;
  TRI_TRY(tri_yaml_create(&tree));
  tri_status status = tri_yaml_read(tree, path, &root);
  if (status == TRI_OK) status = tri_config_read(&table, tree, root, out);
  tri_yaml_destroy(tree);
  return status == TRI_OK ? tri_space_complete(out) : status;
}

static tri_status converse(tri_suggester *s, tri_trial *trials) {
  char line[256], text[TRI_POINT_TEXT_BYTES];
  int64_t count = 0, told = 0;
  while (fgets(line, sizeof line, stdin) != NULL) {
    double value = 0, memory = 0;
    bool found = false;
    if (strncmp(line, "ask", 3) == 0) {
      trials[count] = (tri_trial){.number = count};
      TRI_TRY(tri_suggest(s, trials, count, &trials[count].point, &found));
      printf("%s\n", found ? tri_point_text(s->space, &trials[count].point, text, sizeof text) : "none");
      fflush(stdout);
      count += found;
    } else if (told < count && sscanf(line, "tell %lf %lf", &value, &memory) >= 1) {
      trials[told].state = TRI_TRIAL_DONE;
      trials[told].value = value;
      trials[told++].memory = memory;
    } else if (told < count && strncmp(line, "fail", 4) == 0) {
      (void)sscanf(line, "fail %lf", &memory);
      trials[told].state = TRI_TRIAL_FAILED;
      trials[told++].memory = memory;
    } else {
      return tri_fail(TRI_BAD_USAGE, "what is `%s`?", line);
    }
  }
  return TRI_OK;
}

int main(int count, char **arguments) {
  static const struct {
    const char *name;
    tri_method method;
  } methods[] = {{"gaussian", TRI_METHOD_GAUSSIAN},
                 {"random", TRI_METHOD_RANDOM},
                 {"grid", TRI_METHOD_GRID},
                 {"exhaustive", TRI_METHOD_EXHAUSTIVE}};
  static tri_trial trials[4096];
  static tri_space space;
  tri_point *points = NULL;
  int64_t num_points = 0;
  tri_point_search search = {.trials = 4096};
  if (count != 5) return 2;
  for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
    if (strcmp(arguments[2], methods[i].name) == 0) search.method = methods[i].method;
  }
  search.seed = strtoull(arguments[3], NULL, 10);
  search.initial = strtoll(arguments[4], NULL, 10);
  tri_status status = load(arguments[1], &space);
  if (status == TRI_OK) status = tri_space_points(&space, &points, &num_points);
  if (status == TRI_OK) {
    tri_suggester suggester = tri_suggester_create(&space, &search, points, num_points, NULL);
    status = converse(&suggester, trials);
    tri_suggester_release(&suggester);
  }
  if (status != TRI_OK) fprintf(stderr, "%s\n", tri_status_message());
  return tri_status_exit(status);
}
