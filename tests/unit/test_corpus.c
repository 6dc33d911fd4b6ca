/* Reading and writing of corpora. The test builds the indexes that it reads byte by byte from the description of the
 * format, without our writer; tests/oracle/test_corpus.py checks the files of our writer. */
#include "data/corpus.h"

#include "base/memory.h"
#include "corpus_test.h"
#include "data/corpus_writer.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

/* ---- an index by hand -------------------------------------------------------------------------------------------- */

typedef struct bytes {
  unsigned char data[4096];
  size_t count;
} bytes;

static void put(bytes *to, uint64_t value, int width) {
  for (int i = 0; i < width; i++) to->data[to->count++] = (unsigned char)(value >> (8 * i));
}

/* Three sequences of 3, 0 and 2 tokens in two documents; `type` is the code of the id type, of `width` bytes. */
static bytes make_index(int type, int width) {
  bytes index = {.count = 0};
  memcpy(index.data, "MMIDIDX\0", 9);
  index.count = 9;
  put(&index, 1, 8);
  put(&index, (uint64_t)type, 1);
  put(&index, 3, 8);
  put(&index, 3, 8);
  const int sizes[] = {3, 0, 2};
  for (int i = 0; i < 3; i++) put(&index, (uint64_t)sizes[i], 4);
  const int pointers[] = {0, 3, 3};
  for (int i = 0; i < 3; i++) put(&index, (uint64_t)pointers[i] * (uint64_t)width, 8);
  const int documents[] = {0, 2, 3};
  for (int i = 0; i < 3; i++) put(&index, (uint64_t)documents[i], 8);
  return index;
}
enum {
  AT_VERSION = 9,
  AT_TYPE = 17,
  AT_SEQUENCES = 18,
  AT_ENTRIES = 26,
  AT_SIZES = 34,
  AT_POINTERS = 46,
  AT_DOCUMENTS = 70
};

static void poke(bytes *index, size_t at, uint64_t value, int width) {
  size_t count = index->count;
  index->count = at;
  put(index, value, width);
  index->count = count;
}

static tri_status open_index(void **state, const bytes *index, size_t bin_bytes, tri_corpus **out) {
  char prefix[TRI_PATH_BYTES];
  unsigned char ids[256];
  for (size_t i = 0; i < sizeof ids; i++) ids[i] = (unsigned char)i;
  write_file(state, "c.idx", index->data, index->count);
  write_file(state, "c.bin", ids, bin_bytes);
  return tri_corpus_open(in_folder(state, "c", prefix), out);
}

/* Checks that the fault is found, and that the message names the file and the field. */
static void expect_refusal(void **state, const bytes *index, size_t bin_bytes, const char *part) {
  tri_corpus *corpus = NULL;
  assert_failure(open_index(state, index, bin_bytes, &corpus), TRI_BAD_FILE, part);
  assert_non_null(strstr(tri_status_message(), "c.idx"));
  assert_null(corpus);
}

static void reads_every_integer_type(void **state) {
  const struct { int type, width; } types[] = {{1, 1}, {2, 1}, {3, 2}, {4, 4}, {5, 8}, {8, 2}};
  for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
    bytes index = make_index(types[t].type, types[t].width), bin = {.count = 0};
    for (int i = 0; i < 5; i++) put(&bin, 10 + (uint64_t)i, types[t].width);
    write_file(state, "t.idx", index.data, index.count);
    write_file(state, "t.bin", bin.data, bin.count);
    char prefix[TRI_PATH_BYTES];
    tri_corpus *corpus = NULL;
    assert_ok(tri_corpus_open(in_folder(state, "t", prefix), &corpus));
    assert_int_equal(tri_corpus_num_tokens(corpus), 5);
    assert_int_equal(tri_corpus_num_documents(corpus), 2);
    int32_t ids[4];
    assert_ok(tri_corpus_read(corpus, 1, 4, 15, ids));
    for (int i = 0; i < 4; i++) assert_int_equal(ids[i], 11 + i);
    tri_corpus_close(corpus);
  }
}

