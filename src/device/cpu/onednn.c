#include "device/cpu/onednn.h"

#include <stdio.h>
#include <string.h>

static dnnl_data_type_t type_of(tri_dtype type) {
  switch (type) {
    case TRI_FP32: return dnnl_f32;
    case TRI_BF16: return dnnl_bf16;
    case TRI_INT32: return dnnl_s32;
    case TRI_FP64: break; /* only the reference device supports fp64 */
  }
  return dnnl_data_type_undef;
}

/* ---- differences of 2.x and 3.x ---------------------------------------------------------------------------------- */

#if DNNL_VERSION_MAJOR >= 3

static dnnl_status_t desc_strided(dnnl_memory_desc_t *out, const dnnl_dims_t dims, dnnl_data_type_t type,
                                  const dnnl_dims_t strides) {
  return dnnl_memory_desc_create_with_strides(out, 2, dims, type, strides);
}

static dnnl_status_t desc_of(const_dnnl_primitive_desc_t primitive, dnnl_query_t what, dnnl_memory_desc_t *out) {
  return dnnl_memory_desc_clone(out, dnnl_primitive_desc_query_md(primitive, what, 0));
}

static dnnl_status_t desc_tagged(dnnl_memory_desc_t *out, const dnnl_dims_t dims, dnnl_data_type_t type,
                                 dnnl_format_tag_t tag) {
  return dnnl_memory_desc_create_with_tag(out, 2, dims, type, tag);
}

static bool desc_equal(const dnnl_memory_desc_t *a, const dnnl_memory_desc_t *b) {
  return dnnl_memory_desc_equal(*a, *b) == 1;
}

static size_t desc_bytes(const dnnl_memory_desc_t *desc) { return dnnl_memory_desc_get_size(*desc); }
static void desc_destroy(dnnl_memory_desc_t *desc) { dnnl_memory_desc_destroy(*desc); }

static dnnl_status_t memory_create(dnnl_memory_t *out, const dnnl_memory_desc_t *desc, dnnl_engine_t engine) {
  return dnnl_memory_create(out, *desc, engine, DNNL_MEMORY_NONE);
}

static dnnl_status_t append_sum(dnnl_post_ops_t operations) {
  return dnnl_post_ops_append_sum(operations, 1.0f, 0, dnnl_data_type_undef);
}

static dnnl_status_t product_desc(dnnl_primitive_desc_t *out, dnnl_engine_t engine, const tri_onednn_product *p,
                                  const dnnl_memory_desc_t *bias, const_dnnl_primitive_attr_t attributes) {
  return dnnl_matmul_primitive_desc_create(out, engine, p->a->desc, p->b->desc, bias == NULL ? NULL : *bias, p->c->desc,
                                           attributes);
}

static dnnl_status_t reorder_desc(dnnl_primitive_desc_t *out, dnnl_engine_t engine, const tri_onednn_layout *from,
                                  const tri_onednn_layout *to, const_dnnl_primitive_attr_t attributes) {
  return dnnl_reorder_primitive_desc_create(out, from->desc, engine, to->desc, engine, attributes);
}

#else

static dnnl_status_t desc_strided(dnnl_memory_desc_t *out, const dnnl_dims_t dims, dnnl_data_type_t type,
                                  const dnnl_dims_t strides) {
  return dnnl_memory_desc_init_by_strides(out, 2, dims, type, strides);
}

static dnnl_status_t desc_of(const_dnnl_primitive_desc_t primitive, dnnl_query_t what, dnnl_memory_desc_t *out) {
  const dnnl_memory_desc_t *found = dnnl_primitive_desc_query_md(primitive, what, 0);
  if (found == NULL) return dnnl_invalid_arguments;
  *out = *found;
  return dnnl_success;
}

static dnnl_status_t desc_tagged(dnnl_memory_desc_t *out, const dnnl_dims_t dims, dnnl_data_type_t type,
                                 dnnl_format_tag_t tag) {
  return dnnl_memory_desc_init_by_tag(out, 2, dims, type, tag);
}

