/* The index of a corpus lists sizes, then pointers, then documents, which are complete only after the last token. To
 * need constant memory, the sizes are written to a temporary file, 4 bytes each, with the top bit set at the end of a
 * document; the index is made in three passes over that file. A document longer than MAX_SEQUENCE tokens becomes
 * several sequences, because the format counts them in an int32. */
#include "data/corpus_writer.h"

#include "base/memory.h"
#include "data/corpus.h"
#include "data/corpus_index.h"
#include "data/output_file.h"
#include "files/file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_SEQUENCE = 1 << 30, CHUNK = 1 << 14, MEGATRON_U16_BELOW = 65500 };
#define ENDS_DOCUMENT (UINT32_C(1) << 31)

struct tri_corpus_writer {
  char *prefix;
  int64_t vocab_size;
  tri_corpus_type type;
  int id_bytes;
  tri_output_file bin, sizes, idx;
  tri_output_file mask;   /* used if the corpus has a mask */
  tri_output_file labels; /* used if the documents have labels */
  bool masked, labelled;
  int64_t tokens, documents, sequences, desirable;
  int64_t open_tokens; /* number of tokens of the sequence that is not in `sizes` yet */
  bool in_document;
};

tri_status tri_corpus_writer_create(const char *prefix, int64_t vocab_size, tri_corpus_writer **out) {
  if (vocab_size < 1 || vocab_size > INT32_MAX) {
    return tri_fail(TRI_BAD_CONFIG, "a vocabulary of %" PRId64 " cannot be stored in %s.bin; ids are at most %d",
                    vocab_size, prefix, INT32_MAX);
  }
  tri_status status = TRI_OK;
  tri_corpus_writer *writer = NULL;
  TRI_TRY(tri_alloc("a corpus writer", 1, sizeof *writer, &writer));
  writer->bin = writer->sizes = writer->idx = writer->mask = writer->labels = TRI_OUTPUT_FILE_NONE;
  writer->vocab_size = vocab_size;
  writer->type = vocab_size < MEGATRON_U16_BELOW ? TRI_CORPUS_U16 : TRI_CORPUS_I32;
  writer->id_bytes = tri_corpus_type_bytes((int)writer->type);
  TRI_TRY_GOTO(tri_strdup(prefix, &writer->prefix), destroy_writer);
  TRI_TRY_GOTO(tri_output_file_create(prefix, ".bin.partial", &writer->bin), destroy_writer);
  TRI_TRY_GOTO(tri_output_file_create(prefix, ".sizes.partial", &writer->sizes), destroy_writer);
  *out = writer;
  return TRI_OK;
destroy_writer:
  tri_corpus_writer_destroy(writer);
  return status;
}

void tri_corpus_writer_destroy(tri_corpus_writer *writer) {
  if (writer == NULL) return;
  tri_output_file_destroy(&writer->labels);
  tri_output_file_destroy(&writer->mask);
  tri_output_file_destroy(&writer->idx);
  tri_output_file_destroy(&writer->sizes);
  tri_output_file_destroy(&writer->bin);
  tri_free(writer->prefix);
  tri_free(writer);
}

int64_t tri_corpus_writer_num_tokens(const tri_corpus_writer *writer) { return writer->tokens; }

int64_t tri_corpus_writer_num_documents(const tri_corpus_writer *writer) { return writer->documents; }

int64_t tri_corpus_writer_num_desirable(const tri_corpus_writer *writer) { return writer->desirable; }

static tri_status end_sequence(tri_corpus_writer *writer, uint32_t flag) {
  uint32_t entry = (uint32_t)writer->open_tokens | flag;
  TRI_TRY(tri_output_file_write(&writer->sizes, &entry, sizeof entry));
  writer->open_tokens = 0;
  writer->sequences++;
  return TRI_OK;
}

tri_status tri_corpus_writer_end_document(tri_corpus_writer *writer) {
  TRI_TRY(end_sequence(writer, ENDS_DOCUMENT));
  writer->documents++;
  writer->in_document = false;
  return TRI_OK;
}

