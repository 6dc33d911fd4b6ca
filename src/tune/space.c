#include "tune/space.h"

#include "base/memory.h"

#include <ctype.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY TRI_CONFIG_KEY
#define TEXT(STRUCT, NAME) KEY(STRUCT, NAME, TRI_CONFIG_STRING), .bytes = sizeof(((STRUCT *)0)->NAME)

static const tri_config_key knob_keys[] = {
    {TEXT(tri_knob, name), .example = "tensor",
     .help = "key that is varied: a key of `layout:`, nodes, or accumulation; with an objective of a loss also keys of "
             "the run file, such as optimizer.lr or model.hidden_size"},
    {TEXT(tri_knob, values), .fallback = "", .help = "its values: [1, 2, 4, 8], or 1 2 4 8"},
    {KEY(tri_knob, low, TRI_CONFIG_DOUBLE), .range = {.low = -1e9, .high = 1e9}, .fallback = "0.0",
     .help = "or from here"},
    {KEY(tri_knob, high, TRI_CONFIG_DOUBLE), .range = {.low = -1e9, .high = 1e9}, .fallback = "0.0", .help = "to here"},
    {KEY(tri_knob, step, TRI_CONFIG_DOUBLE), .range = {.low = 0, .high = 1e9, .open_low = true}, .fallback = "1.0",
     .help = "in steps of this"},
    {KEY(tri_knob, powers, TRI_CONFIG_BOOL), .fallback = "false", .help = "or in powers of two"},
    {KEY(tri_knob, log, TRI_CONFIG_BOOL), .fallback = "false",
     .help = "or on a logarithmic scale: num_values values at equal ratios"},
    {KEY(tri_knob, num_values, TRI_CONFIG_INT), .range = {.low = 2, .high = TRI_KNOB_VALUES}, .fallback = "64",
     .help = "the number of these values"},
    {TEXT(tri_knob, when), .fallback = "",
     .help = "the value of another parameter at which this one is varied: schedule = interleaved"},
};
const tri_config_table tri_knob_table = TRI_CONFIG_TABLE("parameter", knob_keys);

static const tri_config_key rule_keys[] = {
    {TEXT(tri_rule, rule), .example = "tensor * pipeline <= 64", .help = "products of names and numbers, compared"}};
const tri_config_table tri_rule_table = {.noun = "constraint", .keys = rule_keys, .num_keys = 1};

static tri_status add_value(tri_knob *knob, const char *word, size_t length) {
  char *end = NULL;
  if (knob->count == TRI_KNOB_VALUES || length >= sizeof knob->words[0]) {
    return tri_fail(TRI_BAD_CONFIG, "`space`: `%s` has more than %d values, or a longer one than %zu characters",
                    knob->name, TRI_KNOB_VALUES, sizeof knob->words[0] - 1);
  }
  char *at = knob->words[knob->count];
  snprintf(at, sizeof knob->words[0], "%.*s", (int)length, word);
  knob->numbers[knob->count] = strtod(at, &end);
  if (*end != '\0') {
    knob->is_category = true;
    knob->numbers[knob->count] = (double)knob->count;
  }
  knob->count++;
  return TRI_OK;
}

/* Adds the values of a logarithmic range, rounded to three digits, without repetitions; the first and the last are low
 * and high. Fails with TRI_BAD_CONFIG unless 0 < low < high, and if the range also has `powers`. */
static tri_status add_logarithmic(tri_knob *knob) {
  if (knob->low <= 0 || knob->high <= knob->low || knob->powers) {
    return tri_fail(TRI_BAD_CONFIG, "`space`: `%s` has `log: true`, which needs 0 < low < high%s", knob->name,
                    knob->powers ? ", and no `powers`" : "");
  }
  const double ratio = knob->high / knob->low;
  for (int64_t i = 0; i < knob->num_values; i++) {
    char text[24];
    const bool is_end = i == 0 || i + 1 == knob->num_values;
    const double value = knob->low * pow(ratio, (double)i / (double)(knob->num_values - 1));
    snprintf(text, sizeof text, is_end ? "%.10g" : "%.3g", i + 1 == knob->num_values ? knob->high : value);
    const double rounded = strtod(text, NULL);
    const bool inside = is_end || (rounded > knob->numbers[knob->count - 1] && rounded < knob->high);
    if (inside) TRI_TRY(add_value(knob, text, strlen(text)));
  }
  return TRI_OK;
}

