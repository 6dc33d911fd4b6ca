/* All ranks visit the pairs of a sender and a receiver in the same order, by sender and then by receiver, so no two
 * ranks wait for each other. For each slice the sender sends a header, messages with the elements in the order of the
 * slice, and a trailer. A header without a tensor ends the pair. */
#include "weights/move.h"

#include "base/flight_recorder.h"
#include "base/memory.h"
#include "checkpoint/element_sum.h"
#include "checkpoint/slices.h"
#include "comm/agreement.h"

#include <stdio.h>
#include <string.h>

enum { TAG = 0x7741, NO_TENSOR = -1, NAME_BYTES = 160 };
#define MESSAGE_BYTES ((int64_t)4 << 20)

/* ---- messages ---------------------------------------------------------------------------------------------------- */

/* The message before a slice's elements. The pointers of `part` have no meaning on the receiver, and are NULL. */
typedef struct header {
  int64_t tensor; /* NO_TENSOR: no further slice */
  char name[NAME_BYTES];
  int64_t first, count;
  bool has_part, own_tensor;
  tri_parameter part;
} header;

typedef struct trailer {
  uint64_t sum;
  int64_t version;
} trailer;

static void fill_header(const tri_weights_source *from, const tri_checkpoint_slice *slice, header *out) {
  memset(out, 0, sizeof *out);
  out->tensor = slice->tensor;
  snprintf(out->name, sizeof out->name, "%s", from->tensors[slice->tensor].name);
  out->first = slice->first;
  out->count = slice->count;
  out->has_part = slice->part != NULL;
  out->own_tensor = slice->own_tensor;
  if (slice->part == NULL) return;
  out->part = *slice->part;
  memset(out->part.names, 0, sizeof out->part.names);
  out->part.within.part = out->part.stacked.name = NULL;
}

static tri_checkpoint_slice slice_of(const header *h) {
  return (tri_checkpoint_slice){.tensor = h->tensor,
                                .part = h->has_part ? &h->part : NULL,
                                .own_tensor = h->own_tensor,
                                .first = h->first,
                                .count = h->count};
}

/* Returns the initial value of a slice's sum. It depends on the tensor's name, so that a slice of another tensor has a
 * wrong sum. */
static uint64_t sum_begin(const char *name) { return tri_element_sum(1, 0, (int64_t)strlen(name), name); }

/* ---- elements of a slice ----------------------------------------------------------------------------------------- */

static tri_status convert(tri_dtype from, tri_dtype to, int64_t count, const void *values, void *out) {
  if (from == to) {
    memcpy(out, values, (size_t)count * tri_dtype_bytes(to));
    return TRI_OK;
  }
  if (from != TRI_FP32 || to != TRI_BF16)
    return tri_fail_internal("weights in %s are moved as %s", tri_dtype_name(from), tri_dtype_name(to));
  for (int64_t i = 0; i < count; i++) ((uint16_t *)out)[i] = tri_bf16_of(((const float *)values)[i]);
  return TRI_OK;
}

/* Reads elements [at, at + count) of a slice as `type` to `out`. */
static tri_status read_elements(const tri_weights_source *from, const tri_checkpoint_slice *slice,
                                tri_slice_extent *window, int64_t at, int64_t count, tri_dtype type, char *out) {
  const tri_dtype own = from->tensors[slice->tensor].type;
  for (int64_t done = 0; done < count;) {
    int64_t some = count - done;
    const void *values = NULL;
    TRI_TRY(tri_slice_read(window, slice, tri_dtype_bytes(own), at + done, &some, &values));
    TRI_TRY(convert(own, type, some, values, out + (size_t)done * tri_dtype_bytes(type)));
    done += some;
  }
  return TRI_OK;
}

