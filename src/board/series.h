/* The metrics of a run that may go on, held in columns: read once, then only what has been added. */
#ifndef TRI_BOARD_SERIES_H
#define TRI_BOARD_SERIES_H

#include "base/file.h"
#include "base/status.h"
#include "board/metrics_line.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

enum { TRI_SERIES_TAIL_BYTES = 64 };

/* Numbers under a name that only some kinds of training have. */
typedef struct tri_series_named {
  char name[TRI_BOARD_NAME_BYTES];
  float *values;
} tri_series_named;

/* Starts as {.root = ..., .path = ...}. */
typedef struct tri_series {
  const char *root;          /* a folder that others may write in, and outlives this */
  char path[TRI_PATH_BYTES]; /* below it */
  /* [count], by rising step; seconds is how long the steps up to this one took together. */
  int64_t *steps, *tokens;
  double *seconds;
  float *columns[TRI_BOARD_COLUMNS];       /* NULL until there is a value that is finite: most runs have no experts */
  tri_series_named named[TRI_BOARD_NAMED]; /* the first names that came; others are passed over */
  int64_t num_named;
  int64_t count, room;
  char *share;     /* where time went, by the last line that says it: JSON, or NULL */
  int64_t most;    /* of `count`: when it is reached nothing is read on; 0: no limit */
  int64_t version; /* another whenever anything above has changed */
  int64_t rewinds; /* how often the file went back to an earlier step, or was cut or replaced, while it was read */
  int64_t num_odd; /* lines that do not belong to a step */
  int64_t bytes;   /* of the file */
  int64_t offset;  /* read up to here: behind a newline, but for `passing` */
  bool passing;    /* in the middle of a line that is too long to be one */
  struct timespec changed;
  dev_t device;
  ino_t inode;
  char tail[TRI_SERIES_TAIL_BYTES]; /* the bytes before offset */
  size_t tail_bytes;
} tri_series;

/* LOCAL. Reads on, at most `most_bytes` and no line that has no newline yet; *more where there is more to read at once.
 * A file that has been cut or replaced is read again. A file that is gone, or no plain one, is TRI_BAD_FILE, and what
 * is held stays. */
tri_status tri_series_read(tri_series *series, size_t most_bytes, bool *more);
void tri_series_release(tri_series *series);
/* Whether it holds as many steps as it may; what else is in the file is not read, unless that is cut or replaced. */
bool tri_series_is_full(const tri_series *series);

/* ---- drawing (buckets.c) ----------------------------------------------------------------------------------------- */

#define TRI_BOARD_AXES(X)                                                                                              \
  X(STEP, step)                                                                                                        \
  X(TOKENS, tokens)                                                                                                    \
  X(TIME, time)
#define TRI_BOARD_AXIS_VALUE(VALUE, word) TRI_BOARD_AXIS_##VALUE,
typedef enum tri_board_axis { TRI_BOARD_AXES(TRI_BOARD_AXIS_VALUE) } tri_board_axis;

/* What is to be drawn: `points` columns of pixels from `from` to `to`, or, where these are NaN, to the series' ends. */
typedef struct tri_bucket_request {
  tri_board_axis axis;
  double from, to;
  int64_t points;
  double smoothing; /* steps that noisy columns are averaged over, about; 1: as they are */
} tri_bucket_request;

/* The steps that fall on one column of pixels. */
typedef struct tri_bucket {
  int64_t count;    /* of values that are finite */
  double low, high; /* of them, as they were measured */
  double middle;    /* their mean; smoothed: the last */
} tri_bucket;

typedef struct tri_bucket_place {
  int64_t count;      /* of steps, whatever their values */
  double first, last; /* of their places on the axis */
} tri_bucket_place;

/* LOCAL. places[points], and buckets[TRI_BOARD_COLUMNS + num_named][points] one column behind the other. An exponential
 * mean begins at the first step whatever is looked at, and counts what it has: after n values the k-th last weighs w^k
 * / (sum of all w^k), w = 1 - 1 / smoothing. */
void tri_series_buckets(const tri_series *series, const tri_bucket_request *request, tri_bucket_place *places,
                        tri_bucket *buckets);

/* The i-th step's value in a column, or NaN. */
double tri_series_value(const tri_series *series, tri_board_column column, int64_t i);

/* The values of a column, or, from TRI_BOARD_COLUMNS on, of a named number [count]; NULL: there are none. */
const float *tri_series_values(const tri_series *series, int64_t column);
/* Whether a mean over many steps says more: not of what is measured rarely, on held-out samples. */
bool tri_series_is_noisy(const tri_series *series, int64_t column);

/* Where the i-th step lies. */
double tri_series_place(const tri_series *series, tri_board_axis axis, int64_t i);

#endif
