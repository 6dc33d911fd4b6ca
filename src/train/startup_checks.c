#include "train/startup_checks.h"

#include "base/format.h"
#include "base/memory.h"
#include "base/system.h"
#include "comm/agreement.h"
#include "engine/checkpoint_map.h"
#include "files/file.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- agreement --------------------------------------------------------------------------------------------------- */

enum { MOST_PROGRAM_BYTES = 1 << 30, LOOKS = 256, LOOK_TOKENS = 64 };

/* COLLECTIVE. Checks that all ranks run the same program file, unless a rank cannot read it. */
static tri_status agree_on_program(const tri_group *world) {
  char *text = NULL;
  size_t bytes = 0;
  tri_status status = tri_file_read("/proc/self/exe", MOST_PROGRAM_BYTES, &text, &bytes);
  int64_t unread = status != TRI_OK;
  TRI_TRY(tri_all_sum_int64(world, 1, &unread));
  status = unread > 0 ? TRI_OK : tri_must_agree(world, "program", text, bytes);
  tri_free(text);
  return status;
}

static tri_status agree_on_configuration(const tri_group *world, const tri_run_config *config) {
  char *text = NULL;
  TRI_TRY(tri_run_config_print(config, &text));
  tri_status status = tri_must_agree(world, "configuration", text, strlen(text));
  tri_free(text);
  return status;
}

/* Reads the corpus' size and tokens at places that are spread evenly over it. */
static tri_status sample_corpus(const tri_corpus *corpus, int64_t vocab_size, int32_t *tokens) {
  int64_t count = tri_corpus_num_tokens(corpus);
  memcpy(tokens, &count, sizeof count);
  for (int64_t i = 0; i < LOOKS; i++) {
    int64_t room = count - LOOK_TOKENS, at = room <= 0 ? 0 : room / (LOOKS - 1) * i;
    int64_t some = count < LOOK_TOKENS ? count : LOOK_TOKENS;
    TRI_TRY(tri_corpus_read(corpus, at, some, vocab_size, tokens + 2 + i * LOOK_TOKENS));
  }
  return TRI_OK;
}

tri_status tri_startup_check_corpus(const tri_group *group, const tri_corpus *corpus, int64_t vocab_size,
                                    const char *what) {
  int32_t *tokens = NULL;
  size_t count = 2 + LOOKS * LOOK_TOKENS;
  if (group->size == 1) return TRI_OK;
  TRI_TRY(tri_alloc("a look at a corpus", count, sizeof *tokens, &tokens));
  tri_status status = corpus == NULL ? TRI_OK : sample_corpus(corpus, vocab_size, tokens);
  status = tri_common_status(group, status);
  if (status == TRI_OK) status = tri_must_agree(group, what, (const char *)tokens, count * sizeof *tokens);
  tri_free(tokens);
  return status;
}

