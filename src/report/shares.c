#include "report/shares.h"

#include "mesh/domain.h"

json_t *tri_shares_json(const tri_timeline_shares *shares) {
  json_t *object = json_object(), *hidden = json_object();
  int failed = object == NULL || hidden == NULL;
  double optimizer = shares->by_kind[TRI_EVENT_OPTIMIZER], sampling = shares->by_kind[TRI_EVENT_SAMPLE];
  failed |= json_object_set_new(object, "compute", json_real(shares->compute - optimizer - sampling));
  failed |= json_object_set_new(object, "optimizer", json_real(optimizer));
  if (sampling > 0) failed |= json_object_set_new(object, "sampling", json_real(sampling));
  for (int axis = 0; axis < TRI_EVENT_AXES; axis++) {
    if (axis < TRI_NUM_AXES && !tri_axis_is_shown((tri_axis)axis)) continue;
    const char *name = tri_event_axis_name(axis);
    failed |= json_object_set_new(object, name, json_real(shares->exposed[axis]));
    failed |= json_object_set_new(hidden, name, json_real(shares->hidden[axis]));
  }
  failed |= json_object_set_new(object, "bubble", json_real(shares->bubble));
  failed |= json_object_set_new(object, "hidden", hidden);
  failed |= json_object_set_new(object, "steps", json_integer(shares->num_steps));
  failed |= json_object_set_new(object, "step_s", json_real(shares->step_s));
  if (!failed) return object;
  json_decref(object);
  return NULL;
}
