/* Reads a corpus. Its files are mapped: a run reads windows in random order, and all ranks of a node share the page
 * cache. The stream of tokens is the concatenation of the sequences in the order of the index. In a corpus that was
 * written sequentially the sequences are contiguous in the .bin, and the offset of token t is computed directly; for
 * other corpora (merged, reordered, parts of a larger file) a table of the tokens before each sequence is searched. */
#include "data/corpus.h"

#include "base/log.h"
#include "base/memory.h"
#include "config/yaml.h"
#include "data/corpus_index.h"
#include "data/corpus_record.h"
#include "files/file.h"
#include "files/file_transaction.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct mapped_file {
  char *path;
  const char *data; /* NULL if the file is empty */
  size_t bytes;
} mapped_file;

struct tri_corpus {
  mapped_file idx, bin;
  mapped_file mask, labels; /* empty: no such file */
  char *name;               /* prefix with which the corpus was opened */
  tri_corpus_index index;
  int64_t *starts;    /* number of tokens before each sequence [sequences]; NULL if the sequences are contiguous */
  int64_t num_learnt; /* number of tokens whose mask is 1; without a mask, number of all tokens */
  char fingerprint[TRI_FINGERPRINT_BYTES]; /* fingerprint of all files of the corpus */
  char tokens_fingerprint[TRI_FINGERPRINT_BYTES], mask_fingerprint[TRI_FINGERPRINT_BYTES];
  char labels_fingerprint[TRI_FINGERPRINT_BYTES];
  tri_corpus_record record; /* if the corpus has no record, as tri_corpus_record_read sets it for a missing file */
};

static tri_status make_path(const char *prefix, const char *suffix, char **out) {
  size_t length = strlen(prefix) + strlen(suffix) + 1;
  TRI_TRY(tri_alloc("a path", length, 1, out));
  snprintf(*out, length, "%s%s", prefix, suffix);
  return TRI_OK;
}

static int is_index(const struct dirent *entry) {
  size_t length = strlen(entry->d_name);
  return length > 4 && strcmp(entry->d_name + length - 4, ".idx") == 0;
}

/* Fails because a corpus is missing. The message suggests the corpora in `prefix` if that is a folder, the name without
 * its suffix, or the nearest name, and tells how a corpus is made. */
static tri_status no_such_corpus(const char *prefix, const char *path) {
  struct dirent **entries = NULL;
  char found[512] = "", nearest[TRI_NEAREST_FILE_BYTES];
  size_t length = strlen(prefix), held = 0;
  int count = scandir(prefix, &entries, is_index, alphasort);
  const char *slash = length > 0 && prefix[length - 1] == '/' ? "" : "/";
  for (int i = 0; i < count; i++) {
    int name = (int)strlen(entries[i]->d_name) - 4;
    if (held < sizeof found)
      held += (size_t)snprintf(found + held, sizeof found - held, "%s%s%s%.*s", i == 0 ? "" : ", ", prefix, slash, name,
                               entries[i]->d_name);
    free(entries[i]);
  }
  free(entries);
  if (count > 0) return tri_fail(TRI_BAD_FILE, "%s is a folder; name a corpus in it: %s", prefix, found);
  if (length > 4 && (strcmp(prefix + length - 4, ".bin") == 0 || strcmp(prefix + length - 4, ".idx") == 0))
    return tri_fail(TRI_BAD_FILE, "cannot open %s: a corpus is named without .bin or .idx; try %.*s", path,
                    (int)(length - 4), prefix);
  if (tri_path_exists(prefix) && !tri_path_is_directory(prefix))
    return tri_fail(
        TRI_BAD_FILE,
        "%s is a file, not a corpus; `trireme prepare` makes a corpus of text, with --chat of conversations, "
        "and a corpus is named by the prefix that --out gave",
        prefix);
  return tri_fail(TRI_BAD_FILE,
                  "cannot open %s: %s (a corpus is named without .bin or .idx; `trireme prepare` makes one)%s", path,
                  strerror(ENOENT), tri_yaml_nearest_file(path, ".idx", nearest));
}

