#include "checkpoint/ties.h"

#include "base/log.h"
#include "base/memory.h"
#include "base/parent.h"
#include "checkpoint/huggingface.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE_ELEMENTS = 1 << 20 };

/* Compares two tensors piece by piece, up to the first difference. */
static tri_status compare(const tri_checkpoint *from, const tri_parameter *a, const tri_parameter *b, bool *same) {
  float *pieces[2] = {NULL, NULL};
  const int64_t count = tri_parameter_global_count(a);
  tri_status status = TRI_OK;
  *same = true;
  for (int i = 0; i < 2; i++) {
    TRI_TRY_GOTO(tri_alloc("a part of a tensor", PIECE_ELEMENTS, sizeof(float), &pieces[i]), release);
  }
  for (int64_t done = 0; done < count && *same; done += PIECE_ELEMENTS) {
    tri_checkpoint_slice slice = {.first = done, .count = count - done};
    if (slice.count > PIECE_ELEMENTS) slice.count = PIECE_ELEMENTS;
    slice.data = pieces[0];
    TRI_TRY_GOTO(tri_checkpoint_read_slice(from, a->name, TRI_FP32, a->num_dims, a->shape, &slice), release);
    slice.data = pieces[1];
    TRI_TRY_GOTO(tri_checkpoint_read_slice(from, b->name, TRI_FP32, b->num_dims, b->shape, &slice), release);
    *same = memcmp(pieces[0], pieces[1], (size_t)slice.count * sizeof(float)) == 0;
  }
release:
  tri_free(pieces[0]);
  tri_free(pieces[1]);
  return status;
}

static tri_status look(const tri_checkpoint *weights, const tri_model *model, bool say, bool *broken) {
  tri_parameter_table *table = NULL;
  bool same = true;
  *broken = false;
  if (!model->tied) return TRI_OK;
  TRI_TRY(tri_parameter_table_create(model, NULL, &table));
  tri_status status = TRI_OK;
  const tri_parameter *head = tri_ties_head(table);
  const tri_parameter *embedding = head == NULL ? NULL : &table->entries[head->tied_to];
  if (head != NULL && tri_checkpoint_has_both(weights, head->name, embedding->name)) {
    status = compare(weights, head, embedding, &same);
  }
  if (status == TRI_OK && !same && say) {
    tri_log("%s: `%s` and `%s` differ, so they are not tied, although config.json says so (tie_word_embeddings)",
            tri_checkpoint_path(weights), head->name, embedding->name);
  }
  tri_parameter_table_destroy(table);
  *broken = !same;
  return status;
}

tri_status tri_ties_load_model(const tri_checkpoint *weights, bool verify, bool say, tri_model *out) {
  bool broken = false;
  const char *folder = tri_checkpoint_path(weights);
  TRI_TRY(verify ? tri_huggingface_load(folder, out) : tri_huggingface_load_unverified(folder, out));
  if (tri_checkpoint_get_state(weights) != NULL) return TRI_OK; /* our own files do not contradict config.json */
  if (say) tri_huggingface_note(folder, false);
  TRI_TRY(look(weights, out, say, &broken));
  if (broken) out->tied = false;
  return TRI_OK;
}

bool tri_ties_are_broken(const char *given, const tri_model *model, bool say) {
  char folder[TRI_PATH_BYTES];
  const tri_checkpoint_use use = {.optimizer = false};
  tri_checkpoint *weights = NULL;
  bool broken = false;
  if (!model->tied || tri_checkpoint_find(given, &use, folder) != TRI_OK) return false;
  if (tri_checkpoint_open(folder, &weights) != TRI_OK) return false;
  const bool foreign = tri_checkpoint_get_state(weights) == NULL && !tri_checkpoint_is_adapter(weights);
  if (!foreign || look(weights, model, say && getenv(TRI_LAUNCHED) == NULL, &broken) != TRI_OK) broken = false;
  tri_checkpoint_close(weights);
  return broken;
}
