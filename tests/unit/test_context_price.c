/* What sharing a sequence costs attention, beside what others have measured: ring-flash-attention's README (Zhu) has
 * attention alone, forward and backward, with the heads of Llama 3 8B and 8192 tokens on each of eight H800s, as a
 * share of an eighth of what flash attention does with the whole sequence: 90.2 % with zig-zag shares. */
#include "check.h"
#include "model/family.h"
#include "model/model_config.h"
#include "plan/price.h"
#include "schedule/layout.h"

#include <math.h>
#include <string.h>

enum { TOKENS = 8 * 8192 };

/* Seconds of what a layer's attention does, with what passes between ranks. */
static double attention_s(const tri_cluster *cluster, const tri_system *system, const tri_model *model,
                          const tri_layout *layout) {
  const tri_mesh_shape shape = tri_layout_mesh(layout);
  tri_list_request request = tri_list_request_whole(model, TRI_LIST_TRAIN, 1, TOKENS, TRI_BF16);
  tri_op_list *list = NULL;
  double seconds = 0;
  request.layers = (tri_layer_range){-1, 1};
  request.shard = (tri_op_shard){.seat = {shape, {{0}}}, .context_exchange = layout->context_exchange};
  CHECK_OK(tri_model_operations(model, &request, &list));
  for (int64_t c = 0; c < list->num_calls; c++) {
    const tri_op_call *call = &list->calls[c];
    bool counts = strncmp(call->op->name, "attention", 9) == 0 || strcmp(call->op->name, "exchange_heads") == 0;
    for (int pass = TRI_PASS_FORWARD; counts && pass <= TRI_PASS_BACKWARD_INPUT; pass++) {
      tri_price price = tri_price_pass(cluster, system, call, (tri_pass)pass, &shape);
      seconds += price.compute_s + tri_price_collectives_s(&price);
    }
  }
  tri_op_list_destroy(list);
  return seconds;
}

static void test_shares(void **state) {
  (void)state;
  tri_model model;
  tri_cluster cluster;
  tri_system system;
  CHECK_OK(tri_model_load("llama-3-8b", &model));
  CHECK_OK(tri_cluster_load("dgx-h100", &cluster));
  CHECK_OK(tri_system_load("trireme", &system));
  cluster.links[0].bandwidth = 200e9; /* of an H800: 8 of 18 links */
  tri_layout alone = {.tensor = 1, .context = 1, .context_inner = 1, .data = 1, .pipeline = 1};
  tri_layout ring = alone, heads = alone;
  ring.context = heads.context = heads.context_inner = 8;
  ring.context_exchange = TRI_CONTEXT_RING;
  heads.context_exchange = TRI_CONTEXT_HEADS;
  double whole = attention_s(&cluster, &system, &model, &alone);
  double share = whole / 8 / attention_s(&cluster, &system, &model, &ring);
  if (fabs(share - 0.902) > 0.05) fail_msg("a ring reaches %.3f of an eighth", share);
  /* Heads are exchanged before and behind: in a node that is less than a ring's merging. */
  assert_true(whole / 8 / attention_s(&cluster, &system, &model, &heads) > share);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_shares)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