static tri_status map_file(const char *prefix, const char *suffix, mapped_file *out) {
  tri_status status = TRI_OK;
  TRI_TRY(make_path(prefix, suffix, &out->path));
  int file = open(out->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* does not wait for a pipe, which is refused below */
  if (file < 0) {
    if (errno == ENOENT) return no_such_corpus(prefix, out->path);
    return tri_fail(tri_open_fault(errno), "cannot open %s: %s", out->path, strerror(errno));
  }
  struct stat facts;
  if (fstat(file, &facts) != 0 || !S_ISREG(facts.st_mode)) {
    status = tri_fail(TRI_BAD_FILE, "%s is not a plain file", out->path);
    goto close_file;
  }
  if (facts.st_size > 0) {
    void *data = mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_SHARED, file, 0);
    if (data == MAP_FAILED) {
      status = tri_fail(tri_open_fault(errno), "cannot map %s into memory: %s", out->path, strerror(errno));
      goto close_file;
    }
    out->data = data;
    out->bytes = (size_t)facts.st_size;
  }
close_file:
  close(file);
  return status;
}

static void unmap_file(mapped_file *file) {
  if (file->data != NULL) munmap((void *)(uintptr_t)file->data, file->bytes);
  tri_free(file->path);
}

/* Checks whether a .bin is longer than its contiguous index describes. If the corpus has a record, the file was changed
 * after it was made, and the function fails. Otherwise it logs a warning: the index may describe a part of the .bin on
 * purpose, or may belong to another file. */
static tri_status check_rest(const tri_corpus *corpus) {
  const tri_corpus_index *index = &corpus->index;
  int64_t end = index->first_byte + index->num_tokens * index->id_bytes;
  if (!index->contiguous || end == (int64_t)corpus->bin.bytes) return TRI_OK;
  if (corpus->record.corpus[0] != '\0') {
    return tri_fail(
        TRI_BAD_FILE,
        "%s has %zu bytes, but %s names %" PRId64
        ": the file was changed after `trireme prepare` wrote it; copy all files of the corpus from one place, "
        "or make it again with `trireme prepare --force`",
        corpus->bin.path, corpus->bin.bytes, corpus->idx.path, end);
  }
  tri_warn("%s has %zu bytes, but %s uses only %" PRId64 "; do the two files belong together?", corpus->bin.path,
           corpus->bin.bytes, corpus->idx.path, index->num_tokens * index->id_bytes);
  return TRI_OK;
}

static tri_status make_starts(tri_corpus *corpus) {
  const tri_corpus_index *index = &corpus->index;
  TRI_TRY(
      tri_alloc("the starts of a corpus's sequences", (size_t)index->num_sequences, sizeof(int64_t), &corpus->starts));
  int64_t tokens = 0;
  for (int64_t i = 0; i < index->num_sequences; i++) {
    corpus->starts[i] = tokens;
    tokens += tri_corpus_index_size(index, i);
  }
  return TRI_OK;
}

/* Checks that .bin and .idx belong to the record. Files that were copied or replaced one by one may match by size and
 * still belong to two corpora. */
static tri_status check_record(const tri_corpus *corpus, const char *path) {
  const tri_corpus_record *record = &corpus->record;
  if (record->corpus[0] == '\0' || strcmp(record->corpus, corpus->fingerprint) == 0) return TRI_OK;
  return tri_fail(TRI_BAD_FILE,
                  "%s and %s are not the corpus that %s describes (%" PRId64 " tokens in %" PRId64
                  " documents, but these files have %" PRId64 " in %" PRId64
                  "): a part of it was replaced or changed; copy all three files from one corpus, or make it again "
                  "with `trireme prepare --force`; if the change was intended, remove %s",
                  corpus->bin.path, corpus->idx.path, path, record->tokens, record->documents, corpus->index.num_tokens,
                  corpus->index.num_documents, path);
}

/* Checks that training and validation corpora in one folder come from the same `trireme prepare`. Corpora of two runs
 * of it are a mistake, because a held-out document of one may be a training document of the other. Passes if `prefix`
 * has neither of the usual names, or if the generation of the other corpus is unknown. */