/* Returns the sum of elements [at, at + count) of a slice, which are in `values`. */
static uint64_t sum_elements(const tri_checkpoint_slice *slice, int64_t at, int64_t count, size_t element,
                             const char *values) {
  tri_checkpoint_slice some = *slice;
  tri_slice_run run = {.at = at};
  uint64_t sum = 0;
  some.count = at + count;
  while (tri_slice_next(&some, &run))
    sum += tri_element_sum(element, run.global, run.count, values + (size_t)(run.at - at) * element);
  return sum;
}

/* ---- sending ----------------------------------------------------------------------------------------------------- */

typedef struct sending {
  const tri_group *group;
  const tri_weights_source *from;
  int to;
  const int8_t *types; /* [num_tensors], type in which the receiver stores each tensor; -1: the receiver does not have
                          the tensor */
  tri_slice_extent window;
  char *buffers[2]; /* [MESSAGE_BYTES] each, elements that are sent */
  tri_request *requests[2];
} sending;

static tri_status send_now(const sending *s, size_t bytes, const void *data) {
  tri_request *request = NULL;
  TRI_TRY(tri_send_start(s->group, s->to, TAG, bytes, data, &request));
  return tri_request_wait(&request);
}

/* Reads elements [at, at + count) of a slice in the receiver's type, and adds them to the slice's sum. */
static tri_status prepare_message(sending *s, const tri_checkpoint_slice *slice, int64_t at, int64_t count, char *out,
                                  uint64_t *sum) {
  const tri_dtype type = (tri_dtype)s->types[slice->tensor];
  TRI_TRY(read_elements(s->from, slice, &s->window, at, count, type, out));
  *sum += sum_elements(slice, at, count, tri_dtype_bytes(type), out);
  return TRI_OK;
}

static tri_status send_slice(sending *s, const tri_checkpoint_slice *slice) {
  const size_t element = tri_dtype_bytes((tri_dtype)s->types[slice->tensor]);
  const int64_t most = MESSAGE_BYTES / (int64_t)element;
  header h;
  fill_header(s->from, slice, &h);
  trailer t = {.sum = sum_begin(h.name)};
  TRI_TRY(send_now(s, sizeof h, &h));
  for (int64_t at = 0, turn = 0; at < slice->count; at += most, turn = 1 - turn) {
    const int64_t count = slice->count - at < most ? slice->count - at : most;
    TRI_TRY(tri_request_wait(&s->requests[turn]));
    TRI_TRY(prepare_message(s, slice, at, count, s->buffers[turn], &t.sum));
    TRI_TRY(tri_send_start(s->group, s->to, TAG, (size_t)count * element, s->buffers[turn], &s->requests[turn]));
  }
  for (int i = 0; i < 2; i++) TRI_TRY(tri_request_wait(&s->requests[i]));
  t.version = s->from->version;
  return send_now(s, sizeof t, &t);
}

static tri_status send_all(sending *s) {
  const header end = {.tensor = NO_TENSOR};
  for (int64_t i = 0; s->from != NULL && i < s->from->num_slices; i++) {
    if (s->types[s->from->slices[i].tensor] >= 0) TRI_TRY(send_slice(s, &s->from->slices[i]));
  }
  return send_now(s, sizeof end, &end);
}

/* ---- receiving --------------------------------------------------------------------------------------------------- */

/* The part of a tensor that the receiver has: a parameter of its table, or one matrix of a stack. */
typedef struct target_part {
  tri_parameter parameter;
  char *values;
  tri_dtype type;
  int64_t length, runs; /* elements of a run; number of runs. The elements of a run are adjacent in the tensor
                           (tri_parameter_run) */
  int64_t at;           /* index of the run that last_run_before found last; 0 at first */
  int64_t next;         /* index of the next part of the same tensor; -1: none */
  int64_t written;      /* elements received so far */
} target_part;

