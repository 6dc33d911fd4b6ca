/* A space to search: parameters with their values, conditions between them, rules that points must obey. What a point
 * means is for others to say. */
#ifndef TRI_TUNE_SPACE_H
#define TRI_TUNE_SPACE_H

#include "config/config.h"

#include <stdint.h>

enum { TRI_KNOBS = 16, TRI_KNOB_VALUES = 64, TRI_RULES = 16 };

/* One parameter of the space: a list of values, or low to high. Words (schedule: 1f1b) are values, too. */
typedef struct tri_knob {
  char name[32];
  char values[256]; /* "1 2 4 8", "1f1b interleaved"; or empty and: */
  double low, high, step;
  bool powers;   /* of two from low to high */
  char when[64]; /* "schedule = interleaved": elsewhere the knob has its first value */

  /* Filled in by tri_space_complete. */
  char words[TRI_KNOB_VALUES][24];
  double numbers[TRI_KNOB_VALUES]; /* a word's is its place in the list */
  int64_t count;
  bool is_category;
} tri_knob;

typedef struct tri_rule {
  char rule[96]; /* "tensor * pipeline <= 64" */
} tri_rule;

typedef struct tri_space {
  tri_knob knobs[TRI_KNOBS];
  int64_t num_knobs;
  tri_rule rules[TRI_RULES];
  int64_t num_rules;
  double devices, node_devices; /* what rules mean by these words; with a parameter `nodes`, devices are its nodes' */
} tri_space;

/* Rows of the lists `space` and `constraints` of a file. */
extern const tri_config_table tri_knob_table, tri_rule_table;

/* A value of each knob, by its number in the list. */
typedef struct tri_point {
  int32_t at[TRI_KNOBS];
} tri_point;

/* Lists the values and checks conditions and rules; TRI_BAD_CONFIG names the parameter or the rule. */
tri_status tri_space_complete(tri_space *space);

/* The knob with a name of that many bytes, or -1. */
int64_t tri_space_find(const tri_space *space, const char *name, size_t length);

/* All points that obey the rules, in order; *out of *count is released with tri_free. TRI_UNSUPPORTED above a million.
 */
tri_status tri_space_points(const tri_space *space, tri_point **out, int64_t *count);

/* Knobs whose condition does not hold take their first value. */
void tri_point_settle(const tri_space *space, tri_point *point);
bool tri_point_equal(const tri_space *space, const tri_point *a, const tri_point *b);

/* "tensor=4,pipeline=16,nodes=12" and back; TRI_BAD_CONFIG for what is not of the space. Returns buffer. */
enum { TRI_POINT_TEXT_BYTES = 1024 };
char *tri_point_text(const tri_space *space, const tri_point *point, char *buffer, size_t bytes);
tri_status tri_point_parse(const tri_space *space, const char *text, tri_point *out);

/* A point as models see it, x[num_knobs] in [0, 1]: by logarithms where values differ by factors. */
void tri_point_place(const tri_space *space, const tri_point *point, double *x);

#endif
