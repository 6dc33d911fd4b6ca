#include "engine/rank_device.h"

#include "base/log.h"
#include "base/memory.h"
#include "comm/agreement.h"
#include "comm/device_aware.h"

#include <stdio.h>
#include <string.h>

/* A rank's device, as the ranks exchange it. */
typedef struct seat {
  char name[TRI_DEVICE_NAME_BYTES], place[TRI_DEVICE_PLACE_BYTES];
  bool reached; /* MPI says that it can access the memory */
} seat;

static bool has_place(const seat *s) { return s->place[0] != '\0'; }

static bool on_one_gpu(const seat *seats, int a, int b) {
  return has_place(&seats[a]) && strcmp(seats[a].place, seats[b].place) == 0 &&
         tri_comm_node_of(a) == tri_comm_node_of(b);
}

static int sharers_of(const seat *seats, int ranks, int rank) {
  int count = 0;
  for (int r = 0; r < ranks; r++) count += on_one_gpu(seats, r, rank);
  return count < 1 ? 1 : count;
}

/* Warns once, about the GPU with most ranks: they share its time and its memory. */
static void tell(const seat *seats, int ranks) {
  int most = 0;
  for (int r = 1; r < ranks; r++) {
    if (sharers_of(seats, ranks, r) > sharers_of(seats, ranks, most)) most = r;
  }
  int sharers = sharers_of(seats, ranks, most);
  if (sharers == 1) return;
  tri_warn("there are more ranks than GPUs: up to %d ranks share one, its memory and its time (%s at %s)", sharers,
           seats[most].name, seats[most].place);
}

/* Fails if some ranks have no GPU that they can use while others have one. */
static tri_status check_alike(const seat *seats, int ranks) {
  for (int r = 1; r < ranks; r++) {
    if (has_place(&seats[r]) == has_place(&seats[0])) continue;
    return tri_fail(TRI_UNSUPPORTED,
                    "rank 0 has the device %s and rank %d the device %s, and one run has one kind; say `device: cpu`, "
                    "or `device: gpu` to hear why a rank finds none",
                    seats[0].name, r, seats[r].name);
  }
  return TRI_OK;
}

static tri_status settle(const tri_group *world, const seat *seats, tri_device *device) {
  TRI_TRY(check_alike(seats, world->size));
  if (world->rank == 0) tell(seats, world->size);
  device->info.reached = true;
  for (int r = 0; r < world->size; r++) device->info.reached = device->info.reached && seats[r].reached;
  return tri_device_share(device, sharers_of(seats, world->size, world->rank));
}

/* The first collective waits until all devices are created; no rank allocates more memory before all have seen how much
 * is free. */
static tri_status seat_ranks(const tri_group *world, tri_device *device) {
  seat own = {.reached = tri_comm_is_device_aware(device->info.peer)}, *seats = NULL;
  snprintf(own.name, sizeof own.name, "%s", device->info.name);
  snprintf(own.place, sizeof own.place, "%s", device->info.place);
  tri_status status = tri_alloc("devices of ranks", (size_t)world->size, sizeof *seats, &seats);
  TRI_TRY(tri_common_status(world, status));
  status = tri_gather_bytes(world, sizeof own, &own, seats);
  if (status == TRI_OK) status = tri_common_status(world, settle(world, seats, device));
  tri_free(seats);
  return status;
}

tri_status tri_rank_device_create(const char *name, int threads, tri_device **out) {
  const tri_group world = tri_group_world();
  const tri_device_request request = {.name = name, .threads = threads, .place = tri_comm_local_rank()};
  tri_device *device = NULL;
  TRI_TRY(tri_common_status(&world, tri_device_create_for(&request, &device)));
  tri_status status = world.size == 1 ? TRI_OK : seat_ranks(&world, device);
  if (status != TRI_OK) {
    tri_device_destroy(device);
    return status;
  }
  *out = device;
  return TRI_OK;
}
