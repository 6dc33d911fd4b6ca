#include "llamacpp/export.h"

#include "base/loop_threads.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "llamacpp/tensors.h"
#include "llamacpp/vocabulary.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* PIECE_ELEMENTS: number of elements that are read, converted and written at once, unless the rows of a tensor change
 * their order. */
enum { PIECE_ELEMENTS = 1 << 20, GGUF_QUANTIZATION_VERSION = 2 };

/* A thread that writes tensors. */
typedef struct writing {
  const tri_llamacpp_request *request;
  tri_gguf_output *output;
  double *doubles; /* [PIECE_ELEMENTS]: values of merged matrices; NULL until they are needed */
  float *in, *out; /* values in the order of the source, and of the file [room] */
  void *encoded;   /* [room], in the type of the tensor */
  size_t in_room, out_room, encoded_room;
} writing;

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* Returns the smallest magnitude that is infinite in a type. In a type with blocks it is the smallest magnitude with
 * which a block's scale, in fp16, is infinite. */
static float limit_of(const tri_gguf_type *type) {
  const float half = 65520, brain = 3.3961775292304957e38F;
  switch (type->number) {
    case TRI_GGUF_F16: return half;
    case TRI_GGUF_BF16: return brain;
    case TRI_GGUF_Q8_0: return 127 * half;
    case TRI_GGUF_Q4_0: return 8 * half;
  }
  return INFINITY;
}

static tri_status check_values(const writing *w, const tri_llamacpp_tensor *tensor, const tri_parameter *source,
                               int64_t first, int64_t count, const float *values) {
  const float limit = limit_of(tensor->type);
  bool too_large = false;
  const tri_checkpoint_slice slice = {.first = first, .count = count, .data = (void *)(uintptr_t)values};
  TRI_TRY(tri_checkpoint_check_finite(tri_merged_source(w->request->from, source->name), source, TRI_FP32, &slice));
  for (int64_t i = 0; i < count && isfinite(limit); i++) too_large |= !(fabsf(values[i]) < limit);
  for (int64_t i = 0; i < count && too_large; i++) {
    if (fabsf(values[i]) < limit) continue;
    return tri_fail(TRI_BAD_FILE, "%s: element %" PRId64 " of `%s` is %g, too large for %s; use --dtype f32",
                    w->request->to, first + i, source->name, (double)values[i], tensor->type->name);
  }
  return TRI_OK;
}

