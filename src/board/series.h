/* Metrics of a run, which may be in progress, in columns. The file is read once; later only the bytes that were
 * appended are read. */
#ifndef TRI_BOARD_SERIES_H
#define TRI_BOARD_SERIES_H

#include "base/status.h"
#include "board/metrics_line.h"
#include "files/file.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

enum { TRI_SERIES_TAIL_BYTES = 64 };

/* Values of a named number, which only some kinds of training have. */
typedef struct tri_series_named {
  char name[TRI_METRIC_NAME_BYTES];
  float *values;
} tri_series_named;

/* Starts as {.root = ..., .path = ...}. */
typedef struct tri_series {
  const char *root;          /* folder that other users may write in; must outlive the series */
  char path[TRI_PATH_BYTES]; /* path of the file, relative to root */
  /* [count], by ascending step; seconds: duration of all steps up to and including each step. */
  int64_t *steps, *tokens;
  double *seconds;
  float *columns[TRI_BOARD_COLUMNS]; /* [count]; NULL until the column has a finite value: for example, most runs have
                                        no experts */
  tri_series_named *named; /* [num_named]: the first TRI_MOST_NAMED_METRICS names that occur; later names are ignored */
  int64_t num_named, room_named;
  int64_t count, room;
  char *share;     /* share of time by category in the last line that has it: JSON, or NULL */
  int64_t most;    /* limit of tri_series_size; reading stops when the limit is reached; 0: no limit */
  int64_t version; /* number that changes whenever a member above does */
  int64_t rewinds; /* how often the file went back to an earlier step, or was cut or replaced, while it was read */
  int64_t num_odd; /* number of lines that are not a step */
  int64_t bytes;   /* size of the file */
  int64_t offset;  /* position up to which the file is read; it is after a newline, unless `passing` */
  bool passing;    /* whether `offset` is inside a line that is too long; the rest of that line is skipped */
  /* Time of the last change, device and inode of the file when it was read last. */
  struct timespec changed;
  dev_t device;
  ino_t inode;
  char tail[TRI_SERIES_TAIL_BYTES]; /* the last bytes before `offset` */
  size_t tail_bytes;
} tri_series;

/* LOCAL. Reads at most `most_bytes` more bytes (at least 1 MiB), and no line without a newline. Sets *more to whether
 * more can be read immediately. A file that was cut or replaced is read from its beginning. Fails with
 * TRI_BAD_FILE if the file does not exist or is not a plain file; the series is unchanged then. */
tri_status tri_series_read(tri_series *series, size_t most_bytes, bool *more);
void tri_series_release(tri_series *series);
/* Returns whether the series has reached its limit. The rest of the file is not read, unless the file is cut or
 * replaced. */
bool tri_series_is_full(const tri_series *series);
/* Returns the number of steps as a measure of memory. For a run with many named numbers, whose steps take more memory,
 * the number is multiplied by a factor above 1. */
int64_t tri_series_size(const tri_series *series);

/* ---- drawing (buckets.c) ----------------------------------------------------------------------------------------- */

#define TRI_BOARD_AXES(X)                                                                                              \
  X(STEP, step)                                                                                                        \
  X(TOKENS, tokens)                                                                                                    \
  X(TIME, time)
#define TRI_BOARD_AXIS_VALUE(VALUE, word) TRI_BOARD_AXIS_##VALUE,
typedef enum tri_board_axis { TRI_BOARD_AXES(TRI_BOARD_AXIS_VALUE) } tri_board_axis;

/* The part of a series to draw: `points` columns of pixels between the positions `from` and `to` on the axis. NaN
 * stands for the beginning or the end of the series. */
typedef struct tri_bucket_request {
  tri_board_axis axis;
  double from, to;
  int64_t points;
  double smoothing; /* approximate number of steps over which noisy columns are averaged; 1: no smoothing */
} tri_bucket_request;

/* The values of one column of a series in one column of pixels. */
typedef struct tri_bucket {
  int64_t count;    /* number of finite values */
  double low, high; /* lowest and highest measured value of the steps */
  double middle;    /* mean of the values; with smoothing: the last smoothed value */
} tri_bucket;

typedef struct tri_bucket_place {
  int64_t count;      /* number of steps, whatever their values */
  double first, last; /* positions of the first and the last step on the axis */
} tri_bucket_place;

/* LOCAL. Computes places[points], and buckets[TRI_BOARD_COLUMNS + num_named][points], column after column. Smoothing is
 * an exponential mean that starts at the first step, whatever range is drawn. The mean is normalised: after n values
 * the k-th last value has the weight w^k / (sum of all w^k), w = 1 - 1 / smoothing. */
void tri_series_buckets(const tri_series *series, const tri_bucket_request *request, tri_bucket_place *places,
                        tri_bucket *buckets);

/* Returns the i-th step's value in a column, or NaN. */
double tri_series_value(const tri_series *series, tri_board_column column, int64_t i);

/* Returns the name of a column in the file and on the page. */
const char *tri_series_name(const tri_series *series, int64_t column);
/* Returns the values [count] of a column; a number from TRI_BOARD_COLUMNS on is that of a named number. Returns NULL if
 * the column has no values. */
const float *tri_series_values(const tri_series *series, int64_t column);
/* Returns whether smoothing a column is useful. It is not useful for values that are rarely measured (those of held-out
 * samples) or have no noise (lr). */
bool tri_series_is_noisy(const tri_series *series, int64_t column);

/* Returns the position of the i-th step on the axis. */
double tri_series_place(const tri_series *series, tri_board_axis axis, int64_t i);

#endif
