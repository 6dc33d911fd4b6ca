#include "model/window.h"

#include <math.h>

int64_t tri_model_window(const tri_model *model, int64_t layer) {
  return tri_layer_set_has(model->window_layers, model->num_layers, layer) ? model->window : 0;
}

bool tri_model_layer_turns(const tri_model *model, int64_t layer) {
  return tri_layer_set_has(model->rope_layers, model->num_layers, layer);
}

int64_t tri_model_rotary_dim(const tri_model *model) {
  return (int64_t)floor((double)model->head_dim * model->rotary_fraction);
}

static tri_status complete_window(tri_model *m) {
  if (m->window != 0) return tri_layer_set_complete(m->window_layers, "window_layers", m->num_layers);
  if (tri_layer_set_is_all(m->window_layers)) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG, "`window_layers` is `%.60s`, and `window` is not set; set it (`window: 4096`)",
                  m->window_layers);
}

tri_status tri_model_complete_layers(tri_model *m) {
  TRI_TRY(complete_window(m));
  return tri_layer_set_complete(m->rope_layers, "rope_layers", m->num_layers);
}