static tri_status fill_knob(tri_knob *knob) {
  for (const char *at = knob->values; *at != '\0';) {
    at += strspn(at, " ,");
    size_t length = strcspn(at, " ,");
    if (length > 0) TRI_TRY(add_value(knob, at, length));
    at += length;
  }
  const bool listed = knob->count > 0;
  if (knob->log && !listed) TRI_TRY(add_logarithmic(knob));
  const bool ranges = knob->count == 0 && (knob->low != 0 || knob->high != 0);
  for (int64_t i = 0; ranges && knob->high >= knob->low; i++) {
    char text[24];
    double value = knob->powers ? ldexp(knob->low, (int)i) : knob->low + (double)i * knob->step;
    if (value > knob->high * (1 + 1e-12) || (knob->powers && knob->low <= 0)) break;
    int length = snprintf(text, sizeof text, "%.10g", value);
    TRI_TRY(add_value(knob, text, (size_t)length));
  }
  for (int64_t i = 0; i < knob->count; i++) {
    for (int64_t j = 0; j < i; j++) {
      if (knob->is_category ? strcmp(knob->words[i], knob->words[j]) != 0 : knob->numbers[i] != knob->numbers[j])
        continue;
      return tri_fail(TRI_BAD_CONFIG, "`space`: `%s` has the value %s twice", knob->name, knob->words[i]);
    }
  }
  if (ranges && knob->count == 1 && knob->high > knob->low) {
    return tri_fail(TRI_BAD_CONFIG,
                    "`space`: `%s` has the one value %s from %g to %g in steps of %g; give `step`, `powers: true` "
                    "(powers of two), `log: true` or `values`",
                    knob->name, knob->words[0], knob->low, knob->high, knob->step);
  }
  if (knob->count > 0) return TRI_OK;
  const char *last = strrchr(knob->name, '.');
  const bool is_rate = strcmp(last == NULL ? knob->name : last + 1, "lr") == 0;
  return tri_fail(TRI_BAD_CONFIG, "`space`: `%s` has no values; give `values: %s`, or `low` and `high`", knob->name,
                  is_rate ? "1e-4 1e-3 1e-2" : "1 2 4");
}

/* ---- rules ------------------------------------------------------------------------------------------------------- */

int64_t tri_space_find(const tri_space *space, const char *name, size_t length) {
  for (int64_t k = 0; k < space->num_knobs; k++) {
    if (strlen(space->knobs[k].name) == length && strncmp(space->knobs[k].name, name, length) == 0) return k;
  }
  return -1;
}

/* Sets *out to the value of a name in a rule at a point. The name is a parameter, `devices` or `node_devices`. Returns
 * false for any other name. */
static bool value_of(const tri_space *space, const tri_point *point, const char *name, size_t length, double *out) {
  int64_t knob = tri_space_find(space, name, length), nodes = tri_space_find(space, "nodes", 5);
  if (knob >= 0) {
    *out = space->knobs[knob].numbers[point->at[knob]];
    return true;
  }
  bool all = length == 7 && strncmp(name, "devices", length) == 0;
  double of_nodes = nodes < 0 ? space->devices : space->knobs[nodes].numbers[point->at[nodes]] * space->node_devices;
  *out = all ? of_nodes : space->node_devices;
  return all || (length == 12 && strncmp(name, "node_devices", length) == 0);
}

/* Evaluates a product of names and numbers, and moves *at to its end. Returns false if a factor is neither a name nor a
 * number. */
