/* What the programs of tests/comm share: values that every rank can make for every other, and sums made the plain way
 * in the order that comm.h promises. A check that fails says where and ends the whole job. */
#ifndef TRI_TESTS_COMM_CHECK_H
#define TRI_TESTS_COMM_CHECK_H

#include "comm/comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition, ...)                                                                                          \
  do {                                                                                                                 \
    if (!(condition)) {                                                                                                \
      fprintf(stderr, "%s:%d: rank %d: %s: ", __FILE__, __LINE__, tri_comm_rank(), #condition);                        \
      fprintf(stderr, __VA_ARGS__);                                                                                    \
      fprintf(stderr, "\n");                                                                                           \
      tri_comm_abort(1);                                                                                               \
      exit(1);                                                                                                         \
    }                                                                                                                  \
  } while (0)

#define CHECK_OK(call) CHECK((call) == TRI_OK, "%s", tri_status_message())

static inline void *get_memory(size_t bytes) {
  void *memory = malloc(bytes + 1);
  CHECK(memory != NULL, "%zu bytes", bytes);
  return memory;
}

/* Buffers of collectives: private ones, or, while there is an arena that the ranks share, places in it. Now and then
 * one rank has a private one all the same. */
typedef struct arena {
  char *begin; /* NULL: there is none */
  size_t bytes;
} arena;

static arena the_arena; /* one for the program */

static inline uint64_t hash(uint64_t x) { /* splitmix64 */
  x += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

static inline void *get_values(size_t bytes, uint64_t seed) {
  bool apart = hash(seed) % 4 == 0 && (int)(seed % (uint64_t)tri_comm_size()) == tri_comm_rank();
  size_t rank = (size_t)tri_comm_rank();
  size_t lead = rank % 3 * 8 + rank * 4096;
  if (the_arena.begin == NULL || apart || lead + bytes > the_arena.bytes) return get_memory(bytes);
  return the_arena.begin + lead;
}

static inline void drop_values(void *values) {
  char *at = values;
  if (the_arena.begin == NULL || at < the_arena.begin || at >= the_arena.begin + the_arena.bytes) free(values);
}

static inline uint16_t bf16_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float of_bf16(uint16_t x) {
  uint32_t bits = (uint32_t)x << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* Rank r's value of element i: of very different sizes, so that the order of a sum shows in its bits. */
static inline double value_of(uint64_t seed, int r, int64_t i) {
  uint64_t bits = hash(seed * 1000003 + hash((uint64_t)i * 64 + (uint64_t)r));
  double mantissa = (double)(int64_t)(bits >> 11) * 0x1p-52 - 1;
  return mantissa * (double)(1 << (bits & 7));
}

static inline void store(tri_dtype type, void *array, int64_t i, double value) {
  if (type == TRI_FP64) ((double *)array)[i] = value;
  if (type == TRI_FP32) ((float *)array)[i] = (float)value;
  if (type == TRI_BF16) ((uint16_t *)array)[i] = bf16_of((float)value);
}

static inline double load(tri_dtype type, const void *array, int64_t i) {
  return type == TRI_FP64   ? ((const double *)array)[i]
         : type == TRI_FP32 ? ((const float *)array)[i]
                            : of_bf16(((const uint16_t *)array)[i]);
}

/* As it is after storing in `type`. */
static inline double rounded(tri_dtype type, double value) {
  return type == TRI_FP64 ? value : type == TRI_FP32 ? (double)(float)value : of_bf16(bf16_of((float)value));
}

/* A group with the ranks of the job that its ranks are, and a number for the node of each. */
typedef struct members {
  tri_group group;
  int job_ranks[64], nodes[64];
} members;

static inline members members_of(tri_group group) {
  members m = {.group = group};
  int mine = tri_comm_rank();
  const char *pretended = getenv("TRIREME_RANKS_PER_NODE");
  int per_node = pretended != NULL ? (int)strtol(pretended, NULL, 10) : 64;
  CHECK_OK(tri_gather_bytes(&group, sizeof mine, &mine, m.job_ranks));
  for (int r = 0; r < group.size; r++) m.nodes[r] = m.job_ranks[r] / per_node;
  return m;
}

static inline double stored_value(const members *m, tri_dtype type, uint64_t seed, int r, int64_t i) {
  return rounded(type, value_of(seed, m->job_ranks[r], i));
}

/* The order of a sum: node after node, by their first ranks, and in each its ranks as they come. */
typedef struct order {
  int ranks[64];
  bool begins_node[64];
} order;

static inline order order_of(const members *m) {
  order o;
  int count = 0;
  for (int first = 0; first < m->group.size; first++) {
    bool seen = false;
    for (int r = 0; r < first; r++) seen = seen || m->nodes[r] == m->nodes[first];
    for (int r = first; r < m->group.size && !seen; r++) {
      if (m->nodes[r] != m->nodes[first]) continue;
      o.ranks[count] = r;
      o.begins_node[count++] = r == first;
    }
  }
  return o;
}

enum { BLOCK = 256 }; /* of elements summed side by side, so that the compiler can make vectors of them */

/* total[i] += more[i] in the arithmetic of the type, but fp32 for bf16. */
static inline void add_block(tri_dtype type, double *total, const double *more) {
  if (type == TRI_FP64) {
    for (int i = 0; i < BLOCK; i++) total[i] += more[i];
  } else {
    for (int i = 0; i < BLOCK; i++) total[i] = (double)((float)total[i] + (float)more[i]);
  }
}

static inline void rounded_values(const members *m, tri_dtype type, uint64_t seed, int r, int64_t first, double *out) {
  for (int64_t i = 0; i < BLOCK; i++) out[i] = value_of(seed, m->job_ranks[r], first + i);
  if (type == TRI_FP32) {
    for (int i = 0; i < BLOCK; i++) out[i] = rounded(TRI_FP32, out[i]);
  }
  if (type == TRI_BF16) {
    for (int i = 0; i < BLOCK; i++) out[i] = rounded(TRI_BF16, out[i]);
  }
}

/* The sums of elements [first, first + BLOCK) in the promised order. */
static inline void expected_sums(const members *m, const order *o, tri_dtype type, uint64_t seed, int64_t first,
                                 double *total) {
  double node[BLOCK], next[BLOCK];
  bool some = false; /* whether total holds a node */
  for (int at = 0; at < m->group.size; at++) {
    bool last = at + 1 == m->group.size || o->begins_node[at + 1];
    rounded_values(m, type, seed, o->ranks[at], first, next);
    if (o->begins_node[at])
      memcpy(node, next, sizeof node);
    else
      add_block(type, node, next);
    if (!last) continue;
    if (some)
      add_block(type, total, node);
    else
      memcpy(total, node, sizeof node);
    some = true;
  }
  for (int i = 0; i < BLOCK; i++) total[i] = rounded(type, total[i]);
}

static inline void fill(const members *m, tri_dtype type, uint64_t seed, int64_t count, void *values) {
  int mine = m->job_ranks[m->group.rank];
  for (int64_t i = 0; i < count; i++) store(type, values, i, value_of(seed, mine, i));
}

/* Elements [begin, end) of values hold the sums, to the bit. */
static inline void check_sums(const members *m, tri_dtype type, uint64_t seed, int64_t begin, int64_t end,
                              const void *values) {
  order o = order_of(m);
  double wanted[BLOCK];
  for (int64_t i = begin; i < end; i++) {
    if ((i - begin) % BLOCK == 0) expected_sums(m, &o, type, seed, i, wanted);
    double want = wanted[(i - begin) % BLOCK];
    double have = load(type, values, i);
    CHECK(have == want, "%s, %s over %d, element %lld: %.17g instead of %.17g", tri_dtype_name(type), m->group.name,
          m->group.size, (long long)i, have, want);
  }
}

/* An all-to-all of random parts, some of them empty: what a rank gives and gets. */
typedef struct parts {
  tri_dtype type;
  uint64_t seed;
  int64_t given[65], got[65]; /* begins */
} parts;

static inline int64_t part_length(uint64_t seed, int from, int to, int64_t most) {
  uint64_t bits = hash(seed + (uint64_t)from * 977 + (uint64_t)to * 31);
  return bits % 4 == 0 ? 0 : (int64_t)(bits / 4 % (uint64_t)(most + 1));
}

static inline parts plan_parts(const members *m, tri_dtype type, int64_t most, uint64_t seed) {
  parts p = {.type = type, .seed = seed};
  for (int r = 0; r < m->group.size; r++) {
    p.given[r + 1] = p.given[r] + part_length(seed, m->group.rank, r, most);
    p.got[r + 1] = p.got[r] + part_length(seed, r, m->group.rank, most);
  }
  return p;
}

static inline size_t given_bytes(const members *m, const parts *p) {
  return (size_t)p->given[m->group.size] * tri_dtype_bytes(p->type);
}

static inline size_t got_bytes(const members *m, const parts *p) {
  return (size_t)p->got[m->group.size] * tri_dtype_bytes(p->type);
}

/* Bits of element i of what rank `from` gives rank `to`. */
static inline uint64_t part_value(const parts *p, int from, int to, int64_t i) {
  return hash(p->seed ^ (uint64_t)(from * 64 + to) << 40 ^ (uint64_t)i);
}

static inline void fill_parts(const members *m, const parts *p, void *from) {
  const size_t element = tri_dtype_bytes(p->type);
  for (int r = 0; r < m->group.size; r++) {
    for (int64_t i = p->given[r]; i < p->given[r + 1]; i++) {
      uint64_t value = part_value(p, m->group.rank, r, i - p->given[r]);
      memcpy((char *)from + (size_t)i * element, &value, element);
    }
  }
}

static inline void check_parts(const members *m, const parts *p, const void *to) {
  const size_t element = tri_dtype_bytes(p->type);
  for (int r = 0; r < m->group.size; r++) {
    for (int64_t i = p->got[r]; i < p->got[r + 1]; i++) {
      uint64_t value = part_value(p, r, m->group.rank, i - p->got[r]);
      CHECK(memcmp((const char *)to + (size_t)i * element, &value, element) == 0,
            "%s, %s over %d, from rank %d, element %lld", tri_dtype_name(p->type), m->group.name, m->group.size, r,
            (long long)(i - p->got[r]));
    }
  }
}

/* Random parts, some of them empty, of `count` elements. */
static inline void random_begins(uint64_t seed, int size, int64_t count, int64_t *begins) {
  begins[0] = 0;
  for (int r = 0; r < size; r++) {
    uint64_t bits = hash(seed + (uint64_t)r * 77);
    int64_t left = count - begins[r];
    int64_t take = bits % 3 == 0 ? 0 : (int64_t)(bits / 3 % (uint64_t)(left + 1));
    begins[r + 1] = r + 1 == size ? count : begins[r] + take;
  }
}

#endif
