/* Text in Prometheus's exposition format, version 0.0.4
 * (https://prometheus.io/docs/instrumenting/exposition_formats). */
#ifndef TRI_HTTP_EXPOSITION_H
#define TRI_HTTP_EXPOSITION_H

#include <stdio.h>

/* The Content-Type of such a text. */
#define TRI_EXPOSITION_TYPE "text/plain; version=0.0.4; charset=utf-8"

typedef struct tri_metric_family {
  const char *name, *kind, *help; /* kind: counter, gauge or histogram; help: one sentence */
} tri_metric_family;

typedef struct tri_metric_label {
  const char *name, *value; /* value: UTF-8; NULL: the label is left out */
} tri_metric_label;

enum { TRI_METRIC_LABELS = 2 };

/* Writes the lines with the help and the kind of a family. The family's values follow directly. */
void tri_exposition_family(FILE *to, const tri_metric_family *family);

/* Writes a line with a value of a family. `ending`: added to the family's name ("_bucket" of a histogram), "" for none.
 * `labels` NULL: the line has no labels. */
void tri_exposition_value(FILE *to, const tri_metric_family *family, const char *ending,
                          const tri_metric_label labels[TRI_METRIC_LABELS], double value);

#endif
