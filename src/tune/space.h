/* A search space: parameters with their values, conditions between them, and rules that points must obey. study.h
 * defines what the parameters mean. */
#ifndef TRI_TUNE_SPACE_H
#define TRI_TUNE_SPACE_H

#include "config/config.h"

#include <stdint.h>

enum { TRI_KNOBS = 16, TRI_KNOB_VALUES = 64, TRI_RULES = 16 };

/* A parameter of the space, which has a list of values or a range. Words, such as 1f1b of `schedule`, are values,
 * too. */
typedef struct tri_knob {
  char name[32];
  char values[256];       /* list of values, such as "1 2 4 8" or "1f1b interleaved"; "": the range is used */
  double low, high, step; /* the range has the values low, low + step, ..., high */
  bool powers; /* whether the range has the values low, 2 low, 4 low, ... up to high instead; `step` is not used */
  bool log;    /* whether the range has num_values values from low to high at equal ratios instead */
  int64_t num_values; /* only with `log` */
  char when[64]; /* condition such as "schedule = interleaved"; if it does not hold, the parameter has its first value;
                    "": no condition */
  /* tri_space_complete sets the members below. */
  char words[TRI_KNOB_VALUES][24];
  double numbers[TRI_KNOB_VALUES]; /* [count]: each value as a number; for a word its index */
  int64_t count;
  /* Whether a value is a word, not a number. */
  bool is_category;
} tri_knob;

typedef struct tri_rule {
  char rule[96]; /* such as "tensor * pipeline <= 64" */
} tri_rule;

typedef struct tri_space {
  tri_knob knobs[TRI_KNOBS];
  int64_t num_knobs;
  tri_rule rules[TRI_RULES];
  int64_t num_rules;
  double devices, node_devices; /* values of the words `devices` and `node_devices` in rules; a parameter `nodes`
                                   changes `devices` */
} tri_space;

/* Keys of an entry of the list `space`, and of the list `constraints`, in a study file. */
extern const tri_config_table tri_knob_table, tri_rule_table;

/* A point of the space: the index of each parameter's value. */
typedef struct tri_point {
  int32_t at[TRI_KNOBS];
} tri_point;

/* Lists the values of the parameters, and checks the conditions and rules. Fails with TRI_BAD_CONFIG if one is not
 * valid; the message names the parameter or the rule. */
tri_status tri_space_complete(tri_space *space);

/* Returns the index of the parameter with the name name[length]; -1 if there is none. */
int64_t tri_space_find(const tri_space *space, const char *name, size_t length);

/* Lists all points that obey the rules and that tri_point_settle does not change, in order. Release *out with tri_free.
 * Fails with TRI_UNSUPPORTED if the values have more than a million combinations; combinations that break a rule count,
 * too. */
tri_status tri_space_points(const tri_space *space, tri_point **out, int64_t *count);

/* Sets each parameter whose condition does not hold to its first value. */
void tri_point_settle(const tri_space *space, tri_point *point);
bool tri_point_equal(const tri_space *space, const tri_point *a, const tri_point *b);

/* tri_point_text writes a point, such as "tensor=4,pipeline=16,nodes=12", and returns `buffer`. tri_point_parse reads
 * such a text; it fails with TRI_BAD_CONFIG if the point is not in the space. */
enum { TRI_POINT_TEXT_BYTES = 1024 };
char *tri_point_text(const tri_space *space, const tri_point *point, char *buffer, size_t bytes);
tri_status tri_point_parse(const tri_space *space, const char *text, tri_point *out);

/* Sets x[num_knobs] to the point's coordinates for models, which are in [0, 1]. A coordinate is logarithmic if the
 * largest value of the parameter is at least 4 times its smallest. */
void tri_point_place(const tri_space *space, const tri_point *point, double *x);

#endif