typedef struct receiving {
  const tri_group *group;
  const tri_weights_target *to;
  target_part *parts; /* [num_parts] */
  int64_t num_parts;
  int64_t *first; /* [num_tensors]: first part of each tensor; -1: the receiver has no such tensor */
  /* [MESSAGE_BYTES] each, received elements: a message is received while the one before it is written. */
  char *buffers[2];
  tri_request *requests[2];
  char *read_back;        /* [MESSAGE_BYTES], elements read from the receiver's memory, for their checksum */
  uint64_t passed_sum;    /* checksum of the elements of the current slice that the receiver does not have */
  int64_t version;        /* highest version of the senders */
  tri_saved_error failed; /* error of the first slice that differs from the sent one; further slices are still
                             received */
} receiving;

static tri_status write_values(const receiving *r, char *to, const char *from, size_t bytes) {
  const tri_checkpoint_memory *memory = r->to->memory;
  if (memory != NULL) return memory->write(memory->context, to, from, bytes);
  memcpy(to, from, bytes);
  return TRI_OK;
}

/* Sets *out to the address of received values in host memory, valid until the next call. */
static tri_status read_values(const receiving *r, const char *from, size_t bytes, const char **out) {
  const tri_checkpoint_memory *memory = r->to->memory;
  *out = memory == NULL ? from : r->read_back;
  return memory == NULL ? TRI_OK : memory->read(memory->context, r->read_back, from, bytes);
}

/* Returns the last run of a part that begins at or before a global element; -1: none. Runs ascend, and callers mostly
 * ask for ascending elements, so the run found last and the next one are tried first. */
static int64_t last_run_before(target_part *p, int64_t global) {
  int64_t low = -1, high = p->runs; /* begin of low <= global < begin of high */
  for (int64_t run = p->at; run < p->at + 2 && run < p->runs; run++) {
    if (tri_parameter_run(&p->parameter, run) <= global) low = run;
    if (tri_parameter_run(&p->parameter, run) > global && run < high) high = run;
  }
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    if (tri_parameter_run(&p->parameter, middle) <= global) low = middle;
    if (low < middle) high = middle;
  }
  p->at = low < 0 ? 0 : low;
  return low;
}

/* Sets *local to the index of a global element in a part, and *left to the number of elements from this one on that are
 * adjacent in the tensor and in the part. Returns false if the part does not have the element; *left is then the number
 * of elements up to the next one that the part has. */
static bool find_element(target_part *p, int64_t global, int64_t *local, int64_t *left) {
  const int64_t run = last_run_before(p, global);
  const int64_t begin = run < 0 ? 0 : tri_parameter_run(&p->parameter, run);
  *left = run + 1 < p->runs ? tri_parameter_run(&p->parameter, run + 1) - global : INT64_MAX;
  if (run < 0 || global >= begin + p->length) return false;
  *local = run * p->length + (global - begin);
  *left = begin + p->length - global;
  return true;
}

/* Elements of a slice that are adjacent in the tensor and in the receiver's memory, or that the receiver does not have.
 */
typedef struct piece {
  int64_t at;     /* index of the first element among those that visit_pieces visits */
  int64_t global; /* index of this element in the tensor */
  int64_t count;
  target_part *part; /* NULL: the receiver does not have these elements */
  char *values;      /* address of the first element in the receiver's memory */
} piece;

/* Returns the piece of a tensor that begins at a global element, of at most `most` elements. */
static piece piece_at(receiving *r, int64_t tensor, int64_t global, int64_t most, size_t element) {
  piece out = {.global = global, .count = most};
  for (int64_t part = r->first[tensor]; part >= 0; part = r->parts[part].next) {
    int64_t local = 0, left = 0;
    const bool found = find_element(&r->parts[part], global, &local, &left);
    if (left < out.count) out.count = left;
    if (!found) continue;
    out.part = &r->parts[part];
    out.values = out.part->values + (size_t)local * element;
    return out;
  }
  return out;
}

typedef tri_status visit_piece(receiving *r, const piece *p, size_t element, void *context);

