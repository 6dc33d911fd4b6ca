#include "device/timing.h"

#include "base/clock.h"

tri_status tri_device_time(tri_queue *queue, tri_device_work *work, void *context, int rounds, double *seconds) {
  if (queue->device->driver->time != NULL) return queue->device->driver->time(queue, work, context, rounds, seconds);
  TRI_TRY(tri_queue_finish(queue));
  const double begin = tri_clock_s();
  for (int i = 0; i < rounds; i++) TRI_TRY(work(queue, context, i));
  TRI_TRY(tri_queue_finish(queue));
  *seconds = tri_clock_s() - begin;
  return TRI_OK;
}
