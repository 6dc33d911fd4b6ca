/* Drives the tokenizer for tests that are not written in C.
 *
 *   tokenize_tool encode SOURCE RECORDS [plain]   ids of each record on a line; "plain": special tokens are plain text
 *   tokenize_tool ends SOURCE RECORDS             where these tokens end in the record, with special tokens
 *   tokenize_tool text SOURCE RECORDS             records are ids of 4 bytes; the text of each on a line, in hex, as it
 *                                                 comes token by token
 *   tokenize_tool decode SOURCE RECORDS           fails unless the tokens of each record spell the record
 *   tokenize_tool info SOURCE                     vocabulary size and end-of-text id
 *   tokenize_tool batch LIST                      for each NAME of the list (one a line) with NAME.json, NAME.texts and
 *                                                 NAME.ids: "refused MESSAGE", or "read", the lines of `encode`, of
 *                                                 `encode` with "plain", of whole texts with what they begin with, and
 *                                                 of `text` for the ids
 *   tokenize_tool save SOURCE FILE                writes a tokenizer.json
 *   tokenize_tool train VOCAB RECORDS FILE        learns a vocabulary and writes a tokenizer.json
 *   tokenize_tool speed SOURCE TEXT SECONDS       encodes the lines of a text again and again; prints bytes a second
 *
 * RECORDS holds documents of any bytes, each behind its length as 4 bytes, the lowest first. */
#include "base/memory.h"
#include "files/file.h"
#include "tokenizer/tokenizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct records {
  char *data;
  size_t bytes, at;
} records;

static tri_status open_records(const char *path, records *out) {
  return tri_file_read(path, (size_t)1 << 32, &out->data, &out->bytes);
}

static int next_record(records *r, const char **text, size_t *bytes) {
  if (r->at + 4 > r->bytes) return 0;
  const uint8_t *p = (const uint8_t *)r->data + r->at;
  *bytes = (size_t)p[0] | (size_t)p[1] << 8 | (size_t)p[2] << 16 | (size_t)p[3] << 24;
  *text = r->data + r->at + 4;
  r->at += 4 + *bytes;
  return r->at <= r->bytes;
}

typedef tri_status (*text_encoder)(tri_encoder *encoder, const char *text, size_t bytes, int specials,
                                   tri_token_list *out);

static tri_status print_ids(tri_encoder *encoder, records *r, text_encoder encode, int specials) {
  tri_token_list list = {0};
  const char *text = NULL;
  size_t bytes = 0;
  tri_status status = TRI_OK;
  while (status == TRI_OK && next_record(r, &text, &bytes)) {
    list.count = 0;
    status = encode(encoder, text, bytes, specials, &list);
    for (int64_t i = 0; i < list.count; i++) printf("%s%" PRId32, i > 0 ? " " : "", list.ids[i]);
    putchar('\n');
  }
  tri_free(list.ids);
  return status;
}

static tri_status check_decoding(const tri_tokenizer *tokenizer, tri_encoder *encoder, records *r) {
  tri_token_list list = {0};
  const char *text = NULL;
  size_t bytes = 0;
  tri_status status = TRI_OK;
  for (int index = 0; status == TRI_OK && next_record(r, &text, &bytes); index++) {
    list.count = 0;
    status = tri_encoder_encode(encoder, text, bytes, 1, &list);
    size_t at = 0;
    for (int64_t i = 0; status == TRI_OK && i < list.count; i++) {
      size_t length = 0;
      const char *token = tri_tokenizer_token(tokenizer, list.ids[i], &length);
      if (length > bytes - at || memcmp(token, text + at, length) != 0) {
        status = tri_fail(TRI_INTERNAL, "record %d differs at byte %zu", index, at);
      }
      at += length;
    }
    if (status == TRI_OK && at != bytes) status = tri_fail(TRI_INTERNAL, "record %d ends at byte %zu", index, at);
  }
  tri_free(list.ids);
  return status;
}

