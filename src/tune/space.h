/* A search space: parameters with their values, conditions between them, and rules that points must obey. study.h
 * defines the meaning of points. */
#ifndef TRI_TUNE_SPACE_H
#define TRI_TUNE_SPACE_H

#include "config/config.h"

#include <stdint.h>

enum { TRI_KNOBS = 16, TRI_KNOB_VALUES = 64, TRI_RULES = 16 };

/* One parameter of the space: a list of values, or a range. Words (schedule: 1f1b) are values, too. */
typedef struct tri_knob {
  char name[32];
  char values[256];       /* such as "1 2 4 8" or "1f1b interleaved"; "": use the range */
  double low, high, step; /* the values low, low + step, ..., high */
  bool powers;            /* the values low, 2 low, 4 low, ... up to high; `step` is not used */
  char when[64]; /* condition such as "schedule = interleaved"; if it does not hold, the parameter has its first value;
                    "": none */
  /* Set by tri_space_complete. */
  char words[TRI_KNOB_VALUES][24];
  double numbers[TRI_KNOB_VALUES]; /* a word's number is its index */
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
  double devices, node_devices; /* values of these words in rules; a parameter `nodes` changes `devices` */
} tri_space;

/* Tables of the entries of the lists `space` and `constraints` in a study file. */
extern const tri_config_table tri_knob_table, tri_rule_table;

/* A value of each parameter, as an index. */
typedef struct tri_point {
  int32_t at[TRI_KNOBS];
} tri_point;

/* Lists the values and checks conditions and rules; TRI_BAD_CONFIG names the parameter or the rule. */
tri_status tri_space_complete(tri_space *space);

/* Returns the index of the parameter with the name name[length]; -1: none. */
int64_t tri_space_find(const tri_space *space, const char *name, size_t length);

/* Lists all points that obey the rules, in order; release *out with tri_free. TRI_UNSUPPORTED if the values have more
 * than a million combinations, valid or not. */
tri_status tri_space_points(const tri_space *space, tri_point **out, int64_t *count);

/* Sets parameters whose condition does not hold to their first value. */
void tri_point_settle(const tri_space *space, tri_point *point);
bool tri_point_equal(const tri_space *space, const tri_point *a, const tri_point *b);

/* tri_point_text writes a point such as "tensor=4,pipeline=16,nodes=12", and returns buffer. tri_point_parse reads it;
 * TRI_BAD_CONFIG if it is not in the space. */
enum { TRI_POINT_TEXT_BYTES = 1024 };
char *tri_point_text(const tri_space *space, const tri_point *point, char *buffer, size_t bytes);
tri_status tri_point_parse(const tri_space *space, const char *text, tri_point *out);

/* Sets x[num_knobs], the point's coordinates for models, in [0, 1]: logarithmic if the last value of a parameter is at
 * least 4 times its first. */
void tri_point_place(const tri_space *space, const tri_point *point, double *x);

#endif