static bool desc_equal(const dnnl_memory_desc_t *a, const dnnl_memory_desc_t *b) {
  return dnnl_memory_desc_equal(a, b) == 1;
}

static size_t desc_bytes(const dnnl_memory_desc_t *desc) { return dnnl_memory_desc_get_size(desc); }
static void desc_destroy(dnnl_memory_desc_t *desc) { (void)desc; }

static dnnl_status_t memory_create(dnnl_memory_t *out, const dnnl_memory_desc_t *desc, dnnl_engine_t engine) {
  return dnnl_memory_create(out, desc, engine, DNNL_MEMORY_NONE);
}

static dnnl_status_t append_sum(dnnl_post_ops_t operations) { return dnnl_post_ops_append_sum(operations, 1.0f); }

static dnnl_status_t product_desc(dnnl_primitive_desc_t *out, dnnl_engine_t engine, const tri_onednn_product *p,
                                  const dnnl_memory_desc_t *bias, const_dnnl_primitive_attr_t attributes) {
  dnnl_matmul_desc_t operation;
  dnnl_status_t status = dnnl_matmul_desc_init(&operation, &p->a->desc, &p->b->desc, bias, &p->c->desc);
  if (status != dnnl_success) return status;
  return dnnl_primitive_desc_create(out, &operation, attributes, engine, NULL);
}

static dnnl_status_t reorder_desc(dnnl_primitive_desc_t *out, dnnl_engine_t engine, const tri_onednn_layout *from,
                                  const tri_onednn_layout *to, const_dnnl_primitive_attr_t attributes) {
  return dnnl_reorder_primitive_desc_create(out, &from->desc, engine, &to->desc, engine, attributes);
}

#endif

/* ---- statuses ---------------------------------------------------------------------------------------------------- */

static const char *status_name(dnnl_status_t status) {
  switch ((int)status) {
    case dnnl_success: return "success";
    case dnnl_out_of_memory: return "out of memory";
    case dnnl_invalid_arguments: return "invalid arguments";
    case dnnl_unimplemented: return "unimplemented";
    case dnnl_runtime_error: return "runtime error";
    case dnnl_not_required: return "not required";
    default: return "unknown status";
  }
}

tri_status tri_onednn_check(dnnl_status_t status, const char *what) {
  if (status == dnnl_success) return TRI_OK;
  const dnnl_version_t *version = dnnl_version();
  tri_status code = status == dnnl_unimplemented   ? TRI_UNSUPPORTED
                    : status == dnnl_out_of_memory ? TRI_OUT_OF_MEMORY
                                                   : TRI_INTERNAL;
  return tri_fail(code, "oneDNN %d.%d.%d says `%s` (%d) to %s", version->major, version->minor, version->patch,
                  status_name(status), (int)status, what);
}

/* ---- layouts ----------------------------------------------------------------------------------------------------- */

static tri_status layout_made(dnnl_status_t status, tri_dtype type, int64_t rows, int64_t columns,
                              tri_onednn_layout *layout) {
  char what[96];
  snprintf(what, sizeof what, "a %s matrix of %lld x %lld", tri_dtype_name(type), (long long)rows, (long long)columns);
  TRI_TRY(tri_onednn_check(status, what));
  layout->set = true;
  return TRI_OK;
}

tri_status tri_onednn_layout_strided(tri_dtype type, int64_t rows, int64_t columns, int64_t row_stride,
                                     int64_t column_stride, tri_onednn_layout *out) {
  dnnl_dims_t dims = {rows, columns}, strides = {row_stride, column_stride};
  return layout_made(desc_strided(&out->desc, dims, type_of(type), strides), type, rows, columns, out);
}

tri_status tri_onednn_layout_any(tri_dtype type, int64_t rows, int64_t columns, tri_onednn_layout *out) {
  dnnl_dims_t dims = {rows, columns};
  return layout_made(desc_tagged(&out->desc, dims, type_of(type), dnnl_format_tag_any), type, rows, columns, out);
}

