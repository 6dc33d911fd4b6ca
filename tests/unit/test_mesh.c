/* Positions of ranks in a mesh, and a process without a launcher. */
#include "base/random.h"
#include "check.h"
#include "comm/mesh.h"
#include "mesh/parts.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void tensor_is_fastest(void **state) {
  (void)state;
  tri_mesh_shape shape = {.size = {2, 1, 1, 3, 4}};
  assert_int_equal(tri_mesh_num_ranks(&shape), 24);
  for (int pipeline = 0, rank = 0; pipeline < 4; pipeline++) {
    for (int data = 0; data < 3; data++) {
      for (int tensor = 0; tensor < 2; tensor++, rank++) {
        tri_mesh_coordinates place = tri_mesh_coordinates_of(&shape, rank);
        assert_int_equal(place.at[TRI_AXIS_TENSOR], tensor);
        assert_int_equal(place.at[TRI_AXIS_CONTEXT], 0);
        assert_int_equal(place.at[TRI_AXIS_DATA], data);
        assert_int_equal(place.at[TRI_AXIS_PIPELINE], pipeline);
        assert_int_equal(tri_mesh_rank_of(&shape, &place), rank);
      }
    }
  }
}

static void places_and_ranks_are_inverse(void **state) {
  (void)state;
  tri_random_key key = tri_random_stream(1, TRI_RANDOM_TEST, 5);
  for (uint64_t i = 0; i < 100; i++) {
    tri_mesh_shape shape;
    for (int axis = 0; axis < TRI_NUM_MESH_AXES; axis++) {
      shape.size[axis] = 1 + (int)(tri_random_u32(key, 4 * i + (uint64_t)axis) % 6);
    }
    for (int rank = 0; rank < tri_mesh_num_ranks(&shape); rank++) {
      tri_mesh_coordinates place = tri_mesh_coordinates_of(&shape, rank);
      for (int axis = 0; axis < TRI_NUM_MESH_AXES; axis++) assert_in_range(place.at[axis], 0, shape.size[axis] - 1);
      assert_int_equal(tri_mesh_rank_of(&shape, &place), rank);
    }
  }
}

/* Every rank is in its domain at its index, and all indices belong to different ranks. */
static void domains_number_their_ranks(void **state) {
  (void)state;
  tri_mesh_shape shape = {.size = {2, 2, 3, 4, 2}, .expert_tensor = 3, .expert = 4};
  static const int sizes[] = {4, 24, 24, 2, 6, 2, 3, 2, 12, 4, 3, 4, 12};
  for (int d = 0; d < TRI_NUM_DOMAINS; d++) {
    tri_domain domain = (tri_domain)d;
    int size = tri_domain_size(&shape, domain);
    assert_int_equal(size, sizes[d]);
    for (int rank = 0; rank < tri_mesh_num_ranks(&shape); rank++) {
      tri_mesh_coordinates place = tri_mesh_coordinates_of(&shape, rank);
      int own = tri_domain_rank(&shape, &place, domain), before = -1;
      for (int r = 0; r < size; r++) {
        tri_mesh_coordinates there = tri_domain_coordinates(&shape, &place, domain, r);
        int other = tri_mesh_rank_of(&shape, &there);
        assert_int_equal(tri_domain_rank(&shape, &there, domain), r);
        assert_int_equal(other == rank, r == own);
        assert_true(other > before); /* in the order of the mesh */
        before = other;
      }
    }
  }
  assert_int_equal(tri_domain_axis(TRI_DOMAIN_REPLICAS), TRI_AXIS_DATA);
  assert_int_equal(tri_domain_axis(TRI_DOMAIN_TENSOR), TRI_AXIS_TENSOR);
  assert_int_equal(tri_domain_axis(TRI_DOMAIN_CONTEXT_INNER), TRI_AXIS_CONTEXT);
  assert_false(tri_axis_is_shown(TRI_AXIS_CONTEXT_INNER));
}