static tri_status check_other(const char *prefix, const char *path, const tri_corpus_record *record) {
  static const char train[] = TRI_FILE_TRANSACTION_TRAIN, validation[] = TRI_FILE_TRANSACTION_VALIDATION;
  const char *slash = strrchr(prefix, '/');
  const char *name = slash == NULL ? prefix : slash + 1;
  bool trains = strcmp(name, train) == 0;
  if (!trains && strcmp(name, validation) != 0) return TRI_OK;
  char other[TRI_PATH_BYTES];
  tri_corpus_record read;
  int length = snprintf(other, sizeof other, "%.*s%s" TRI_CORPUS_RECORD_SUFFIX, (int)(name - prefix), prefix,
                        trains ? validation : train);
  /* an unreadable record is reported when its corpus is opened */
  if (length < 0 || (size_t)length >= sizeof other || tri_corpus_record_read(other, &read) != TRI_OK) return TRI_OK;
  if (read.generation[0] == '\0' || strcmp(read.generation, record->generation) == 0) return TRI_OK;
  return tri_fail(TRI_BAD_FILE,
                  "%s and %s come from two different runs of `trireme prepare`, so validation text of one corpus may "
                  "be in the training text of the other; copy all files from one of them, or make them again with "
                  "`trireme prepare --force`; if both are meant to be in this folder, give one of them another name",
                  path, other);
}

static tri_status read_record(const char *prefix, tri_corpus *corpus) {
  char *path = NULL;
  TRI_TRY(make_path(prefix, TRI_CORPUS_RECORD_SUFFIX, &path));
  tri_status status = tri_corpus_record_read(path, &corpus->record);
  if (status == TRI_OK) status = check_record(corpus, path);
  if (status == TRI_OK && corpus->record.generation[0] != '\0') status = check_other(prefix, path, &corpus->record);
  tri_free(path);
  return status;
}

/* A side file of a corpus: a mask, or labels. */
typedef struct side_file {
  const char *has, *suffix, *option; /* has: name ("a mask"); suffix: suffix of the file's name; option: option of
                                        `trireme prepare` that makes the file */
  const char *values;                /* text about the meaning of the bytes 0 and 1, for messages */
} side_file;
static const side_file mask_file = {"a mask", TRI_CORPUS_MASK_SUFFIX, "--chat",
                                    "a mask has only 0 (context) and 1 (learnt)"};
static const side_file labels_file = {"labels", TRI_CORPUS_LABELS_SUFFIX, "--preferences",
                                      "labels are only 0 (undesirable) and 1 (desirable)"};

/* Checks that a mask (or labels) exists if and only if the record has it, and that the fingerprint is the recorded one.
 * Without its mask, a corpus of conversations would teach a model the questions as well. A corpus without a record
 * passes. */
static tri_status check_side(const tri_corpus *corpus, const char *path, const side_file *side, const char *recorded,
                             const char *fingerprint) {
  bool known = recorded[0] != '\0', there = fingerprint[0] != '\0';
  if (corpus->record.corpus[0] == '\0' || (known == there && strcmp(recorded, fingerprint) == 0)) return TRI_OK;
  const char *words[2] = {"has no record of the file with the suffix ", " in its folder"};
  if (known && there)
    words[0] = "does not match the file with the suffix ", words[1] = " in its folder, which was changed";
  char missing[64];
  snprintf(missing, sizeof missing, "has %s, but its folder lacks the file with the suffix ", side->has);
  if (!there) words[0] = missing, words[1] = "";
  return tri_fail(TRI_BAD_FILE,
                  "%s %s%s%s; copy all files of the corpus from one place, or make it again with `trireme prepare %s "
                  "--force`",
                  path, words[0], side->suffix, words[1], side->option);
}