int64_t tri_onednn_layout_panel(const tri_onednn_layout *layout, int64_t rows, int64_t columns) {
  static const struct {
    dnnl_format_tag_t tag;
    int64_t width;
  } panels[] = {{dnnl_BA16a64b2a, 64}, {dnnl_BA16a48b2a, 48}, {dnnl_BA16a32b2a, 32}, {dnnl_BA16a16b2a, 16}};
  const dnnl_dims_t dims = {rows, columns};
  for (size_t i = 0; i < sizeof panels / sizeof *panels; i++) {
    dnnl_memory_desc_t desc;
    if (desc_tagged(&desc, dims, dnnl_bf16, panels[i].tag) != dnnl_success) continue;
    const bool equal = desc_equal(&desc, &layout->desc);
    desc_destroy(&desc);
    if (equal) return panels[i].width;
  }
  return 0;
}

size_t tri_onednn_layout_bytes(const tri_onednn_layout *layout) { return desc_bytes(&layout->desc); }

void tri_onednn_layout_destroy(tri_onednn_layout *layout) {
  if (layout->set) desc_destroy(&layout->desc);
  layout->set = false;
}

/* ---- primitives -------------------------------------------------------------------------------------------------- */

static dnnl_status_t attributes_create(dnnl_scratchpad_mode_t scratch, bool accumulate, dnnl_primitive_attr_t *out) {
  dnnl_primitive_attr_t attributes = NULL;
  dnnl_post_ops_t operations = NULL;
  dnnl_status_t status = dnnl_primitive_attr_create(&attributes);
  if (status != dnnl_success) return status;
  status = dnnl_primitive_attr_set_scratchpad_mode(attributes, scratch);
  if (status == dnnl_success && accumulate) {
    status = dnnl_post_ops_create(&operations);
    if (status == dnnl_success) status = append_sum(operations);
    if (status == dnnl_success) status = dnnl_primitive_attr_set_post_ops(attributes, operations);
    if (operations != NULL) dnnl_post_ops_destroy(operations);
  }
  if (status != dnnl_success) {
    dnnl_primitive_attr_destroy(attributes);
    return status;
  }
  *out = attributes;
  return dnnl_success;
}

static dnnl_status_t add_argument(tri_onednn_primitive *primitive, dnnl_engine_t engine, int argument,
                                  const dnnl_memory_desc_t *desc) {
  dnnl_exec_arg_t *added = &primitive->arguments[primitive->num_arguments];
  dnnl_status_t status = memory_create(&added->memory, desc, engine);
  if (status != dnnl_success) return status;
  added->arg = argument;
  primitive->num_arguments++;
  return dnnl_success;
}

/* Creates the primitive of a description, with its name and its scratch memory as the first argument. */
static dnnl_status_t primitive_create(tri_onednn_primitive *out, dnnl_engine_t engine, dnnl_primitive_desc_t desc) {
  const char *name = "";
  tri_onednn_layout scratch = {0};
  dnnl_status_t status = dnnl_primitive_create(&out->primitive, desc);
  if (status == dnnl_success) status = dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, (void *)&name);
  if (status == dnnl_success) status = desc_of(desc, dnnl_query_scratchpad_md, &scratch.desc);
  if (status != dnnl_success) return status;
  scratch.set = true;
  snprintf(out->implementation, sizeof out->implementation, "%s", name);
  out->scratch_bytes = tri_onednn_layout_bytes(&scratch);
  status = add_argument(out, engine, DNNL_ARG_SCRATCHPAD, &scratch.desc);
  tri_onednn_layout_destroy(&scratch);
  return status;
}