/* Computes the coordinates of a rank along all axes of both views, from its number alone. */
static void find_coordinates(const tri_mesh_shape *shape, int rank, int out[TRI_NUM_AXES]) {
  const int *n = shape->size, expert_tensor = shape->expert_tensor, expert = shape->expert;
  int stage = n[0] * n[1] * n[2] * n[3], within = rank % stage;
  out[TRI_AXIS_TENSOR] = within % n[0];
  out[TRI_AXIS_CONTEXT_INNER] = within / n[0] % n[1];
  out[TRI_AXIS_CONTEXT] = within / (n[0] * n[1]) % n[2];
  out[TRI_AXIS_DATA] = within / (n[0] * n[1] * n[2]);
  out[TRI_AXIS_PIPELINE] = rank / stage;
  out[TRI_AXIS_EXPERT_TENSOR] = within % expert_tensor;
  out[TRI_AXIS_EXPERT] = within / expert_tensor % expert;
  out[TRI_AXIS_EXPERT_DATA] = within / (expert_tensor * expert);
}

/* Returns whether two ranks are in one domain: their other coordinates in its view are equal, and the stage, if the
 * domain is of one stage. */
static bool are_together(const tri_mesh_shape *shape, tri_domain domain, int a, int b) {
  int at_a[TRI_NUM_AXES], at_b[TRI_NUM_AXES];
  bool folded = tri_domain_is_folded(domain);
  find_coordinates(shape, a, at_a);
  find_coordinates(shape, b, at_b);
  for (int axis = 0; axis < TRI_NUM_AXES; axis++) {
    bool asked = axis == TRI_AXIS_PIPELINE || (axis >= TRI_AXIS_EXPERT_TENSOR) == folded;
    if (asked && !tri_domain_has(domain, (tri_axis)axis) && at_a[axis] != at_b[axis]) return false;
  }
  return true;
}

/* Checks all properties of the domains of one shape, by trying all pairs of ranks. */
static void check_domains(const tri_mesh_shape *shape) {
  int ranks = tri_mesh_num_ranks(shape);
  bool same[TRI_NUM_DOMAINS][TRI_NUM_DOMAINS];
  memset(same, true, sizeof same);
  for (int a = 0; a < ranks; a++) {
    tri_mesh_coordinates place = tri_mesh_coordinates_of(shape, a);
    int numbers[TRI_NUM_DOMAINS] = {0};
    for (int b = 0; b < ranks; b++) {
      tri_mesh_coordinates there = tri_mesh_coordinates_of(shape, b);
      bool together[TRI_NUM_DOMAINS];
      for (int d = 0; d < TRI_NUM_DOMAINS; d++) {
        together[d] = are_together(shape, (tri_domain)d, a, b);
        for (int before = 0; before < d; before++) same[before][d] &= together[before] == together[d];
        if (!together[d]) continue;
        tri_mesh_coordinates found = tri_domain_coordinates(shape, &place, (tri_domain)d, numbers[d]);
        assert_int_equal(tri_domain_rank(shape, &there, (tri_domain)d), numbers[d]);
        assert_int_equal(tri_mesh_rank_of(shape, &found), b);
        numbers[d]++;
      }
    }
    for (int d = 0; d < TRI_NUM_DOMAINS; d++) assert_int_equal(tri_domain_size(shape, (tri_domain)d), numbers[d]);
  }
  for (int d = 0; d < TRI_NUM_DOMAINS; d++) {
    for (int before = 0; before < d; before++) {
      assert_int_equal(tri_domains_are_same(shape, (tri_domain)before, (tri_domain)d), same[before][d]);
      assert_int_equal(tri_domains_are_same(shape, (tri_domain)d, (tri_domain)before), same[before][d]);
    }
  }
}

/* All second views of some shapes, including one in which no axis is a part of an axis of the first: tensor 2 x data 3
 * seen as expert_tensor 3 x expert 2. */
