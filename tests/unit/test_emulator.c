/* The emulator and its fibers: guarantees that kernels may rely on, and mistakes that change results, made by small
 * kernels here. Tests of warps also run with warps of 64. */
#include "emulator_test.h"

#include "device/emulated/fiber.h"

#include <pthread.h>

/* ---- barriers ---------------------------------------------------------------------------------------------------- */

static bool same_bytes(const void *left, const void *right, size_t bytes) { return memcmp(left, right, bytes) == 0; }

static void test_barriers(void **state) {
  (void)state;
  static const uint32_t threads[] = {64, 192, 256, 1024};
  static float out[3 * MOST];
  for (uint64_t seed = 0; seed < NUM_SEEDS; seed++) {
    for (int i = 0; i < 4; i++) {
      memset(out, 0xff, sizeof out);
      CHECK_OK(run(&(shape){.seed = seed, .x = 3, .threads = threads[i]}, SYMBOL(neighbour),
                   &(neighbour_arguments){out, 1}));
      assert_int_equal(count_wrong(out, 3, (int)threads[i]), 0);
    }
  }
}

/* A kernel with a race has wrong results under every seed, and different ones. */
static void test_a_missing_barrier_shows(void **state) {
  (void)state;
  static float out[NUM_SEEDS][256];
  int alike = 0;
  for (uint64_t seed = 0; seed < NUM_SEEDS; seed++) {
    CHECK_OK(
        run(&(shape){.seed = seed, .x = 1, .threads = 256}, SYMBOL(neighbour), &(neighbour_arguments){out[seed], 0}));
    assert_true(count_wrong(out[seed], 1, 256) > 20);
    for (uint64_t other = 0; other < seed; other++) alike += same_bytes(out[seed], out[other], sizeof out[seed]);
  }
  assert_int_equal(alike, 0);
}

typedef struct rounds_arguments {
  float *out;
  int barrier_too;
} rounds_arguments;

/* Computes a sum over neighbours in rounds. Without the barrier after the read, some threads write before others have
 * read. */
KERNEL(rounds) {
  SHARED(numbers, shared);
  float sum = (float)thread();
  for (int round = 0; round < 4; round++) {
    shared->each[thread()] = sum;
    barrier();
    sum += shared->each[(thread() + 5) % threads()];
    if (a.barrier_too) barrier();
  }
  a.out[thread()] = sum;
}

static void test_a_missing_barrier_between_rounds_shows(void **state) {
  (void)state;
  static float right[128], out[128];
  int wrong = 0;
  CHECK_OK(run(&(shape){.x = 1, .threads = 128}, SYMBOL(rounds), &(rounds_arguments){right, 1}));
  for (uint64_t seed = 1; seed <= NUM_SEEDS; seed++) {
    CHECK_OK(run(&(shape){.seed = seed, .x = 1, .threads = 128}, SYMBOL(rounds), &(rounds_arguments){out, 1}));
    assert_memory_equal(out, right, sizeof out);
    CHECK_OK(run(&(shape){.seed = seed, .x = 1, .threads = 128}, SYMBOL(rounds), &(rounds_arguments){out, 0}));
    wrong += !same_bytes(out, right, sizeof out);
  }
  assert_in_range(wrong, NUM_SEEDS / 2, NUM_SEEDS);
}

/* ---- warps ------------------------------------------------------------------------------------------------------- */

typedef struct warps_arguments {
  double *out;
  int warp;
} warps_arguments;

/* All masks, in three types, with a warp_barrier between that other warps do not reach. */
KERNEL(warps) {
  double sum = 0;
  for (int mask = 1; mask < a.warp; mask++) {
    const int other = thread() ^ mask;
    if (shuffle_int(thread() * 7, mask) != other * 7) sum += 1e6;
    if (shuffle_float((float)thread() + 0.5f, mask) != (float)other + 0.5f) sum += 1e6;
    if (shuffle_double(thread() + 0.25, mask) != other + 0.25) sum += 1e6;
    if (thread() / a.warp % 2 == 1) warp_barrier();
    sum += mask;
  }
  a.out[thread()] = sum;
}

static void test_shuffles(void **state) {
  (void)state;
  static double out[256];
  for (uint64_t seed = 0; seed < NUM_SEEDS; seed++) {
    for (int warp = 32; warp <= 64; warp *= 2) {
      CHECK_OK(run(&(shape){.warp = warp, .seed = seed, .x = 1, .threads = 256}, SYMBOL(warps),
                   &(warps_arguments){out, warp}));
      for (int t = 0; t < 256; t++) assert_int_equal((int)out[t], warp * (warp - 1) / 2);
    }
  }
}