/* Calls `visit` for the pieces of elements [at, at + count) of a slice. */
static tri_status visit_pieces(receiving *r, const tri_checkpoint_slice *slice, int64_t at, int64_t count,
                               size_t element, visit_piece *visit, void *context) {
  tri_checkpoint_slice some = *slice;
  tri_slice_run run = {.at = at};
  some.count = at + count;
  while (tri_slice_next(&some, &run)) {
    for (int64_t done = 0; done < run.count;) {
      piece p = piece_at(r, slice->tensor, run.global + done, run.count - done, element);
      p.at = run.at + done - at;
      TRI_TRY(visit(r, &p, element, context));
      done += p.count;
    }
  }
  return TRI_OK;
}

/* Writes a piece to the receiver's memory; adds a piece that the receiver does not have to r->passed_sum. `context`:
 * values of all elements that visit_pieces visits. */
static tri_status write_piece(receiving *r, const piece *p, size_t element, void *context) {
  const char *values = (const char *)context + (size_t)p->at * element;
  if (p->part == NULL) {
    r->passed_sum += tri_element_sum(element, p->global, p->count, values);
    return TRI_OK;
  }
  p->part->written += p->count;
  return write_values(r, p->values, values, (size_t)p->count * element);
}

/* Adds the checksum of a piece, read from the receiver's memory, to the sum `context`. */
static tri_status sum_piece(receiving *r, const piece *p, size_t element, void *context) {
  const char *values = NULL;
  if (p->part == NULL) return TRI_OK;
  TRI_TRY(read_values(r, p->values, (size_t)p->count * element, &values));
  *(uint64_t *)context += tri_element_sum(element, p->global, p->count, values);
  return TRI_OK;
}

/* Checks a slice that has been written against its trailer; a difference is kept in r->failed. */
static tri_status check_slice(receiving *r, const header *h, size_t element, const trailer *t, int sender) {
  const tri_checkpoint_slice slice = slice_of(h);
  const int64_t most = MESSAGE_BYTES / (int64_t)element;
  uint64_t sum = sum_begin(r->parts[r->first[h->tensor]].parameter.name) + r->passed_sum;
  r->passed_sum = 0;
  for (int64_t at = 0; at < slice.count; at += most) {
    const int64_t count = slice.count - at < most ? slice.count - at : most;
    TRI_TRY(visit_pieces(r, &slice, at, count, element, sum_piece, &sum));
  }
  if (t->version == r->version && sum == t->sum) return TRI_OK;
  const bool late = t->version != r->version;
  const tri_status status =
      tri_fail(TRI_COMM,
               "weights in memory: `%s` came from rank %d %s%ld, and the weights have version %ld; resume the run, and "
               "check that rank's memory and network if this happens again",
               h->name, sender, late ? "with version " : "with other values than were sent, version ", (long)t->version,
               (long)r->version);
  tri_error_save(&r->failed, status);
  return TRI_OK;
}

static tri_status receive_now(const receiving *r, int from, size_t bytes, void *data) {
  tri_request *request = NULL;
  TRI_TRY(tri_receive_start(r->group, from, TAG, bytes, data, &request));
  return tri_request_wait(&request);
}

/* Starts to receive the message with element `at` of a slice; does nothing behind the slice's last element. */
static tri_status start_message(receiving *r, int from, const header *h, int64_t at, size_t element, int64_t turn) {
  const int64_t most = MESSAGE_BYTES / (int64_t)element;
  if (at >= h->count) return TRI_OK;
  const int64_t count = h->count - at < most ? h->count - at : most;
  return tri_receive_start(r->group, from, TAG, (size_t)count * element, r->buffers[turn], &r->requests[turn]);
}

static tri_status receive_elements(receiving *r, int from, const header *h, size_t element) {
  const tri_checkpoint_slice slice = slice_of(h);
  const int64_t most = MESSAGE_BYTES / (int64_t)element;
  TRI_TRY(start_message(r, from, h, 0, element, 0));
  for (int64_t at = 0, turn = 0; at < h->count; at += most, turn = 1 - turn) {
    const int64_t count = h->count - at < most ? h->count - at : most;
    TRI_TRY(tri_request_wait(&r->requests[turn]));
    TRI_TRY(start_message(r, from, h, at + most, element, 1 - turn));
    TRI_TRY(visit_pieces(r, &slice, at, count, element, write_piece, r->buffers[turn]));
  }
  return TRI_OK;
}