static void refuses_hostile_headers(void **state) {
  const bytes good = make_index(4, 4);
  bytes bad = good;
  bad.data[3] = 'X';
  expect_refusal(state, &bad, 20, "does not begin with MMIDIDX");
  bad = good;
  bad.count = 0;
  expect_refusal(state, &bad, 20, "does not begin with MMIDIDX");
  bad.count = 20;
  expect_refusal(state, &bad, 20, "truncated: it has 20 bytes");
  bad = good;
  poke(&bad, AT_VERSION, 2, 8);
  expect_refusal(state, &bad, 20, "version 2");
  for (int type = 0; type < 256; type++) {
    if ((type >= 1 && type <= 5) || type == 8) continue;
    char part[64];
    snprintf(part, sizeof part, "has the unknown type %d of ids;", type);
    bad = good;
    bad.data[AT_TYPE] = (unsigned char)type;
    expect_refusal(state, &bad, 20, part);
  }
}

static void refuses_hostile_counts(void **state) {
  const bytes good = make_index(4, 4);
  bytes bad = good;
  bad.count--;
  expect_refusal(state, &bad, 20,
                 "is truncated: its 3 sequences and 3 document entries take 94 bytes, the file has 93");
  bad = good;
  bad.count++;
  expect_refusal(state, &bad, 20, "is too long");
  bad = good;
  poke(&bad, AT_SEQUENCES, UINT64_MAX, 8);
  expect_refusal(state, &bad, 20, "counts 18446744073709551615 sequences");
  poke(&bad, AT_SEQUENCES, UINT64_C(1) << 60, 8);
  expect_refusal(state, &bad, 20, "more than a file can hold");
  bad = good;
  poke(&bad, AT_ENTRIES, UINT64_C(1) << 61, 8);
  expect_refusal(state, &bad, 20, "2305843009213693952 document entries");
  /* 2^64 / 12 sequences and as many bytes of documents as wrap the sum around to the true length. */
  poke(&bad, AT_SEQUENCES, UINT64_MAX / 12, 8);
  poke(&bad, AT_ENTRIES, 8, 8);
  expect_refusal(state, &bad, 20, "more than a file can hold");
}

static void refuses_hostile_sequences(void **state) {
  const bytes good = make_index(4, 4);
  bytes bad = good;
  poke(&bad, AT_SIZES + 4, (uint32_t)-1, 4);
  expect_refusal(state, &bad, 20, "the size of sequence 1 is negative (-1)");
  bad = good;
  poke(&bad, AT_SIZES + 8, INT32_MAX, 4);
  expect_refusal(state, &bad, 20, "sequence 2 (pointer 12, size 2147483647 tokens of 4 bytes) is outside");
  bad = good;
  expect_refusal(state, &bad, 19, "c.bin, which has 19 bytes");
  expect_refusal(state, &bad, 0, "c.bin, which has 0 bytes");
  poke(&bad, AT_POINTERS + 16, 24, 8);
  expect_refusal(state, &bad, 20, "sequence 2 (pointer 24");
  poke(&bad, AT_POINTERS + 16, (uint64_t)INT64_MAX & ~UINT64_C(3), 8);
  expect_refusal(state, &bad, 20, "is outside");
  poke(&bad, AT_POINTERS + 16, (uint64_t)-4, 8);
  expect_refusal(state, &bad, 20, "the pointer of sequence 2 is -4");
  poke(&bad, AT_POINTERS + 16, 13, 8);
  expect_refusal(state, &bad, 24, "not a multiple of 4");
  poke(&bad, AT_POINTERS + 16, 8, 8);
  expect_refusal(state, &bad, 20, "the sizes do not add up to the pointers: sequence 2 begins at byte 8");
}

static void refuses_hostile_documents(void **state) {
  const bytes good = make_index(4, 4);
  bytes bad = good;
  poke(&bad, AT_DOCUMENTS, 1, 8);
  expect_refusal(state, &bad, 20, "the first document begins with sequence 1");
  bad = good;
  poke(&bad, AT_DOCUMENTS + 8, 4, 8);
  expect_refusal(state, &bad, 20, "document entry 1 is 4");
  poke(&bad, AT_DOCUMENTS + 8, (uint64_t)-1, 8);
  expect_refusal(state, &bad, 20, "document entry 1 is -1");
  bad = good;
  poke(&bad, AT_DOCUMENTS + 16, 1, 8);
  expect_refusal(state, &bad, 20, "document entry 2 is 1; it must be between the previous entry, 2,");
  poke(&bad, AT_DOCUMENTS + 16, 2, 8);
  expect_refusal(state, &bad, 20, "the documents end with sequence 2, but there are 3");
  bad = good;
  bad.count -= 24;
  poke(&bad, AT_ENTRIES, 0, 8);
  expect_refusal(state, &bad, 20, "list of documents is empty");
}

