#include "problem.h"

#include "checker.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

double number_get(tri_dtype type, const void *array, int64_t i) {
  uint32_t bits;
  float narrow;
  switch (type) {
    case TRI_FP64: return ((const double *)array)[i];
    case TRI_FP32: return (double)((const float *)array)[i];
    case TRI_INT32: return (double)((const int32_t *)array)[i];
    case TRI_BF16:
      bits = (uint32_t)((const uint16_t *)array)[i] << 16;
      memcpy(&narrow, &bits, sizeof narrow);
      return (double)narrow;
  }
  return NAN;
}

void number_set(tri_dtype type, void *array, int64_t i, double value) {
  float narrow = (float)value;
  uint32_t bits;
  switch (type) {
    case TRI_FP64: ((double *)array)[i] = value; return;
    case TRI_FP32: ((float *)array)[i] = narrow; return;
    case TRI_INT32: ((int32_t *)array)[i] = (int32_t)value; return;
    case TRI_BF16:
      memcpy(&bits, &narrow, sizeof bits);
      if (value == value) bits += 0x7fffu + (bits >> 16 & 1u);
      ((uint16_t *)array)[i] = (uint16_t)(bits >> 16);
      return;
  }
}

double tolerance_of(tri_dtype type) {
  switch (type) {
    case TRI_FP64: return 1e-12;
    case TRI_FP32: return 1e-5;
    case TRI_BF16: return 1e-2;
    case TRI_INT32: break;
  }
  return 0;
}

/* SplitMix64 (Steele, Lea and Flood 2014). */
static uint64_t bits(checker *c) {
  uint64_t z = c->random += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

int64_t draw(checker *c, int64_t below) { return (int64_t)((bits(c) >> 11) % (uint64_t)below); }
int64_t draw_from(checker *c, int64_t least, int64_t most) { return least + draw(c, most - least + 1); }
bool draw_bool(checker *c) { return draw(c, 2) == 1; }

/* The sum of four uniform numbers, with a variance of 1. */
double draw_normal(checker *c) {
  uint64_t b = bits(c);
  double sum = (double)(b & 0xffff) + (double)(b >> 16 & 0xffff) + (double)(b >> 32 & 0xffff) + (double)(b >> 48);
  return (sum - 131070.0) / 37837.0;
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

problem problem_make(checker *c, tri_dtype type) {
  return (problem){.checker = c, .type = type, .wide = tri_dtype_wide(type)};
}

void problem_free(problem *p) {
  for (int i = 0; i < p->count; i++) free(p->arguments[i].before);
  p->count = 0;
}

int add_array(problem *p, const char *name, tri_dtype type, int64_t count) {
  const size_t bytes = (size_t)count * tri_dtype_bytes(type);
  argument *a = &p->arguments[p->count];
  if (p->count == MOST_ARGUMENTS) abort(); /* this program's mistake */
  *a = (argument){.name = name,
                  .type = type,
                  .count = count,
                  .bytes = bytes,
                  .before = malloc(bytes + 8),
                  .tolerance = tolerance_of(type),
                  .yardstick = 0.1};
  if (a->before == NULL) checker_is_out_of_memory(bytes);
  poison(a->before, bytes, POISON_OF_FIRST + (unsigned)p->count);
  return p->count++;
}

int add_input(problem *p, const char *name, tri_dtype type, int64_t count, double centre, double scale) {
  int number = add_array(p, name, type, count);
  fill(p, number, all_of(count), centre, scale);
  return number;
}

int add_bytes(problem *p, const char *name, const void *from, size_t bytes) {
  int number = add_array(p, name, TRI_INT32, (int64_t)(bytes / sizeof(int32_t)));
  memcpy(p->arguments[number].before, from, bytes);
  p->arguments[number].aligned = true;
  return number;
}

/* In turn: all rows without a count, some, none, as many as there is room for, more, and nonsense. */
int64_t add_rows(problem *p, int64_t capacity, int *number) {
  checker *c = p->checker;
  int32_t count = 0;
  *number = -1;
  switch (c->turns++ % 9) {
    case 1:
    case 5: count = (int32_t)(capacity == 0 ? 0 : draw(c, capacity)); break;
    case 3: count = 0; break;
    case 4: count = (int32_t)capacity + 9; break;
    case 7: count = (int32_t)capacity; break;
    case 8: count = -3; break;
    default: return capacity;
  }
  *number = add_bytes(p, "count", &count, sizeof count);
  return count < 0 ? 0 : count < capacity ? count : capacity;
}

tri_rows rows_of(const problem *p, int64_t capacity, int number, char *const *memory) {
  (void)p;
  return (tri_rows){capacity, number < 0 ? NULL : (const int32_t *)(const void *)memory[number]};
}

region all_of(int64_t count) { return (region){0, 1, 0, 1, 0, count}; }
region matrix_of(int64_t rows, int64_t stride, int64_t width) { return (region){0, rows, stride, 1, 0, width}; }

void fill(problem *p, int number, region where, double centre, double scale) {
  const argument *a = &p->arguments[number];
  for (int64_t r = 0; r < where.rows; r++) {
    for (int64_t g = 0; g < where.groups; g++) {
      const int64_t at = where.first + r * where.row_stride + g * where.group_stride;
      for (int64_t i = 0; i < where.width; i++)
        number_set(a->type, a->before, at + i, centre + scale * draw_normal(p->checker));
    }
  }
}

void writes(problem *p, int number, region where, bool filled) {
  argument *a = &p->arguments[number];
  if (a->num_regions == MOST_REGIONS) abort(); /* this program's mistake */
  a->regions[a->num_regions++] = where;
  if (filled) fill(p, number, where, 0.5, 1.0);
}

int add_output(problem *p, const char *name, tri_dtype type, int64_t count, bool filled) {
  int number = add_array(p, name, type, count);
  writes(p, number, all_of(count), filled);
  return number;
}

void describe(problem *p, const char *format, ...) {
  const size_t used = strlen(p->what);
  va_list list;
  va_start(list, format);
  (void)vsnprintf(p->what + used, sizeof p->what - used, format, list);
  va_end(list);
}