/* Reads elements of a source as fp32, rounded once. */
static tri_status read_values(writing *w, const tri_parameter *source, const tri_low_rank *factors, int64_t first,
                              int64_t count, uint64_t *sum, float *out) {
  const bool plain = tri_low_rank_is_plain(factors);
  if (!plain && w->doubles == NULL)
    TRI_TRY(tri_alloc("a piece of a tensor", PIECE_ELEMENTS, sizeof *w->doubles, &w->doubles));
  for (int64_t done = 0; done < count;) {
    const int64_t piece = count - done < PIECE_ELEMENTS ? count - done : PIECE_ELEMENTS;
    const tri_checkpoint_slice slice = {
        .first = first + done, .count = piece, .data = plain ? (void *)(out + done) : w->doubles};
    TRI_TRY(tri_merged_read_part(w->request->from, source, factors, plain ? TRI_FP32 : TRI_FP64, &slice, sum));
    for (int64_t i = 0; i < piece && !plain; i++) out[done + i] = (float)w->doubles[i];
    done += piece;
  }
  return TRI_OK;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Encodes values, which are whole blocks, and writes them. `first`: index of the first one in the file's tensor. */
static tri_status put(writing *w, const tri_llamacpp_tensor *tensor, const tri_gguf_tensor *to, int64_t first,
                      int64_t count, const float *values) {
  const tri_gguf_type *type = tensor->type;
  const uint64_t bytes = (uint64_t)(count / type->elements * type->bytes);
  const uint64_t at = (uint64_t)(first / type->elements * type->bytes);
  if (type->number == TRI_GGUF_F32) return tri_gguf_put(w->output, to, at, bytes, values);
  TRI_TRY(tri_reserve("a piece of a file", 1, (size_t)bytes, &w->encoded_room, &w->encoded));
  TRI_TRY(tri_gguf_encode(type, count / type->elements, values, w->encoded));
  return tri_gguf_put(w->output, to, at, bytes, w->encoded);
}

/* Writes a source whose elements stay in their order, in pieces of whole rows. `begin`: index of its first element in
 * the file's tensor. */
static tri_status write_in_pieces(writing *w, const tri_llamacpp_tensor *tensor, const tri_gguf_tensor *to,
                                  const tri_parameter *source, const tri_low_rank *factors, int64_t begin) {
  const int64_t all = tri_parameter_global_count(source), row = tensor->dims[0];
  const int64_t rows = PIECE_ELEMENTS / row > 0 ? PIECE_ELEMENTS / row : 1;
  uint64_t sum = 0;
  for (int64_t done = 0; done < all;) {
    const int64_t count = all - done < rows * row ? all - done : rows * row;
    TRI_TRY(tri_reserve("a piece of a tensor", sizeof *w->in, (size_t)count, &w->in_room, &w->in));
    TRI_TRY(read_values(w, source, factors, done, count, &sum, w->in));
    TRI_TRY(check_values(w, tensor, source, done, count, w->in));
    for (int64_t i = 0; i < count && tensor->added != 0; i++) w->in[i] += (float)tensor->added;
    TRI_TRY(put(w, tensor, to, begin + done, count, w->in));
    done += count;
  }
  return tri_merged_compare(w->request->from, source, sum);
}

static tri_status write_reordered(writing *w, const tri_llamacpp_tensor *tensor, const tri_gguf_tensor *to,
                                  const tri_parameter *source, const tri_low_rank *factors) {
  const int64_t all = tri_parameter_global_count(source);
  uint64_t sum = 0;
  TRI_TRY(tri_reserve("a tensor", sizeof *w->in, (size_t)all, &w->in_room, &w->in));
  TRI_TRY(tri_reserve("a tensor", sizeof *w->out, (size_t)all, &w->out_room, &w->out));
  TRI_TRY(read_values(w, source, factors, 0, all, &sum, w->in));
  TRI_TRY(tri_merged_compare(w->request->from, source, sum));
  TRI_TRY(check_values(w, tensor, source, 0, all, w->in));
  tri_llamacpp_reorder(tensor, false, w->in, w->out);
  return put(w, tensor, to, 0, all, w->out);
}

static tri_status write_source(writing *w, const tri_llamacpp_tensor *tensor, const tri_gguf_tensor *to,
                               const tri_parameter *source, int64_t begin) {
  tri_low_rank factors;
  TRI_TRY(tri_merged_factors(w->request->from, source, &factors));
  const tri_status status = tri_llamacpp_keeps_order(tensor) ? write_in_pieces(w, tensor, to, source, &factors, begin)
                                                             : write_reordered(w, tensor, to, source, &factors);
  tri_low_rank_release(&factors);
  return status;
}

static tri_status write_tensor(writing *w, const tri_llamacpp_tensor *tensor, const tri_gguf_tensor *to) {
  if (tensor->values != NULL) return tri_gguf_put(w->output, to, 0, to->bytes, tensor->values);
  for (int64_t i = 0; i < tensor->num_sources; i++) {
    const tri_parameter *source = &tensor->source[i * tensor->stride];
    TRI_TRY(write_source(w, tensor, to, source, i * tri_parameter_global_count(source)));
  }
  return TRI_OK; /* without sources it has zeros, as the new file has */
}

static void release(writing *w) {
  tri_free(w->doubles);
  tri_free(w->in);
  tri_free(w->out);
  tri_free(w->encoded);
}

/* The tensors of a file, which several threads write. */
typedef struct all_tensors {
  writing *threads; /* [number of threads] */
  const tri_llamacpp_tensors *tensors;
  const tri_gguf_tensor *to;
  atomic_bool failed; /* whether a tensor has failed, so that no other is begun */
} all_tensors;

static tri_status write_one(void *context, int64_t i, int thread) {
  all_tensors *all = context;
  if (atomic_load(&all->failed)) return TRI_OK;
  const tri_status status = write_tensor(&all->threads[thread], &all->tensors->all[i], &all->to[i]);
  if (status != TRI_OK) atomic_store(&all->failed, true);
  return status;
}

static tri_status write_all(const tri_llamacpp_request *request, const tri_gguf_header *header,
                            const tri_llamacpp_tensors *tensors) {
  const int threads = tri_loop_threads();
  all_tensors all = {.tensors = tensors};
  tri_gguf_output *output = NULL;
  int64_t count = 0;
  all.to = tri_gguf_header_tensors(header, &count);
  TRI_TRY(tri_alloc("threads that write tensors", (size_t)threads, sizeof *all.threads, &all.threads));
  tri_status status = tri_gguf_output_create(header, request->to, &output);
  for (int i = 0; i < threads; i++) all.threads[i] = (writing){.request = request, .output = output};
  if (status == TRI_OK) status = tri_gguf_output_finish(output, tri_parallel_for(count, threads, write_one, &all));
  for (int i = 0; i < threads; i++) release(&all.threads[i]);
  tri_free(all.threads);
  return status;
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

/* Returns llama.cpp's number of a file's type (LLAMA_FTYPE_MOSTLY_Q8_0 ...). */
static uint32_t file_type_of(const tri_gguf_type *type) {
  switch (type->number) {
    case TRI_GGUF_F16: return 1;
    case TRI_GGUF_Q4_0: return 2;
    case TRI_GGUF_Q8_0: return 7;
    case TRI_GGUF_BF16: return 32;
  }
  return 0;
}

static tri_status fill_header(const tri_llamacpp_request *request, const tri_llamacpp_arch *arch,
                              const tri_llamacpp_tensors *tensors, tri_gguf_header *header) {
  TRI_TRY(tri_llamacpp_add_model(header, arch, request->model));
  TRI_TRY(tri_gguf_add_string(header, "general.name", request->name));
  TRI_TRY(tri_gguf_add_uint32(header, "general.file_type", file_type_of(request->type)));
  TRI_TRY(tri_gguf_add_uint32(header, "general.quantization_version", GGUF_QUANTIZATION_VERSION));
  TRI_TRY(tri_llamacpp_add_vocabulary(header, request->tokenizer, request->extra_files, request->model->vocab_size));
  for (int64_t i = 0; i < tensors->count; i++) {
    const tri_llamacpp_tensor *tensor = &tensors->all[i];
    TRI_TRY(tri_gguf_add_tensor(header, tensor->name, tensor->type, tensor->num_dims, tensor->dims));
  }
  return tri_gguf_header_layout(header);
}

static tri_status write_listed(const tri_llamacpp_request *request, const tri_llamacpp_arch *arch,
                               const tri_tensor_list *list, tri_llamacpp_written *out) {
  tri_llamacpp_tensors tensors = {0};
  tri_gguf_header *header = NULL;
  TRI_TRY(tri_llamacpp_tensors_create(arch, request->model, list, request->type, &tensors));
  tri_status status = tri_gguf_header_create(&header);
  if (status == TRI_OK) status = fill_header(request, arch, &tensors, header);
  if (status == TRI_OK) status = write_all(request, header, &tensors);
  if (status == TRI_OK) *out = (tri_llamacpp_written){tensors.count, tensors.kept, tri_gguf_header_file_bytes(header)};
  tri_gguf_header_destroy(header);
  tri_llamacpp_tensors_release(&tensors);
  return status;
}

tri_status tri_llamacpp_export(const tri_llamacpp_request *request, tri_llamacpp_written *out) {
  const tri_llamacpp_arch *arch = NULL;
  tri_parameter_table *table = NULL;
  tri_tensor_list list = {0};
  if (tri_path_exists(request->to)) return tri_fail(TRI_BAD_USAGE, "%s already exists; name a new file", request->to);
  TRI_TRY(tri_llamacpp_find(request->model, &arch));
  TRI_TRY(tri_parameter_table_create(request->model, NULL, &table));
  tri_status status = tri_tensor_list_create(table, &list);
  if (status == TRI_OK) status = write_listed(request, arch, &list, out);
  tri_tensor_list_release(&list);
  tri_parameter_table_destroy(table);
  return status;
}