static tri_status print_ends(tri_encoder *encoder, records *r) {
  tri_token_list list = {0};
  tri_token_ends ends = {0};
  const char *text = NULL;
  size_t bytes = 0;
  tri_status status = TRI_OK;
  while (status == TRI_OK && next_record(r, &text, &bytes)) {
    list.count = ends.count = 0;
    status = tri_encoder_encode_with_ends(encoder, text, bytes, &list, &ends);
    for (int64_t i = 0; i < ends.count; i++) printf("%s%zu", i > 0 ? " " : "", ends.ends[i]);
    putchar('\n');
  }
  tri_free(list.ids);
  tri_free(ends.ends);
  return status;
}

static void write_text(const char *text, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) printf("%02x", (unsigned)(uint8_t)text[i]);
}

static tri_status print_texts(const tri_tokenizer *tokenizer, records *r) {
  const char *data = NULL, *text = NULL;
  size_t bytes = 0, length = 0;
  while (next_record(r, &data, &bytes)) {
    tri_decoder *decoder = NULL;
    TRI_TRY(tri_decoder_create(tokenizer, true, &decoder));
    for (size_t i = 0; i + 4 <= bytes; i += 4) {
      int32_t id = 0;
      memcpy(&id, data + i, 4);
      TRI_TRY(tri_decoder_next(decoder, id, &text, &length));
      write_text(text, length);
      putchar(' ');
    }
    tri_decoder_end(decoder, &text, &length);
    write_text(text, length);
    putchar('\n');
    tri_decoder_destroy(decoder);
  }
  return TRI_OK;
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static tri_status measure(tri_encoder *encoder, const char *path, double limit) {
  char *text = NULL;
  size_t bytes = 0;
  tri_token_list list = {0};
  tri_status status = TRI_OK;
  TRI_TRY(tri_file_read(path, (size_t)1 << 32, &text, &bytes));
  double begin = seconds(), done = 0;
  do {
    for (size_t at = 0; at < bytes && status == TRI_OK;) {
      const char *end = memchr(text + at, '\n', bytes - at);
      size_t length = end != NULL ? (size_t)(end - text) + 1 - at : bytes - at;
      list.count = 0;
      status = tri_encoder_encode(encoder, text + at, length, 1, &list);
      at += length;
    }
    done += (double)bytes;
  } while (status == TRI_OK && seconds() - begin < limit);
  printf("%.0f\n", done / (seconds() - begin));
  tri_free(list.ids);
  tri_free(text);
  return status;
}

static tri_status use(const char *what, const tri_tokenizer *tokenizer, int count, char **arguments) {
  if (strcmp(what, "save") == 0) return tri_tokenizer_save(tokenizer, arguments[3]);
  if (strcmp(what, "info") == 0) {
    printf("%" PRId64 " %" PRId32 "\n", tri_tokenizer_vocab_size(tokenizer), tri_tokenizer_end_of_text(tokenizer));
    return TRI_OK;
  }
  tri_encoder *encoder = NULL;
  records r = {0};
  tri_status status = TRI_OK;
  TRI_TRY(tri_encoder_create(tokenizer, &encoder));
  if (strcmp(what, "speed") == 0) {
    status = measure(encoder, arguments[3], atof(arguments[4]));
  } else {
    TRI_TRY_GOTO(open_records(arguments[3], &r), release);
    status = strcmp(what, "decode") == 0 ? check_decoding(tokenizer, encoder, &r)
             : strcmp(what, "ends") == 0 ? print_ends(encoder, &r)
             : strcmp(what, "text") == 0 ? print_texts(tokenizer, &r)
                                         : print_ids(encoder, &r, tri_encoder_encode, count < 5);
  }
release:
  tri_free(r.data);
  tri_encoder_destroy(encoder);
  return status;
}

/* Prints the lines of one file of a batch, which has been read. */
static tri_status print_file(const tri_tokenizer *tokenizer, const char *name) {
  char path[TRI_PATH_BYTES];
  tri_encoder *encoder = NULL;
  records texts = {0}, ids = {0};
  tri_status status = TRI_OK;
  TRI_TRY_GOTO(tri_encoder_create(tokenizer, &encoder), release);
  TRI_TRY_GOTO(tri_path_with(path, name, ".texts"), release);
  TRI_TRY_GOTO(open_records(path, &texts), release);
  TRI_TRY_GOTO(print_ids(encoder, &texts, tri_encoder_encode, 1), release);
  texts.at = 0;
  TRI_TRY_GOTO(print_ids(encoder, &texts, tri_encoder_encode, 0), release);
  texts.at = 0;
  TRI_TRY_GOTO(print_ids(encoder, &texts, tri_encoder_encode_text, 1), release);
  TRI_TRY_GOTO(tri_path_with(path, name, ".ids"), release);
  TRI_TRY_GOTO(open_records(path, &ids), release);
  TRI_TRY_GOTO(print_texts(tokenizer, &ids), release);
release:
  tri_free(texts.data);
  tri_free(ids.data);
  tri_encoder_destroy(encoder);
  return status;
}

static tri_status print_batch(const char *list) {
  char name[TRI_PATH_BYTES - 16], path[TRI_PATH_BYTES];
  FILE *file = fopen(list, "r");
  tri_status status = TRI_OK;
  if (file == NULL) return tri_fail(TRI_BAD_FILE, "cannot open %s", list);
  while (status == TRI_OK && fgets(name, sizeof name, file) != NULL) {
    tri_tokenizer *tokenizer = NULL;
    name[strcspn(name, "\n")] = '\0';
    status = tri_path_with(path, name, ".json");
    if (status == TRI_OK && tri_tokenizer_create(path, &tokenizer) != TRI_OK) {
      printf("refused %s\n", tri_status_message());
    } else if (status == TRI_OK) {
      puts("read");
      status = print_file(tokenizer, name);
    }
    fflush(stdout); /* a crash shows which file it was */
    tri_tokenizer_destroy(tokenizer);
  }
  fclose(file);
  return status;
}

static tri_status train(const char *vocabulary, const char *path, const char *out) {
  tri_tokenizer_trainer *trainer = NULL;
  tri_tokenizer *tokenizer = NULL;
  records r = {0};
  const char *text = NULL;
  size_t bytes = 0;
  tri_status status = TRI_OK;
  TRI_TRY_GOTO(open_records(path, &r), release);
  TRI_TRY_GOTO(tri_tokenizer_trainer_create(atoll(vocabulary), &trainer), release);
  while (next_record(&r, &text, &bytes)) TRI_TRY_GOTO(tri_tokenizer_trainer_feed(trainer, text, bytes), release);
  TRI_TRY_GOTO(tri_tokenizer_trainer_finish(trainer, &tokenizer), release);
  TRI_TRY_GOTO(tri_tokenizer_save(tokenizer, out), release);
release:
  tri_tokenizer_destroy(tokenizer);
  tri_tokenizer_trainer_destroy(trainer);
  tri_free(r.data);
  return status;
}

int main(int count, char **arguments) {
  tri_status status = TRI_OK;
  tri_tokenizer *tokenizer = NULL;
  if (count < 3) return 2;
  if (strcmp(arguments[1], "train") == 0 && count == 5) {
    status = train(arguments[2], arguments[3], arguments[4]);
  } else if (strcmp(arguments[1], "batch") == 0) {
    status = print_batch(arguments[2]);
  } else {
    status = tri_tokenizer_create(arguments[2], &tokenizer);
    if (status == TRI_OK) status = use(arguments[1], tokenizer, count, arguments);
  }
  tri_tokenizer_destroy(tokenizer);
  if (status != TRI_OK) fprintf(stderr, "tokenize_tool: %s\n", tri_status_message());
  return tri_status_exit(status);
}