static tri_status receive_all(receiving *r, int from) {
  for (;;) {
    header h;
    trailer t;
    TRI_TRY(receive_now(r, from, sizeof h, &h));
    if (h.tensor == NO_TENSOR) return TRI_OK;
    const size_t element = tri_dtype_bytes(r->parts[r->first[h.tensor]].type);
    TRI_TRY(receive_elements(r, from, &h, element));
    TRI_TRY(receive_now(r, from, sizeof t, &t));
    TRI_TRY(check_slice(r, &h, element, &t, from));
  }
}

/* Copies this rank's own slices. */
static tri_status copy_all(sending *s, receiving *r) {
  for (int64_t i = 0; s->from != NULL && i < s->from->num_slices; i++) {
    const tri_checkpoint_slice *slice = &s->from->slices[i];
    if (s->types[slice->tensor] < 0) continue;
    const size_t element = tri_dtype_bytes((tri_dtype)s->types[slice->tensor]);
    const int64_t most = MESSAGE_BYTES / (int64_t)element;
    header h;
    fill_header(s->from, slice, &h);
    trailer t = {.sum = sum_begin(h.name)};
    for (int64_t at = 0; at < slice->count; at += most) {
      const int64_t count = slice->count - at < most ? slice->count - at : most;
      TRI_TRY(prepare_message(s, slice, at, count, r->buffers[0], &t.sum));
      TRI_TRY(visit_pieces(r, slice, at, count, element, write_piece, r->buffers[0]));
    }
    t.version = s->from->version;
    TRI_TRY(check_slice(r, &h, element, &t, r->group->rank));
  }
  return TRI_OK;
}

/* ---- both sides -------------------------------------------------------------------------------------------------- */

/* The role of a rank in a move. receives: 1 if the rank receives weights, else 0. */
typedef struct role {
  int64_t num_tensors; /* -1: the rank sends nothing */
  int64_t version;
  int64_t receives;
} role;

typedef struct moving {
  role *roles; /* [size] */
  int64_t num_tensors;
  char (*names)[NAME_BYTES]; /* [num_tensors] */
  int8_t *types;     /* [size, num_tensors], type in which each rank stores each tensor; -1: the rank does not have the
                        tensor */
  int8_t *own_types; /* [num_tensors], types of this rank */
  sending send;
  receiving receive;
} moving;

/* Allocates the arrays whose sizes do not depend on the tensors. */
static tri_status reserve(const tri_group *group, moving *m) {
  TRI_TRY(tri_alloc("a move of weights", (size_t)group->size, sizeof *m->roles, &m->roles));
  for (int i = 0; i < 2; i++) {
    TRI_TRY(tri_alloc("a message of weights", MESSAGE_BYTES, 1, &m->send.buffers[i]));
    TRI_TRY(tri_alloc("a message of weights", MESSAGE_BYTES, 1, &m->receive.buffers[i]));
  }
  return tri_alloc("a message of weights", MESSAGE_BYTES, 1, &m->receive.read_back);
}

/* Exchanges the roles of all ranks and the names of the tensors. Sets the number of tensors, and the version that is
 * received. */
