/* Storage of states between updates. States that are not stored wide are converted for an update, piece by piece, and
 * converted back; optimizers see wide states only. */
#include "base/count.h"
#include "base/dynamic_map.h"
#include "base/memory.h"
#include "model/trainable.h"
#include "optimizers/run.h"

#include <math.h>

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

bool tri_update_has_own_shape(const tri_update_call *call, int64_t state) {
  return tri_update_state(call, state)->shape != NULL;
}

tri_state_storage tri_update_storage(const tri_update_call *call, int64_t state) {
  const tri_optimizer_state *of = tri_update_state(call, state);
  const bool narrow = of->as_read && call->type == TRI_BF16 && tri_trainable_is_read_narrow(&call->tensor);
  if (narrow) return TRI_STATE_BF16;
  return of->as_value || tri_update_has_own_shape(call, state) ? TRI_STATE_WIDE : call->settings->state;
}

int64_t tri_update_state_count(const tri_update_call *call, int64_t state) {
  if (!tri_update_has_own_shape(call, state)) return call->count;
  const tri_state_shape shape = tri_optimizer_state_shape(call->settings, tri_update_state(call, state), &call->tensor);
  return tri_state_shape_count(&shape);
}

/* Returns the bytes of the codes of an int8 state; its scales follow them. */
static size_t codes_bytes(int64_t count) { return tri_bytes_in_lines((size_t)count); }

size_t tri_update_state_bytes(const tri_update_call *call, int64_t state) {
  const size_t count = (size_t)tri_update_state_count(call, state);
  const size_t blocks = (count + TRI_QUANTISED_BLOCK - 1) / TRI_QUANTISED_BLOCK;
  switch (tri_update_storage(call, state)) {
    case TRI_STATE_WIDE: return count * tri_dtype_bytes(tri_dtype_wide(call->type));
    case TRI_STATE_BF16: return count * tri_dtype_bytes(TRI_BF16);
    case TRI_STATE_INT8: return codes_bytes(call->count) + blocks * sizeof(float);
  }
  return 0;
}

static double element_bytes(const tri_update_call *call, int64_t state) {
  switch (tri_update_storage(call, state)) {
    case TRI_STATE_WIDE: return (double)tri_dtype_bytes(tri_dtype_wide(call->type));
    case TRI_STATE_BF16: return (double)tri_dtype_bytes(TRI_BF16);
    case TRI_STATE_INT8: return 1 + (double)sizeof(float) / TRI_QUANTISED_BLOCK;
  }
  return 0;
}

double tri_update_element_bytes(const tri_update_call *call) {
  double bytes =
      3 * (double)tri_dtype_bytes(tri_dtype_wide(call->type)); /* the value is read and written, the gradient is read */
  for (int64_t s = 0; s < call->optimizer->num_states; s++) {
    if (!tri_update_has_own_shape(call, s)) bytes += 2 * element_bytes(call, s);
  }
  return bytes + tri_average_element_bytes(call->settings, tri_dtype_bytes(tri_dtype_wide(call->type)));
}

double tri_update_kept_bytes(const tri_update_call *call) {
  double bytes = 0;
  for (int64_t s = 0; s < tri_update_num_states(call); s++) {
    if (!tri_update_has_own_shape(call, s)) bytes += element_bytes(call, s);
  }
  return bytes;
}

double tri_update_own_shape_bytes(const tri_update_call *call) {
  double bytes = 0;
  for (int64_t s = 0; s < call->optimizer->num_states; s++) {
    if (tri_update_has_own_shape(call, s)) bytes += 2 * (double)tri_update_state_bytes(call, s);
  }
  return bytes;
}

bool tri_update_is_wide(const tri_update_call *call, int64_t state) {
  switch (tri_update_storage(call, state)) {
    case TRI_STATE_WIDE: return true;
    case TRI_STATE_BF16:
    case TRI_STATE_INT8: break;
  }
  return false;
}

static bool all_wide(const tri_update_call *call) {
  for (int64_t s = 0; s < call->optimizer->num_states; s++) {
    if (!tri_update_is_wide(call, s)) return false;
  }
  return true;
}

/* Elements whose states are converted at a time: all of a matrix, else a piece that fits into the cache. A multiple of
 * TRI_QUANTISED_BLOCK. */
enum { PIECE = 1 << 16 };

static int64_t piece_of(const tri_update_call *call) {
  switch (call->optimizer->unit) {
    case TRI_UNIT_ELEMENTS: return call->count < PIECE ? call->count : PIECE;
    case TRI_UNIT_MATRIX: break;
  }
  return call->count;
}

/* Returns the bytes of a wide piece of a state. These pieces are at the beginning of the workspace; the optimizer's own
 * scratch memory follows. */