static bool product_of(const tri_space *space, const tri_point *point, const char **at, double *out) {
  *out = 1;
  for (;;) {
    char *end = NULL;
    *at += strspn(*at, " ");
    double number = strtod(*at, &end);
    if (end != *at) {
      *at = end;
    } else {
      size_t length = 0;
      while (isalnum((unsigned char)(*at)[length]) || (*at)[length] == '_') length++;
      if (!value_of(space, point, *at, length, &number)) return false;
      *at += length;
    }
    *out *= number;
    *at += strspn(*at, " ");
    if (**at != '*') return true;
    (*at)++;
  }
}

/* Returns whether a rule holds at a point. Sets *legal to false if the rule cannot be parsed. */
static bool rule_holds(const tri_space *space, const tri_point *point, const char *text, bool *legal) {
  double left = 0, right = 0;
  const char *at = text;
  char sign[3] = "";
  *legal = product_of(space, point, &at, &left);
  size_t length = strspn(at, "<>=");
  *legal = *legal && length >= 1 && length <= 2;
  if (!*legal) return false;
  memcpy(sign, at, length);
  at += length;
  *legal = product_of(space, point, &at, &right) && *at == '\0';
  if (strcmp(sign, "<=") == 0) return left <= right;
  if (strcmp(sign, ">=") == 0) return left >= right;
  if (strcmp(sign, "<") == 0) return left < right;
  if (strcmp(sign, ">") == 0) return left > right;
  if (strcmp(sign, "=") == 0 || strcmp(sign, "==") == 0) return left == right;
  *legal = false;
  return false;
}

/* Parses a condition such as "schedule = interleaved". Returns false if its left side is not a parameter of the space,
 * or its right side is not one of the parameter's values. */
static bool condition_of(const tri_space *space, const char *text, int64_t *knob, int32_t *value) {
  size_t length = strcspn(text, " =");
  *knob = tri_space_find(space, text, length);
  const char *at = text + length + strspn(text + length, " =");
  for (int64_t v = 0; *knob >= 0 && v < space->knobs[*knob].count; v++) {
    if (strcmp(space->knobs[*knob].words[v], at) != 0) continue;
    *value = (int32_t)v;
    return true;
  }
  return false;
}

void tri_point_settle(const tri_space *space, tri_point *point) {
  for (int64_t k = 0; k < space->num_knobs; k++) {
    int64_t other = -1;
    int32_t value = 0;
    if (space->knobs[k].when[0] == '\0' || !condition_of(space, space->knobs[k].when, &other, &value)) continue;
    if (point->at[other] != value) point->at[k] = 0;
  }
}

bool tri_point_equal(const tri_space *space, const tri_point *a, const tri_point *b) {
  return memcmp(a->at, b->at, (size_t)space->num_knobs * sizeof a->at[0]) == 0;
}