static tri_status agree(const tri_group *group, const tri_weights_source *from, const tri_weights_target *to,
                        moving *m) {
  const role own = {from == NULL ? -1 : from->num_tensors, from == NULL ? -1 : from->version, to != NULL};
  const size_t size = (size_t)group->size;
  int root = -1;
  TRI_TRY(tri_gather_bytes(group, sizeof own, &own, m->roles));
  m->num_tensors = -1;
  m->receive.version = -1;
  for (int r = 0; r < group->size; r++) {
    const role *at = &m->roles[r];
    if (root < 0 && at->num_tensors >= 0) root = r;
    if (at->version > m->receive.version) m->receive.version = at->version;
    if (at->num_tensors < 0) continue;
    if (m->num_tensors >= 0 && at->num_tensors != m->num_tensors)
      return tri_fail_internal("rank %d sends %ld tensors, and others %ld", r, (long)at->num_tensors,
                               (long)m->num_tensors);
    m->num_tensors = at->num_tensors;
  }
  if (root < 0) return tri_fail_internal("no rank sends weights");
  const size_t tensors = (size_t)m->num_tensors;
  tri_status status = tri_alloc("a move of weights", tensors, sizeof *m->names, &m->names);
  if (status == TRI_OK) status = tri_alloc("a move of weights", tensors * size, sizeof *m->types, &m->types);
  if (status == TRI_OK) status = tri_alloc("a move of weights", tensors, sizeof *m->own_types, &m->own_types);
  TRI_TRY(tri_common_status(group, status));
  for (int64_t i = 0; from != NULL && group->rank == root && i < m->num_tensors; i++)
    snprintf(m->names[i], NAME_BYTES, "%s", from->tensors[i].name);
  return tri_broadcast(group, root, tensors * sizeof *m->names, m->names);
}

/* Adds one tensor of the receiver's table to its parts. */
static tri_status add_part(moving *m, const tri_parameter *tensor, char *values, tri_dtype type, int8_t *types) {
  receiving *r = &m->receive;
  const tri_parameter on_disk = tri_parameter_on_disk(tensor);
  int64_t number = 0;
  while (number < m->num_tensors && strcmp(m->names[number], on_disk.name) != 0) number++;
  if (number == m->num_tensors) return tri_fail_internal("no rank sends `%s`, which the receiver has", on_disk.name);
  target_part *p = &r->parts[r->num_parts];
  *p = (target_part){.parameter = *tensor,
                     .values = values,
                     .type = type,
                     .length = tri_parameter_run_length(tensor),
                     .next = r->first[number]};
  snprintf(p->parameter.name, sizeof p->parameter.name, "%s", on_disk.name);
  p->runs = tensor->count / p->length;
  for (int64_t i = 1; i < p->runs; i++) {
    if (tri_parameter_run(tensor, i - 1) >= tri_parameter_run(tensor, i))
      return tri_fail_internal("the parts of `%s` do not ascend", tensor->name);
  }
  r->first[number] = r->num_parts++;
  types[number] = (int8_t)type;
  return TRI_OK;
}

/* Returns whether an entry's values are sent to a receiver with this table. With LoRA factors, the receiver has loaded
 * the frozen base itself, so only trained parameters and the initial values of factors are sent. */
static bool is_moved(const tri_parameter_table *table, const tri_parameter *entry) {
  const bool of_base = table->has_factors && entry->frozen && !entry->first;
  return !entry->alias && entry->count > 0 && !of_base;
}

/* Lists the parts of the receiver's table. types: [num_tensors] */
static tri_status list_parts(moving *m, const tri_weights *weights, int8_t *types) {
  const tri_parameter_table *table = weights->table;
  receiving *r = &m->receive;
  int64_t parts = 0;
  for (int64_t i = 0; i < table->num_entries; i++) parts += tri_parameter_num_tensors(&table->entries[i]);
  TRI_TRY(tri_alloc("a move of weights", (size_t)parts, sizeof *r->parts, &r->parts));
  TRI_TRY(tri_alloc("a move of weights", (size_t)m->num_tensors, sizeof *r->first, &r->first));
  for (int64_t i = 0; i < m->num_tensors; i++) r->first[i] = -1;
  for (int64_t e = 0; e < table->num_entries; e++) {
    const tri_parameter *entry = &table->entries[e];
    const tri_dtype type = tri_weights_type(weights, entry);
    if (!is_moved(table, entry)) continue;
    for (int64_t t = 0, first = 0; t < tri_parameter_num_tensors(entry); t++) {
      const tri_parameter tensor = tri_parameter_tensor(entry, t, &first);
      if (tensor.count == 0) continue;
      char *values = (char *)weights->parameters[e].value + (size_t)first * tri_dtype_bytes(type);
      TRI_TRY(add_part(m, &tensor, values, type, types));
    }
  }
  return TRI_OK;
}