static dnnl_status_t product_create(dnnl_engine_t engine, const tri_onednn_product *product, tri_onednn_primitive *out,
                                    tri_onednn_layout *chosen_b) {
  dnnl_primitive_attr_t attributes = NULL;
  dnnl_primitive_desc_t desc = NULL;
  tri_onednn_layout b = {0}, bias = {0};
  dnnl_dims_t bias_dims = {1, product->n}, bias_strides = {product->n, 1};
  dnnl_status_t status = attributes_create(dnnl_scratchpad_mode_user, product->accumulate, &attributes);
  if (status != dnnl_success) return status;
  if (product->bias) {
    status = desc_strided(&bias.desc, bias_dims, dnnl_f32, bias_strides);
    bias.set = status == dnnl_success;
  }
  if (status == dnnl_success) {
    status = product_desc(&desc, engine, product, product->bias ? &bias.desc : NULL, attributes);
  }
  if (status == dnnl_success) status = primitive_create(out, engine, desc);
  if (status == dnnl_success) status = add_argument(out, engine, DNNL_ARG_SRC, &product->a->desc);
  if (status == dnnl_success) status = desc_of(desc, dnnl_query_weights_md, &b.desc);
  b.set = status == dnnl_success;
  if (status == dnnl_success) status = add_argument(out, engine, DNNL_ARG_WEIGHTS, &b.desc);
  if (status == dnnl_success) status = add_argument(out, engine, DNNL_ARG_DST, &product->c->desc);
  if (status == dnnl_success && product->bias) status = add_argument(out, engine, DNNL_ARG_BIAS, &bias.desc);
  if (status == dnnl_success && chosen_b != NULL) {
    *chosen_b = b;
    b = (tri_onednn_layout){0};
  }
  tri_onednn_layout_destroy(&b);
  tri_onednn_layout_destroy(&bias);
  if (desc != NULL) dnnl_primitive_desc_destroy(desc);
  dnnl_primitive_attr_destroy(attributes);
  return status;
}

bool tri_onednn_matrix_unit(void) {
  return (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core_amx) == dnnl_cpu_isa_avx512_core_amx;
}

int tri_onednn_product_threads(tri_dtype type, int64_t k, int threads) {
  enum { KEPT_DEPTH = 1024, MOST_THREADS = 15 };
  bool cuts = tri_onednn_matrix_unit() && type == TRI_BF16 && k > KEPT_DEPTH;
  return cuts && threads > MOST_THREADS ? MOST_THREADS : threads;
}

/* Returns whether the loaded library has fixed the bug that is_trusted avoids: 2.7.4 and 3.1 have. */
static bool configures_every_tile(void) {
  enum { MENDED_IN_2 = 20704, MENDED_IN_3 = 30100 };
  const dnnl_version_t *version = dnnl_version();
  int number = version->major * 10000 + version->minor * 100 + version->patch;
  return number >= (version->major < 3 ? MENDED_IN_2 : MENDED_IN_3);
}

/* Returns whether a primitive computes correctly. On a CPU with a matrix unit (AMX) oneDNN cuts k in blocks of 32 or a
 * multiple, and rounds the rest up to an even number. Before the kernel of the rest it configures the tiles again only
 * if the rounded rest differs from the size of a block. For k = 32 i + 31 the rounded rest is 32, which may be the size
 * of a block, so that the tiles are not configured again. A block of rows or columns that is smaller than the others
 * then runs on the tiles of the others. That is an illegal instruction (tdpbf16ps on tiles that do not fit) or, if they
 * happen to fit, a wrong result. It happens for k = 63, and for deeper ones if a block does not fit the cache; the
 * division of rows and columns depends on the threads and the cache, so no such k is trusted. (k = 31 is one block.)
 *
 * Fewer than 64 columns at a k that is not a multiple of 32 were excluded before the cause was known. Their results are
 * right; they remain excluded so that runs with such GEMMs keep their bits. */
static bool is_trusted(const tri_onednn_product *product, const tri_onednn_primitive *made) {
  enum { BLOCK = 32, FEW_COLUMNS = 64 };
  int64_t rest = product->k % BLOCK;
  bool matrix_unit = strstr(made->implementation, "amx") != NULL;
  if (!matrix_unit || configures_every_tile()) return true;
  if (product->n < FEW_COLUMNS) return rest == 0;
  return product->k < BLOCK || rest != BLOCK - 1;
}