tri_status tri_startup_check_agreement(const tri_mesh *mesh, const tri_run_config *config, const tri_run_data *data) {
  const tri_group *world = &mesh->world;
  int64_t vocab_size = config->model.vocab_size;
  char what[64 + TRI_PATH_BYTES];
  if (world->size == 1) return TRI_OK;
  TRI_TRY(agree_on_program(world));
  TRI_TRY(agree_on_configuration(world, config));
  if (data->prompts.count > 0) {
    const size_t bytes = sizeof data->prompts.fingerprint;
    TRI_TRY(tri_must_agree(world, "file of prompts (data.prompts)", data->prompts.fingerprint, bytes));
    return tri_must_agree(world, "file of prompts (data.validation_prompts)", data->validation_prompts.fingerprint,
                          bytes);
  }
  for (int64_t k = 0; k < config->data.num_train; k++) {
    bool several = config->data.num_train > 1;
    snprintf(what, sizeof what, "corpus (data.train%s%s)", several ? ": " : "",
             several ? config->data.train[k].path : "");
    TRI_TRY(tri_startup_check_corpus(world, data->train_corpora[k], vocab_size, what));
  }
  return tri_startup_check_corpus(world, data->validation_corpus, vocab_size, "corpus (data.validation)");
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

enum { NODE_BYTES = 64, RANKS_LISTED = 16 };

/* Memory needs of one rank. */
typedef struct need {
  size_t parameters, gradients, optimizer, activations, samples, rollouts, buffers, total;
  size_t on_node;   /* bytes of `total` that are in the memory of the node */
  size_t available; /* memory of the node that is available to all its ranks */
  size_t on_device, device_has;
  char device[TRI_DEVICE_NAME_BYTES], taken[160];
  char node[NODE_BYTES];
} need;

/* Returns the bytes of this rank's snapshots: an old one, which is kept while a new one is written, and with several
 * nodes the same for the snapshots of another rank. */
static size_t snapshot_bytes(const tri_engine_options *options, const tri_parts *parts) {
  const tri_group *world = &options->mesh->world;
  bool nodes = false;
  for (int r = 1; r < world->size; r++) nodes = nodes || tri_group_node_of(world, r) != tri_group_node_of(world, 0);
  return (nodes ? 4 : 2) * tri_checkpoint_map_planned_bytes(options, parts, &options->mesh->place);
}

static tri_status plan_own(const tri_engine_options *options, tri_device *device, const tri_startup_memory *beside,
                           need *out) {
  tri_parts parts = {0};
  tri_memory_plan *plan = NULL;
  TRI_TRY(tri_engine_parts_create(options, &options->mesh->place, device, &parts));
  tri_memory_request request = tri_engine_memory_request(options, &parts, &options->mesh->place, device);
  tri_status status = tri_memory_plan_create(&request, &plan);
  if (status == TRI_OK) {
    *out = (need){.parameters = plan->parameter_bytes,
                  .gradients = plan->gradient_bytes,
                  .optimizer = plan->optimizer_bytes,
                  .activations = plan->activation_bytes + plan->transient_bytes,
                  .total = plan->total_bytes,
                  .on_node = plan->host_bytes + (device->info.host_memory ? plan->device_bytes : 0),
                  .available = tri_system_memory_of_node(),
                  .on_device = plan->device_bytes,
                  .device_has = device->info.memory_bytes};
    const size_t snapshots = beside->snapshots ? snapshot_bytes(options, &parts) : 0;
    const tri_runner_need *generating[] = {&beside->samples, &beside->rollouts};
    for (int k = 0; k < 2; k++) {
      const tri_runner_need *of = generating[k];
      out->total += of->device_bytes + of->host_bytes;
      out->on_node += of->host_bytes + (device->info.host_memory ? of->device_bytes : 0);
      out->on_device += of->device_bytes;
    }
    out->samples = beside->samples.device_bytes + beside->samples.host_bytes;
    out->rollouts = beside->rollouts.device_bytes + beside->rollouts.host_bytes + plan->lent_bytes;
    out->total += snapshots;
    out->on_node += snapshots;
    snprintf(out->device, sizeof out->device, "%s", device->info.name);
    (void)tri_device_describe_reserved(&device->info, out->taken, sizeof out->taken);
    out->buffers = out->total - out->parameters - out->gradients - out->optimizer - out->activations - out->samples -
                   out->rollouts;
    if (gethostname(out->node, sizeof out->node) != 0) out->node[0] = '\0';
    out->node[sizeof out->node - 1] = '\0';
  }
  tri_memory_plan_destroy(plan);
  tri_parts_destroy(&parts);
  return status;
}

typedef struct text {
  char bytes[4096];
  size_t length;
} text;

static void add_size(text *to, const char *name, size_t bytes) {
  char size[32];
  int added = snprintf(to->bytes + to->length, sizeof to->bytes - to->length, " %s %s", name,
                       tri_format_bytes((double)bytes, size, sizeof size));
  to->length += added > 0 && to->length + (size_t)added < sizeof to->bytes ? (size_t)added : 0;
}

static void add_rank(text *to, const tri_mesh_shape *shape, int rank, const need *what) {
  char place[128];
  int added = snprintf(to->bytes + to->length, sizeof to->bytes - to->length, "\n  rank %d (%s):", rank,
                       tri_mesh_describe(shape, rank, place, sizeof place));
  to->length += added > 0 && to->length + (size_t)added < sizeof to->bytes ? (size_t)added : 0;
  add_size(to, "parameters", what->parameters);
  add_size(to, "gradients", what->gradients);
  add_size(to, "optimizer", what->optimizer);
  add_size(to, "activations", what->activations);
  if (what->samples > 0) add_size(to, "samples", what->samples);
  if (what->rollouts > 0) add_size(to, "rollouts", what->rollouts);
  add_size(to, "buffers", what->buffers);
  add_size(to, "=", what->total);
}

/* Returns advice about the largest part. */
static const char *advice(const need *all) {
  if (all->samples > all->total / 2)
    return "the whole model writes samples on the first rank: leave samples.prompts out";
  if (all->rollouts > all->total / 2)
    return "lower rollout.slots, rollout.cache or rollout.max_completion_length, or raise rollout.tensor";
  size_t state = all->parameters + all->gradients + all->optimizer;
  if (all->activations > state)
    return "reduce layout.micro_batch or data.sequence, or recompute more (layout.recompute)";
  return "raise layout.zero, layout.tensor or layout.pipeline, use fewer ranks a node, or a smaller model";
}

/* Sums the needs of all ranks of a node, whose first rank is `first`, and fails if they exceed its memory. */
static tri_status check_node(const tri_mesh *mesh, const need *needs, int first) {
  need sum = {0};
  text listed = {.length = 0};
  int ranks = 0;
  for (int r = first; r < mesh->world.size; r++) {
    if (tri_group_node_of(&mesh->world, r) != tri_group_node_of(&mesh->world, first)) continue;
    sum.parameters += needs[r].parameters;
    sum.gradients += needs[r].gradients;
    sum.optimizer += needs[r].optimizer;
    sum.activations += needs[r].activations;
    sum.samples += needs[r].samples;
    sum.rollouts += needs[r].rollouts;
    sum.total += needs[r].on_node;
    if (ranks++ < RANKS_LISTED) add_rank(&listed, &mesh->shape, r, &needs[r]);
  }
  if (needs[first].available == 0 || sum.total <= needs[first].available) return TRI_OK;
  char need_text[32], have_text[32];
  return tri_fail(TRI_OUT_OF_MEMORY, "the %d ranks on %s need %s, but it has %s available; %s:%s%s", ranks,
                  needs[first].node, tri_format_bytes((double)sum.total, need_text, sizeof need_text),
                  tri_format_bytes((double)needs[first].available, have_text, sizeof have_text), advice(&sum),
                  listed.bytes, ranks > RANKS_LISTED ? "\n  ..." : "");
}

/* Compares a rank's needs with the memory of its device, or with the limit for it. */
static tri_status check_device(const tri_mesh *mesh, const need *needs, int rank) {
  const need *n = &needs[rank];
  text listed = {.length = 0};
  char need_text[32], have_text[32];
  if (n->device_has == 0 || n->on_device <= n->device_has) return TRI_OK;
  need on_device = *n; /* the needs without their part in host memory */
  on_device.total = n->on_device;
  on_device.buffers = 0;
  const size_t parts = n->parameters + n->gradients + n->optimizer + n->activations + n->samples + n->rollouts;
  if (n->on_device > parts) on_device.buffers = n->on_device - parts;
  add_rank(&listed, &mesh->shape, rank, &on_device);
  return tri_fail(
      TRI_OUT_OF_MEMORY, "rank %d needs %s of the device %s, which has %s available (`device_memory`)%s; %s:%s", rank,
      tri_format_bytes((double)n->on_device, need_text, sizeof need_text), n->device,
      tri_format_bytes((double)n->device_has, have_text, sizeof have_text), n->taken, advice(n), listed.bytes);
}

tri_status tri_startup_check_memory(const tri_engine_options *options, tri_device *device,
                                    const tri_startup_memory *more) {
  const tri_mesh *mesh = options->mesh;
  need own = {0}, *needs = NULL;
  const bool samples = more->samples.device_bytes + more->rollouts.device_bytes >
                       0; /* the executor of a single rank checks the same plan */
  if (mesh->world.size == 1 && !samples) return TRI_OK;
  TRI_TRY(tri_common_status(&mesh->world, plan_own(options, device, more, &own)));
  tri_status status = tri_alloc("what ranks need", (size_t)mesh->world.size, sizeof *needs, &needs);
  TRI_TRY(tri_common_status(&mesh->world, status));
  status = tri_gather_bytes(&mesh->world, sizeof own, &own, needs);
  for (int r = 0; r < mesh->world.size && status == TRI_OK; r++) {
    bool first = true;
    for (int before = 0; before < r && first; before++) {
      first = tri_group_node_of(&mesh->world, before) != tri_group_node_of(&mesh->world, r);
    }
    status = check_device(mesh, needs, r);
    if (first && status == TRI_OK) status = check_node(mesh, needs, r);
  }
  tri_free(needs);
  if (status == TRI_OK || mesh->world.rank == 0) return status;
  return tri_fail(status, "%s", ""); /* the first rank has the message */
}
