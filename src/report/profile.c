#include "report/profile.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/system.h"
#include "comm/agreement.h"
#include "comm/collect.h"
#include "engine/measure.h"
#include "files/file.h"
#include "report/drawing_path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_TAG = 4 };

enum { MOST_GEMMS = 64 };           /* GEMMs that are measured in a loop: those with the most time */
enum { COPIED = 1 << 24 };          /* elements of the measured copy */
enum { LEAST_MEMORY = 1536 << 20 }; /* free bytes for each rank, for measurements */
static const double EACH_S = 0.1;   /* seconds for a GEMM in a loop */

tri_status tri_profile_open(tri_profile *profile, tri_device *device, tri_dtype precision, int64_t first) {
  profile->precision = precision;
  profile->first = first;
  if (profile->path == NULL) return TRI_OK;
  const tri_status status = tri_kernel_times_create(device, &profile->times);
  return status == TRI_OK ? TRI_OK : tri_fail(status, "--profile %s: %s", profile->path, tri_status_message());
}

void tri_profile_close(tri_profile *profile) {
  tri_kernel_times_destroy(profile->times);
  profile->times = NULL;
}

void tri_profile_step_begins(tri_profile *profile) {
  if (profile->times == NULL) return;
  profile->begin_s = tri_clock_s();
  tri_kernel_times_begin(profile->times);
}

void tri_profile_step_ended(tri_profile *profile) {
  if (profile->times == NULL) return;
  tri_kernel_times_pause(profile->times);
  profile->seconds += tri_clock_s() - profile->begin_s;
  profile->steps++;
}

/* ---- merging ----------------------------------------------------------------------------------------------------- */

static void copy_name(char to[TRI_PROFILE_NAME_BYTES], const char *from) {
  snprintf(to, TRI_PROFILE_NAME_BYTES, "%s", from == NULL ? "" : from);
}

/* Makes the rows of this rank, (*out)[*count]. Release *out with tri_free. */
static tri_status own_rows(const tri_profile *profile, tri_profile_row **out, int64_t *count) {
  const tri_kernel_time *list = tri_kernel_times_list(profile->times, count);
  TRI_TRY(tri_alloc("rows of a profile", (size_t)*count, sizeof **out, out));
  for (int64_t i = 0; i < *count; i++) {
    tri_profile_row *row = &(*out)[i];
    *row = (tri_profile_row){.of_call = list[i].of_call,
                             .product = list[i].product,
                             .groups = list[i].groups,
                             .calls = list[i].calls,
                             .seconds = list[i].seconds,
                             .flops = list[i].flops,
                             .bytes = list[i].bytes};
    copy_name(row->operation, list[i].operation);
    copy_name(row->pass, list[i].pass);
    copy_name(row->kernel, list[i].kernel);
  }
  return TRI_OK;
}

/* COLLECTIVE. Collects the rows of all ranks on the first rank. Release *table with `release`, also after a failure. */
static tri_status collect(const tri_profile *profile, const tri_group *world, tri_profile_table *table) {
  const int64_t row = (int64_t)sizeof *table->rows;
  tri_profile_row *own = NULL;
  tri_collected rows = {NULL, NULL};
  int64_t count = 0;
  tri_status status = own_rows(profile, &own, &count);
  if (status == TRI_OK)
    status = tri_alloc("ranks of a profile", (size_t)world->size, sizeof *table->seconds, &table->seconds);
  status = tri_common_status(world, status);
  if (status == TRI_OK) status = tri_gather_bytes(world, sizeof profile->seconds, &profile->seconds, table->seconds);
  if (status == TRI_OK) status = tri_collect(world, ROWS_TAG, count * row, own, &rows);
  tri_free(own);
  table->rows = rows.all;
  table->begins = rows.begins;
  table->ranks = world->size;
  for (int r = 0; r <= world->size && rows.begins != NULL; r++) table->begins[r] /= row;
  return status;
}

static void release(tri_profile_table *table) {
  tri_free(table->rows);
  tri_free(table->begins);
  tri_free(table->seconds);
}

/* ---- rates in a loop --------------------------------------------------------------------------------------------- */