/* Returns whether all rules hold at a point. */
static bool is_allowed(const tri_space *space, const tri_point *point) {
  bool legal = true;
  for (int64_t r = 0; r < space->num_rules; r++) {
    if (!rule_holds(space, point, space->rules[r].rule, &legal)) return false;
  }
  return true;
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

char *tri_point_text(const tri_space *space, const tri_point *point, char *buffer, size_t bytes) {
  size_t held = 0;
  buffer[0] = '\0';
  for (int64_t k = 0; k < space->num_knobs; k++) {
    int added = snprintf(buffer + held, bytes - held, "%s%s=%s", k == 0 ? "" : ",", space->knobs[k].name,
                         space->knobs[k].words[point->at[k]]);
    held += added > 0 && held + (size_t)added < bytes ? (size_t)added : 0;
  }
  return buffer;
}

tri_status tri_point_parse(const tri_space *space, const char *text, tri_point *out) {
  tri_point point = {{0}};
  int64_t seen = 0;
  for (const char *at = text; *at != '\0';) {
    size_t length = strcspn(at, ","), name = strcspn(at, "=");
    int64_t knob = name < length ? tri_space_find(space, at, name) : -1, value = -1;
    for (int64_t v = 0; knob >= 0 && v < space->knobs[knob].count; v++) {
      const char *word = space->knobs[knob].words[v];
      if (strlen(word) == length - name - 1 && strncmp(word, at + name + 1, strlen(word)) == 0) value = v;
    }
    if (value < 0) return tri_fail(TRI_BAD_CONFIG, "`%.*s` is not a value of this space", (int)length, at);
    point.at[knob] = (int32_t)value;
    seen++;
    at += length + (at[length] == ',');
  }
  if (seen != space->num_knobs) {
    return tri_fail(TRI_BAD_CONFIG, "`%.200s` is not a point of this space", text);
  }
  *out = point;
  return TRI_OK;
}

void tri_point_place(const tri_space *space, const tri_point *point, double *x) {
  for (int64_t k = 0; k < space->num_knobs; k++) {
    const tri_knob *knob = &space->knobs[k];
    const double value = knob->numbers[point->at[k]];
    double low = value, high = value;
    for (int64_t v = 0; v < knob->count; v++) {
      low = fmin(low, knob->numbers[v]);
      high = fmax(high, knob->numbers[v]);
    }
    if (knob->is_category || knob->count == 1) {
      x[k] = knob->count == 1 ? 0 : (double)point->at[k] / (double)(knob->count - 1);
    } else if (low > 0 && high / low >= 4) { /* sizes that differ by factors */
      x[k] = log(value / low) / log(high / low);
    } else {
      x[k] = (value - low) / (high - low);
    }
  }
}

tri_status tri_space_points(const tri_space *space, tri_point **out, int64_t *count) {
  enum { MOST = 1000000 };
  double all = 1;
  tri_point *points = NULL, point = {{0}};
  int64_t found = 0, room = 0;
  for (int64_t k = 0; k < space->num_knobs; k++) all *= (double)space->knobs[k].count;
  if (all > MOST) {
    return tri_fail(TRI_UNSUPPORTED, "the space has %.0f points; leave some values out, a million is the most", all);
  }
  for (bool more = true; more;) {
    tri_point settled = point;
    tri_point_settle(space, &settled);
    if (tri_point_equal(space, &settled, &point) && is_allowed(space, &point)) {
      tri_status status = tri_grow("the points of a space", sizeof *points, found, &room, &points);
      if (status != TRI_OK) {
        tri_free(points);
        return status;
      }
      points[found++] = point;
    }
    int64_t k = space->num_knobs - 1;
    while (k >= 0 && ++point.at[k] == space->knobs[k].count) point.at[k--] = 0;
    more = k >= 0;
  }
  *out = points;
  *count = found;
  return TRI_OK;
}

static tri_status check_rules(const tri_space *space) {
  tri_point point = {{0}};
  for (int64_t r = 0; r < space->num_rules; r++) {
    bool legal = false;
    (void)rule_holds(space, &point, space->rules[r].rule, &legal);
    if (legal) continue;
    return tri_fail(TRI_BAD_CONFIG,
                    "`constraints`: `%s` is not a comparison of products of parameters of this space and numbers, such "
                    "as tensor * pipeline <= devices",
                    space->rules[r].rule);
  }
  for (int64_t k = 0; k < space->num_knobs; k++) {
    int64_t other = -1;
    int32_t value = 0;
    if (space->knobs[k].when[0] == '\0' || condition_of(space, space->knobs[k].when, &other, &value)) continue;
    return tri_fail(TRI_BAD_CONFIG, "`space`: `when: %s` of `%s` must be PARAMETER = VALUE of the same space",
                    space->knobs[k].when, space->knobs[k].name);
  }
  return TRI_OK;
}

tri_status tri_space_complete(tri_space *space) {
  for (int64_t k = 0; k < space->num_knobs; k++) {
    TRI_TRY(fill_knob(&space->knobs[k]));
    if (tri_space_find(space, space->knobs[k].name, strlen(space->knobs[k].name)) == k) continue;
    return tri_fail(TRI_BAD_CONFIG, "`space` has `%s` twice", space->knobs[k].name);
  }
  return check_rules(space);
}
