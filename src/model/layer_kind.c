#include "model/layer_kind.h"

#include "model/experts.h"
#include "model/window.h"

int tri_model_layer_kind(const tri_model *model, int64_t layer) {
  const bool experts = tri_model_has_experts(model, layer), windowed = tri_model_window(model, layer) > 0;
  const bool turns = tri_model_layer_turns(model, layer);
  return (experts ? TRI_LAYER_EXPERTS : 0) + (windowed ? TRI_LAYER_WINDOW : 0) + (turns ? 0 : TRI_LAYER_UNTURNED);
}