/* Checks that all bytes are 0 or 1, and counts the ones. The loop has no branch, so that the compiler vectorizes it. */
static tri_status count_ones(const char *path, const side_file *side, const uint8_t *data, size_t bytes, int64_t *out) {
  enum { CHUNK = 1 << 16 };
  *out = 0;
  for (size_t first = 0; first < bytes; first += CHUNK) {
    size_t end = bytes - first < CHUNK ? bytes : first + CHUNK, i = first;
    uint32_t sum = 0, any = 0;
    for (; i < end; i++) sum += data[i], any |= data[i];
    *out += sum;
    if (any <= 1) continue;
    for (i = first; data[i] <= 1;) i++;
    return tri_fail(TRI_BAD_FILE, "%s: byte %zu is %d; %s", path, i, data[i], side->values);
  }
  return TRI_OK;
}

static tri_status open_mask(const char *prefix, tri_corpus *corpus) {
  char path[TRI_PATH_BYTES];
  TRI_TRY(tri_path_with(path, prefix, TRI_CORPUS_MASK_SUFFIX));
  if (!tri_path_exists(path)) return TRI_OK;
  TRI_TRY(map_file(prefix, TRI_CORPUS_MASK_SUFFIX, &corpus->mask));
  if ((int64_t)corpus->mask.bytes != corpus->index.num_tokens) {
    return tri_fail(TRI_BAD_FILE,
                    "%s has %zu bytes, but its corpus has %" PRId64
                    " tokens; a mask must have one byte for each token; make the corpus again with `trireme prepare "
                    "--chat --force`",
                    path, corpus->mask.bytes, corpus->index.num_tokens);
  }
  TRI_TRY(count_ones(path, &mask_file, (const uint8_t *)corpus->mask.data, corpus->mask.bytes, &corpus->num_learnt));
  return tri_fingerprint_mask(corpus->mask.data, corpus->mask.bytes, corpus->mask_fingerprint);
}

static tri_status open_labels(const char *prefix, tri_corpus *corpus) {
  char path[TRI_PATH_BYTES];
  int64_t desirable = 0;
  TRI_TRY(tri_path_with(path, prefix, TRI_CORPUS_LABELS_SUFFIX));
  if (!tri_path_exists(path)) return TRI_OK;
  TRI_TRY(map_file(prefix, TRI_CORPUS_LABELS_SUFFIX, &corpus->labels));
  if ((int64_t)corpus->labels.bytes != corpus->index.num_documents) {
    return tri_fail(TRI_BAD_FILE,
                    "%s has %zu bytes, but its corpus has %" PRId64
                    " documents; labels must have one byte for each document; make the corpus again with `trireme "
                    "prepare --preferences --force`",
                    path, corpus->labels.bytes, corpus->index.num_documents);
  }
  TRI_TRY(count_ones(path, &labels_file, (const uint8_t *)corpus->labels.data, corpus->labels.bytes, &desirable));
  return tri_fingerprint_mask(corpus->labels.data, corpus->labels.bytes, corpus->labels_fingerprint);
}

static tri_status check_preferences(const tri_corpus *corpus, const char *path) {
  const tri_preferences kind = tri_corpus_preferences(corpus);
  if (kind == TRI_PREFERENCES_NONE) return TRI_OK;
  const bool odd = kind == TRI_PREFERENCES_PAIRS && corpus->index.num_documents % 2 != 0;
  if (corpus->mask.data != NULL && corpus->index.num_empty == 0 && !odd) return TRI_OK;
  return tri_fail(TRI_BAD_FILE,
                  "%s describes a corpus of preferences, but the corpus %s; make it again with `trireme prepare "
                  "--preferences --force`",
                  path,
                  corpus->mask.data == NULL ? "has no mask"
                  : odd                     ? "has an odd number of documents"
                                            : "has documents without tokens");
}

/* Opens mask and labels, checks them and the kind of preferences against the record, and sets num_learnt. Keeps the
 * fingerprint so far as tokens_fingerprint, and extends the corpus's fingerprint to all files. */
