/* The public functions that read and write corpora. */
#include "data/corpus.h"

#include "api/api.h"
#include "data/corpus_writer.h"

#include "trireme/corpus.h"

/* Casts the public type to tri_corpus. */
static const tri_corpus *own(const trireme_corpus *corpus) { return (const void *)corpus; }

trireme_status trireme_corpus_open(const char *prefix, trireme_corpus **out) {
  TRI_API_PLAIN_NUMBERS;
  tri_corpus *corpus = NULL;
  TRI_API_WANTS(prefix);
  TRI_API_WANTS(out);
  TRI_API_TRY(tri_corpus_open(prefix, &corpus));
  *out = (void *)corpus;
  return TRIREME_OK;
}

void trireme_corpus_close(trireme_corpus *corpus) { tri_corpus_close((void *)corpus); }

int64_t trireme_corpus_num_tokens(const trireme_corpus *corpus) {
  return corpus == NULL ? 0 : tri_corpus_num_tokens(own(corpus));
}

int64_t trireme_corpus_num_documents(const trireme_corpus *corpus) {
  return corpus == NULL ? 0 : tri_corpus_num_documents(own(corpus));
}

int64_t trireme_corpus_document(const trireme_corpus *corpus, int64_t document) {
  if (corpus == NULL || document < 0 || document > tri_corpus_num_documents(own(corpus))) return -1;
  return tri_corpus_document(own(corpus), document);
}

trireme_status trireme_corpus_read(const trireme_corpus *corpus, int64_t first, int64_t count, int32_t *to) {
  TRI_API_WANTS(corpus);
  TRI_API_WANTS(to);
  int64_t held = tri_corpus_num_tokens(own(corpus));
  if (first < 0 || count < 0 || first > held || count > held - first) {
    return tri_api_status(tri_fail(TRI_BAD_USAGE, "%s has %lld tokens, not %lld from %lld on",
                                   tri_corpus_name(own(corpus)), (long long)held, (long long)count, (long long)first));
  }
  TRI_API_TRY(tri_corpus_read(own(corpus), first, count, INT32_MAX, to));
  return TRIREME_OK;
}

trireme_status trireme_corpus_writer_create(const char *prefix, int64_t vocab_size, trireme_corpus_writer **out) {
  TRI_API_PLAIN_NUMBERS;
  tri_corpus_writer *writer = NULL;
  TRI_API_WANTS(prefix);
  TRI_API_WANTS(out);
  if (vocab_size < 1 || vocab_size > INT32_MAX) {
    return tri_api_status(
        tri_fail(TRI_BAD_USAGE, "a vocabulary of %lld tokens; it can have 1 to %d", (long long)vocab_size, INT32_MAX));
  }
  TRI_API_TRY(tri_corpus_writer_create(prefix, vocab_size, &writer));
  *out = (void *)writer;
  return TRIREME_OK;
}

void trireme_corpus_writer_destroy(trireme_corpus_writer *writer) { tri_corpus_writer_destroy((void *)writer); }

trireme_status trireme_corpus_writer_add(trireme_corpus_writer *writer, const int32_t *ids, int64_t count) {
  TRI_API_WANTS(writer);
  TRI_API_WANTS(ids);
  if (count < 0) return tri_api_status(tri_fail(TRI_BAD_USAGE, "%lld tokens cannot be added", (long long)count));
  TRI_API_TRY(tri_corpus_writer_add((void *)writer, ids, count));
  return TRIREME_OK;
}

trireme_status trireme_corpus_writer_end_document(trireme_corpus_writer *writer) {
  TRI_API_WANTS(writer);
  TRI_API_TRY(tri_corpus_writer_end_document((void *)writer));
  return TRIREME_OK;
}

trireme_status trireme_corpus_writer_commit(trireme_corpus_writer *writer) {
  TRI_API_PLAIN_NUMBERS;
  TRI_API_WANTS(writer);
  TRI_API_TRY(tri_corpus_writer_finish((void *)writer));
  TRI_API_TRY(tri_corpus_writer_commit((void *)writer));
  return TRIREME_OK;
}
