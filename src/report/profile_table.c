/* The merged rows of a profile, as a line, as JSON and as a drawing. */
#include "report/profile.h"

#include "base/format.h"
#include "base/memory.h"
#include "files/file.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double tri_profile_loop_s(const tri_profile_row *row) {
  if (row->rate <= 0) return 0;
  return (row->flops > 0 ? row->flops : row->bytes) / row->rate;
}

/* ---- sums over the ranks ----------------------------------------------------------------------------------------- */

/* A row of the drawing: the same kernel, operation, pass and shape on all ranks. */
typedef struct line {
  tri_profile_row row; /* sums over the ranks */
  double slowest_s;    /* most seconds on a single rank */
  int slowest;         /* the rank with slowest_s */
} line;

/* Compares lines by kernel, operation, pass, groups and shape. Returns 0 if all are the same. */
static int compare_identity(const line *x, const line *y) {
  int order = strcmp(x->row.kernel, y->row.kernel);
  if (order == 0) order = strcmp(x->row.operation, y->row.operation);
  if (order == 0) order = strcmp(x->row.pass, y->row.pass);
  if (order == 0) order = (x->row.groups > y->row.groups) - (x->row.groups < y->row.groups);
  return order != 0 ? order : tri_kernel_times_compare_products(&x->row.product, &y->row.product);
}

static int by_identity(const void *a, const void *b) {
  const line *x = a, *y = b;
  const int order = compare_identity(x, y);
  return order != 0 ? order : x->slowest - y->slowest; /* rows of the same line are in the order of the ranks */
}

static void add_line(line *to, const line *other) {
  to->row.calls += other->row.calls;
  to->row.seconds += other->row.seconds;
  to->row.flops += other->row.flops;
  to->row.bytes += other->row.bytes;
  if (other->slowest_s <= to->slowest_s) return;
  to->slowest_s = other->slowest_s;
  to->slowest = other->slowest;
}

static int by_time(const void *a, const void *b) {
  const double x = ((const line *)a)->row.seconds, y = ((const line *)b)->row.seconds;
  return x > y ? -1 : x < y ? 1 : 0;
}

/* Adds up the rows of all ranks, and sorts the sums by time. Release *out with tri_free. */
static tri_status add_up(const tri_profile_table *table, line **out, int64_t *count) {
  const int64_t rows = table->begins[table->ranks];
  line *list = NULL;
  *count = 0;
  TRI_TRY(tri_alloc("lines of a profile", (size_t)rows, sizeof *list, &list));
  for (int rank = 0; rank < table->ranks; rank++)
    for (int64_t i = table->begins[rank]; i < table->begins[rank + 1]; i++)
      list[i] = (line){.row = table->rows[i], .slowest_s = table->rows[i].seconds, .slowest = rank};
  qsort(list, (size_t)rows, sizeof *list, by_identity);
  for (int64_t i = 0; i < rows; i++) {
    if (*count > 0 && compare_identity(&list[*count - 1], &list[i]) == 0) {
      add_line(&list[*count - 1], &list[i]);
    } else {
      list[(*count)++] = list[i];
    }
  }
  qsort(list, (size_t)*count, sizeof *list, by_time);
  *out = list;
  return TRI_OK;
}

static double all_seconds(const tri_profile_table *table) {
  double sum = 0;
  for (int rank = 0; rank < table->ranks; rank++) sum += table->seconds[rank];
  return sum;
}

/* ---- the line ---------------------------------------------------------------------------------------------------- */

enum { MOST_PARTS = 32 };

/* Smallest share of the time that the summary line names; smaller parts are added up. */
static const double LEAST_SHARE = 0.01;

typedef struct part {
  const char *name;
  double seconds;
} part;

/* Returns the name of the part of the summary line to which a row is added. In the files a row keeps the name of its
 * own operation. */
static const char *part_of(const tri_profile_row *row) {
  const bool multiplies = strcmp(row->kernel, "matmul") == 0 || strcmp(row->kernel, "grouped_matmul") == 0;
  if (multiplies)
    return "products"; /* also the calls of further shapes (device/kernel_times.h), whose row has no shape */
  if (strncmp(row->kernel, "attention", strlen("attention")) == 0) return "attention";
  if (strcmp(row->kernel, "matmul_pack") == 0) return "packing of weights";
  if (row->operation[0] == '\0') return row->kernel;
  if (!row->of_call) return "optimizer";
  return row->operation;
}