typedef struct shared_bytes_arguments {
  int *out;
  int warp;
} shared_bytes_arguments;

typedef struct given {
  int words[TRI_EMULATOR_SHARE_BYTES / sizeof(int)];
} given;

/* Values that a warp has shared stay valid during the lane's next call. */
KERNEL(shared_bytes) {
  const given *before = NULL;
  int wrong = 0;
  for (int round = 0; round < 10; round++) {
    given own;
    for (int i = 0; i < 16; i++) own.words[i] = round * 10000 + thread() * 16 + i;
    const given *all = tri_emulator_share(&own, sizeof own, __FILE__, __LINE__);
    const int first = thread() / a.warp * a.warp;
    for (int l = 0; l < a.warp; l++) {
      for (int i = 0; i < 16; i++) {
        wrong += all[l].words[i] != round * 10000 + (first + l) * 16 + i;
        wrong += before != NULL && before[l].words[i] != (round - 1) * 10000 + (first + l) * 16 + i;
      }
    }
    before = all;
  }
  a.out[thread()] = wrong;
}

static void test_what_a_warp_shares(void **state) {
  (void)state;
  static int out[256];
  for (uint64_t seed = 0; seed < NUM_SEEDS; seed++) {
    for (int warp = 32; warp <= 64; warp *= 2) {
      memset(out, 0xff, sizeof out);
      CHECK_OK(run(&(shape){.warp = warp, .seed = seed, .x = 1, .threads = 256}, SYMBOL(shared_bytes),
                   &(shared_bytes_arguments){out, warp}));
      for (int t = 0; t < 256; t++) assert_int_equal(out[t], 0);
    }
  }
}

typedef struct sums_arguments {
  float *sums, *most;
  double *doubles;
} sums_arguments;

KERNEL(sums) {
  SHARED(numbers, each);
  SHARED(numbers, more);
  SHARED(numbers, doubles);
  a.sums[thread()] = block_sum((float)(thread() % 10), each->each);
  a.most[thread()] = block_maximum((float)(thread() * 37 % 101), more->each);
  a.doubles[thread()] = block_sum_double(thread() + 0.5, (double *)(void *)doubles->each);
}

static void test_sums_of_blocks(void **state) {
  (void)state;
  static float sums[320], most[320];
  static double doubles[320];
  for (uint64_t seed = 0; seed < NUM_SEEDS; seed++) {
    CHECK_OK(run(&(shape){.seed = seed, .x = 2, .threads = 320}, SYMBOL(sums), &(sums_arguments){sums, most, doubles}));
    for (int t = 0; t < 320; t++) {
      assert_true(sums[t] == 32 * 45.0f);
      assert_true(most[t] == 100);
      assert_true(doubles[t] == 320 * 160.0);
    }
  }
}

/* ---- orders ------------------------------------------------------------------------------------------------------ */

enum { GRID_X = 5, GRID_Y = 3, GRID_Z = 2, BLOCKS = GRID_X * GRID_Y * GRID_Z, ORDER_THREADS = 64 };

typedef struct diary {
  int length;
  int steps[4 * BLOCKS * ORDER_THREADS]; /* block * threads + thread */
} diary;

typedef struct orders_arguments {
  diary *diary;
} orders_arguments;

/* Records the order of the threads, before and after a barrier. */
KERNEL(orders) {
  const int block = (int)(block_x() + GRID_X * (block_y() + GRID_Y * block_z()));
  for (int round = 0; round < 2; round++) {
    a.diary->steps[a.diary->length++] = block * threads() + thread();
    barrier();
  }
}

static void write_diary(uint64_t seed, diary *out) {
  out->length = 0;
  CHECK_OK(run(&(shape){.seed = seed, .x = GRID_X, .y = GRID_Y, .z = GRID_Z, .threads = ORDER_THREADS}, SYMBOL(orders),
               &(orders_arguments){out}));
}

/* Checks that each thread of each block was recorded twice, and that no thread began a round before all had ended the
 * last one. */
static void check_diary(const diary *d) {
  static int seen[BLOCKS * ORDER_THREADS];
  memset(seen, 0, sizeof seen);
  assert_int_equal(d->length, 2 * BLOCKS * ORDER_THREADS);
  for (int i = 0; i < d->length; i++) {
    seen[d->steps[i]]++;
    assert_int_equal(d->steps[i] / ORDER_THREADS,
                     d->steps[i / (2 * ORDER_THREADS) * 2 * ORDER_THREADS] / ORDER_THREADS);
    assert_int_equal(seen[d->steps[i]], i / ORDER_THREADS % 2 + 1);
  }
}