/* A GEMM of the profiled steps, and its time in a loop. */
typedef struct gemm {
  tri_matmul product;
  double in_steps_s; /* seconds in the profiled steps, of all ranks */
  double loop_s;     /* seconds of a call in the loop; 0: not measured */
} gemm;

typedef struct rates {
  gemm gemms[MOST_GEMMS];
  int64_t count;
  double peak, copy; /* fastest GEMM in FLOP/s, copy in bytes read and written per second; 0: not measured */
} rates;

static int64_t count_rows(const tri_profile_table *table) {
  return table->begins == NULL ? 0 : table->begins[table->ranks];
}

static bool is_gemm(const tri_profile_row *row) { return row->product.k > 0 && row->groups == 0; }

static gemm *find_gemm(gemm *list, int64_t count, const tri_matmul *product) {
  for (int64_t i = 0; i < count; i++) {
    if (tri_kernel_times_same_product(&list[i].product, product)) return &list[i];
  }
  return NULL;
}

static int by_product(const void *a, const void *b) {
  return tri_kernel_times_compare_products(&((const gemm *)a)->product, &((const gemm *)b)->product);
}

static int by_time(const void *a, const void *b) {
  const double x = ((const gemm *)a)->in_steps_s, y = ((const gemm *)b)->in_steps_s;
  return x > y ? -1 : x < y ? 1 : 0;
}

/* Lists at most MOST_GEMMS GEMMs, those with the most time on all ranks together, in the order of this time. */
static tri_status choose_gemms(const tri_profile_table *table, rates *out) {
  const int64_t rows = count_rows(table);
  gemm *all = NULL;
  int64_t listed = 0, count = 0;
  TRI_TRY(tri_alloc("GEMMs of a profile", (size_t)rows, sizeof *all, &all));
  for (int64_t i = 0; i < rows; i++) {
    const tri_profile_row *row = &table->rows[i];
    if (is_gemm(row)) all[listed++] = (gemm){.product = row->product, .in_steps_s = row->seconds};
  }
  qsort(all, (size_t)listed, sizeof *all, by_product);
  for (int64_t i = 0; i < listed; i++) {
    if (count > 0 && by_product(&all[count - 1], &all[i]) == 0) {
      all[count - 1].in_steps_s += all[i].in_steps_s;
    } else {
      all[count++] = all[i];
    }
  }
  qsort(all, (size_t)count, sizeof *all, by_time);
  out->count = count < MOST_GEMMS ? count : MOST_GEMMS;
  memcpy(out->gemms, all, (size_t)out->count * sizeof *all);
  tri_free(all);
  return TRI_OK;
}

/* COLLECTIVE. Sets the rates of *r and the loop_s of its GEMMs. */
static tri_status measure_all(tri_measure *m, tri_dtype precision, rates *r) {
  const tri_measure_elements copy = {.work = TRI_WORK_COPY, .pass = TRI_PASS_FORWARD, .elements = COPIED};
  double copy_s = 0;
  TRI_TRY(tri_measure_peak(m, &r->peak));
  TRI_TRY(tri_measure_elements_s(m, &copy, &copy_s));
  const double bytes = 2.0 * (double)COPIED * (double)tri_dtype_bytes(tri_dtype_wide(precision));
  r->copy = copy_s > 0 ? bytes / copy_s : 0;
  for (int64_t i = 0; i < r->count; i++) {
    TRI_TRY(tri_measure_matmul_s(m, &r->gemms[i].product, &r->gemms[i].loop_s));
  }
  return TRI_OK;
}

/* COLLECTIVE. Sets *enough to whether the nodes of all ranks have memory for the measurements' operands. Only devices
 * that use the memory of the host are checked. */
static tri_status check_memory(const tri_device *device, const tri_group *world, bool *enough) {
  const size_t available = tri_system_memory_available();
  int64_t lacking = 0, on_node = 1;
  for (int rank = 0; rank < world->size; rank++)
    on_node += rank != world->rank && tri_group_node_of(world, rank) == tri_group_node_of(world, world->rank);
  if (device->info.host_memory && available > 0) lacking = available / (size_t)on_node < (size_t)LEAST_MEMORY;
  TRI_TRY(tri_all_sum_int64(world, 1, &lacking));
  *enough = lacking == 0;
  return TRI_OK;
}

/* COLLECTIVE. Measures the rates on all ranks at the same time. If there is not enough memory, logs a warning on the
 * first rank, and leaves the rates 0. */
