/* The mean of several checkpoints of one model, as a new Hugging Face folder: average_checkpoints NEW FOLDER FOLDER...
 * Their tensors are added up as doubles, one model of them in memory. */
#include <trireme/trireme.h>

#include <stdio.h>
#include <stdlib.h>

enum { MOST_DIMS = 8 };

typedef struct tensor {
  float *values;
  int64_t elements, lengths[MOST_DIMS];
  int dims;
} tensor;

/* The whole of config.json in a folder; NULL where it cannot be read. */
static char *read_config(const char *folder) {
  char path[4096], *text = calloc(1, 1 << 16);
  FILE *file;
  if (text == NULL || snprintf(path, sizeof path, "%s/config.json", folder) >= (int)sizeof path) return text;
  file = fopen(path, "rb");
  if (file == NULL || fread(text, 1, (1 << 16) - 1, file) == 0) text[0] = '\0';
  if (file != NULL) fclose(file);
  return text;
}

/* Adds the tensor of that name of each, in the order of the first. */
static trireme_status compute_mean(trireme_checkpoint **from, int count, int64_t index, tensor *out) {
  const char *name = trireme_checkpoint_name(from[0], index);
  double *one, *sum;
  int64_t i;
  int k, d;
  trireme_status status = TRIREME_OK;
  out->elements = 1;
  out->dims = trireme_checkpoint_num_dims(from[0], index);
  for (d = 0; d < out->dims && d < MOST_DIMS; d++) {
    out->lengths[d] = trireme_checkpoint_length(from[0], index, d);
    out->elements *= out->lengths[d];
  }
  one = malloc((size_t)out->elements * sizeof *one);
  sum = calloc((size_t)out->elements, sizeof *sum);
  out->values = malloc((size_t)out->elements * sizeof *out->values);
  if (one == NULL || sum == NULL || out->values == NULL) status = TRIREME_OUT_OF_MEMORY;
  for (k = 0; status == TRIREME_OK && k < count; k++) {
    status = trireme_checkpoint_read(from[k], trireme_checkpoint_find(from[k], name), TRIREME_FP64, one,
                                     (size_t)out->elements * sizeof *one);
    for (i = 0; status == TRIREME_OK && i < out->elements; i++) sum[i] += one[i];
  }
  for (i = 0; status == TRIREME_OK && i < out->elements; i++) out->values[i] = (float)(sum[i] / count);
  free(one);
  free(sum);
  return status;
}

static trireme_status average(trireme_checkpoint **from, int count, const char *to) {
  int64_t tensors = trireme_checkpoint_num_tensors(from[0]), i;
  tensor *means = calloc((size_t)tensors, sizeof *means);
  char *config = read_config(trireme_checkpoint_path(from[0]));
  trireme_checkpoint_writer *writer = NULL;
  trireme_status status = means == NULL || config == NULL ? TRIREME_OUT_OF_MEMORY : TRIREME_OK;
  if (status == TRIREME_OK) status = trireme_checkpoint_writer_create(to, config, &writer);
  for (i = 0; status == TRIREME_OK && i < tensors; i++) {
    status = compute_mean(from, count, i, &means[i]);
    if (status != TRIREME_OK) break;
    status = trireme_checkpoint_writer_add(writer, trireme_checkpoint_name(from[0], i), TRIREME_FP32, means[i].dims,
                                           means[i].lengths, means[i].values);
  }
  if (status == TRIREME_OK) status = trireme_checkpoint_writer_commit(writer);
  trireme_checkpoint_writer_destroy(writer);
  for (i = 0; means != NULL && i < tensors; i++) free(means[i].values);
  free(means);
  free(config);
  return status;
}

int main(int count, char **words) {
  enum { MOST = 16 };
  trireme_checkpoint *from[MOST] = {NULL};
  trireme_status status = TRIREME_OK;
  int k, models = count - 2;
  if (models < 1 || models > MOST) {
    fprintf(stderr, "usage: average_checkpoints NEW FOLDER FOLDER... (at most %d)\n", MOST);
    return 2;
  }
  for (k = 0; status == TRIREME_OK && k < models; k++) status = trireme_checkpoint_open(words[2 + k], &from[k]);
  if (status == TRIREME_OK) status = average(from, models, words[1]);
  for (k = 0; k < models; k++) trireme_checkpoint_close(from[k]);
  if (status != TRIREME_OK) fprintf(stderr, "average_checkpoints: %s\n", trireme_message());
  return status == TRIREME_OK ? 0 : 1;
}
