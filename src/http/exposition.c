#include "http/exposition.h"

#include <math.h>
#include <stddef.h>

void tri_exposition_family(FILE *to, const tri_metric_family *family) {
  fprintf(to, "# HELP %s %s\n# TYPE %s %s\n", family->name, family->help, family->name, family->kind);
}

/* Writes the value of a label in quotes; a backslash, a quote and a line break are escaped. */
static void write_quoted(FILE *to, const char *text) {
  fputc('"', to);
  for (; *text != '\0'; text++) {
    if (*text == '\n') {
      fputs("\\n", to);
    } else {
      if (*text == '\\' || *text == '"') fputc('\\', to);
      fputc(*text, to);
    }
  }
  fputc('"', to);
}

static void write_number(FILE *to, double value) {
  if (isnan(value)) {
    fputs("NaN", to);
  } else if (isinf(value)) {
    fputs(value > 0 ? "+Inf" : "-Inf", to);
  } else {
    fprintf(to, "%.15g", value);
  }
}

void tri_exposition_value(FILE *to, const tri_metric_family *family, const char *ending,
                          const tri_metric_label labels[TRI_METRIC_LABELS], double value) {
  const char *before = "{";
  fprintf(to, "%s%s", family->name, ending);
  for (int i = 0; labels != NULL && i < TRI_METRIC_LABELS; i++) {
    if (labels[i].value == NULL) continue;
    fprintf(to, "%s%s=", before, labels[i].name);
    write_quoted(to, labels[i].value);
    before = ",";
  }
  fputs(*before == ',' ? "} " : " ", to);
  write_number(to, value);
  fputc('\n', to);
}