static tri_status write_ids(tri_corpus_writer *writer, const int32_t *ids, int64_t count) {
  uint32_t largest = 0;
  for (int64_t i = 0; i < count; i++) largest = (uint32_t)ids[i] > largest ? (uint32_t)ids[i] : largest;
  if (count > 0 && (int64_t)largest >= writer->vocab_size) {
    return tri_fail_internal("an id outside the vocabulary of %" PRId64 " was to be written to %s.bin",
                             writer->vocab_size, writer->prefix);
  }
  if (writer->type == TRI_CORPUS_I32) {
    return tri_output_file_write(&writer->bin, ids, (size_t)count * sizeof *ids);
  }
  uint16_t narrow[CHUNK];
  for (int64_t done = 0; done < count; done += CHUNK) {
    int64_t some = count - done < CHUNK ? count - done : CHUNK;
    for (int64_t i = 0; i < some; i++) narrow[i] = (uint16_t)ids[done + i];
    TRI_TRY(tri_output_file_write(&writer->bin, narrow, (size_t)some * sizeof narrow[0]));
  }
  return TRI_OK;
}

tri_status tri_corpus_writer_add(tri_corpus_writer *writer, const int32_t *ids, int64_t count) {
  writer->in_document = true;
  while (count > 0) {
    if (writer->open_tokens == MAX_SEQUENCE) TRI_TRY(end_sequence(writer, 0));
    int64_t some = MAX_SEQUENCE - writer->open_tokens;
    if (some > count) some = count;
    TRI_TRY(write_ids(writer, ids, some));
    writer->open_tokens += some;
    writer->tokens += some;
    ids += some;
    count -= some;
  }
  return TRI_OK;
}

tri_status tri_corpus_writer_begin_mask(tri_corpus_writer *writer) {
  if (writer->tokens > 0 || writer->masked) return tri_fail_internal("%s has tokens without a mask", writer->prefix);
  writer->masked = true;
  return tri_output_file_create(writer->prefix, ".mask.partial", &writer->mask);
}

tri_status tri_corpus_writer_add_masked(tri_corpus_writer *writer, const int32_t *ids, const uint8_t *mask,
                                        int64_t count) {
  if (!writer->masked) return tri_fail_internal("%s has no mask to write to", writer->prefix);
  TRI_TRY(tri_output_file_write(&writer->mask, mask, (size_t)count));
  return tri_corpus_writer_add(writer, ids, count);
}

tri_status tri_corpus_writer_begin_labels(tri_corpus_writer *writer) {
  if (writer->tokens > 0 || writer->labelled) return tri_fail_internal("%s has tokens without labels", writer->prefix);
  writer->labelled = true;
  return tri_output_file_create(writer->prefix, ".labels.partial", &writer->labels);
}

tri_status tri_corpus_writer_end_labelled(tri_corpus_writer *writer, bool desirable) {
  const uint8_t label = desirable;
  if (!writer->labelled) return tri_fail_internal("%s has no labels to write to", writer->prefix);
  TRI_TRY(tri_output_file_write(&writer->labels, &label, 1));
  writer->desirable += label;
  return tri_corpus_writer_end_document(writer);
}

tri_status tri_corpus_writer_last_documents(tri_corpus_writer *writer, int64_t count, int64_t *out) {
  uint32_t entry = 0;
  *out = 0;
  for (int64_t i = writer->sequences - 1; i >= 0; i--) {
    TRI_TRY(tri_output_file_read(&writer->sizes, i * 4, &entry, sizeof entry));
    if ((entry & ENDS_DOCUMENT) != 0 && count-- == 0) break;
    *out += entry & ~ENDS_DOCUMENT;
  }
  return TRI_OK;
}

/* ---- moving the tail --------------------------------------------------------------------------------------------- */

/* Finds the entry of `sizes` in which the last `tokens` tokens begin, and the number of tokens that the entry has
 * before them. */
static tri_status find_tail(tri_corpus_writer *from, int64_t tokens, int64_t *out_entry, int64_t *out_kept) {
  uint32_t entries[CHUNK];
  int64_t before = from->sequences;
  while (before > 0) {
    int64_t some = before < CHUNK ? before : CHUNK;
    before -= some;
    TRI_TRY(tri_output_file_read(&from->sizes, before * 4, entries, (size_t)some * 4));
    for (int64_t i = some - 1; i >= 0; i--) {
      int64_t size = entries[i] & ~ENDS_DOCUMENT;
      if (size >= tokens) {
        *out_entry = before + i;
        *out_kept = size - tokens;
        return TRI_OK;
      }
      tokens -= size;
    }
  }
  return tri_fail_internal("more tokens were to be moved than %s.bin has", from->prefix);
}

