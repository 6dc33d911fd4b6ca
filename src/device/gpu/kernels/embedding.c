/* Look-up in a table [table_rows, width], and the gradient of the table: the gradient of row `id` of the table is the
 * sum of the rows of the output's gradient [rows, width] that have this id.
 *
 * The number of occurrences of an id is not known in advance: most ids do not occur, a few occur many thousand times.
 * With atomics the order of summation would differ in every run. So the rows are sorted by id, and then ranges of equal
 * ids are summed (reduction by key). The host knows only the capacity; each kernel finds the number of rows in device
 * memory.
 *
 *  - A key has the id in its upper half and the row in the lower half, so all keys are distinct, and sorted keys have
 *    the rows of an id in order. Rows whose id is not in the table have the id 0xffffffff, and come last.
 *  - embedding_sort sorts tiles; embedding_merge merges eight sorted runs into one, repeatedly: a key's position is the
 *    sum of its position in its run and the numbers of smaller keys in the seven others.
 *  - embedding_sum processes windows of the sorted keys, a block each. The sum of an id that is entirely in its window
 *    is added to the table; an id that crosses an edge gives a partial sum: HEAD, of an id that begins in an earlier
 *    window, or TAIL, of an id that begins here and continues in the next. Since the windows have a fixed length, an id
 *    that occurs 60000 times is processed by many blocks.
 *  - embedding_join sums the partial sums of an id that crosses edges, in the window where it begins.
 *
 * Blocks along x have tiles or windows, blocks along y strips of columns. The host processes large inputs in pieces
 * (embedding_piece). In each piece an element of the table is written at most once, by one thread of one kernel. The
 * order of the sums depends only on the ids. */
#include "device/gpu/kernels/embedding.h"

#include "device/gpu/kernels/sort.h"
#include "device/gpu/kernels/wide.h"

/* Destinations of a sum (sum_window.where). */
enum { GOES_ON, TO_TABLE, HEAD, TAIL };

/* Return the id of rows that are not in the table, and the id in a key. */
DEVICE uint32_t no_id(void) { return 0xffffffffu; }
DEVICE uint32_t id_of(uint64_t key) { return (uint32_t)(key >> 32); }

/* ---- forward: a warp for each row -------------------------------------------------------------------------------- */

/* Load VECTOR elements of the table from index `at` on, or one element. */
DEVICE void load_tokens(const embedding_forward_arguments *a, int64_t at, wide out[VECTOR]) {
  if (a->narrow) {
    load_vector((const element *)a->table + at, out);
  } else {
    load_wide_vector((const wide *)a->table + at, out);
  }
}

DEVICE wide load_token(const embedding_forward_arguments *a, int64_t at) {
  return a->narrow ? load((const element *)a->table + at) : ((const wide *)a->table)[at];
}

KERNEL(embedding_forward) {
  const int64_t rows = live_rows(a.capacity, a.count), warps = blocks_x() * block_warps();
  const wide *position_table = (const wide *)a.position_table;
  element *out = (element *)a.out;
  const int whole = a.width % VECTOR == 0 && is_aligned(a.table) && is_aligned(position_table) && is_aligned(out);
  const int64_t vectors = whole ? a.width / VECTOR : 0;
  for (int64_t row = block_x() * block_warps() + warp(); row < rows; row += warps) {
    const int64_t id = a.ids[row] - a.first_id;
    const int64_t token = id >= 0 && id < a.table_rows ? id * a.width : -1; /* offset of the id's row in the table */
    const wide *position = position_table == 0 ? 0 : position_table + a.positions[row] * a.width;
    for (int64_t i = lane(); i < vectors; i += WARP) {
      wide x[VECTOR], y[VECTOR];
      for (int j = 0; j < VECTOR; j++) x[j] = y[j] = 0;
      if (token >= 0) load_tokens(&a, token + i * VECTOR, x);
      if (position != 0) load_wide_vector(position + i * VECTOR, y);
      for (int j = 0; j < VECTOR; j++) x[j] += y[j];
      store_vector(out + row * a.width + i * VECTOR, x);
    }
    for (int64_t i = vectors * VECTOR + lane(); i < a.width; i += WARP)
      store(out + row * a.width + i, (token < 0 ? 0 : load_token(&a, token + i)) + (position == 0 ? 0 : position[i]));
  }
}

