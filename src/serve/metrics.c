#include "serve/metrics.h"

#include "http/exposition.h"

#include <stdio.h>
#include <stdlib.h>

const double tri_serve_delays[TRI_SERVE_DELAYS] = {0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60};

typedef struct metric_row {
  tri_metric_family family;
  int64_t value;
} metric_row;

static void write_delays(FILE *out, const tri_serve_counters *c) {
  static const tri_metric_family family = {"trireme_time_to_first_token_seconds", "histogram",
                                           "Time from the acceptance of a request to its first token."};
  int64_t count = 0;
  tri_exposition_family(out, &family);
  for (int i = 0; i <= TRI_SERVE_DELAYS; i++) {
    char limit[32] = "+Inf";
    if (i < TRI_SERVE_DELAYS) snprintf(limit, sizeof limit, "%g", tri_serve_delays[i]);
    const tri_metric_label labels[TRI_METRIC_LABELS] = {{"le", limit}};
    count += c->delays[i];
    tri_exposition_value(out, &family, "_bucket", labels, (double)count);
  }
  tri_exposition_value(out, &family, "_sum", NULL, c->delays_s);
  tri_exposition_value(out, &family, "_count", NULL, (double)count);
}

char *tri_serve_metrics(tri_serve_front *front) {
  char *text = NULL;
  size_t bytes = 0;
  pthread_mutex_lock(&front->mutex);
  const tri_serve_counters c = front->counters;
  pthread_mutex_unlock(&front->mutex);
  const metric_row rows[] = {
      {{"trireme_requests_accepted_total", "counter", "Requests for text that were accepted."}, c.accepted},
      {{"trireme_requests_completed_total", "counter", "Requests that were answered."}, c.completed},
      {{"trireme_requests_cancelled_total", "counter", "Requests whose client left."}, c.cancelled},
      {{"trireme_requests_failed_total", "counter", "Accepted requests that were answered with an error."}, c.failed},
      {{"trireme_requests_refused_total", "counter", "Requests that were not accepted."}, c.refused},
      {{"trireme_requests_running", "gauge", "Requests whose texts are being written."}, c.running},
      {{"trireme_requests_waiting", "gauge", "Requests in the queue."}, c.waiting},
      {{"trireme_prompt_tokens_total", "counter", "Tokens of the prompts."}, c.prompt_tokens},
      {{"trireme_generation_tokens_total", "counter", "Tokens that were sampled."}, c.sampled_tokens},
      {{"trireme_cached_tokens_total", "counter", "Tokens of prompts that were found in the first replica's cache."},
       c.found_tokens},
      {{"trireme_cache_pages", "gauge", "Pages of keys and values of the first replica."}, c.pages},
      {{"trireme_cache_pages_free", "gauge", "Pages that no text in progress uses."}, c.free_pages},
  };
  FILE *out = open_memstream(&text, &bytes);
  if (out == NULL) return NULL;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tri_exposition_family(out, &rows[i].family);
    tri_exposition_value(out, &rows[i].family, "", NULL, (double)rows[i].value);
  }
  write_delays(out, &c);
  if (fclose(out) == 0) return text;
  free(text);
  return NULL;
}
