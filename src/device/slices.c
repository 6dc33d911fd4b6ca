/* Checks of attention calls and of their lists of slices (device/description.h). */
#include "device/description.h"

tri_status tri_attention_check(const tri_attention *call) {
  bool sizes = call->query_rows >= 0 && call->key_rows >= 0 && call->num_slices >= 0 && call->most_queries >= 0 &&
               call->most_keys >= 0;
  bool heads = call->head_dim > 0 && call->kv_heads > 0 && call->heads > 0 && call->heads % call->kv_heads == 0;
  tri_dtype wide = tri_dtype_wide(call->type);
  bool types = (call->out_type == call->type || call->out_type == wide) &&
               (call->gradient_type == call->type || call->gradient_type == wide);
  bool scores = call->scale > 0 && call->soft_cap >= 0;
  if (sizes && heads && types && scores) return TRI_OK;
  return tri_fail_internal(
      "attention of %lld query rows on %lld key rows with %lld heads over %lld of size %lld, scale %g, "
      "cap %g, in %s into %s and %s makes no sense: it needs heads a multiple of kv_heads, scale > 0, cap "
      ">= 0, results of the type or wide",
      (long long)call->query_rows, (long long)call->key_rows, (long long)call->heads, (long long)call->kv_heads,
      (long long)call->head_dim, call->scale, call->soft_cap, tri_dtype_name(call->type),
      tri_dtype_name(call->out_type), tri_dtype_name(call->gradient_type));
}

static bool within(int64_t first, int64_t count, int64_t most, int64_t rows) {
  return first >= 0 && count >= 0 && count <= most && first + count <= rows;
}

tri_status tri_attention_slices_check(const tri_attention *call, const tri_attention_slice *slices, int64_t *live) {
  int64_t after_query = 0, after_key = 0;
  *live = 0;
  TRI_TRY(tri_attention_check(call));
  for (int64_t i = 0; i < call->num_slices; i++) {
    const tri_attention_slice *s = &slices[i];
    if (s->queries == 0 || s->keys == 0) continue;
    bool inside = within(s->first_query, s->queries, call->most_queries, call->query_rows) &&
                  within(s->first_key, s->keys, call->most_keys, call->key_rows);
    bool apart =
        (call->shares_queries || s->first_query >= after_query) && (call->shares_keys || s->first_key >= after_key);
    if (!inside || !apart || s->from > s->to) {
      return tri_fail_internal("slice %lld of attention, %d queries from %d on %d keys from %d (i%+d to i%+d), %s",
                               (long long)i, s->queries, s->first_query, s->keys, s->first_key, s->from, s->to,
                               !inside  ? "is outside the rows or the sizes of the call"
                               : !apart ? "overlaps the slices before it, which the call says none does"
                                        : "sees nothing: its band ends before it begins");
    }
    after_query = (int64_t)s->first_query + s->queries;
    after_key = (int64_t)s->first_key + s->keys;
    *live = i + 1;
  }
  return TRI_OK;
}