static void add_part(const tri_profile_row *row, part parts[MOST_PARTS], int *count) {
  const char *name = part_of(row);
  int i = 0;
  while (i < *count && strcmp(parts[i].name, name) != 0) i++;
  if (i == MOST_PARTS) i--; /* the last part takes the rest, which is small */
  if (i == *count) parts[(*count)++] = (part){name, 0};
  parts[i].seconds += row->seconds;
}

static int by_share(const void *a, const void *b) {
  const double x = ((const part *)a)->seconds, y = ((const part *)b)->seconds;
  return x > y ? -1 : x < y ? 1 : 0;
}

/* Returns the rate of the measured GEMMs in the steps, all together, as a fraction of their rate in the loop; 0 if no
 * GEMM was measured. */
static double share_of_rates(const tri_profile_table *table) {
  double loop_s = 0, seconds = 0;
  for (int64_t i = 0; i < table->begins[table->ranks]; i++) {
    const tri_profile_row *row = &table->rows[i];
    if (row->product.k == 0 || row->groups > 0 || row->rate <= 0) continue;
    loop_s += tri_profile_loop_s(row);
    seconds += row->seconds;
  }
  return seconds > 0 ? loop_s / seconds : 0;
}

static void append(char *text, size_t text_bytes, const char *name, double share) {
  const size_t length = strlen(text);
  snprintf(text + length, text_bytes - length, "%s%s %.1f %%", length > 0 ? ", " : "", name, 100 * share);
}

