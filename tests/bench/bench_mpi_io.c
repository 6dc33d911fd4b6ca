/* Writing a shared file by MPI-IO (collectively, and each rank by itself) beside pwrite of the same slices, in turn:
 *
 *   mpiexec -n 2 build/bench_mpi_io FOLDER [MiB] [rounds]
 *
 * Two shapes of what a rank holds of tensors of 1024 x 3072 floats: rows (the ranks' parts follow on each other, as
 * under ZeRO) and columns (a piece of each row, as under tensor parallelism). Seconds until the file is flushed. */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROWS = 1024, COLUMNS = 3072, WAYS = 3, SHAPES = 2 };
static const char *const ways[WAYS] = {"MPI_File_write_all", "MPI_File_write", "pwrite"};
static const char *const shapes[SHAPES] = {"rows", "columns"};

static int rank, ranks;

/* This rank's part of one tensor: `runs` pieces of `count` floats, `apart` floats from one to the next. */
typedef struct part {
  long first, runs, count, apart;
} part;

static part part_of(int shape) {
  if (shape == 0) return (part){(long)rank * (ROWS / ranks) * COLUMNS, 1, (long)(ROWS / ranks) * COLUMNS, COLUMNS};
  return (part){(long)rank * (COLUMNS / ranks), ROWS, COLUMNS / ranks, COLUMNS};
}

static void die(const char *what) {
  fprintf(stderr, "rank %d: %s failed\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void by_mpi(const char *path, const part *p, long tensors, const float *data, int collective) {
  MPI_File file;
  MPI_Datatype one, view;
  long tensor = (long)ROWS * COLUMNS;
  if (MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_WRONLY, MPI_INFO_NULL, &file) != MPI_SUCCESS) die("MPI_File_open");
  MPI_Type_vector((int)p->runs, (int)p->count, (int)p->apart, MPI_FLOAT, &one);
  MPI_Type_create_resized(one, 0, tensor * (long)sizeof(float), &view);
  MPI_Type_commit(&view);
  if (MPI_File_set_view(file, p->first * (long)sizeof(float), MPI_FLOAT, view, "native", MPI_INFO_NULL) !=
      MPI_SUCCESS) {
    die("MPI_File_set_view");
  }
  for (long t = 0; t < tensors; t++) {
    const float *from = data + t * p->runs * p->count;
    int count = (int)(p->runs * p->count);
    int fault = collective ? MPI_File_write_all(file, from, count, MPI_FLOAT, MPI_STATUS_IGNORE)
                           : MPI_File_write(file, from, count, MPI_FLOAT, MPI_STATUS_IGNORE);
    if (fault != MPI_SUCCESS) die("MPI_File_write");
  }
  MPI_File_sync(file);
  MPI_File_close(&file);
  MPI_Type_free(&view);
  MPI_Type_free(&one);
}

static void by_pwrite(const char *path, const part *p, long tensors, const float *data) {
  int file = open(path, O_WRONLY);
  if (file < 0) die("open");
  for (long t = 0; t < tensors; t++) {
    for (long r = 0; r < p->runs; r++) {
      size_t bytes = (size_t)p->count * sizeof(float);
      off_t at = (off_t)((t * ROWS * COLUMNS + p->first + r * p->apart) * (long)sizeof(float));
      if (pwrite(file, data + (t * p->runs + r) * p->count, bytes, at) != (ssize_t)bytes) die("pwrite");
    }
  }
  if (fsync(file) != 0) die("fsync");
  close(file);
}

static double timed(const char *path, int way, const part *p, long tensors, const float *data) {
  if (rank == 0) {
    unlink(path);
    int file = open(path, O_WRONLY | O_CREAT, 0666);
    if (file < 0 || ftruncate(file, (off_t)(tensors * ROWS * COLUMNS * (long)sizeof(float))) != 0) die("ftruncate");
    close(file);
    sync();
  }
  MPI_Barrier(MPI_COMM_WORLD);
  double begin = MPI_Wtime();
  if (way == 2) {
    by_pwrite(path, p, tensors, data);
  } else {
    by_mpi(path, p, tensors, data, way == 0);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  return MPI_Wtime() - begin;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  char path[4096];
  long mebibytes = argc > 2 ? atol(argv[2]) : 768, rounds = argc > 3 ? atol(argv[3]) : 5;
  if (argc < 2 || mebibytes < 12 || ROWS % ranks != 0 || COLUMNS % ranks != 0) die("usage: bench_mpi_io FOLDER [MiB]");
  snprintf(path, sizeof path, "%s/bench-mpi-io", argv[1]);
  long tensors = mebibytes / 12, mine = tensors * ROWS * COLUMNS / ranks;
  float *data = malloc((size_t)mine * sizeof *data);
  for (long i = 0; i < mine; i++) data[i] = (float)i;
  if (rank == 0) printf("| MiB %ld, ranks %d | %s | %s | %s |\n", tensors * 12, ranks, ways[0], ways[1], ways[2]);
  for (long round = 0; round < rounds; round++) {
    for (int shape = 0; shape < SHAPES; shape++) {
      part p = part_of(shape);
      if (rank == 0) printf("| round %ld, %s |", round + 1, shapes[shape]);
      for (int way = 0; way < WAYS; way++) {
        double seconds = timed(path, way, &p, tensors, data);
        if (rank == 0) printf(" %.2f s |", seconds);
      }
      if (rank == 0) printf("\n");
    }
  }
  if (rank == 0) unlink(path);
  free(data);
  MPI_Finalize();
  return 0;
}
