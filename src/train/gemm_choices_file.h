/* OUTPUT/products.json: the run's GEMM choices (device/gemm_choices.h). */
#ifndef TRI_TRAIN_GEMM_CHOICES_FILE_H
#define TRI_TRAIN_GEMM_CHOICES_FILE_H

#include "device/gemm_choices.h"

#include <stdbool.h>

typedef struct tri_gemm_choices_file {
  char chooser[TRI_DEVICE_GEMM_LIBRARY_BYTES]; /* name of the chooser (device/gemm_choices.h) */
  bool timed;                                  /* whether the choices were made by measurement */
  char *choices;                               /* one per line; release with tri_free */
} tri_gemm_choices_file;

/* LOCAL. Read and write the file. *found is false if it does not exist; *out is then not set. The read fails with
 * TRI_BAD_FILE if the file is not plain, is damaged (its checksum is wrong) or has another version: the caller then
 * chooses again and rewrites it. */
tri_status tri_gemm_choices_file_read(const char *path, bool *found, tri_gemm_choices_file *out);
tri_status tri_gemm_choices_file_write(const char *path, const tri_gemm_choices_file *file);

#endif