tri_status tri_onednn_product_create(dnnl_engine_t engine, const tri_onednn_product *product, tri_onednn_primitive *out,
                                     tri_onednn_layout *chosen_b) {
  char what[128];
  tri_onednn_primitive made = {0};
  dnnl_status_t status = product_create(engine, product, &made, chosen_b);
  if (status == dnnl_success && !is_trusted(product, &made)) {
    if (chosen_b != NULL) tri_onednn_layout_destroy(chosen_b);
    status = dnnl_unimplemented;
  }
  if (status != dnnl_success) tri_onednn_primitive_destroy(&made);
  snprintf(what, sizeof what, "a matrix product of %lld x %lld x %lld%s%s", (long long)product->m,
           (long long)product->n, (long long)product->k, product->bias ? " with bias" : "",
           product->accumulate ? ", accumulated" : "");
  TRI_TRY(tri_onednn_check(status, what));
  *out = made;
  return TRI_OK;
}

tri_status tri_onednn_reorder_create(dnnl_engine_t engine, const tri_onednn_layout *from, const tri_onednn_layout *to,
                                     tri_onednn_primitive *out) {
  dnnl_primitive_attr_t attributes = NULL;
  dnnl_primitive_desc_t desc = NULL;
  tri_onednn_primitive made = {0};
  dnnl_status_t status = attributes_create(dnnl_scratchpad_mode_library, false, &attributes);
  if (status == dnnl_success) status = reorder_desc(&desc, engine, from, to, attributes);
  if (status == dnnl_success) status = primitive_create(&made, engine, desc);
  if (status == dnnl_success) status = add_argument(&made, engine, DNNL_ARG_FROM, &from->desc);
  if (status == dnnl_success) status = add_argument(&made, engine, DNNL_ARG_TO, &to->desc);
  if (desc != NULL) dnnl_primitive_desc_destroy(desc);
  if (attributes != NULL) dnnl_primitive_attr_destroy(attributes);
  if (status != dnnl_success) tri_onednn_primitive_destroy(&made);
  TRI_TRY(tri_onednn_check(status, "a change of a matrix's layout"));
  *out = made;
  return TRI_OK;
}

void tri_onednn_primitive_destroy(tri_onednn_primitive *primitive) {
  for (int i = 0; i < primitive->num_arguments; i++) dnnl_memory_destroy(primitive->arguments[i].memory);
  if (primitive->primitive != NULL) dnnl_primitive_destroy(primitive->primitive);
  *primitive = (tri_onednn_primitive){0};
}

/* ---- execution --------------------------------------------------------------------------------------------------- */

static dnnl_status_t run(dnnl_stream_t stream, const tri_onednn_primitive *primitive, void *const *handles) {
  dnnl_status_t status = dnnl_success;
  for (int i = 0; i < primitive->num_arguments && status == dnnl_success; i++) {
    status = dnnl_memory_set_data_handle(primitive->arguments[i].memory, handles[i]);
  }
  if (status == dnnl_success) {
    status = dnnl_primitive_execute(primitive->primitive, stream, primitive->num_arguments, primitive->arguments);
  }
  return status == dnnl_success ? dnnl_stream_wait(stream) : status;
}

dnnl_status_t tri_onednn_product_execute(dnnl_stream_t stream, const tri_onednn_primitive *primitive, const void *a,
                                         const void *b, const void *bias, void *c, void *scratch) {
  void *handles[TRI_ONEDNN_ARGUMENTS] = {scratch, (void *)a, (void *)b, c, (void *)bias};
  return run(stream, primitive, handles);
}

tri_status tri_onednn_product_run(dnnl_stream_t stream, const tri_onednn_primitive *primitive, const void *a,
                                  const void *b, const void *bias, void *c, void *scratch) {
  return tri_onednn_check(tri_onednn_product_execute(stream, primitive, a, b, bias, c, scratch),
                          primitive->implementation);
}

tri_status tri_onednn_reorder_run(dnnl_stream_t stream, const tri_onednn_primitive *primitive, const void *from,
                                  void *to) {
  void *handles[TRI_ONEDNN_ARGUMENTS] = {NULL, (void *)from, to};
  return tri_onednn_check(run(stream, primitive, handles), primitive->implementation);
}
