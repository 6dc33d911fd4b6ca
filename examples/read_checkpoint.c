/* The tensors of a checkpoint, of a run's newest one or of a Hugging Face folder, each with the root of the sum of its
 * squares: read_checkpoint FOLDER */
#include <trireme/trireme.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static trireme_status print_tensor(const trireme_checkpoint *checkpoint, int64_t index) {
  int64_t elements = 1, i;
  int d, dims = trireme_checkpoint_num_dims(checkpoint, index);
  double *values, sum = 0;
  trireme_status status;
  for (d = 0; d < dims; d++) elements *= trireme_checkpoint_length(checkpoint, index, d);
  values = malloc((size_t)elements * sizeof *values);
  if (values == NULL) return TRIREME_OUT_OF_MEMORY;
  status = trireme_checkpoint_read(checkpoint, index, TRIREME_FP64, values, (size_t)elements * sizeof *values);
  for (i = 0; status == TRIREME_OK && i < elements; i++) sum += values[i] * values[i];
  free(values);
  if (status != TRIREME_OK) return status;
  printf("%s %s [", trireme_checkpoint_name(checkpoint, index), trireme_checkpoint_type(checkpoint, index));
  for (d = 0; d < dims; d++) {
    printf("%s%lld", d == 0 ? "" : ", ", (long long)trireme_checkpoint_length(checkpoint, index, d));
  }
  printf("] %.9g\n", sqrt(sum));
  return TRIREME_OK;
}

int main(int count, char **words) {
  trireme_checkpoint *checkpoint = NULL;
  trireme_status status;
  int64_t i;
  if (count != 2) {
    fprintf(stderr, "usage: read_checkpoint FOLDER\n");
    return 2;
  }
  status = trireme_checkpoint_open(words[1], &checkpoint);
  if (status == TRIREME_OK) {
    printf("%s, step %lld\n", trireme_checkpoint_path(checkpoint), (long long)trireme_checkpoint_step(checkpoint));
  }
  for (i = 0; status == TRIREME_OK && i < trireme_checkpoint_num_tensors(checkpoint); i++) {
    status = print_tensor(checkpoint, i);
  }
  trireme_checkpoint_close(checkpoint);
  if (status != TRIREME_OK) fprintf(stderr, "read_checkpoint: %s\n", trireme_message());
  return status == TRIREME_OK ? 0 : 1;
}