static void refuses_an_empty_corpus(void **state) {
  bytes empty = make_index(4, 4);
  poke(&empty, AT_SEQUENCES, 0, 8);
  poke(&empty, AT_ENTRIES, 1, 8);
  poke(&empty, AT_SIZES, 0, 8);
  empty.count = AT_SIZES + 8;
  expect_refusal(state, &empty, 0, "the corpus is empty (0 documents, no tokens)");
}

static void names_missing_files(void **state) {
  char prefix[TRI_PATH_BYTES];
  tri_corpus *corpus = NULL;
  in_folder(state, "nothing", prefix);
  assert_failure(tri_corpus_open(prefix, &corpus), TRI_BAD_FILE, "nothing.idx: No such file");
  bytes index = make_index(4, 4);
  write_file(state, "nothing.idx", index.data, index.count);
  assert_failure(tri_corpus_open(prefix, &corpus), TRI_BAD_FILE, "nothing.bin: No such file");
}

/* Sequences out of order, with a gap and an empty one: the stream is their concatenation. */
static void reads_sequences_anywhere(void **state) {
  bytes index = make_index(1, 1);
  poke(&index, AT_POINTERS, 100, 8);
  poke(&index, AT_POINTERS + 8, 3, 8);
  poke(&index, AT_POINTERS + 16, 50, 8);
  tri_corpus *corpus = NULL;
  assert_ok(open_index(state, &index, 200, &corpus));
  const int32_t stream[] = {100, 101, 102, 50, 51};
  for (int first = 0; first <= 5; first++) {
    for (int count = 0; first + count <= 5; count++) {
      int32_t ids[6] = {-7, -7, -7, -7, -7, -7};
      assert_ok(tri_corpus_read(corpus, first, count, 256, ids));
      assert_memory_equal(ids, stream + first, (size_t)count * sizeof *ids);
      assert_int_equal(ids[count], -7);
    }
  }
  tri_corpus_close(corpus);
}

static void refuses_ids_of_another_vocabulary(void **state) {
  bytes index = make_index(5, 8), bin = {.count = 0};
  const uint64_t ids[] = {1, 2, 3, (uint64_t)1 << 40, (uint64_t)-5};
  for (int i = 0; i < 5; i++) put(&bin, ids[i], 8);
  write_file(state, "v.idx", index.data, index.count);
  write_file(state, "v.bin", bin.data, bin.count);
  char prefix[TRI_PATH_BYTES];
  tri_corpus *corpus = NULL;
  int32_t out[5];
  assert_ok(tri_corpus_open(in_folder(state, "v", prefix), &corpus));
  assert_ok(tri_corpus_read(corpus, 0, 3, 4, out));
  assert_failure(tri_corpus_read(corpus, 0, 3, 3, out), TRI_BAD_FILE,
                 "v.bin: the token at position 2 is 3, outside the model's vocabulary of 3; the corpus was made with "
                 "another tokenizer");
  assert_failure(tri_corpus_read(corpus, 1, 4, INT32_MAX, out), TRI_BAD_FILE, "at position 3 is 1099511627776");
  assert_failure(tri_corpus_read(corpus, 4, 1, INT32_MAX, out), TRI_BAD_FILE, "at position 4 is -5");
  assert_failure(tri_corpus_read(corpus, 4, 2, 10, out), TRI_INTERNAL, "which has 5");
  assert_failure(tri_corpus_read(corpus, -1, 2, 10, out), TRI_INTERNAL, "which has 5");
  tri_corpus_close(corpus);
}

/* ---- the writer -------------------------------------------------------------------------------------------------- */

static void add(tri_corpus_writer *writer, int32_t first, int32_t count) {
  for (int32_t i = 0; i < count; i++) {
    int32_t id = first + i;
    assert_ok(tri_corpus_writer_add(writer, &id, 1));
  }
  assert_ok(tri_corpus_writer_end_document(writer));
}

static void commit(tri_corpus_writer *writer) {
  assert_ok(tri_corpus_writer_finish(writer));
  assert_ok(tri_corpus_writer_commit(writer));
  tri_corpus_writer_destroy(writer);
}