static tri_status read_side_files(const char *prefix, tri_corpus *corpus) {
  char path[TRI_PATH_BYTES];
  const char *const all[] = {corpus->tokens_fingerprint, corpus->mask_fingerprint, corpus->labels_fingerprint};
  corpus->num_learnt = corpus->index.num_tokens;
  memcpy(corpus->tokens_fingerprint, corpus->fingerprint, sizeof corpus->fingerprint);
  TRI_TRY(tri_path_with(path, prefix, TRI_CORPUS_RECORD_SUFFIX));
  TRI_TRY(open_mask(prefix, corpus));
  TRI_TRY(check_side(corpus, path, &mask_file, corpus->record.mask, corpus->mask_fingerprint));
  TRI_TRY(open_labels(prefix, corpus));
  TRI_TRY(check_side(corpus, path, &labels_file, corpus->record.labels, corpus->labels_fingerprint));
  TRI_TRY(check_preferences(corpus, path));
  if (corpus->mask.data == NULL) return TRI_OK;
  return tri_fingerprint_join(all, corpus->labels.data == NULL ? 2 : 3, corpus->fingerprint);
}

/* Computes the fingerprint. The samples are far apart, so readahead is switched off: it would cost more than the
 * samples. */
static tri_status compute_fingerprint(tri_corpus *corpus) {
  const mapped_file *bin = &corpus->bin;
  bool samples = bin->bytes > TRI_FINGERPRINT_WHOLE_BYTES;
  if (samples) (void)madvise((void *)(uintptr_t)bin->data, bin->bytes, MADV_RANDOM);
  tri_status status = tri_fingerprint_corpus(&corpus->index, corpus->idx.data, corpus->idx.bytes, bin->data, bin->bytes,
                                             corpus->fingerprint);
  if (samples) (void)madvise((void *)(uintptr_t)bin->data, bin->bytes, MADV_NORMAL);
  return status;
}

tri_status tri_corpus_open(const char *prefix, tri_corpus **out) {
  tri_status status = TRI_OK;
  tri_corpus *corpus = NULL;
  TRI_TRY(tri_file_transaction_finish_for(prefix, ".idx"));
  TRI_TRY(tri_alloc("a corpus", 1, sizeof *corpus, &corpus));
  TRI_TRY_GOTO(tri_strdup(prefix, &corpus->name), close_corpus);
  TRI_TRY_GOTO(map_file(prefix, ".idx", &corpus->idx), close_corpus);
  TRI_TRY_GOTO(map_file(prefix, ".bin", &corpus->bin), close_corpus);
  TRI_TRY_GOTO(tri_corpus_index_parse(corpus->idx.path, corpus->idx.data, corpus->idx.bytes, corpus->bin.path,
                                      (int64_t)corpus->bin.bytes, &corpus->index),
               close_corpus);
  if (!corpus->index.contiguous) TRI_TRY_GOTO(make_starts(corpus), close_corpus);
  TRI_TRY_GOTO(compute_fingerprint(corpus), close_corpus);
  TRI_TRY_GOTO(read_record(prefix, corpus), close_corpus);
  TRI_TRY_GOTO(read_side_files(prefix, corpus), close_corpus);
  TRI_TRY_GOTO(check_rest(corpus), close_corpus);
  *out = corpus;
  return TRI_OK;
close_corpus:
  tri_corpus_close(corpus);
  return status;
}

void tri_corpus_close(tri_corpus *corpus) {
  if (corpus == NULL) return;
  tri_free(corpus->name);
  tri_free(corpus->starts);
  unmap_file(&corpus->labels);
  unmap_file(&corpus->mask);
  unmap_file(&corpus->bin);
  unmap_file(&corpus->idx);
  tri_free(corpus);
}

int64_t tri_corpus_num_tokens(const tri_corpus *corpus) { return corpus->index.num_tokens; }

int64_t tri_corpus_num_documents(const tri_corpus *corpus) { return corpus->index.num_documents; }

int64_t tri_corpus_num_empty(const tri_corpus *corpus) { return corpus->index.num_empty; }

const char *tri_corpus_name(const tri_corpus *corpus) { return corpus->name; }

/* Skips empty sequences, whose pointers have no meaning. */
int64_t tri_corpus_document(const tri_corpus *corpus, int64_t document) {
  const tri_corpus_index *index = &corpus->index;
  int64_t sequence = tri_corpus_index_document(index, document);
  while (sequence < index->num_sequences && tri_corpus_index_size(index, sequence) == 0) sequence++;
  if (sequence == index->num_sequences) return index->num_tokens;
  if (!index->contiguous) return corpus->starts[sequence];
  return (tri_corpus_index_pointer(index, sequence) - index->first_byte) / index->id_bytes;
}

