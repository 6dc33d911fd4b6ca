/* Checks that a model sets only keys of its family, and that its numbers fit together. */
#include "config/config.h"
#include "model/family.h"
#include "model/model_config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *const tri_family_optional_keys[] = {
    "dropout",        "activation",    "attention_bias",     "output_bias",     "mlp_bias",
    "residual",       "rope_theta",    "local_rope_theta",   "rope_scaling",    "rotary_fraction",
    "rope_layers",    "window",        "window_layers",      "attention_scale", "embedding_scale",
    "residual_scale", "logit_divisor", "attention_soft_cap", "logit_soft_cap",  NULL};

static bool has_key(const tri_family_table *family, const char *key) {
  for (const char *const *at = family->keys; *at != NULL; at++) {
    if (strcmp(*at, key) == 0) return true;
  }
  return false;
}

enum { FAMILIES_BYTES = 256, MOST_NAMED = 5 };

/* Lists the families that have a key: "gpt2, gpt_neox and opt", or "llama and 9 others". */
static void list_families(const char *key, char out[FAMILIES_BYTES]) {
  static const tri_family all[] = {TRI_FAMILIES(TRI_FAMILY_VALUE)};
  const char *named[MOST_NAMED] = {NULL};
  int count = 0;
  size_t used = 0;
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    if (!has_key(tri_family_of(&(tri_model){.family = all[i]}), key)) continue;
    if (count < MOST_NAMED) named[count] = tri_family_name(all[i]);
    count++;
  }
  if (count > MOST_NAMED) {
    snprintf(out, FAMILIES_BYTES, "%s and %d others", named[0], count - 1);
    return;
  }
  out[0] = '\0';
  for (int i = 0; i < count; i++) {
    const char *before = i + 1 == count ? " and " : ", ";
    used += (size_t)snprintf(out + used, FAMILIES_BYTES - used, "%s%s", i == 0 ? "" : before, named[i]);
  }
}

/* ---- keys that a family lacks ------------------------------------------------------------------------------------ */

/* Returns the optional key of a difference: "rope_scaling" for "rope_scaling.factor"; NULL if the key of the difference
 * is not optional. */
static const char *optional_key(const char *key) {
  for (const char *const *at = tri_family_optional_keys; *at != NULL; at++) {
    const size_t length = strlen(*at);
    if (strncmp(*at, key, length) == 0 && (key[length] == '\0' || key[length] == '.')) return *at;
  }
  return NULL;
}

typedef struct foreign {
  const tri_family_table *family;
  const char *key; /* first key that the family lacks */
} foreign;

static void check_key(void *context, const tri_config_difference *difference) {
  foreign *found = context;
  const char *optional = optional_key(difference->key);
  if (found->key == NULL && optional != NULL && !has_key(found->family, optional)) found->key = optional;
}

/* Fails if a key that the family does not have differs from its default. The defaults are those of a model with the
 * same sizes. */
static tri_status check_keys(const tri_model *model, const tri_family_table *family) {
  foreign found = {.family = family};
  tri_model plain;
  char families[FAMILIES_BYTES];
  tri_model_plain(model, &plain);
  if (tri_rope_is_plain(&model->rope_scaling)) plain.rope_scaling = model->rope_scaling;
  tri_config_differences(&tri_model_table, model, &plain, check_key, &found);
  if (found.key == NULL) return TRI_OK;
  list_families(found.key, families);
  return tri_fail(TRI_BAD_CONFIG, "`%s` is for %s; %s has none, so leave it out", found.key, families,
                  tri_family_name(model->family));
}

/* ---- for families ------------------------------------------------------------------------------------------------ */

tri_status tri_family_check_head_dim(const tri_model *m) {
  if (m->num_heads * m->head_dim == m->hidden_size) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG,
                  "`head_dim` does not fit: num_heads %" PRId64 " x head_dim %" PRId64 " = %" PRId64
                  ", not hidden_size %" PRId64 "; leave it out or choose numbers whose product fits",
                  m->num_heads, m->head_dim, m->num_heads * m->head_dim, m->hidden_size);
}

tri_status tri_family_check_kv_heads(const tri_model *m) {
  if (m->num_kv_heads == m->num_heads) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG,
                  "`num_kv_heads` %" PRId64 " is not num_heads %" PRId64
                  ", and %s has no grouped-query attention; leave it out or take `family: llama`",
                  m->num_kv_heads, m->num_heads, tri_family_name(m->family));
}

tri_status tri_family_check_divides(const tri_model *m) {
  if (m->hidden_size % m->num_heads == 0) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG,
                  "`hidden_size` %" PRId64 " is not a multiple of num_heads %" PRId64
                  ", which transformers refuses here, whatever head_dim is; try hidden_size %" PRId64,
                  m->hidden_size, m->num_heads, (m->hidden_size / m->num_heads + 1) * m->num_heads);
}

tri_status tri_family_check(const tri_model *model) {
  const tri_family_table *family = tri_family_of(model);
  TRI_TRY(check_keys(model, family));
  TRI_TRY(tri_blocks_check(model));
  return family->check == NULL ? TRI_OK : family->check(model);
}
