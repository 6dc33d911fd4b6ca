/* Texts to a corpus, a file a document, and what came of it: write_corpus TOKENIZER PREFIX FILE...
 * TOKENIZER is a tokenizer.json, or `bytes`. For example: write_corpus bytes corpus/train book.txt */
#include <trireme/trireme.h>

#include <stdio.h>
#include <stdlib.h>

/* The whole of a file; NULL where it cannot be read. */
static char *read_file(const char *path, size_t *bytes) {
  FILE *file = fopen(path, "rb");
  char *text = NULL;
  long length;
  if (file == NULL) return NULL;
  if (fseek(file, 0, SEEK_END) == 0 && (length = ftell(file)) >= 0 && fseek(file, 0, SEEK_SET) == 0) {
    text = malloc((size_t)length + 1);
    *bytes = text == NULL ? 0 : fread(text, 1, (size_t)length, file);
  }
  fclose(file);
  return text;
}

static trireme_status add_file(trireme_tokenizer *tokenizer, trireme_corpus_writer *writer, const char *path) {
  size_t bytes = 0;
  char *text = read_file(path, &bytes);
  int32_t *ids = NULL, end = trireme_tokenizer_end_of_text(tokenizer);
  int64_t count = 0;
  trireme_status status;
  if (text == NULL) {
    fprintf(stderr, "write_corpus: cannot read %s\n", path);
    return TRIREME_BAD_FILE;
  }
  status = trireme_tokenizer_encode(tokenizer, text, bytes, 0, &ids, &count);
  if (status == TRIREME_OK) status = trireme_corpus_writer_add(writer, ids, count);
  if (status == TRIREME_OK && end >= 0) status = trireme_corpus_writer_add(writer, &end, 1);
  if (status == TRIREME_OK) status = trireme_corpus_writer_end_document(writer);
  trireme_free(ids);
  free(text);
  return status;
}

static trireme_status write_all(trireme_tokenizer *tokenizer, const char *prefix, char **files, int count) {
  trireme_corpus_writer *writer = NULL;
  int i;
  trireme_status status = trireme_corpus_writer_create(prefix, trireme_tokenizer_vocab_size(tokenizer), &writer);
  for (i = 0; status == TRIREME_OK && i < count; i++) status = add_file(tokenizer, writer, files[i]);
  if (status == TRIREME_OK) status = trireme_corpus_writer_commit(writer);
  trireme_corpus_writer_destroy(writer);
  return status;
}

/* How much there is, and the text of the first tokens. */
static trireme_status print_corpus(trireme_tokenizer *tokenizer, const char *prefix) {
  trireme_corpus *corpus = NULL;
  char *text = NULL;
  size_t bytes = 0;
  int32_t ids[8];
  int64_t count;
  trireme_status status = trireme_corpus_open(prefix, &corpus);
  if (status != TRIREME_OK) return status;
  count = trireme_corpus_num_tokens(corpus) < 8 ? trireme_corpus_num_tokens(corpus) : 8;
  status = trireme_corpus_read(corpus, 0, count, ids);
  if (status == TRIREME_OK) status = trireme_tokenizer_decode(tokenizer, ids, count, &text, &bytes);
  if (status == TRIREME_OK) {
    printf("%lld tokens of %lld documents; the first %lld: \"%s\"\n", (long long)trireme_corpus_num_tokens(corpus),
           (long long)trireme_corpus_num_documents(corpus), (long long)count, text);
  }
  trireme_free(text);
  trireme_corpus_close(corpus);
  return status;
}

int main(int count, char **words) {
  trireme_tokenizer *tokenizer = NULL;
  trireme_status status;
  if (count < 4) {
    fprintf(stderr, "usage: write_corpus TOKENIZER PREFIX FILE...\n");
    return 2;
  }
  status = trireme_tokenizer_create(words[1], &tokenizer);
  if (status == TRIREME_OK) status = write_all(tokenizer, words[2], words + 3, count - 3);
  if (status == TRIREME_OK) status = print_corpus(tokenizer, words[2]);
  trireme_tokenizer_destroy(tokenizer);
  if (status != TRIREME_OK) fprintf(stderr, "write_corpus: %s\n", trireme_message());
  return status == TRIREME_OK ? 0 : 1;
}