/* ---- mask -------------------------------------------------------------------------------------------------------- */

bool tri_corpus_has_mask(const tri_corpus *corpus) { return corpus->mask.data != NULL; }

const uint8_t *tri_corpus_mask(const tri_corpus *corpus, int64_t first, int64_t count) {
  if (corpus->mask.data == NULL || first < 0 || count < 0 || first + count > corpus->index.num_tokens) return NULL;
  return (const uint8_t *)corpus->mask.data + first;
}

void tri_corpus_mask_labels(const tri_corpus *corpus, int64_t first, int64_t count, int32_t *labels) {
  const uint8_t *mask = tri_corpus_mask(corpus, first, count);
  if (mask == NULL) return;
  for (int64_t i = 0; i < count; i++) labels[i] = mask[i] != 0 ? labels[i] : -1;
}

int64_t tri_corpus_num_learnt(const tri_corpus *corpus) { return corpus->num_learnt; }

/* ---- preferences ------------------------------------------------------------------------------------------------- */

/* Recognises labels without a record. Pairs are known from the record only. */
tri_preferences tri_corpus_preferences(const tri_corpus *corpus) {
  return corpus->labels.data != NULL ? TRI_PREFERENCES_LABELS : corpus->record.preferences;
}

const uint8_t *tri_corpus_labels(const tri_corpus *corpus) { return (const uint8_t *)corpus->labels.data; }

tri_status tri_corpus_want_text(const tri_corpus *corpus) {
  if (tri_corpus_preferences(corpus) == TRI_PREFERENCES_NONE) return TRI_OK;
  return tri_fail(TRI_BAD_FILE, "%s is a corpus of preferences; name it in data.preferences", corpus->name);
}

tri_status tri_corpus_want_preferences(const tri_corpus *corpus) {
  if (tri_corpus_preferences(corpus) != TRI_PREFERENCES_NONE) return TRI_OK;
  return tri_fail(TRI_BAD_FILE,
                  "%s is not a corpus of preferences, which `trireme prepare --preferences` makes; texts and "
                  "conversations are named in data.train",
                  corpus->name);
}

/* ---- fingerprint and tokenizer ----------------------------------------------------------------------------------- */

const char *tri_corpus_fingerprint(const tri_corpus *corpus) { return corpus->fingerprint; }

const char *tri_corpus_tokens_fingerprint(const tri_corpus *corpus) { return corpus->tokens_fingerprint; }

const char *tri_corpus_mask_fingerprint(const tri_corpus *corpus) { return corpus->mask_fingerprint; }

const char *tri_corpus_labels_fingerprint(const tri_corpus *corpus) { return corpus->labels_fingerprint; }

int32_t tri_corpus_end_of_text(const tri_corpus *corpus) {
  const int64_t id = corpus->record.end_of_text;
  return corpus->record.corpus[0] == '\0' || id > INT32_MAX ? -1 : (int32_t)id;
}

const char *tri_corpus_tokenizer(const tri_corpus *corpus) { return corpus->record.tokenizer; }

int64_t tri_corpus_vocab_size(const tri_corpus *corpus) { return corpus->record.vocab_size; }

int64_t tri_corpus_text_bytes(const tri_corpus *corpus) { return corpus->record.text_bytes; }

static int prefix_length(const tri_corpus *corpus) { return (int)(strlen(corpus->bin.path) - strlen(".bin")); }

