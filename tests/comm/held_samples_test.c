/* Samples that the first rank has made and shares (rollout/held_samples.h): each rank reads those of its micro-batches,
 * with the first rank's values, and no others; on ranks that read different samples, and on ranks that read the same.
 */
#include "../unit/rollout_draws.h"
#include "comm_check.h"

#include "base/memory.h"
#include "rollout/held_samples.h"

enum { SEQUENCE = 16 };

static const unsigned COLUMNS = TRI_COLUMNS_ALWAYS | TRI_COLUMN_BIT(segments) | TRI_COLUMN_BIT(advantage) |
                                TRI_COLUMN_BIT(normaliser) | TRI_COLUMN_BIT(behaviour);

/* Every rank packs the batch by itself, which gives the values that the first rank has. */
static void pack_batch(uint64_t seed, int64_t count, tri_held_samples *samples) {
  tri_rollout_completion *list[ROLLOUT_MOST];
  tri_packed packed[ROLLOUT_MOST];
  rollout_draws d;
  CHECK_OK(rollout_draw_batch(seed, SEQUENCE, false, &d));
  for (int64_t i = 0; i < count; i++) list[i] = &d.batch.list[i];
  const tri_pack_request request = {list, count, d.normalisers};
  CHECK_OK(tri_rollout_pack(&request, samples, packed));
  tri_rollout_batch_release(&d.batch);
}

static bool are_same_bytes(const void *a, const void *b, size_t bytes) { return memcmp(a, b, bytes) == 0; }

static void check_equal(const tri_sample *mine, const tri_sample *first, int64_t sample) {
  const tri_sample row = tri_sample_from(first, sample * SEQUENCE);
#define EQUAL(NAME, TYPE, ...)                                                                                         \
  CHECK((mine->NAME == NULL) == (row.NAME == NULL), "%s", #NAME);                                                      \
  if (mine->NAME != NULL)                                                                                              \
    CHECK(are_same_bytes(mine->NAME, row.NAME, SEQUENCE * sizeof(TYPE)), "%s of sample %d", #NAME, (int)sample);
  TRI_SAMPLE_COLUMNS(EQUAL)
#undef EQUAL
}

static void check_batch(const tri_mesh *mesh, int64_t micro_batch, uint64_t seed, int64_t completions) {
  const tri_group *readers = tri_mesh_group(mesh, TRI_DOMAIN_BATCH);
  const int64_t unit = micro_batch * readers->size, most = (ROLLOUT_MOST + unit - 1) / unit * unit;
  const tri_mesh alone = tri_mesh_alone();
  tri_held_samples held, all;
  tri_sample row;
  CHECK_OK(tri_held_samples_create(COLUMNS, SEQUENCE, most, micro_batch, mesh, &held));
  CHECK_OK(tri_held_samples_create(COLUMNS, SEQUENCE, ROLLOUT_MOST, 1, &alone, &all));
  CHECK_OK(tri_sample_alloc(COLUMNS, SEQUENCE, &row));
  pack_batch(seed, completions, &all);
  if (tri_comm_rank() == 0) pack_batch(seed, completions, &held);
  CHECK_OK(tri_held_samples_share(&held));
  CHECK(held.count == all.count, "%d samples, not %d", (int)held.count, (int)all.count);
  const tri_feed feed = tri_held_samples_feed(&held);
  for (int64_t s = 0; s < all.count; s++) {
    const bool own = s / micro_batch % readers->size == readers->rank;
    if (own || tri_comm_rank() == 0) {
      CHECK_OK(tri_feed_read(&feed, s, &row));
      check_equal(&row, &all.rows, s);
    } else {
      CHECK(tri_feed_read(&feed, s, &row) == TRI_INTERNAL, "sample %d is another rank's", (int)s);
    }
  }
  CHECK(tri_feed_read(&feed, all.count, &row) == TRI_INTERNAL, "sample %d", (int)all.count);
  tri_sample_free(&row);
  tri_held_samples_release(&all);
  tri_held_samples_release(&held);
}

static void check_mesh(tri_axis axis) {
  const tri_mesh_position along = tri_mesh_position_along(axis, tri_comm_size());
  const tri_group world = tri_group_world();
  tri_mesh mesh;
  CHECK_OK(tri_mesh_create(&world, &along.shape, &mesh));
  for (int64_t micro_batch = 1; micro_batch <= 3; micro_batch++) {
    for (uint64_t seed = 1; seed <= 8; seed++) {
      check_batch(&mesh, micro_batch, seed, ROLLOUT_MOST);
      check_batch(&mesh, micro_batch, seed, 1 + (int64_t)seed % 4); /* fewer samples than some ranks */
    }
  }
  tri_mesh_destroy(&mesh);
}

int main(void) {
  CHECK_OK(tri_comm_open());
  check_mesh(TRI_AXIS_DATA);
  check_mesh(TRI_AXIS_PIPELINE);
  check_mesh(TRI_AXIS_TENSOR);
  if (tri_comm_rank() == 0) printf("%d ranks, %s: as they should be\n", tri_comm_size(), tri_comm_library());
  tri_comm_close();
  CHECK(tri_memory_bytes() == 0, "%zu bytes were not given back", tri_memory_bytes());
  return 0;
}