static void test_seeds_give_orders(void **state) {
  (void)state;
  static diary diaries[NUM_SEEDS + 1], again;
  for (uint64_t seed = 0; seed <= NUM_SEEDS; seed++) {
    write_diary(seed, &diaries[seed]);
    check_diary(&diaries[seed]);
    write_diary(seed, &again);
    assert_memory_equal(&again, &diaries[seed], sizeof again);
    for (uint64_t other = 0; other < seed; other++) {
      int blocks = 0, threads = 0;
      for (int b = 0; b < BLOCKS; b++) {
        const int at = 2 * b * ORDER_THREADS;
        blocks += diaries[seed].steps[at] / ORDER_THREADS != diaries[other].steps[at] / ORDER_THREADS;
        for (int t = 0; t < ORDER_THREADS; t++)
          threads += diaries[seed].steps[at + t] % ORDER_THREADS != diaries[other].steps[at + t] % ORDER_THREADS;
      }
      assert_true(blocks > BLOCKS / 2);
      assert_true(threads > BLOCKS * ORDER_THREADS / 2);
    }
  }
  for (int i = 0; i < 2 * BLOCKS * ORDER_THREADS; i++) { /* seed 0 runs them in order */
    const int block = i / (2 * ORDER_THREADS), round = i / ORDER_THREADS % 2;
    if (round == 0) assert_int_equal(diaries[0].steps[i], block * ORDER_THREADS + i % ORDER_THREADS);
  }
}

/* ---- shared memory ----------------------------------------------------------------------------------------------- */

typedef struct poison_arguments {
  int *numbers; /* uninitialised, from each block */
} poison_arguments;

/* A block finds nothing of the previous one in shared memory, neither in declared nor in requested memory. */
KERNEL(poison) {
  SHARED(numbers, declared);
  SHARED_ASKED(asked, more);
  int count = 0;
  if (thread() == 0) {
    for (int i = 0; i < MOST; i++) count += declared->each[i] != declared->each[i];
    for (int i = 0; i < 100; i++) count += more->each[i] != more->each[i];
    a.numbers[block_x()] = count;
  }
  barrier();
  for (int i = thread(); i < MOST; i += threads()) declared->each[i] = 1;
  for (int i = thread(); i < 100; i += threads()) more->each[i] = 1;
}

static void test_shared_memory_is_poisoned(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < 2; seed++) {
    int counts[4] = {0};
    CHECK_OK(run(&(shape){.seed = seed, .x = 4, .threads = 64, .shared_bytes = sizeof(asked)}, SYMBOL(poison),
                 &(poison_arguments){counts}));
    for (int i = 0; i < 4; i++) assert_int_equal(counts[i], MOST + 100);
  }
}

/* ---- asynchronous copies ----------------------------------------------------------------------------------------- */

enum { COPIED = 64 };

typedef struct tiles {
  _Alignas(16) float each[3][COPIED][4];
} tiles;

typedef struct copies_arguments {
  const float *from; /* [3][COPIED][4] */
  int *wrong;
} copies_arguments;

/* Three groups of copies in flight: none has arrived before it is waited for, and then only the ones that were waited
 * for. */
KERNEL(copies) {
  SHARED(tiles, t);
  int wrong = 0;
  for (int group = 0; group < 3; group++) {
    copy_async(t->each[group][thread()], a.from + (group * COPIED + thread()) * 4);
    copy_async_commit();
  }
  for (int pending = 2; pending >= -1; pending--) {
    for (int group = 0; group < 3; group++) {
      for (int i = 0; i < 4; i++) {
        const float x = t->each[group][thread()][i], want = a.from[(group * COPIED + thread()) * 4 + i];
        wrong += group + pending < 2 ? x != want : x == x;
      }
    }
    if (pending == 2) copy_async_wait(2);
    if (pending == 1) copy_async_wait(1);
    if (pending == 0) copy_async_wait(0);
  }
  a.wrong[thread()] = wrong;
}

static void test_copies_arrive_when_they_are_waited_for(void **state) {
  (void)state;
  static _Alignas(16) float from[3 * COPIED * 4];
  int wrong[COPIED];
  for (int i = 0; i < 3 * COPIED * 4; i++) from[i] = (float)i;
  for (uint64_t seed = 0; seed < NUM_SEEDS; seed++) {
    memset(wrong, 0xff, sizeof wrong);
    CHECK_OK(run(&(shape){.seed = seed, .x = 2, .threads = COPIED}, SYMBOL(copies), &(copies_arguments){from, wrong}));
    for (int t = 0; t < COPIED; t++) assert_int_equal(wrong[t], 0);
  }
}

typedef struct many_copies_arguments {
  const float *from;
  int shift, count;
} many_copies_arguments;