static void views_of_the_same_ranks(void **state) {
  (void)state;
  static const int sizes[][TRI_NUM_MESH_AXES] = {{1, 1, 1, 1, 1}, {2, 1, 1, 3, 2}, {1, 1, 1, 6, 1}, {2, 2, 1, 3, 1},
                                                 {3, 1, 2, 2, 1}, {2, 1, 3, 1, 2}, {1, 2, 3, 2, 1}, {4, 1, 1, 2, 2}};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    tri_mesh_shape shape = {.size = {0}};
    memcpy(shape.size, sizes[i], sizeof shape.size);
    int ranks = tri_mesh_stage_ranks(&shape);
    for (shape.expert_tensor = 1; shape.expert_tensor <= ranks; shape.expert_tensor++) {
      for (shape.expert = 1; shape.expert <= ranks; shape.expert++) {
        if (ranks % (shape.expert_tensor * shape.expert) == 0) check_domains(&shape);
      }
    }
  }
  /* A shape without sizes for experts equals one in which every rank has all of them. */
  tri_mesh_shape silent = {.size = {2, 1, 1, 3, 2}}, one = {.size = {2, 1, 1, 3, 2}, .expert_tensor = 1, .expert = 1};
  for (int d = 0; d < TRI_NUM_DOMAINS; d++) {
    assert_int_equal(tri_domain_size(&silent, (tri_domain)d), tri_domain_size(&one, (tri_domain)d));
  }
  assert_int_equal(tri_domain_size(&silent, TRI_DOMAIN_EXPERT_REPLICAS), 6);
  assert_int_equal(tri_domain_axis(TRI_DOMAIN_EXPERT), TRI_AXIS_EXPERT);
  assert_int_equal(tri_domain_axis(TRI_DOMAIN_EXPERT_REPLICAS), TRI_AXIS_DATA);
  assert_true(tri_axis_is_shown(TRI_AXIS_EXPERT));
  assert_false(tri_axis_is_shown(TRI_AXIS_EXPERT_TENSOR) || tri_axis_is_shown(TRI_AXIS_EXPERT_DATA));
}

static void places_in_words(void **state) {
  (void)state;
  char text[64];
  tri_mesh_shape shape = {.size = {2, 1, 1, 1, 4}};
  assert_string_equal(tri_mesh_describe(&shape, 7, text, sizeof text), "tensor 1, pipeline 3");
  assert_string_equal(tri_mesh_describe(&shape, 0, text, sizeof text), "tensor 0, pipeline 0");
  assert_string_equal(tri_mesh_describe(&shape, 7, text, 12), "tensor 1, p");
  assert_string_equal(tri_mesh_describe(&(tri_mesh_shape){.size = {1, 1, 1, 1, 1}}, 0, text, sizeof text),
                      "the only rank");
  assert_string_equal(tri_mesh_describe(&(tri_mesh_shape){.size = {1, 2, 1, 3, 1}}, 5, text, sizeof text),
                      "context_inner 1, data 2");
}

static void parts_cover_everything(void **state) {
  (void)state;
  for (int64_t size = 1; size < 9; size++) {
    for (int64_t count = 0; count < 40; count++) {
      assert_int_equal(tri_part_begin(count, size, 0), 0);
      assert_int_equal(tri_part_begin(count, size, size), count);
      for (int64_t i = 0; i < size; i++) {
        int64_t length = tri_part_begin(count, size, i + 1) - tri_part_begin(count, size, i);
        assert_int_equal(length, count / size + (i < count % size ? 1 : 0));
      }
    }
  }
}

/* A process alone: without a launcher, with one that started one rank, or in a Slurm batch script, which sees a number
 * of tasks. */
static void alone_without_mpi(void **state) {
  (void)state;
  static const char *const seen[][2] = {{"", ""},
                                        {"SLURM_NTASKS", "8"},
                                        {"OMPI_COMM_WORLD_SIZE", "1"},
                                        {"PMI_SIZE", "1"},
                                        {"OMPI_COMM_WORLD_SIZE", "8"} /* but no rank */};
  setenv("PMI_RANK", "0", 1);
  for (size_t i = 0; i < sizeof seen / sizeof seen[0]; i++) {
    if (*seen[i][0] != '\0') setenv(seen[i][0], seen[i][1], 1);
    if (strcmp(seen[i][0], "PMI_SIZE") != 0) unsetenv("PMI_RANK");
    if (strcmp(seen[i][0], "PMI_SIZE") == 0) setenv("PMI_RANK", "0", 1);
    CHECK_OK(tri_comm_open());
    int initialised = -1;
    MPI_Initialized(&initialised);
    assert_int_equal(initialised, 0);
    assert_int_equal(tri_comm_size(), 1);
    assert_int_equal(tri_comm_rank(), 0);
    assert_int_equal(tri_comm_local_size(), 1);
    tri_comm_abort(3); /* no rank to end */
    tri_comm_close();
    if (*seen[i][0] != '\0') unsetenv(seen[i][0]);
    unsetenv("PMI_RANK");
  }
}

