/* Predicts a step. The program is linked with the whole of libtrireme_plan and no other library of ours
 * (tests/CMakeLists.txt), so it does not link if the library needs other parts of the program; check_links.py also
 * checks that it needs neither MPI nor oneDNN. */
#include "model/model_config.h"
#include "plan/simulate.h"
#include "schedule/layout_config.h"

#include <stdio.h>

static tri_status predict(tri_prediction *out) {
  tri_model model;
  tri_cluster cluster;
  tri_system system;
  tri_layout layout = {0};
  TRI_TRY(tri_model_load("frontier-22b", &model));
  TRI_TRY(tri_cluster_load("frontier", &cluster));
  TRI_TRY(tri_system_load("trireme", &system));
  TRI_TRY(tri_layout_parse("tensor=8,pipeline=2,schedule=1f1b", &layout));
  TRI_TRY(tri_layout_resolve(&layout, &model, 1024, 32, 16));
  return tri_simulate(&(tri_simulation_request){.model = &model,
                                                .layout = &layout,
                                                .cluster = &cluster,
                                                .system = &system,
                                                .global_batch = 32,
                                                .sequence = 2048,
                                                .precision = TRI_BF16},
                      out);
}

int main(void) {
  tri_prediction found;
  if (predict(&found) != TRI_OK) {
    fprintf(stderr, "%s\n", tri_status_message());
    return 1;
  }
  printf("%.17g s, %.17g bytes\n", found.step_s, found.memory.peak);
  return found.step_s > 0 && found.memory.peak > 0 ? 0 : 1;
}
