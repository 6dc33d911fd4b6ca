/* The best peak that was ever measured on a device, stored in the cache folder: on a busy machine, or before a short
 * run, a measurement is too low, and MFU too high. A file has one number, and the key that it belongs to. */
#ifndef TRI_TRAIN_BEST_PEAK_H
#define TRI_TRAIN_BEST_PEAK_H

#include "device/device.h"

enum { TRI_PEAK_KEY_BYTES = 512 };

/* LOCAL. Writes the key of a peak, one line: the processor, the device with its threads, the type of activations, and
 * whether TF32 is allowed. */
void tri_best_peak_key(const tri_device *device, tri_dtype type, bool tf32, char out[TRI_PEAK_KEY_BYTES]);

/* LOCAL. Returns the stored peak in FLOP/s; 0 if there is none, or the file is damaged or has another key. */
double tri_best_peak_read(const char *folder, const char *key);

/* LOCAL. Replaces the stored peak; creates the folder if it is missing. If several processes write, the last one wins.
 */
tri_status tri_best_peak_write(const char *folder, const char *key, double flops);

#endif