const char *tri_profile_describe(const tri_profile_table *table, char *text, size_t text_bytes) {
  part parts[MOST_PARTS];
  int count = 0;
  const double whole = all_seconds(table), rates = share_of_rates(table);
  double small = 0, left = 1 - table->communication - table->waiting;
  text[0] = '\0';
  if (whole <= 0) return text;
  for (int64_t i = 0; i < table->begins[table->ranks]; i++) add_part(&table->rows[i], parts, &count);
  qsort(parts, (size_t)count, sizeof *parts, by_share);
  for (int i = 0; i < count; i++) {
    const double share = parts[i].seconds / whole;
    left -= share;
    if (share < LEAST_SHARE) small += share;
    if (share >= LEAST_SHARE) append(text, text_bytes, parts[i].name, share);
    const size_t length = strlen(text);
    if (share >= LEAST_SHARE && rates > 0 && strcmp(parts[i].name, "products") == 0)
      snprintf(text + length, text_bytes - length, " (at %.0f %% of the rate of the same shapes in a loop)",
               100 * rates);
  }
  append(text, text_bytes, "other kernels", small);
  if (table->communication >= LEAST_SHARE) append(text, text_bytes, "communication", table->communication);
  if (table->waiting >= LEAST_SHARE) append(text, text_bytes, "waiting for other ranks", table->waiting);
  append(text, text_bytes, "outside kernels", left > 0 ? left : 0);
  return text;
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

/* Returns the layout of a GEMM's operands in the letters of BLAS: N as stored, T transposed. */
static const char *form_of(const tri_matmul *p) { return p->a_transposed ? "TN" : p->b_transposed ? "NT" : "NN"; }

static json_t *row_json(const tri_profile_row *row) {
  json_t *out = json_pack("{s:s, s:s, s:s, s:I, s:f}", "operation", row->operation, "pass", row->pass, "kernel",
                          row->kernel, "calls", (json_int_t)row->calls, "seconds", row->seconds);
  if (row->product.k > 0) {
    json_object_set_new(
        out, "shape",
        json_pack("{s:I, s:I, s:I, s:s, s:s, s:b}", "rows", (json_int_t)row->product.m, "inner",
                  (json_int_t)row->product.k, "columns", (json_int_t)row->product.n, "form", form_of(&row->product),
                  "result", tri_dtype_name(row->product.c_type), "adds", row->product.accumulate));
  }
  if (row->groups > 0) json_object_set_new(out, "groups", json_integer(row->groups));
  if (row->flops > 0) json_object_set_new(out, "flops", json_real(row->flops));
  if (row->bytes > 0) json_object_set_new(out, "bytes", json_real(row->bytes));
  if (row->rate > 0) {
    json_object_set_new(out, row->flops > 0 ? "loop_flops_per_s" : "copy_bytes_per_s", json_real(row->rate));
    if (row->seconds > 0) json_object_set_new(out, "share", json_real(tri_profile_loop_s(row) / row->seconds));
  }
  return out;
}

static json_t *rank_json(const tri_profile_table *table, int rank) {
  json_t *rows = json_array();
  for (int64_t i = table->begins[rank]; i < table->begins[rank + 1]; i++)
    json_array_append_new(rows, row_json(&table->rows[i]));
  return json_pack("{s:i, s:f, s:o}", "rank", rank, "seconds", table->seconds[rank], "kernels", rows);
}

tri_status tri_profile_write_json(const tri_profile_table *table, const char *path) {
  json_t *ranks = json_array();
  for (int rank = 0; rank < table->ranks; rank++) json_array_append_new(ranks, rank_json(table, rank));
  json_t *whole = json_pack("{s:I, s:I, s:f, s:f, s:o}", "first_step", (json_int_t)table->first + 1, "steps",
                            (json_int_t)table->steps, "communication", table->communication, "waiting", table->waiting,
                            "ranks", ranks);
  char *text = whole == NULL ? NULL : json_dumps(whole, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
  json_decref(whole);
  if (text == NULL) return tri_fail(TRI_OUT_OF_MEMORY, "no memory for %s", path);
  const tri_status status = tri_file_replace(path, text, strlen(text));
  free(text);
  return status;
}

/* ---- the drawing ------------------------------------------------------------------------------------------------- */

/* Sizes in pixels, and the largest number of lines. */
enum { MARGIN = 24, TOP = 112, ROW = 20, WIDTH = 1240, MOST_LINES = 60 };

enum { OPERATION, KERNEL, SHAPE, CALLS, MILLISECONDS, SHARE, SLOWEST, RATE, OF_RATE, NUM_COLUMNS };

static const struct {
  const char *title;
  int at; /* position in pixels, of the beginning of a text or of the end of a number */
  bool number;
} columns[NUM_COLUMNS] = {
    [OPERATION] = {"operation", MARGIN, false},
    [KERNEL] = {"kernel", 230, false},
    [SHAPE] = {"rows x inner x columns", 420, false},
    [CALLS] = {"calls", 680, true},
    [MILLISECONDS] = {"ms", 750, true},
    [SHARE] = {"share of step", 830, true},
    [SLOWEST] = {"slowest rank, ms", 950, true},
    [RATE] = {"rate", 1060, true},
    [OF_RATE] = {"share of loop", 1150, true},
};

static void write_cell(tri_file_writer *to, int column, double y, const char *text) {
  tri_file_writer_put(to, "<text x=\"%d\" y=\"%.0f\"%s>%s</text>\n", columns[column].at, y,
                      columns[column].number ? " text-anchor=\"end\"" : "", text);
}

static const char *rate_text(const tri_profile_row *row, char *text, size_t bytes) {
  text[0] = '\0';
  if (row->seconds <= 0) return text;
  if (row->flops > 0) return tri_format_flops(row->flops / row->seconds, text, bytes);
  if (row->bytes > 0) snprintf(text, bytes, "%.1f GB/s", row->bytes / row->seconds / 1e9);
  return text;
}

static const char *shape_text(const tri_profile_row *row, char *text, size_t bytes) {
  const tri_matmul *p = &row->product;
  text[0] = '\0';
  if (p->k == 0) return text;
  const int length =
      snprintf(text, bytes, "%lld x %lld x %lld, %s", (long long)p->m, (long long)p->k, (long long)p->n, form_of(p));
  if (row->groups > 0) snprintf(text + length, bytes - (size_t)length, ", %lld groups", (long long)row->groups);
  return text;
}

static void write_line(tri_file_writer *to, const tri_profile_table *table, const line *one, double y) {
  const tri_profile_row *row = &one->row;
  const double turns = (double)table->steps * table->ranks, share = row->seconds / all_seconds(table);
  char text[128];
  tri_file_writer_put(to, "<rect x=\"%d\" y=\"%.0f\" width=\"%.1f\" height=\"%d\" fill=\"#dbe7f3\"/>\n", MARGIN, y - 14,
                      (WIDTH - 2 * MARGIN) * (share < 1 ? share : 1), ROW - 3);
  snprintf(text, sizeof text, "%s%s%s", row->operation[0] == '\0' ? "others" : row->operation,
           row->pass[0] == '\0' ? "" : ", ", row->pass);
  write_cell(to, OPERATION, y, text);
  write_cell(to, KERNEL, y, row->kernel);
  write_cell(to, SHAPE, y, shape_text(row, text, sizeof text));
  snprintf(text, sizeof text, "%.4g", (double)row->calls / turns);
  write_cell(to, CALLS, y, text);
  snprintf(text, sizeof text, "%.2f", 1e3 * row->seconds / turns);
  write_cell(to, MILLISECONDS, y, text);
  snprintf(text, sizeof text, "%.1f %%", 100 * share);
  write_cell(to, SHARE, y, text);
  snprintf(text, sizeof text, "%.2f (%d)", 1e3 * one->slowest_s / (double)table->steps, one->slowest);
  write_cell(to, SLOWEST, y, table->ranks > 1 ? text : "");
  write_cell(to, RATE, y, rate_text(row, text, sizeof text));
  snprintf(text, sizeof text, "%.0f %%", 100 * tri_profile_loop_s(row) / row->seconds);
  write_cell(to, OF_RATE, y, row->rate > 0 && row->seconds > 0 ? text : "");
}

/* Writes the summary in lines of at most MOST bytes, which end after a comma, with the first one at y. Returns the
 * position below the last line. */
static double write_summary(tri_file_writer *to, const char *summary, double y) {
  enum { MOST = 160 };
  while (*summary != '\0') {
    size_t length = strlen(summary);
    if (length > MOST) {
      length = MOST;
      while (length > 1 && summary[length - 1] != ',') length--;
    }
    tri_file_writer_put(to, "<text x=\"%d\" y=\"%.0f\">%.*s</text>\n", MARGIN, y, (int)length, summary);
    summary += length + (summary[length] == ' ');
    y += ROW;
  }
  return y;
}

tri_status tri_profile_write_svg(const tri_profile_table *table, const char *summary, const char *path) {
  tri_file_writer *to = NULL;
  line *list = NULL;
  int64_t count = 0;
  TRI_TRY(add_up(table, &list, &count));
  const int64_t drawn = count < MOST_LINES ? count : MOST_LINES;
  tri_status status = tri_file_writer_open(path, &to);
  if (status != TRI_OK) {
    tri_free(list);
    return status;
  }
  tri_file_writer_put(to,
                      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%ld\" "
                      "font-family=\"system-ui, sans-serif\" font-size=\"12\" fill=\"#222\">\n"
                      "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n"
                      "<text x=\"%d\" y=\"32\" font-size=\"16\" font-weight=\"600\">Kernels of steps %ld to %ld, "
                      "%d rank%s, %.4g ms a step</text>\n",
                      WIDTH, (long)(TOP + 3 * ROW + ROW * drawn), MARGIN, (long)table->first + 1,
                      (long)table->first + (long)table->steps, table->ranks, TRI_PLURAL(table->ranks),
                      1e3 * all_seconds(table) / (double)table->steps / table->ranks);
  double y = write_summary(to, summary, 54) + 12;
  tri_file_writer_put(to, "<g font-weight=\"600\">\n");
  for (int c = 0; c < NUM_COLUMNS; c++) write_cell(to, c, y, c == SLOWEST && table->ranks == 1 ? "" : columns[c].title);
  tri_file_writer_put(to, "</g>\n");
  for (int64_t i = 0; i < drawn; i++) write_line(to, table, &list[i], y + ROW * (double)(i + 1));
  tri_file_writer_put(to, "</svg>\n");
  tri_free(list);
  return tri_file_writer_close(to, TRI_OK);
}