/* ---- keys in order ----------------------------------------------------------------------------------------------- */

/* Returns the number of existing rows of a piece. */
DEVICE int rows_of_piece(const embedding_piece *rows) {
  const int64_t live = live_rows(rows->capacity, rows->count) - rows->first;
  if (live < 0) return 0;
  return (int)(live < rows->piece ? live : rows->piece);
}

typedef struct sorted_tile {
  uint64_t keys[EMBEDDING_TILE];
} sorted_tile;

KERNEL(embedding_sort) {
  SHARED(sorted_tile, tile);
  const int rows = rows_of_piece(&a.rows), begin = (int)block_x() * EMBEDDING_TILE;
  const int here = rows - begin < EMBEDDING_TILE ? rows - begin : EMBEDDING_TILE;
  if (here <= 0) return;
  int size = 1;
  while (size < here) size *= 2;
  for (int i = thread(); i < size; i += threads()) {
    uint64_t key = ~(uint64_t)0;
    if (i < here) {
      const int64_t id = a.ids[begin + i] - a.first_id;
      const uint32_t known = id >= 0 && id < a.table_rows ? (uint32_t)id : no_id();
      key = (uint64_t)known << 32 | (uint32_t)(begin + i);
    }
    tile->keys[i] = key;
  }
  sort_keys(tile->keys, size);
  for (int i = thread(); i < here; i += threads()) a.keys[begin + i] = tile->keys[i];
}

/* Merges runs with one thread per key, which counts the smaller keys in each of the runs. The searches in the runs are
 * interleaved, because each search mostly waits for memory. */