static tri_status measure_rates(const tri_profile *profile, tri_device *device, const tri_group *world, rates *r) {
  const tri_measure_request request = {
      .device = device, .precision = profile->precision, .world = world, .each_s = EACH_S};
  tri_measure *m = NULL;
  bool enough = false;
  TRI_TRY(check_memory(device, world, &enough));
  tri_status status = enough ? tri_measure_create(&request, &m) : TRI_OUT_OF_MEMORY;
  if (status == TRI_OUT_OF_MEMORY) {
    if (world->rank == 0)
      tri_warn(
          "--profile: there is too little free memory to measure GEMMs in a loop, so the profile does not compare "
          "with their rates");
    return TRI_OK;
  }
  if (status == TRI_OK) status = measure_all(m, profile->precision, r);
  tri_measure_destroy(m);
  return status;
}

static void set_rates(const rates *r, tri_profile_table *table) {
  for (int64_t i = 0; i < count_rows(table); i++) {
    tri_profile_row *row = &table->rows[i];
    const gemm *same = is_gemm(row) ? find_gemm((gemm *)(uintptr_t)r->gemms, r->count, &row->product) : NULL;
    if (same != NULL && same->loop_s > 0) {
      row->rate = 2.0 * (double)row->product.m * (double)row->product.n * (double)row->product.k / same->loop_s;
    } else if (!is_gemm(row)) {
      row->rate = row->flops > 0 ? r->peak : row->bytes > 0 ? r->copy : 0;
    }
  }
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* LOCAL, on the first rank. Writes both files, sets profile->summary, and logs the files' names. */
static tri_status write_files(tri_profile *profile, const tri_profile_table *table) {
  char path[TRI_PATH_BYTES];
  tri_profile_describe(table, profile->summary, sizeof profile->summary);
  TRI_TRY(tri_drawing_name("--profile", profile->path, ".json", path));
  TRI_TRY(tri_profile_write_json(table, path));
  TRI_TRY(tri_drawing_name("--profile", profile->path, ".svg", path));
  TRI_TRY(tri_profile_write_svg(table, profile->summary, path));
  tri_log("profile of steps %ld to %ld: %s, and .json with every rank", (long)table->first + 1,
          (long)table->first + (long)table->steps, path);
  return TRI_OK;
}

/* COLLECTIVE. Sends the list of GEMMs from the first rank to all, measures them, and sets the rates of the rows. The
 * operands do not count in the device's peak of memory. */
static tri_status compare(const tri_profile *profile, tri_device *device, const tri_group *world,
                          tri_profile_table *table) {
  rates *r = NULL;
  TRI_TRY(tri_common_status(world, tri_alloc("rates", 1, sizeof *r, &r)));
  tri_status status = tri_first_rank_status(world, world->rank == 0 ? choose_gemms(table, r) : TRI_OK);
  if (status == TRI_OK) status = tri_broadcast(world, 0, sizeof *r, r);
  const size_t peak = device->memory_peak_bytes; /* the run's own peak, without the measurements' operands */
  if (status == TRI_OK) status = measure_rates(profile, device, world, r);
  device->memory_peak_bytes = peak;
  if (status == TRI_OK && world->rank == 0) set_rates(r, table);
  tri_free(r);
  return status;
}

tri_status tri_profile_write(tri_profile *profile, tri_device *device, const tri_mesh *mesh,
                             const tri_timeline_shares *shares, bool compares) {
  const tri_group *world = &mesh->world;
  tri_profile_table table = {.first = profile->first,
                             .steps = profile->steps,
                             .communication = tri_timeline_exposed(shares),
                             .waiting = shares->bubble};
  if (profile->times == NULL) return TRI_OK;
  tri_status status = collect(profile, world, &table);
  if (status == TRI_OK && compares) status = compare(profile, device, world, &table);
  if (status == TRI_OK && !compares && world->rank == 0)
    tri_warn("--profile: the run stops, so the profile does not compare with the rates of GEMMs in a loop");
  if (status == TRI_OK) status = tri_first_rank_status(world, world->rank == 0 ? write_files(profile, &table) : TRI_OK);
  release(&table);
  tri_profile_close(profile);
  return status;
}