static tri_status copy_bytes(tri_output_file *from, tri_output_file *to, int64_t offset, int64_t end) {
  char chunk[CHUNK];
  while (offset < end) {
    size_t some = end - offset < CHUNK ? (size_t)(end - offset) : CHUNK;
    TRI_TRY(tri_output_file_read(from, offset, chunk, some));
    TRI_TRY(tri_output_file_write(to, chunk, some));
    offset += (int64_t)some;
  }
  return TRI_OK;
}

/* Moves the labels of the last `count` documents, and their share of the counts of desirable answers. Does nothing
 * without labels. Documents with labels are never cut. */
static tri_status move_labels(tri_corpus_writer *from, tri_corpus_writer *to, int64_t count) {
  if (!from->labelled) return TRI_OK;
  for (int64_t at = from->labels.bytes - count; at < from->labels.bytes; at++) {
    uint8_t label = 0;
    TRI_TRY(tri_output_file_read(&from->labels, at, &label, 1));
    TRI_TRY(tri_output_file_write(&to->labels, &label, 1));
    from->desirable -= label;
    to->desirable += label;
  }
  return tri_output_file_truncate(&from->labels, from->labels.bytes - count);
}

static tri_status copy_tokens(tri_corpus_writer *from, tri_corpus_writer *to, int64_t first, int64_t count) {
  if (from->masked) TRI_TRY(copy_bytes(&from->mask, &to->mask, first, first + count));
  return copy_bytes(&from->bin, &to->bin, first * from->id_bytes, (first + count) * from->id_bytes);
}

/* Appends the sizes from entry `entry` on to the sizes of `to`, the first one reduced by `kept` tokens. Counts the
 * sequences in `to`, and moves the counts of documents. */
static tri_status copy_sizes(tri_corpus_writer *from, tri_corpus_writer *to, int64_t entry, int64_t kept) {
  for (int64_t i = entry; i < from->sequences; i++) {
    uint32_t size = 0;
    TRI_TRY(tri_output_file_read(&from->sizes, i * 4, &size, sizeof size));
    if (i == entry) size -= (uint32_t)kept;
    TRI_TRY(tri_output_file_write(&to->sizes, &size, sizeof size));
    to->sequences++;
    to->documents += (size & ENDS_DOCUMENT) != 0;
    from->documents -= (size & ENDS_DOCUMENT) != 0;
  }
  return TRI_OK;
}

tri_status tri_corpus_writer_move_tail(tri_corpus_writer *from, tri_corpus_writer *to, int64_t tokens) {
  if (from->in_document || to->in_document || from->type != to->type || from->masked != to->masked ||
      from->labelled != to->labelled || tokens < 1 || tokens > from->tokens) {
    return tri_fail_internal("the last %" PRId64 " of %" PRId64 " tokens cannot be moved from %s to %s", tokens,
                             from->tokens, from->prefix, to->prefix);
  }
  int64_t entry = 0, kept = 0;
  TRI_TRY(find_tail(from, tokens, &entry, &kept));
  TRI_TRY(copy_tokens(from, to, from->tokens - tokens, tokens));
  const int64_t documents = to->documents;
  TRI_TRY(copy_sizes(from, to, entry, kept));
  TRI_TRY(move_labels(from, to, to->documents - documents));
  bool reopened = kept > 0;
  if (kept == 0 && entry > 0) { /* a cut between two sequences: the sequence before it must end a document */
    uint32_t size = 0;
    entry--;
    TRI_TRY(tri_output_file_read(&from->sizes, entry * 4, &size, sizeof size));
    kept = size & ~ENDS_DOCUMENT;
    from->documents -= (size & ENDS_DOCUMENT) != 0;
    reopened = true;
  }
  from->tokens -= tokens;
  to->tokens += tokens;
  from->sequences = entry;
  TRI_TRY(tri_output_file_truncate(&from->bin, from->tokens * from->id_bytes));
  if (from->masked) TRI_TRY(tri_output_file_truncate(&from->mask, from->tokens));
  TRI_TRY(tri_output_file_truncate(&from->sizes, entry * 4));
  from->open_tokens = kept;
  return reopened ? tri_corpus_writer_end_document(from) : TRI_OK;
}

/* ---- the index --------------------------------------------------------------------------------------------------- */

typedef enum index_part { PART_SIZES, PART_POINTERS, PART_DOCUMENTS } index_part;

