#include "engine/rank_device.h"

#include "base/log.h"
#include "base/memory.h"
#include "comm/agreement.h"
#include "comm/device_aware.h"

#include <stdio.h>
#include <string.h>

/* The facts about the device of a rank that all ranks exchange. */
typedef struct rank_device {
  char name[TRI_DEVICE_NAME_BYTES], place[TRI_DEVICE_PLACE_BYTES];
  bool reached; /* whether this rank's MPI reports that it can access the device's memory */
} rank_device;

static bool has_place(const rank_device *s) { return s->place[0] != '\0'; }

static bool on_one_gpu(const rank_device *devices, int a, int b) {
  return has_place(&devices[a]) && strcmp(devices[a].place, devices[b].place) == 0 &&
         tri_comm_node_of(a) == tri_comm_node_of(b);
}

static int sharers_of(const rank_device *devices, int ranks, int rank) {
  int count = 0;
  for (int r = 0; r < ranks; r++) count += on_one_gpu(devices, r, rank);
  return count < 1 ? 1 : count;
}

/* Logs one warning if ranks share a GPU, with the name of the GPU that most ranks share. */
static void warn_of_sharing(const rank_device *devices, int ranks) {
  int most = 0;
  for (int r = 1; r < ranks; r++) {
    if (sharers_of(devices, ranks, r) > sharers_of(devices, ranks, most)) most = r;
  }
  int sharers = sharers_of(devices, ranks, most);
  if (sharers == 1) return;
  tri_warn("there are more ranks than GPUs: up to %d ranks share one, its memory and its time (%s at %s)", sharers,
           devices[most].name, devices[most].place);
}

/* Fails if some ranks have no GPU that they can use while others have one. */
static tri_status check_alike(const rank_device *devices, int ranks) {
  for (int r = 1; r < ranks; r++) {
    if (has_place(&devices[r]) == has_place(&devices[0])) continue;
    return tri_fail(TRI_UNSUPPORTED,
                    "rank 0 has the device %s and rank %d the device %s, but all ranks need the same kind; set "
                    "`device: cpu`, or `device: gpu` to see why a rank finds no GPU",
                    devices[0].name, r, devices[r].name);
  }
  return TRI_OK;
}

static tri_status settle(const tri_group *world, const rank_device *devices, tri_device *device) {
  TRI_TRY(check_alike(devices, world->size));
  if (world->rank == 0) warn_of_sharing(devices, world->size);
  device->info.reached = true;
  for (int r = 0; r < world->size; r++) device->info.reached = device->info.reached && devices[r].reached;
  return tri_device_share(device, sharers_of(devices, world->size, world->rank));
}

/* Exchanges the devices of all ranks, and sets this rank's share of its device. The first collective waits until all
 * devices are created; no rank allocates more memory before all have read how much is free. */
static tri_status share_devices(const tri_group *world, tri_device *device) {
  rank_device own = {.reached = tri_comm_is_device_aware(device->info.peer)}, *devices = NULL;
  snprintf(own.name, sizeof own.name, "%s", device->info.name);
  snprintf(own.place, sizeof own.place, "%s", device->info.place);
  tri_status status = tri_alloc("devices of ranks", (size_t)world->size, sizeof *devices, &devices);
  TRI_TRY(tri_common_status(world, status));
  status = tri_gather_bytes(world, sizeof own, &own, devices);
  if (status == TRI_OK) status = tri_common_status(world, settle(world, devices, device));
  tri_free(devices);
  return status;
}

tri_status tri_rank_device_create(const char *name, int threads, tri_device **out) {
  const tri_group world = tri_group_world();
  const tri_device_request request = {.name = name, .threads = threads, .place = tri_comm_local_rank()};
  tri_device *device = NULL;
  TRI_TRY(tri_common_status(&world, tri_device_create_for(&request, &device)));
  tri_status status = world.size == 1 ? TRI_OK : share_devices(&world, device);
  if (status == TRI_OK) *out = device;
  if (status != TRI_OK) tri_device_destroy(device);
  return status;
}