static size_t widened_bytes(const tri_update_call *call) {
  return tri_bytes_in_lines((size_t)piece_of(call) * tri_dtype_bytes(tri_dtype_wide(call->type)));
}

tri_status tri_update_workspace(const tri_update_call *call, const tri_device_description *device, size_t *bytes) {
  size_t own = 0;
  if (call->optimizer == NULL) { /* scratch for the steps of a bias of expert load balancing */
    *bytes = (size_t)call->count * tri_dtype_bytes(tri_dtype_wide(call->type));
    return TRI_OK;
  }
  if (call->optimizer->workspace != NULL) TRI_TRY(call->optimizer->workspace(call, device, &own));
  for (int64_t s = 0; s < call->optimizer->num_states; s++) {
    if (!tri_update_is_wide(call, s)) own = tri_bytes_plus(own, widened_bytes(call));
  }
  *bytes = own;
  return TRI_OK;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* Elements of a state as they are stored. */
typedef struct stored {
  tri_state_storage storage;
  bool with_sign;
  char *values;
  float *scales; /* scales of the blocks; int8 only */
} stored;

/* Returns the elements from the call's element `first` on, of a state that begins at `kept`. */
static stored stored_of(const tri_update_call *call, int64_t state, void *kept, int64_t first) {
  char *values = kept;
  stored s = {.storage = tri_update_storage(call, state), .with_sign = tri_update_state(call, state)->with_sign};
  switch (s.storage) {
    case TRI_STATE_WIDE: s.values = values + (size_t)first * tri_dtype_bytes(tri_dtype_wide(call->type)); break;
    case TRI_STATE_BF16: s.values = values + (size_t)first * tri_dtype_bytes(TRI_BF16); break;
    case TRI_STATE_INT8:
      s.values = values + first;
      s.scales = (float *)(void *)(values + codes_bytes(call->count)) + first / TRI_QUANTISED_BLOCK;
      break;
  }
  return s;
}

static tri_status widen(tri_queue *queue, tri_dtype type, int64_t count, const stored *from, void *to) {
  switch (from->storage) {
    case TRI_STATE_WIDE: break;
    case TRI_STATE_BF16:
      TRI_KERNEL_CALL(queue, convert, count, TRI_BF16, from->values, tri_dtype_wide(type), to);
      break;
    case TRI_STATE_INT8:
      TRI_KERNEL_CALL(queue, dequantise_blocks, type, count, from->with_sign, (const uint8_t *)from->values,
                      from->scales, to);
      break;
  }
  return TRI_OK;
}

static tri_status write_back(tri_queue *queue, tri_dtype type, int64_t count, const void *from, const stored *to) {
  switch (to->storage) {
    case TRI_STATE_WIDE: break;
    case TRI_STATE_BF16:
      TRI_KERNEL_CALL(queue, convert, count, tri_dtype_wide(type), from, TRI_BF16, to->values);
      break;
    case TRI_STATE_INT8:
      TRI_KERNEL_CALL(queue, quantise_blocks, type, count, to->with_sign, from, (uint8_t *)to->values, to->scales);
      break;
  }
  return TRI_OK;
}

/* Updates `count` elements of the call, from its element `first` on. */
static tri_status run_piece(const tri_update_run *run, const tri_update_call *call, int64_t first, int64_t count) {
  const size_t before = (size_t)first * tri_dtype_bytes(tri_dtype_wide(call->type));
  tri_update_run piece = *run;
  tri_update_call part = *call;
  stored kept[TRI_OPTIMIZER_STATES];
  char *scratch = run->workspace;
  part.first += first;
  part.count = count;
  piece.value = (char *)run->value + before;
  piece.gradient = (char *)run->gradient + before;
  if (run->narrow != NULL) piece.narrow = (char *)run->narrow + (size_t)first * tri_dtype_bytes(call->type);
  for (int64_t s = 0; s < call->optimizer->num_states; s++) {
    kept[s] = stored_of(call, s, run->states[s], first);
    piece.states[s] = kept[s].values;
    if (tri_update_is_wide(call, s)) continue;
    piece.states[s] = scratch;
    scratch += widened_bytes(call);
    TRI_TRY(widen(run->queue, call->type, count, &kept[s], piece.states[s]));
  }
  piece.workspace = scratch;
  TRI_TRY(call->optimizer->update(&piece, &part));
  for (int64_t s = 0; s < call->optimizer->num_states; s++) {
    TRI_TRY(write_back(run->queue, call->type, count, piece.states[s], &kept[s]));
  }
  return TRI_OK;
}

tri_status tri_update_widen(tri_queue *queue, const tri_update_call *call, int64_t state, void *kept, void *wide) {
  const tri_dtype type = tri_dtype_wide(call->type);
  const stored from = stored_of(call, state, kept, 0);
  if (tri_update_is_wide(call, state)) {
    TRI_KERNEL_CALL(queue, convert, call->count, type, kept, type, wide);
    return TRI_OK;
  }
  return widen(queue, call->type, call->count, &from, wide);
}

/* Finds the codes and the scale from which these values were dequantised, for a signed block whose value of largest
 * magnitude is negative. That value has the lowest code, whose number is not -1, so its magnitude is not the scale.
 * Returns false for other blocks, and if no scale gives exactly these values. */
static bool restore_block(int64_t count, const float *values, uint8_t *codes, float *scale) {
  const float lowest = tri_dynamic_number(true, 0);
  float largest = 0;
  for (int64_t i = 0; i < count; i++) {
    if (fabsf(values[i]) > fabsf(largest) || -values[i] == fabsf(largest)) largest = values[i];
  }
  if (!(largest < 0) || !isfinite(largest)) return false;
  float s = nextafterf(nextafterf(largest / lowest, 0), 0);
  for (int attempt = 0; attempt < 5; attempt++, s = nextafterf(s, INFINITY)) {
    int64_t fits = 0;
    for (int64_t i = 0; i < count; i++, fits++) {
      int32_t low = 0, high = TRI_DYNAMIC_CODES - 1; /* numbers ascend with the code, and so do their products with s */
      while (low < high) {
        const int32_t middle = (low + high) / 2;
        if (tri_dynamic_number(true, middle) * s < values[i]) {
          low = middle + 1;
        } else {
          high = middle;
        }
      }
      if (tri_dynamic_number(true, low) * s != values[i]) break;
      codes[i] = (uint8_t)low;
    }
    if (fits < count) continue;
    *scale = s;
    return true;
  }
  return false;
}

enum { RESTORED = 1 << 14 };

/* Stores the same bits again for blocks whose values were dequantised before. Quantising alone gives only the nearest
 * codes. */
static tri_status restore_blocks(tri_queue *queue, const tri_update_call *call, const char *wide, const stored *to) {
  const tri_dtype type = tri_dtype_wide(call->type);
  const size_t element = tri_dtype_bytes(type);
  float *values = NULL;
  uint8_t *codes = NULL;
  TRI_TRY(tri_alloc("blocks of 8 bits", RESTORED, sizeof *values + element + 1, &values));
  char *raw = (char *)(values + RESTORED);
  codes = (uint8_t *)raw + RESTORED * element;
  tri_status status = TRI_OK;
  for (int64_t first = 0; first < call->count && status == TRI_OK; first += RESTORED) {
    const int64_t count = call->count - first < RESTORED ? call->count - first : RESTORED;
    status = tri_queue_download_now(queue, raw, wide + (size_t)first * element, (size_t)count * element);
    for (int64_t i = 0; i < count && status == TRI_OK; i++) values[i] = (float)tri_wide_get(type, raw, i);
    for (int64_t b = 0; b < count && status == TRI_OK; b += TRI_QUANTISED_BLOCK) {
      const int64_t size = count - b < TRI_QUANTISED_BLOCK ? count - b : TRI_QUANTISED_BLOCK;
      float scale;
      if (!restore_block(size, values + b, codes, &scale)) continue;
      status = tri_queue_upload_now(queue, to->values + first + b, codes, (size_t)size);
      if (status == TRI_OK) {
        status = tri_queue_upload_now(queue, to->scales + (first + b) / TRI_QUANTISED_BLOCK, &scale, sizeof scale);
      }
    }
  }
  tri_free(values);
  return status;
}

tri_status tri_update_narrow(tri_queue *queue, const tri_update_call *call, int64_t state, const void *wide,
                             void *kept) {
  const tri_dtype type = tri_dtype_wide(call->type);
  const stored to = stored_of(call, state, kept, 0);
  if (tri_update_is_wide(call, state)) {
    TRI_KERNEL_CALL(queue, convert, call->count, type, wide, type, kept);
    return TRI_OK;
  }
  TRI_TRY(write_back(queue, call->type, call->count, wide, &to));
  if (to.scales == NULL || !to.with_sign) return TRI_OK;
  return restore_blocks(queue, call, wide, &to);
}

tri_status tri_update_run_call(const tri_update_run *run, const tri_update_call *call) {
  if (all_wide(call)) return call->optimizer->update(run, call);
  const int64_t piece = piece_of(call);
  for (int64_t first = 0; first < call->count; first += piece) {
    TRI_TRY(run_piece(run, call, first, call->count - first < piece ? call->count - first : piece));
  }
  return TRI_OK;
}