static tri_status set_up(const tri_group *group, const tri_weights_source *from, const tri_weights_target *to,
                         moving *m) {
  m->send = (sending){.group = group, .from = from};
  m->receive = (receiving){.group = group, .to = to};
  TRI_TRY(tri_common_status(group, reserve(group, m)));
  TRI_TRY(agree(group, from, to, m));
  memset(m->own_types, -1, (size_t)m->num_tensors); /* sets each element to -1, whose bits are all 1 */
  TRI_TRY(tri_common_status(group, to == NULL ? TRI_OK : list_parts(m, to->weights, m->own_types)));
  return tri_gather_bytes(group, (size_t)m->num_tensors, m->own_types, m->types);
}

/* Checks that every element of the receiver's table has arrived. */
static tri_status check_whole(const receiving *r) {
  for (int64_t i = 0; i < r->num_parts; i++) {
    const target_part *p = &r->parts[i];
    const int64_t count = p->runs * p->length;
    if (p->written == count) continue;
    return tri_fail(TRI_COMM,
                    "weights in memory: %ld of the %ld elements of `%s` were sent, version %ld; resume the run, and "
                    "report this if it happens again",
                    (long)p->written, (long)count, p->parameter.name, (long)r->version);
  }
  return TRI_OK;
}

static tri_status move_pairs(const tri_group *group, moving *m) {
  for (int s = 0; s < group->size; s++) {
    for (int r = 0; r < group->size; r++) {
      if (m->roles[s].num_tensors < 0 || m->roles[r].receives == 0) continue;
      m->send.to = r;
      m->send.types = m->types + (int64_t)r * m->num_tensors;
      if (s == group->rank && r == s) TRI_TRY(copy_all(&m->send, &m->receive));
      if (s == group->rank && r != s) TRI_TRY(send_all(&m->send));
      if (r == group->rank && r != s) TRI_TRY(receive_all(&m->receive, s));
    }
  }
  return TRI_OK;
}

static void release(moving *m) {
  for (int i = 0; i < 2; i++) {
    tri_free(m->send.buffers[i]);
    tri_free(m->receive.buffers[i]);
  }
  tri_slice_extent_release(&m->send.window);
  tri_free(m->receive.read_back);
  tri_free(m->receive.first);
  tri_free(m->receive.parts);
  tri_free(m->own_types);
  tri_free(m->types);
  tri_free(m->names);
  tri_free(m->roles);
}

/* Sets the version of weights that have been received. Marks the parameters that were received as dense. The base was
 * not sent, and may still be packed in place. */
static void set_received(tri_weights *weights, int64_t version) {
  for (int64_t e = 0; e < weights->table->num_entries; e++) {
    if (is_moved(weights->table, &weights->table->entries[e])) weights->parameters[e].packed = false;
  }
  tri_weights_set_version(weights, version);
}

tri_status tri_weights_move(const tri_group *group, const tri_weights_source *from, const tri_weights_target *to) {
  tri_record record = tri_record_make(TRI_RECORD_WORK, "move weights");
  record.code = TRI_RECORD_MOVE;
  const uint64_t ticket = tri_recorder_begin(&record);
  moving m = {.roles = NULL};
  tri_status status = set_up(group, from, to, &m);
  if (status == TRI_OK) status = move_pairs(group, &m);
  if (status == TRI_OK) status = tri_saved_error_restore(&m.receive.failed);
  if (status == TRI_OK && to != NULL) status = check_whole(&m.receive);
  status = tri_common_status(group, status);
  if (status == TRI_OK && to != NULL) set_received(to->weights, m.receive.version);
  release(&m);
  tri_recorder_end(ticket);
  return status;
}