tri_status tri_corpus_check_tokenizer(const tri_corpus *corpus, const tri_tokenizer *tokenizer,
                                      const char *tokenizer_name) {
  char in_use[TRI_FINGERPRINT_BYTES], before[TRI_FINGERPRINT_BYTES], what[TRI_PATH_BYTES + 16];
  const char *prefix = corpus->bin.path, *own = corpus->record.tokenizer;
  int length = prefix_length(corpus);
  if (own[0] == '\0') {
    tri_log("the tokenizer of %.*s is unknown (there is no %.*s" TRI_CORPUS_RECORD_SUFFIX
            "); it is taken to be the model's",
            length, prefix, length, prefix);
    return TRI_OK;
  }
  if (tokenizer == NULL) {
    tri_log("no tokenizer is available to compare with the one that made %.*s; it is assumed to be the model's", length,
            prefix);
    return TRI_OK;
  }
  TRI_TRY(tri_tokenizer_fingerprint(tokenizer, in_use));
  TRI_TRY(tri_tokenizer_fingerprint_before(tokenizer, before));
  snprintf(what, sizeof what, "the corpus %.*s", length, prefix);
  if (tri_fingerprint_fits(what, own, in_use, before)) return TRI_OK;
  return tri_fail(TRI_BAD_FILE,
                  "the corpus %.*s was made with another tokenizer (%" PRId64
                  " tokens, fingerprint %.8s) than %s (%" PRId64
                  " tokens, fingerprint %.8s): the same ids mean different text; prepare the corpus with `trireme "
                  "prepare --tokenizer %s`, or name the tokenizer that made it",
                  length, prefix, corpus->record.vocab_size, own, tokenizer_name, tri_tokenizer_vocab_size(tokenizer),
                  in_use, tokenizer_name);
}

tri_status tri_corpus_check_same_tokenizer(const tri_corpus *corpus, const tri_corpus *other) {
  const tri_corpus_record *own = &corpus->record, *its = &other->record;
  if (own->tokenizer[0] == '\0' || its->tokenizer[0] == '\0') return TRI_OK;
  if (strcmp(own->tokenizer, its->tokenizer) == 0) return TRI_OK;
  /* Nothing is logged here, because tri_corpus_check_tokenizer logs a line if a fingerprint is by old rules. */
  if (tri_fingerprint_fits(NULL, own->tokenizer, its->tokenizer, its->tokenizer_before)) return TRI_OK;
  if (tri_fingerprint_fits(NULL, its->tokenizer, own->tokenizer, own->tokenizer_before)) return TRI_OK;
  return tri_fail(TRI_BAD_FILE,
                  "the corpora %.*s (%" PRId64 " tokens, fingerprint %.8s) and %.*s (%" PRId64
                  " tokens, fingerprint %.8s) were made with different tokenizers; prepare one of them with the "
                  "tokenizer.json of the other",
                  prefix_length(corpus), corpus->bin.path, own->vocab_size, own->tokenizer, prefix_length(other),
                  other->bin.path, its->vocab_size, its->tokenizer);
}

bool tri_corpus_log_beginning(const tri_corpus *corpus, const tri_tokenizer *tokenizer) {
  const tri_corpus_record *record = &corpus->record;
  int count = 0;
  const int32_t *beginning = tokenizer == NULL ? NULL : tri_tokenizer_beginning(tokenizer, &count);
  if (count == 0 || record->corpus[0] == '\0' || record->mask[0] != '\0' || record->num_beginning > 0) return false;
  tri_log(
      "the documents of %.*s do not begin with token %d, with which `generate` and `eval` begin texts, as the "
      "tokenizer's post_processor says; `trireme prepare` puts it there now",
      prefix_length(corpus), corpus->bin.path, (int)beginning[0]);
  return true;
}