KERNEL(many_copies) {
  SHARED(tiles, t);
  for (int i = 0; i < a.count; i++) copy_async(t->each[0][0], a.from + a.shift);
}

static void test_copies_that_no_gpu_does(void **state) {
  (void)state;
  static _Alignas(16) float from[8];
  const shape s = {.x = 1, .threads = 64};
  CHECK_OK(run(&s, SYMBOL(many_copies), &(many_copies_arguments){from, 4, 256}));
  CHECK_FAILS(run(&s, SYMBOL(many_copies), &(many_copies_arguments){from, 4, 257}), TRI_DEVICE_FAILED,
              "copies 16 bytes asynchronously from");
  assert_non_null(strstr(tri_status_message(), "its 257th; both are aligned to 16, and there may be 256 at a time"));
  CHECK_FAILS(run(&s, SYMBOL(many_copies), &(many_copies_arguments){from, 1, 1}), TRI_DEVICE_FAILED,
              "both are aligned to 16");
}

/* ---- fibers ------------------------------------------------------------------------------------------------------ */

typedef struct counting {
  tri_fiber *fibers;
  int which, seen[20], length;
  double product;
} counting;

/* Local variables and floating-point state survive each switch. */
static void count_up(void *argument) {
  counting *c = argument;
  volatile char room[4096];
  double product = 1;
  for (int i = 0; i < 10; i++) {
    room[i * 100] = (char)i;
    product *= 1.0 + (double)i / 7;
    c->seen[c->length++] = i + room[i * 100];
    tri_fiber_leave(c->fibers, c->which);
  }
  c->product = product;
  tri_fiber_leave(c->fibers, c->which);
}

static void test_fibers(void **state) {
  (void)state;
  enum { FIBERS = 3 };
  tri_fiber *fibers = NULL;
  counting all[FIBERS] = {{0}};
  double product = 1;
  for (int i = 0; i < 10; i++) product *= 1.0 + (double)i / 7;
  CHECK_OK(tri_fibers_create(FIBERS, &fibers));
  for (int f = 0; f < FIBERS; f++) {
    all[f] = (counting){.fibers = fibers, .which = f};
    tri_fiber_begin(fibers, f, count_up, &all[f]);
  }
  for (int round = 0; round < 4; round++)
    for (int f = 0; f < FIBERS; f++) tri_fiber_enter(fibers, f);
  all[1] = (counting){.fibers = fibers, .which = 1};
  tri_fiber_begin(fibers, 1, count_up, &all[1]); /* a fiber is started again while it is in progress */
  for (int round = 0; round < 11; round++) tri_fiber_enter(fibers, 1);
  for (int round = 0; round < 7; round++)
    for (int f = 0; f < FIBERS; f += 2) tri_fiber_enter(fibers, f);
  for (int f = 0; f < FIBERS; f++) {
    assert_int_equal(all[f].length, 10);
    for (int i = 0; i < 10; i++) assert_int_equal(all[f].seen[i], 2 * i);
    assert_true(all[f].product == product);
  }
  tri_fibers_destroy(fibers);
  tri_fibers_destroy(NULL);
}

static void *run_many(void *argument) {
  tri_status *status = argument;
  static _Thread_local float out[3 * MOST];
  for (uint64_t seed = 0; seed < NUM_SEEDS && *status == TRI_OK; seed++) {
    const shape s = {.seed = seed, .x = 3, .threads = 1024};
    *status = run(&s, SYMBOL(neighbour), &(neighbour_arguments){out, 1});
    if (count_wrong(out, 3, 1024) != 0) *status = TRI_DIFFERENT;
  }
  return NULL;
}

/* Each thread of the CPU uses an emulator of its own, one for each device. */
static void test_emulators_side_by_side(void **state) {
  (void)state;
  pthread_t threads[3];
  tri_status statuses[3] = {TRI_OK, TRI_OK, TRI_OK};
  for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&threads[i], NULL, run_many, &statuses[i]), 0);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(statuses[i], TRI_OK);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_barriers),
      cmocka_unit_test(test_a_missing_barrier_shows),
      cmocka_unit_test(test_a_missing_barrier_between_rounds_shows),
      cmocka_unit_test(test_shuffles),
      cmocka_unit_test(test_what_a_warp_shares),
      cmocka_unit_test(test_sums_of_blocks),
      cmocka_unit_test(test_seeds_give_orders),
      cmocka_unit_test(test_shared_memory_is_poisoned),
      cmocka_unit_test(test_copies_arrive_when_they_are_waited_for),
      cmocka_unit_test(test_copies_that_no_gpu_does),
      cmocka_unit_test(test_fibers),
      cmocka_unit_test(test_emulators_side_by_side),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