static void expect_corpus(const char *prefix, const int32_t *ids, int64_t tokens, int64_t documents) {
  tri_corpus *corpus = NULL;
  int32_t out[256];
  assert_true(tokens <= 256);
  assert_ok(tri_corpus_open(prefix, &corpus));
  assert_int_equal(tri_corpus_num_tokens(corpus), tokens);
  assert_int_equal(tri_corpus_num_documents(corpus), documents);
  assert_ok(tri_corpus_read(corpus, 0, tokens, INT32_MAX, out));
  assert_memory_equal(out, ids, (size_t)tokens * sizeof *ids);
  tri_corpus_close(corpus);
}

/* The type changes at the same vocabulary sizes as Megatron-LM's. */
static void chooses_the_type_by_vocabulary(void **state) {
  const struct {
    int64_t vocab_size;
    unsigned char type;
  } cases[] = {{257, 8}, {65499, 8}, {65500, 4}, {128256, 4}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char prefix[TRI_PATH_BYTES], path[TRI_PATH_BYTES];
    tri_corpus_writer *writer = NULL;
    assert_ok(tri_corpus_writer_create(in_folder(state, "w", prefix), cases[i].vocab_size, &writer));
    const int32_t ids[] = {0, (int32_t)cases[i].vocab_size - 1};
    assert_ok(tri_corpus_writer_add(writer, ids, 2));
    assert_ok(tri_corpus_writer_end_document(writer));
    commit(writer);
    expect_corpus(prefix, ids, 2, 1);
    char *data = NULL;
    assert_ok(tri_file_read(in_folder(state, "w.idx", path), 1000, &data, NULL));
    assert_int_equal((unsigned char)data[AT_TYPE], cases[i].type);
    tri_free(data);
  }
}

static void refuses_what_cannot_be_stored(void **state) {
  char prefix[TRI_PATH_BYTES];
  tri_corpus_writer *writer = NULL;
  in_folder(state, "w", prefix);
  assert_failure(tri_corpus_writer_create(prefix, INT64_C(1) << 31, &writer), TRI_BAD_CONFIG,
                 "a vocabulary of 2147483648 cannot be stored");
  assert_failure(tri_corpus_writer_create("/proc/none/w", 10, &writer), TRI_IO_FAILED, "/proc/none/w.bin.partial");
  assert_ok(tri_corpus_writer_create(prefix, 10, &writer));
  int32_t id = 10;
  assert_failure(tri_corpus_writer_add(writer, &id, 1), TRI_INTERNAL, "outside the vocabulary of 10");
  id = -1;
  assert_failure(tri_corpus_writer_add(writer, &id, 1), TRI_INTERNAL, "outside the vocabulary of 10");
  tri_corpus_writer_destroy(writer);
}

/* Every way to cut two documents of 3 and one of 2 tokens in two. */
static void moves_the_tail(void **state) {
  const int32_t ids[] = {0, 1, 2, 10, 11, 12, 20, 21};
  const int64_t ends[] = {3, 6, 8};
  for (int64_t tail = 1; tail <= 8; tail++) {
    char a[TRI_PATH_BYTES], b[TRI_PATH_BYTES];
    tri_corpus_writer *from = NULL, *to = NULL;
    assert_ok(tri_corpus_writer_create(in_folder(state, "a", a), 100, &from));
    assert_ok(tri_corpus_writer_create(in_folder(state, "b", b), 100, &to));
    add(from, 0, 3);
    add(from, 10, 3);
    add(from, 20, 2);
    add(to, 50, 1);
    assert_ok(tri_corpus_writer_move_tail(from, to, tail));
    int64_t kept = 8 - tail, left = 0, right = 0, begin = 0;
    for (int i = 0; i < 3; i++) {
      left += begin < kept;
      right += ends[i] > kept;
      begin = ends[i];
    }
    assert_int_equal(tri_corpus_writer_num_documents(from), left);
    commit(to);
    int32_t moved[9] = {50};
    memcpy(moved + 1, ids + kept, (size_t)tail * sizeof *ids);
    expect_corpus(b, moved, 1 + tail, 1 + right);
    if (kept == 0) {
      tri_corpus_writer_destroy(from);
      continue;
    }
    add(from, 70, 1); /* the writer can still be used */
    commit(from);
    int32_t rest[9];
    memcpy(rest, ids, (size_t)kept * sizeof *ids);
    rest[kept] = 70;
    expect_corpus(a, rest, kept + 1, left + 1);
  }
}