bool tri_corpus_log_vocabulary(const tri_corpus *corpus, int64_t vocab_size) {
  int64_t own = corpus->record.vocab_size;
  if (own == 0 || !tri_tokenizer_leaves_gap(own, vocab_size)) return false;
  tri_log("%.*s was made with a vocabulary of %" PRId64 ", but the model's is %" PRId64 "; the other %" PRId64
          " tokens never occur in it",
          prefix_length(corpus), corpus->bin.path, own, vocab_size, vocab_size - own);
  return true;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* Converts ids[count] to int32. Ids that do not fit become -1, which is not in any vocabulary. */
static void convert_ids(tri_corpus_type type, const char *from, int64_t count, int32_t *out) {
#define CONVERT(id_type, expression)                                                                                   \
  for (int64_t i = 0; i < count; i++) {                                                                                \
    id_type id;                                                                                                        \
    memcpy(&id, from + i * (int64_t)sizeof id, sizeof id);                                                             \
    out[i] = (expression);                                                                                             \
  }
  switch (type) {
    case TRI_CORPUS_U8: CONVERT(uint8_t, id) break;
    case TRI_CORPUS_I8: CONVERT(int8_t, id) break;
    case TRI_CORPUS_I16: CONVERT(int16_t, id) break;
    case TRI_CORPUS_U16: CONVERT(uint16_t, id) break;
    case TRI_CORPUS_I32: memcpy(out, from, (size_t)count * sizeof *out); break;
    case TRI_CORPUS_I64: CONVERT(int64_t, id < 0 || id > INT32_MAX ? -1 : (int32_t)id) break;
    case TRI_CORPUS_F32:
    case TRI_CORPUS_F64: break; /* tri_corpus_index_parse refuses them */
  }
#undef CONVERT
}

static int64_t raw_id(const tri_corpus *corpus, const char *at) {
  if (corpus->index.type == TRI_CORPUS_I64) {
    int64_t id = 0;
    memcpy(&id, at, sizeof id);
    return id;
  }
  int32_t id = 0;
  convert_ids(corpus->index.type, at, 1, &id);
  return id;
}

/* Reads the tokens [position, position + count) of the stream, which are contiguous at byte `offset` of the .bin. Fails
 * with TRI_BAD_FILE for an id outside [0, vocab_size). */
static tri_status read_run(const tri_corpus *corpus, int64_t position, int64_t offset, int64_t count,
                           int64_t vocab_size, int32_t *out) {
  const char *from = corpus->bin.data + offset;
  convert_ids(corpus->index.type, from, count, out);
  /* This loop has no branch, so that the compiler vectorizes it; a negative id is a large unsigned one. */
  uint32_t largest = 0;
  for (int64_t i = 0; i < count; i++) largest = (uint32_t)out[i] > largest ? (uint32_t)out[i] : largest;
  if ((int64_t)largest < vocab_size) return TRI_OK;
  int64_t i = 0;
  while (i < count && out[i] >= 0 && out[i] < vocab_size) i++;
  return tri_fail(TRI_BAD_FILE,
                  "%s: the token at position %" PRId64 " is %" PRId64 ", outside the model's vocabulary of %" PRId64
                  "; the corpus was made with another tokenizer than the model's",
                  corpus->bin.path, position + i, raw_id(corpus, from + i * corpus->index.id_bytes), vocab_size);
}

/* Returns the last sequence that begins at or before a position; empty sequences before it are skipped. */
static int64_t find_sequence(const tri_corpus *corpus, int64_t position) {
  int64_t low = 0, high = corpus->index.num_sequences;
  while (high - low > 1) {
    int64_t middle = low + (high - low) / 2;
    if (corpus->starts[middle] <= position) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

tri_status tri_corpus_read(const tri_corpus *corpus, int64_t first, int64_t count, int64_t vocab_size, int32_t *out) {
  const tri_corpus_index *index = &corpus->index;
  if (first < 0 || count < 0 || first > index->num_tokens || count > index->num_tokens - first) {
    return tri_fail_internal("tokens %" PRId64 " to %" PRId64 " of %s were asked for, which has %" PRId64, first,
                             first + count, corpus->bin.path, index->num_tokens);
  }
  if (index->contiguous) {
    return read_run(corpus, first, index->first_byte + first * index->id_bytes, count, vocab_size, out);
  }
  int64_t sequence = count > 0 ? find_sequence(corpus, first) : 0;
  while (count > 0) {
    int64_t within = first - corpus->starts[sequence];
    int64_t run = tri_corpus_index_size(index, sequence) - within;
    if (run > count) run = count;
    int64_t offset = tri_corpus_index_pointer(index, sequence) + within * index->id_bytes;
    TRI_TRY(read_run(corpus, first, offset, run, vocab_size, out));
    first += run;
    count -= run;
    out += run;
    sequence++;
  }
  return TRI_OK;
}
