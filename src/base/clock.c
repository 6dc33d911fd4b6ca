#include "base/clock.h"

#include <stdio.h>
#include <time.h>

double tri_clock_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void tri_pause_s(double seconds) {
  struct timespec pause = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
  nanosleep(&pause, NULL);
}

char *tri_clock_text(char out[TRI_CLOCK_TEXT_BYTES]) {
  struct timespec now;
  struct tm parts;
  clock_gettime(CLOCK_REALTIME, &now);
  gmtime_r(&now.tv_sec, &parts);
  const size_t length = strftime(out, TRI_CLOCK_TEXT_BYTES, "%Y-%m-%dT%H:%M:%S", &parts);
  snprintf(out + length, TRI_CLOCK_TEXT_BYTES - length, ".%03ldZ", now.tv_nsec / 1000000);
  return out;
}
