#include "train/output.h"

#include "base/log.h"
#include "comm/agreement.h"

static tri_status create_and_lock(const char *output, tri_folder_lock **lock) {
  TRI_TRY(tri_directory_create(output));
  return tri_folder_lock_take(output, lock);
}

/* What killed runs have left half written. That it cannot be removed ends no run. */
static void clear(const char *output) {
  char root[TRI_PATH_BYTES];
  tri_status status = tri_file_clear_replacements(output);
  if (status == TRI_OK) status = tri_path_join(root, output, "checkpoints");
  if (status == TRI_OK) status = tri_checkpoint_clear(root);
  if (status != TRI_OK) tri_warn("something that a killed run has left stays: %s", tri_status_message());
}

tri_status tri_output_hold(const tri_group *world, const tri_run_config *config, bool anew, tri_folder_lock **lock,
                           tri_identity *identity) {
  bool is_first = world->rank == 0;
  TRI_TRY(tri_first_rank_status(world, is_first ? create_and_lock(config->output, lock) : TRI_OK));
  if (is_first) clear(config->output);
  return tri_identity_open(world, config, anew, identity);
}