static void refuses_to_move_more_than_there_is(void **state) {
  char a[TRI_PATH_BYTES], b[TRI_PATH_BYTES];
  tri_corpus_writer *from = NULL, *to = NULL;
  assert_ok(tri_corpus_writer_create(in_folder(state, "a", a), 100, &from));
  assert_ok(tri_corpus_writer_create(in_folder(state, "b", b), 100, &to));
  add(from, 0, 3);
  assert_failure(tri_corpus_writer_move_tail(from, to, 4), TRI_INTERNAL, "the last 4 of 3 tokens");
  tri_corpus_writer_destroy(from);
  tri_corpus_writer_destroy(to);
}

static void expect_empty_folder(void **state) {
  const test_folder *folder = *state;
  assert_int_equal(rmdir(folder->path), 0); /* succeeds only if nothing is in it */
  assert_ok(tri_directory_create(folder->path));
}

static void leaves_nothing_uncommitted(void **state) {
  char prefix[TRI_PATH_BYTES];
  tri_corpus_writer *writer = NULL;
  assert_ok(tri_corpus_writer_create(in_folder(state, "w", prefix), 100, &writer));
  add(writer, 0, 50);
  assert_ok(tri_corpus_writer_finish(writer));
  tri_corpus_writer_destroy(writer);
  expect_empty_folder(state);
}

/* /dev/full is a full disk: the temporary file is a link to it. */
static void says_when_the_disk_is_full(void **state) {
  char prefix[TRI_PATH_BYTES], partial[TRI_PATH_BYTES];
  if (access("/dev/full", W_OK) != 0) {
    print_message("SKIPPED: this system has no /dev/full\n");
    skip();
  }
  assert_int_equal(symlink("/dev/full", in_folder(state, "w.bin.partial", partial)), 0);
  tri_corpus_writer *writer = NULL;
  assert_ok(tri_corpus_writer_create(in_folder(state, "w", prefix), 100, &writer));
  tri_status status = TRI_OK;
  const int32_t ids[1000] = {0};
  for (int i = 0; i < 1000 && status == TRI_OK; i++) status = tri_corpus_writer_add(writer, ids, 1000);
  assert_failure(status, TRI_IO_FAILED, "w.bin.partial: No space left on device; make room");
  tri_corpus_writer_destroy(writer);
  expect_empty_folder(state);
}

/* The same with a limit on the size of a file: here a part of the file was written. */
static void says_how_much_was_written(void **state) {
  char prefix[TRI_PATH_BYTES];
  struct rlimit before;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  struct rlimit small = {.rlim_cur = 1 << 20, .rlim_max = before.rlim_max};
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
  tri_corpus_writer *writer = NULL;
  assert_ok(tri_corpus_writer_create(in_folder(state, "w", prefix), 100, &writer));
  tri_status status = TRI_OK;
  const int32_t ids[1000] = {0};
  for (int i = 0; i < 1000 && status == TRI_OK; i++) status = tri_corpus_writer_add(writer, ids, 1000);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  assert_failure(status, TRI_IO_FAILED, "file size limit (ulimit -f); raise it; 1.00 MiB were written");
  tri_corpus_writer_destroy(writer);
  expect_empty_folder(state);
}

int main(void) {
  signal(SIGXFSZ, SIG_IGN);
#define TEST(function) cmocka_unit_test_setup_teardown(function, make_folder, remove_folder)
  const struct CMUnitTest tests[] = {
      TEST(reads_every_integer_type),
      TEST(refuses_hostile_headers),
      TEST(refuses_hostile_counts),
      TEST(refuses_hostile_sequences),
      TEST(refuses_hostile_documents),
      TEST(refuses_an_empty_corpus),
      TEST(names_missing_files),
      TEST(reads_sequences_anywhere),
      TEST(refuses_ids_of_another_vocabulary),
      TEST(chooses_the_type_by_vocabulary),
      TEST(refuses_what_cannot_be_stored),
      TEST(moves_the_tail),
      TEST(refuses_to_move_more_than_there_is),
      TEST(leaves_nothing_uncommitted),
      TEST(says_when_the_disk_is_full),
      TEST(says_how_much_was_written),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