/* Writes one part of the index in a pass over the sizes. */
static tri_status write_part(tri_corpus_writer *writer, index_part part) {
  uint32_t entries[CHUNK];
  int64_t pointer = 0;
  for (int64_t done = 0; done < writer->sequences; done += CHUNK) {
    int64_t some = writer->sequences - done < CHUNK ? writer->sequences - done : CHUNK;
    TRI_TRY(tri_output_file_read(&writer->sizes, done * 4, entries, (size_t)some * 4));
    for (int64_t i = 0; i < some; i++) {
      int32_t size = (int32_t)(entries[i] & ~ENDS_DOCUMENT);
      int64_t next_sequence = done + i + 1;
      if (part == PART_SIZES) TRI_TRY(tri_output_file_write(&writer->idx, &size, sizeof size));
      if (part == PART_POINTERS) TRI_TRY(tri_output_file_write(&writer->idx, &pointer, sizeof pointer));
      if (part == PART_DOCUMENTS && (entries[i] & ENDS_DOCUMENT) != 0) {
        TRI_TRY(tri_output_file_write(&writer->idx, &next_sequence, sizeof next_sequence));
      }
      pointer += (int64_t)size * writer->id_bytes;
    }
  }
  return TRI_OK;
}

static tri_status write_index(tri_corpus_writer *writer) {
  uint64_t version = TRI_CORPUS_VERSION;
  uint8_t type = (uint8_t)writer->type;
  uint64_t counts[2] = {(uint64_t)writer->sequences, (uint64_t)writer->documents + 1};
  int64_t first_document = 0;
  TRI_TRY(tri_output_file_write(&writer->idx, TRI_CORPUS_MAGIC, TRI_CORPUS_MAGIC_BYTES));
  TRI_TRY(tri_output_file_write(&writer->idx, &version, sizeof version));
  TRI_TRY(tri_output_file_write(&writer->idx, &type, sizeof type));
  TRI_TRY(tri_output_file_write(&writer->idx, counts, sizeof counts));
  TRI_TRY(write_part(writer, PART_SIZES));
  TRI_TRY(write_part(writer, PART_POINTERS));
  TRI_TRY(tri_output_file_write(&writer->idx, &first_document, sizeof first_document));
  return write_part(writer, PART_DOCUMENTS);
}

tri_status tri_corpus_writer_finish(tri_corpus_writer *writer) {
  if (writer->in_document) return tri_fail_internal("the last document of %s.bin was not ended", writer->prefix);
  TRI_TRY(tri_output_file_create(writer->prefix, ".idx.partial", &writer->idx));
  TRI_TRY(write_index(writer));
  if (writer->masked && writer->mask.bytes != writer->tokens) {
    return tri_fail_internal("the mask of %s has another number of tokens than the corpus", writer->prefix);
  }
  if (writer->labelled && writer->labels.bytes != writer->documents) {
    return tri_fail_internal("the labels of %s are of another number of documents than the corpus has", writer->prefix);
  }
  if (writer->masked) TRI_TRY(tri_output_file_sync(&writer->mask));
  if (writer->labelled) TRI_TRY(tri_output_file_sync(&writer->labels));
  TRI_TRY(tri_output_file_sync(&writer->bin));
  return tri_output_file_sync(&writer->idx);
}

tri_status tri_corpus_writer_commit(tri_corpus_writer *writer) {
  char old_index[TRI_PATH_BYTES];
  int length = snprintf(old_index, sizeof old_index, "%s.idx", writer->prefix);
  if (length < 0 || (size_t)length >= sizeof old_index) {
    return tri_fail(TRI_BAD_USAGE, "the path %s.idx is too long", writer->prefix);
  }
  if (unlink(old_index) != 0 && errno != ENOENT) {
    return tri_fail(TRI_IO_FAILED, "cannot remove the old %s: %s", old_index, strerror(errno));
  }
  TRI_TRY(tri_output_file_rename(&writer->bin, writer->prefix, ".bin"));
  if (writer->masked) TRI_TRY(tri_output_file_rename(&writer->mask, writer->prefix, TRI_CORPUS_MASK_SUFFIX));
  if (writer->labelled) TRI_TRY(tri_output_file_rename(&writer->labels, writer->prefix, TRI_CORPUS_LABELS_SUFFIX));
  tri_output_file_destroy(&writer->sizes); /* the index has the content of `sizes` */
  return tri_output_file_rename(&writer->idx, writer->prefix, ".idx");
}
