/* The best peak that was ever measured of a device, kept in the folder of the cache: on a busy machine, and before a
 * short run, a measurement comes out too low, and a share of it too high. A file holds one number, and says of what. */
#ifndef TRI_TRAIN_BEST_PEAK_H
#define TRI_TRAIN_BEST_PEAK_H

#include "device/device.h"

enum { TRI_PEAK_KEY_BYTES = 512 };

/* LOCAL. What a peak belongs to, in a line: the processor, the device with its threads, and the type of numbers. */
void tri_best_peak_key(const tri_device *device, tri_dtype type, bool tf32, char out[TRI_PEAK_KEY_BYTES]);

/* LOCAL. In FLOP/s; 0 if none is kept, or what lies there is damaged or somebody else's. */
double tri_best_peak_read(const char *folder, const char *key);

/* LOCAL. Replaces what is kept; makes the folder where it is missing. Of several processes the last one wins. */
tri_status tri_best_peak_write(const char *folder, const char *key, double flops);

#endif