KERNEL(embedding_merge) {
  const int rows = rows_of_piece(&a.rows), run_bits = (int)a.run_bits;
  for (int i = (int)block_x() * threads() + thread(); i < rows; i += (int)blocks_x() * threads()) {
    const uint64_t key = a.in[i];
    const int base = i >> (run_bits + EMBEDDING_WAYS_BITS) << (run_bits + EMBEDDING_WAYS_BITS);
    int lesser[EMBEDDING_WAYS];
    for (int s = 0; s < EMBEDDING_WAYS; s++) lesser[s] = 0;
    for (int step = 1 << run_bits; step > 0; step /= 2) {
      for (int s = 0; s < EMBEDDING_WAYS; s++) {
        const int last = lesser[s] + step - 1, at = base + (s << run_bits) + last;
        if (last >> run_bits == 0 && at < rows && a.in[at] < key) lesser[s] += step;
      }
    }
    int place = base;
    for (int s = 0; s < EMBEDDING_WAYS; s++) place += lesser[s];
    a.out[place] = key;
  }
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

/* A window of the sorted keys, in shared memory. */
typedef struct sum_window {
  uint32_t ids[EMBEDDING_WINDOW], rows[EMBEDDING_WINDOW];
  int where[EMBEDDING_WINDOW]; /* destination of the sum after this row; GOES_ON: the next row of the window has the
                                  same id */
} sum_window;

/* Loads up to VECTOR columns of a row, `columns` of them valid; zeros for the others. */
DEVICE void load_columns(const element *from, int columns, int whole, wide out[VECTOR]) {
  if (whole) {
    load_vector(from, out);
    return;
  }
  for (int j = 0; j < VECTOR; j++) out[j] = j < columns ? load(from + j) : 0;
}

/* Load and store WIDE_VECTOR columns of a row of the table, `columns` of them valid (possibly none): the others are
 * loaded as 0, and not stored. */
DEVICE void load_table(const wide *from, int columns, int whole, wide out[WIDE_VECTOR]) {
  if (whole && columns > 0) {
    load_16_bytes(from, out);
    return;
  }
  for (int j = 0; j < WIDE_VECTOR; j++) out[j] = j < columns ? from[j] : 0;
}

DEVICE void store_table(wide *to, int columns, int whole, const wide values[WIDE_VECTOR]) {
  if (whole && columns > 0) {
    store_16_bytes(to, values);
    return;
  }
  for (int j = 0; j < WIDE_VECTOR; j++) {
    if (j < columns) to[j] = values[j];
  }
}

DEVICE int is_whole(const void *table, int64_t width) { return is_aligned(table) && width % WIDE_VECTOR == 0; }

/* Reads the window; returns the number of its rows that have an id, to all threads. All threads of the block call it;
 * has one barrier. */
DEVICE int read_window(const embedding_sum_arguments *a, sum_window *w) {
  const int rows = rows_of_piece(&a->rows), begin = (int)block_x() * EMBEDDING_WINDOW;
  for (int i = thread(); i < EMBEDDING_WINDOW; i += threads()) {
    const int at = begin + i;
    const uint64_t key = at < rows ? a->keys[at] : ~(uint64_t)0;
    const uint32_t id = id_of(key), next = at + 1 < rows ? id_of(a->keys[at + 1]) : no_id();
    w->ids[i] = id;
    w->rows[i] = (uint32_t)key;
    if (next == id && i + 1 < EMBEDDING_WINDOW) {
      w->where[i] = GOES_ON;
    } else if (begin > 0 && begin < rows && id_of(a->keys[begin - 1]) == id) {
      w->where[i] = HEAD;
    } else {
      w->where[i] = next == id ? TAIL : TO_TABLE;
    }
  }
  barrier();
  int here = 0;
  for (int step = EMBEDDING_WINDOW; step > 0; step /= 2) {
    if (here + step <= EMBEDDING_WINDOW && w->ids[here + step - 1] != no_id()) here += step;
  }
  return here;
}

/* The VECTOR columns of a thread. The pointers point to its first column in row 0 of each array. */
typedef struct sum_columns {
  const element *gradient;
  wide *table, *partial;
  int64_t width, stride;
  int columns, whole, whole_table; /* columns: number of valid columns. whole, whole_table: whether 16 bytes of the
                                      gradient, and of the table, can be moved at once */
} sum_columns;

/* Loads the thread's columns of row `id` of the table. */
DEVICE void load_old(const sum_columns *c, uint32_t id, wide out[VECTOR]) {
  const wide *from = c->table + (int64_t)id * c->width;
  for (int j = 0; j < VECTOR; j += WIDE_VECTOR) load_table(from + j, c->columns - j, c->whole_table, out + j);
}

/* Stores old + sum in row `id` of the table, or a partial sum. */
DEVICE void store_sum(const sum_columns *c, int where, uint32_t id, const wide sum[VECTOR], const wide old[VECTOR]) {
  wide all[VECTOR];
  if (where == TO_TABLE) {
    wide *to = c->table + (int64_t)id * c->width;
    for (int j = 0; j < VECTOR; j++) all[j] = old[j] + sum[j];
    for (int j = 0; j < VECTOR; j += WIDE_VECTOR) store_table(to + j, c->columns - j, c->whole_table, all + j);
  } else {
    wide *to = c->partial + (where == TAIL) * c->stride;
    for (int j = 0; j < VECTOR; j += WIDE_VECTOR) store_16_bytes(to + j, sum + j);
  }
}

/* Sums the thread's columns over a window of `here` rows. A few rows are loaded ahead, and with them the rows of the
 * table that they are added to. Does not synchronise. */
DEVICE void sum_window_columns(const sum_window *w, int here, const sum_columns *c) {
  enum { AHEAD = 4 };
  wide sum[VECTOR], in[AHEAD][VECTOR], old[AHEAD][VECTOR];
  for (int k = 0; k < VECTOR; k++) sum[k] = 0;
  for (int i = 0; i < here; i += AHEAD) {
    for (int j = 0; j < AHEAD; j++) {
      const int at = i + j < here ? i + j : here - 1;
      load_columns(c->gradient + (int64_t)w->rows[at] * c->width, c->columns, c->whole, in[j]);
    }
    for (int j = 0; j < AHEAD; j++) {
      if (i + j < here && w->where[i + j] == TO_TABLE) load_old(c, w->ids[i + j], old[j]);
    }
    for (int j = 0; j < AHEAD; j++) {
      if (i + j >= here) break;
      for (int k = 0; k < VECTOR; k++) sum[k] += in[j][k];
      if (w->where[i + j] == GOES_ON) continue;
      store_sum(c, w->where[i + j], w->ids[i + j], sum, old[j]);
      for (int k = 0; k < VECTOR; k++) sum[k] = 0;
    }
  }
}

KERNEL(embedding_sum) {
  SHARED(sum_window, w);
  const int here = read_window(&a, w);
  const int64_t column = (block_y() * threads() + thread()) * VECTOR, left = a.width - column;
  if (left <= 0) return;
  sum_columns c;
  c.gradient = (const element *)a.gradient + column;
  c.table = (wide *)a.table + column;
  c.partial = (wide *)a.partial + 2 * block_x() * a.stride + column;
  c.width = a.width;
  c.stride = a.stride;
  c.columns = (int)(left < VECTOR ? left : VECTOR);
  c.whole = is_aligned(a.gradient) && a.width % VECTOR == 0;
  c.whole_table = is_whole(a.table, a.width);
  sum_window_columns(w, here, &c);
}

/* ---- sums over several windows ----------------------------------------------------------------------------------- */

/* Finds the id that begins in this block's window and continues in the next one. Returns the index after the last
 * window that has this id; 0 if no id does both. All threads get the same result. */
DEVICE int windows_end(const embedding_join_arguments *a) {
  const int rows = rows_of_piece(&a->rows), begin = (int)block_x() * EMBEDDING_WINDOW;
  const int behind = begin + EMBEDDING_WINDOW;
  if (behind >= rows) return 0;
  const uint32_t id = id_of(a->keys[behind]);
  if (id == no_id() || id_of(a->keys[behind - 1]) != id) return 0;
  if (begin > 0 && id_of(a->keys[begin - 1]) == id) return 0;
  int low = behind, high = rows; /* keys before `low` have the id; keys from `high` on do not have it */
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (id_of(a->keys[middle]) == id) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return (low - 1) / EMBEDDING_WINDOW + 1;
}

enum { JOIN_GROUPS = embedding_join_threads / EMBEDDING_JOIN_LANES };

typedef struct join_sums {
  wide of[JOIN_GROUPS][EMBEDDING_JOIN_LANES][WIDE_VECTOR];
} join_sums;

/* Sums WIDE_VECTOR columns of the partial sums of windows [first, behind): the TAIL of window `from`, and the HEADs of
 * the windows after it. */
DEVICE void sum_partial(const wide *partial, int64_t stride, int from, int first, int behind, wide sum[WIDE_VECTOR]) {
  enum { AHEAD = 8 };
  for (int k = 0; k < WIDE_VECTOR; k++) sum[k] = 0;
  for (int i = first; i < behind; i += AHEAD) {
    wide in[AHEAD][WIDE_VECTOR];
    for (int j = 0; j < AHEAD; j++) {
      const int window = i + j < behind ? i + j : behind - 1;
      load_16_bytes(partial + (2 * (int64_t)window + (window == from)) * stride, in[j]);
    }
    for (int j = 0; j < AHEAD; j++) {
      for (int k = 0; k < WIDE_VECTOR; k++) {
        if (i + j < behind) sum[k] += in[j][k];
      }
    }
  }
}

KERNEL(embedding_join) {
  SHARED(join_sums, sums);
  const int from = (int)block_x(), end = windows_end(&a);
  if (end == 0) return;
  const int group = thread() / EMBEDDING_JOIN_LANES, of_group = thread() % EMBEDDING_JOIN_LANES;
  const int each = (end - from + JOIN_GROUPS - 1) / JOIN_GROUPS, first = from + group * each;
  const int64_t column = (block_y() * EMBEDDING_JOIN_LANES + of_group) * WIDE_VECTOR;
  wide sum[WIDE_VECTOR];
  if (column < a.width) {
    sum_partial((const wide *)a.partial + column, a.stride, from, first, first + each < end ? first + each : end, sum);
    for (int k = 0; k < WIDE_VECTOR; k++) sums->of[group][of_group][k] = sum[k];
  }
  barrier();
  if (group > 0 || column >= a.width) return;
  for (int g = 1; g < JOIN_GROUPS; g++) {
    for (int k = 0; k < WIDE_VECTOR; k++) sum[k] += sums->of[g][of_group][k];
  }
  wide *to = (wide *)a.table + (int64_t)id_of(a.keys[(from + 1) * EMBEDDING_WINDOW]) * a.width + column;
  const int columns = (int)(a.width - column < WIDE_VECTOR ? a.width - column : WIDE_VECTOR);
  const int whole = is_whole(a.table, a.width);
  wide old[WIDE_VECTOR];
  load_table(to, columns, whole, old);
  for (int k = 0; k < WIDE_VECTOR; k++) sum[k] += old[k];
  store_table(to, columns, whole, sum);
}