static void a_group_of_one(void **state) {
  (void)state;
  tri_group group = tri_group_alone("tensor");
  tri_group part;
  double values[3] = {1, 2, 3};
  int64_t begins[2] = {0, 3};
  char byte = 7;
  char copy = 0;
  bool done = false;
  bool shared = true;
  tri_request *request;
  CHECK_OK(tri_group_split(&group, "data", 5, 5, &part));
  assert_string_equal(part.name, "data");
  assert_int_equal(part.size, 1);
  assert_int_equal(tri_group_staging_bytes(&part), 0);
  CHECK_OK(tri_all_reduce(&part, TRI_FP64, 3, values));
  CHECK_OK(tri_reduce_scatter(&part, TRI_FP64, begins, values));
  CHECK_OK(tri_all_gather(&part, TRI_FP64, begins, values));
  CHECK_OK(tri_broadcast(&part, 0, sizeof values, values));
  CHECK_OK(tri_gather_bytes(&part, 1, &byte, &copy));
  CHECK_OK(tri_barrier(&part));
  CHECK_OK(tri_all_reduce_start(&part, TRI_FP64, 3, values, &request));
  assert_null(request);
  CHECK_OK(tri_request_test(request, &done));
  assert_true(done);
  CHECK_OK(tri_request_wait(&request));
  CHECK_OK(tri_comm_progress());
  CHECK_OK(tri_comm_share(&part, values, sizeof values, &shared));
  tri_comm_unshare(values);
  assert_false(shared);
  assert_int_equal(copy, 7);
  assert_true(values[0] == 1 && values[1] == 2 && values[2] == 3);
  assert_null(tri_comm_state().operation);
  CHECK_FAILS(tri_all_reduce(&part, TRI_INT32, 3, values), TRI_INTERNAL, "all_reduce over data: values of type int32");
  CHECK_FAILS(tri_send_start(&part, 0, 0, 1, &byte, &request), TRI_INTERNAL, "send over data");
  tri_group_destroy(&part);
}

static void shapes_that_do_not_fit(void **state) {
  (void)state;
  const tri_group world = tri_group_world();
  tri_mesh mesh;
  CHECK_FAILS(tri_mesh_create(&world, &(tri_mesh_shape){.size = {2, 1, 1, 3, 2}}, &mesh), TRI_BAD_LAYOUT,
              "tensor 2 x context 1 x data 3 x pipeline 2 are 12 ranks, but the job has 1");
  CHECK_FAILS(tri_mesh_create(&world, &(tri_mesh_shape){.size = {1, 1, 1, 0, 1}}, &mesh), TRI_BAD_LAYOUT,
              "layout.data is 0");
  CHECK_FAILS(tri_mesh_create(&world, &(tri_mesh_shape){.size = {65536, 1, 65536, 65536, 65536}}, &mesh),
              TRI_BAD_LAYOUT, "are over 2147483647 ranks");
  CHECK_FAILS(
      tri_mesh_create(&world, &(tri_mesh_shape){.size = {1, 1, 1, 1, 1}, .expert_tensor = 1, .expert = 2}, &mesh),
      TRI_BAD_LAYOUT, "layout.expert_tensor 1 x layout.expert 2 do not divide the 1 ranks of a stage");
  CHECK_OK(tri_mesh_create(&world, &(tri_mesh_shape){.size = {1, 1, 1, 1, 1}}, &mesh));
  for (int d = 0; d < TRI_NUM_DOMAINS; d++) {
    assert_int_equal(tri_mesh_group(&mesh, (tri_domain)d)->size, 1);
    assert_string_equal(tri_mesh_group(&mesh, (tri_domain)d)->name, tri_domain_name((tri_domain)d));
    assert_int_equal(tri_mesh_domain_of(&mesh, tri_domain_name((tri_domain)d)), d);
  }
  assert_int_equal(tri_mesh_domain_of(&mesh, "world"), TRI_NUM_DOMAINS);
  assert_int_equal(tri_mesh_domain_of(&mesh, "tied"), TRI_DOMAIN_PIPELINE);
  assert_int_equal(mesh.tied.size, 1);
  tri_mesh_destroy(&mesh);
  mesh = tri_mesh_alone();
  assert_int_equal(tri_mesh_num_ranks(&mesh.shape), 1);
  assert_int_equal(mesh.world.size, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tensor_is_fastest),       cmocka_unit_test(places_and_ranks_are_inverse),
      cmocka_unit_test(places_in_words),         cmocka_unit_test(parts_cover_everything),
      cmocka_unit_test(alone_without_mpi),       cmocka_unit_test(a_group_of_one),
      cmocka_unit_test(shapes_that_do_not_fit),  cmocka_unit_test(domains_number_their_ranks),
      cmocka_unit_test(views_of_the_same_ranks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
