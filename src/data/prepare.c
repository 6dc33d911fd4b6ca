/* All that can be wrong is looked for first (options, inputs, the folder, the tokenizer), because encoding takes hours.
 * Everything is written into a folder of its own and put in the place of the older corpus as one when all of it is on
 * the disk (file_transaction.h). */
#include "data/prepare.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/file_kind.h"
#include "base/file_transaction.h"
#include "base/format.h"
#include "base/hub.h"
#include "base/log.h"
#include "base/memory.h"
#include "chat/forms.h"
#include "config/nearest_word.h"
#include "data/corpus.h"
#include "data/corpus_record.h"
#include "data/text_input.h"
#include "data/text_stream.h"
#include "tokenizer/folder.h"
#include "tokenizer/tokenizer.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_THREADS = 1024, MIN_VOCAB = 257, MAX_VOCAB = 1 << 24 };

typedef struct prepare {
  const tri_prepare_options *options;
  tri_prepare_report report;
  tri_tokenizer *tokenizer;
  tri_split_writer *writer;
  tri_file_transaction *generation;
  tri_chat_format format; /* of conversations */
  char tokenizer_path[TRI_PATH_BYTES];
  double start_s, shown_s;
  int64_t tokens, text_bytes; /* encoded so far */
} prepare;

/* ---- before the work ------------------------------------------------------------------------------------------- */

static int count_cores(void) {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) return CPU_COUNT(&cores);
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online < 1 ? 1 : (int)online;
}

static bool learns_characters(const tri_prepare_options *options) { return strcmp(options->tokenizer, "char") == 0; }

static bool learns(const tri_prepare_options *options) {
  return learns_characters(options) || strncmp(options->tokenizer, "train:", 6) == 0;
}

static tri_status check_options(prepare *p) {
  const tri_prepare_options *options = p->options;
  if (options->num_inputs < 1) return tri_fail(TRI_BAD_USAGE, "no input: name the text files to prepare");
  if (!(options->validation >= 0 && options->validation < 1)) {
    return tri_fail(TRI_BAD_USAGE,
                    "--validation is %g; it is the fraction of documents kept for validation, from 0 to "
                    "below 1",
                    options->validation);
  }
  if (options->threads < 0 || options->threads > MAX_THREADS) {
    return tri_fail(TRI_BAD_USAGE, "--threads is %d; it goes from 1 to %d", options->threads, MAX_THREADS);
  }
  if (options->train_bytes < 1) {
    return tri_fail(TRI_BAD_USAGE, "--train-bytes is %" PRId64 "; a vocabulary is learned from 1 byte or more",
                    options->train_bytes);
  }
  if (options->form != NULL && tri_chat_form_named(options->form) == NULL) {
    return tri_fail(TRI_BAD_USAGE, "--form is `%.60s`; it is %s", options->form, tri_chat_form_names());
  }
  if (options->form != NULL && options->key != NULL && !tri_chat_form_named(options->form)->takes_key) {
    return tri_fail(TRI_BAD_USAGE, "--key does not go with --form %s, which has keys of its own; leave one of them out",
                    options->form);
  }
  if (options->binary && (options->chat || options->skip_bad)) {
    return tri_fail(TRI_BAD_USAGE, "--binary takes files byte by byte; it does not go with %s",
                    options->chat ? "--chat" : "--skip-bad");
  }
  if (options->chat && learns(options)) {
    return tri_fail(TRI_BAD_USAGE,
                    "--tokenizer %s cannot learn from conversations; name the folder of the model that is to be tuned",
                    options->tokenizer);
  }
  p->report.threads = options->threads > 0 ? options->threads : count_cores();
  if (p->report.threads > MAX_THREADS) p->report.threads = MAX_THREADS;
  return TRI_OK;
}

static bool is_table(const char *path) {
  const size_t length = strlen(path);
  return length > 4 && (strcasecmp(path + length - 4, ".csv") == 0 || strcasecmp(path + length - 4, ".tsv") == 0);
}

/* A table is read as what it looks like, which is seldom what is wanted. */
static void say_table(const char *path) {
  if (!is_table(path)) return;
  tri_log(
      "%s is taken as plain text, with its separators and quotes; for one column of it write JSON lines: "
      "{\"text\": ...}",
      path);
}

/* A page of HTML may be meant, or be what a server sent in place of a text. */
static void say_page(const char *path) {
  const tri_file_kind *kind = tri_file_kind_find(path);
  if (kind == NULL || kind->never_text) return;
  char advice[TRI_ADVICE_BYTES];
  tri_log("%s is taken as plain text, though it looks like %s: %s", path, kind->is,
          tri_file_kind_advice(kind, path, advice));
}

enum { LOOK_BYTES = 1 << 16 };

/* So is a file of JSON lines under another name: its keys and quotes would be learnt. The first line tells. */
static tri_status say_json(const char *path, const char *key) {
  char *text = NULL;
  size_t got = 0;
  tri_text_stream *stream = NULL;
  TRI_TRY(tri_alloc("the first line of an input", LOOK_BYTES, 1, &text));
  tri_status status = tri_text_stream_open(path, &stream);
  if (status == TRI_OK) status = tri_text_stream_read(stream, text, LOOK_BYTES, &got);
  tri_text_stream_close(stream);
  const char *end = status == TRI_OK ? memchr(text, '\n', got) : NULL;
  if (status == TRI_OK && end == NULL && got < LOOK_BYTES) end = text + got;
  json_t *line = end == NULL ? NULL : json_loadb(text, (size_t)(end - text), 0, NULL);
  if (json_is_object(line)) {
    tri_log(
        "%s is taken as plain text, though its first line is JSON: keys and quotes are learnt, too; of a file that is "
        "named .jsonl the key `%s` of each line is a document",
        path, key);
  }
  json_decref(line);
  tri_free(text);
  return status;
}

typedef struct input_file {
  dev_t device;
  ino_t number;
  int place;
} input_file;

static int compare_files(const void *a, const void *b) {
  const input_file *x = a, *y = b;
  if (x->device != y->device) return x->device < y->device ? -1 : 1;
  if (x->number != y->number) return x->number < y->number ? -1 : 1;
  return (x->place > y->place) - (x->place < y->place);
}

/* A file that is named twice, or has two names, is learnt twice, and held-out documents may be among the learnt ones.
 */
static tri_status say_twice(const tri_prepare_options *options) {
  const int count = options->num_inputs;
  input_file *files = NULL;
  int found = 0, twice = 0;
  TRI_TRY(tri_alloc("the inputs", (size_t)count, sizeof *files, &files));
  for (int i = 0; i < count; i++) {
    struct stat facts;
    if (stat(options->inputs[i], &facts) != 0 || !S_ISREG(facts.st_mode)) continue;
    files[found++] = (input_file){facts.st_dev, facts.st_ino, i};
  }
  qsort(files, (size_t)found, sizeof *files, compare_files);
  for (int i = 1; i < found; i++) {
    if (files[i].device != files[i - 1].device || files[i].number != files[i - 1].number || twice++ > 0) continue;
    tri_warn("%s and %s are one file: its documents are in the corpus twice, and held-out ones may be among the learnt",
             options->inputs[files[i - 1].place], options->inputs[files[i].place]);
  }
  if (twice > 1) tri_warn("%d inputs in all are files that were named before", twice);
  tri_free(files);
  return TRI_OK;
}

/* The keys of a record that its form does not read; "" if it reads all. */
static void list_unread(const json_t *record, const tri_chat_form *form, const tri_chat_reading *how, char *out,
                        size_t out_bytes) {
  size_t held = 0;
  const char *key = NULL;
  json_t *value = NULL;
  out[0] = '\0';
  json_object_foreach((json_t *)(uintptr_t)record, key, value) {
    if (tri_chat_form_reads(form, how, key) || held + 80 >= out_bytes) continue;
    held += (size_t)snprintf(out + held, out_bytes - held, "%s`%.60s`", held == 0 ? "" : ", ", key);
  }
}

/* How the first record is read, if it can be: what a form does not read is lost. */
static void say_form(const tri_prepare_options *options, const tri_text_block *block) {
  char unread[512];
  const tri_chat_form *form = NULL;
  const tri_chat_reading how = {options->form, options->key};
  const tri_text_piece *piece = &block->pieces[0];
  json_t *record = json_loadb(block->text + piece->offset, piece->bytes, JSON_ALLOW_NUL, NULL);
  if (json_is_object(record) && tri_chat_form_of(record, &how, &form) == TRI_OK) {
    list_unread(record, form, &how, unread, sizeof unread);
    tri_log("%s: records of the form %s%s%s", block->path, form->name, unread[0] == '\0' ? "" : "; not read: ", unread);
  }
  json_decref(record);
}

static tri_status look_at_records(const tri_prepare_options *options, const char *path) {
  tri_text_input *input = NULL;
  tri_text_block block = {0};
  TRI_TRY(tri_text_input_create(&path, 1, options->documents, &input));
  tri_text_input_leave_bad(input);
  const tri_status status = tri_text_input_next(input, &block);
  if (status == TRI_OK && block.num_pieces > 0) say_form(options, &block);
  tri_text_block_destroy(&block);
  tri_text_input_destroy(input);
  return status;
}

/* What conversations may be in. */
static tri_status check_conversations(const tri_prepare_options *options, const char *path) {
  struct stat facts;
  char advice[TRI_ADVICE_BYTES];
  if (is_table(path)) {
    return tri_fail(TRI_BAD_FILE, "%s is a table, and conversations are JSON: %s", path,
                    tri_table_advice(path, advice));
  }
  const tri_file_kind *kind = tri_file_kind_find(path);
  if (kind != NULL && kind->never_text && !tri_text_input_is_json(path)) {
    return tri_fail(TRI_BAD_FILE, "%s is %s: %s", path, kind->is, tri_file_kind_advice(kind, path, advice));
  }
  if (!tri_text_input_is_json(path)) {
    return tri_fail(TRI_BAD_USAGE,
                    "%s is not named .jsonl, .ndjson or .json: conversations are JSON, one a line or an array of them",
                    path);
  }
  return stat(path, &facts) == 0 && S_ISREG(facts.st_mode) ? look_at_records(options, path) : TRI_OK;
}

static tri_status check_inputs(prepare *p) {
  TRI_TRY(say_twice(p->options));
  for (int i = 0; i < p->options->num_inputs; i++) {
    const char *path = p->options->inputs[i];
    int64_t bytes = 0;
    TRI_TRY(tri_text_stream_check(path, &bytes));
    if (p->options->chat) TRI_TRY(check_conversations(p->options, path));
    say_table(path);
    p->report.input_bytes += bytes;
    struct stat facts;
    const bool plain = stat(path, &facts) == 0 && S_ISREG(facts.st_mode);
    if (plain && !tri_text_input_is_json(path) && !p->options->binary) {
      TRI_TRY(say_json(path, p->options->key));
      say_page(path);
    }
    if (learns(p->options) && stat(path, &facts) == 0 && !S_ISREG(facts.st_mode)) {
      return tri_fail(TRI_BAD_FILE, "the input %s is not a plain file; %s reads its inputs twice", path,
                      learns_characters(p->options) ? "char" : "train:VOCAB");
    }
  }
  return TRI_OK;
}

static bool same_file(const char *a, const char *b) {
  struct stat facts_a, facts_b;
  return stat(a, &facts_a) == 0 && stat(b, &facts_b) == 0 && facts_a.st_dev == facts_b.st_dev &&
         facts_a.st_ino == facts_b.st_ino;
}

/* Whether a file is the tokenizer's, which is written again as it is meant. */
static bool is_of_tokenizer(const char *path, const char *tokenizer) {
  char beside[TRI_PATH_BYTES];
  const char *slash = strrchr(tokenizer, '/'), *name = strrchr(path, '/');
  if (same_file(path, tokenizer)) return true;
  const int length = tri_path_is_directory(tokenizer) ? (int)strlen(tokenizer)
                     : slash == NULL                  ? 1
                                                      : (int)(slash - tokenizer);
  snprintf(beside, sizeof beside, "%.*s%s", length,
           slash == NULL && !tri_path_is_directory(tokenizer) ? "." : tokenizer, name == NULL ? "" : name);
  return same_file(path, beside);
}

static tri_status check_folder(const prepare *p) {
  const tri_prepare_options *options = p->options;
  if (tri_path_exists(options->out) && !tri_path_is_directory(options->out)) {
    return tri_fail(TRI_BAD_USAGE, "--out %s is a file; it must be a folder", options->out);
  }
  TRI_TRY(tri_file_transaction_finish(options->out));
  for (const char *const *name = tri_file_transaction_names; *name != NULL; name++) {
    char path[TRI_PATH_BYTES];
    TRI_TRY(tri_path_join(path, options->out, *name));
    if (tri_path_is_directory(path)) {
      return tri_fail(TRI_BAD_USAGE, "%s is a folder, and a file of the corpus has this name; choose another --out",
                      path);
    }
    if (options->force || !tri_path_exists(path) || is_of_tokenizer(path, options->tokenizer)) continue;
    return tri_fail(TRI_BAD_USAGE,
                    "%s holds a corpus already (%s); choose another --out, or give --force to replace it", options->out,
                    *name);
  }
  return TRI_OK;
}

/* ---- progress -------------------------------------------------------------------------------------------------- */

static bool interrupted(const prepare *p) {
  return p->options->interrupted != NULL && p->options->interrupted(p->options->context);
}

static void show_progress(prepare *p, const char *what, int64_t position) {
  double now_s = tri_clock_s(), elapsed_s = now_s - p->start_s;
  if (now_s - p->shown_s < 0.2 || elapsed_s < 0.5) return;
  p->shown_s = now_s;
  char size[32], tokens[32], left[32], share[64] = "";
  double total = (double)p->report.input_bytes;
  double done = total > 0 ? (double)position / total : 0;
  if (done > 1) done = 1;
  if (done > 0) {
    snprintf(share, sizeof share, "%3.0f %% of %s, ", 100 * done, tri_format_bytes(total, size, sizeof size));
    tri_format_seconds(elapsed_s * (1 - done) / done, left, sizeof left);
  }
  tri_log_progress("%s: %s%.1f MB/s, %s tokens%s%s%s", what, share, 1e-6 * (double)p->text_bytes / elapsed_s,
                   tri_format_count((double)p->tokens, tokens, sizeof tokens), done > 0 ? ", " : "",
                   done > 0 ? left : "", done > 0 ? " left" : "");
}

/* ---- the tokenizer --------------------------------------------------------------------------------------------- */

/* One of the two. */
typedef struct vocabulary_learner {
  tri_tokenizer_trainer *pieces;
  tri_character_trainer *characters;
} vocabulary_learner;

static tri_status feed_text(const vocabulary_learner *learner, const tri_piece_text *text) {
  if (learner->pieces != NULL) return tri_tokenizer_trainer_feed(learner->pieces, text->text, text->bytes);
  tri_character_trainer_feed(learner->characters, text->text, text->bytes);
  return TRI_OK;
}

static tri_status get_text(const prepare *p, tri_text_block *block, const tri_text_piece *piece, tri_piece_text *out) {
  if (p->options->skip_bad) return tri_piece_text_get_clean(block, piece, p->options->key, out);
  return tri_piece_text_get(block, piece, p->options->key, out);
}

/* The inputs, as the options want them to be read. */
static tri_status open_inputs(const prepare *p, tri_text_input **out) {
  const tri_prepare_options *options = p->options;
  TRI_TRY(tri_text_input_create(options->inputs, options->num_inputs, options->documents, out));
  tri_text_input_limit(*out, options->max_records);
  if (options->binary) tri_text_input_take_binary(*out);
  if (options->skip_bad) tri_text_input_leave_bad(*out);
  return TRI_OK;
}

static tri_status feed_block(prepare *p, const vocabulary_learner *learner, tri_text_block *block) {
  for (int64_t i = 0; i < block->num_pieces && p->text_bytes < p->options->train_bytes; i++) {
    tri_piece_text text = {0};
    const tri_status got = get_text(p, block, &block->pieces[i], &text);
    if (got == TRI_BAD_FILE && p->options->skip_bad) continue;
    TRI_TRY(got);
    tri_status status = feed_text(learner, &text);
    p->text_bytes += (int64_t)text.bytes;
    tri_piece_text_release(&text);
    TRI_TRY(status);
  }
  return TRI_OK;
}

static tri_status feed_inputs(prepare *p, const vocabulary_learner *learner) {
  const tri_prepare_options *options = p->options;
  tri_status status = TRI_OK;
  tri_text_input *input = NULL;
  tri_text_block block = {0};
  TRI_TRY(open_inputs(p, &input));
  while (p->text_bytes < options->train_bytes) {
    TRI_TRY_GOTO(tri_text_input_next(input, &block), destroy_input);
    if (block.num_pieces == 0) break;
    TRI_TRY_GOTO(feed_block(p, learner, &block), destroy_input);
    tri_text_block_trim(&block);
    show_progress(p, "learning the vocabulary", block.position);
    if (interrupted(p)) {
      status = tri_fail(TRI_INTERRUPTED, "interrupted; %s was left as it was", options->out);
      goto destroy_input;
    }
  }
  if (p->text_bytes == 0) {
    status = tri_fail(TRI_BAD_FILE, "the inputs hold no text: there is no vocabulary to learn");
  }
destroy_input:
  tri_log_progress_end();
  tri_text_block_destroy(&block);
  tri_text_input_destroy(input);
  return status;
}

static tri_status learn_characters(prepare *p) {
  vocabulary_learner learner = {.pieces = NULL};
  TRI_TRY(tri_character_trainer_create(&learner.characters));
  tri_status status = feed_inputs(p, &learner);
  if (status == TRI_OK) status = tri_character_trainer_finish(learner.characters, &p->tokenizer);
  tri_character_trainer_destroy(learner.characters);
  return status;
}

static tri_status learn_pieces(prepare *p) {
  const char *number = p->options->tokenizer + strlen("train:");
  char *end = NULL;
  errno = 0;
  long long vocab_size = strtoll(number, &end, 10);
  if (end == number || *end != '\0' || errno != 0 || vocab_size < MIN_VOCAB || vocab_size > MAX_VOCAB) {
    return tri_fail(TRI_BAD_USAGE,
                    "--tokenizer %s: the size of the vocabulary goes from %d (the bytes and end-of-text) to %d",
                    p->options->tokenizer, MIN_VOCAB, MAX_VOCAB);
  }
  vocabulary_learner learner = {.characters = NULL};
  TRI_TRY(tri_tokenizer_trainer_create(vocab_size, &learner.pieces));
  tri_status status = feed_inputs(p, &learner);
  if (status == TRI_OK) status = tri_tokenizer_trainer_finish(learner.pieces, &p->tokenizer);
  tri_tokenizer_trainer_destroy(learner.pieces);
  return status;
}

static tri_status learn_tokenizer(prepare *p) {
  char amount[32];
  TRI_TRY(learns_characters(p->options) ? learn_characters(p) : learn_pieces(p));
  tri_log("learned a vocabulary of %" PRId64 " from %s of text", tri_tokenizer_vocab_size(p->tokenizer),
          tri_format_bytes((double)p->text_bytes, amount, sizeof amount));
  return TRI_OK;
}

/* What is neither a word that is known nor a file that is there. */
static tri_status check_tokenizer_word(const char *given) {
  static const char *const words[] = {"char", "bytes", "train:", "gpt2:"};
  char advice[TRI_HUB_ADVICE_BYTES];
  const bool known = strcmp(given, "bytes") == 0 || strncmp(given, "gpt2:", 5) == 0;
  if (known || tri_path_exists(given)) return TRI_OK;
  const char *nearest = tri_nearest_word(given, words, sizeof words / sizeof words[0]);
  return tri_fail(TRI_BAD_FILE,
                  "--tokenizer %s: there is no such file%s%s%s; it is gpt2:DIR, train:VOCAB, char, bytes, or a "
                  "tokenizer.json or its folder%s",
                  given, nearest == NULL ? "" : " (did you mean ", nearest == NULL ? "" : nearest,
                  nearest == NULL ? "" : "?)", tri_hub_advice(given, advice));
}

static tri_status find_tokenizer(const char *given, char out[TRI_PATH_BYTES]) {
  TRI_TRY(check_tokenizer_word(given));
  return tri_tokenizer_path(given, out);
}

static tri_status make_format(prepare *p) {
  const tri_prepare_options *options = p->options;
  int32_t id = tri_tokenizer_end_of_text(p->tokenizer);
  char end[256] = "";
  size_t bytes = 0;
  const char *token = tri_tokenizer_token(p->tokenizer, id, &bytes);
  if (id >= 0 && bytes < sizeof end) snprintf(end, sizeof end, "%.*s", (int)bytes, token);
  const tri_chat_format_options given = {
      .tokenizer = options->tokenizer,
      .file = options->chat_template,
      .set = options->chat_set,
      .num_set = options->num_chat_set,
      .end = end,
  };
  return tri_chat_format_create(&given, &p->format);
}

/* Of a tokenizer that somebody else made. */
static void say_end(const prepare *p) {
  const int32_t end = tri_tokenizer_end_of_text(p->tokenizer);
  size_t bytes = 0;
  const char *token = tri_tokenizer_token(p->tokenizer, end, &bytes);
  if (end < 0 || learns(p->options) || strcmp(p->options->tokenizer, "bytes") == 0) return;
  tri_log("each document ends with %.*s (%d), from %s", (int)bytes, token, (int)end,
          tri_tokenizer_end_source(p->tokenizer));
}

/* The same for the tokens that begin a text. */
static void say_beginning(const prepare *p) {
  int count = 0;
  size_t bytes = 0;
  const int32_t *beginning = tri_tokenizer_beginning(p->tokenizer, &count);
  if (count == 0 || learns(p->options)) return;
  const char *token = tri_tokenizer_token(p->tokenizer, beginning[0], &bytes);
  tri_log(
      "documents begin as they stand; other programs would begin them with %.*s (%d), as the tokenizer's "
      "post_processor says",
      (int)bytes, token, (int)beginning[0]);
}

static tri_status make_tokenizer(prepare *p) {
  double start_s = p->start_s = tri_clock_s();
  if (learns(p->options)) {
    TRI_TRY(learn_tokenizer(p));
    p->report.learn_s = tri_clock_s() - start_s;
  } else {
    TRI_TRY(find_tokenizer(p->options->tokenizer, p->tokenizer_path));
    TRI_TRY(tri_tokenizer_create(p->tokenizer_path, &p->tokenizer));
  }
  p->report.vocab_size = tri_tokenizer_vocab_size(p->tokenizer);
  tri_tokenizer_say_class(p->tokenizer);
  if (p->options->chat) return make_format(p);
  say_end(p);
  say_beginning(p);
  if (tri_tokenizer_end_of_text(p->tokenizer) < 0) {
    return tri_fail(
        TRI_BAD_FILE,
        "the tokenizer %s has no end-of-text token, which is needed between documents; name one as eos_token in a "
        "tokenizer_config.json beside it, or add one, for example <|endoftext|>, to its added tokens",
        p->options->tokenizer);
  }
  return TRI_OK;
}

/* ---- the work -------------------------------------------------------------------------------------------------- */

static tri_status accept(void *context, const tri_encoded_block *block) {
  prepare *p = context;
  TRI_TRY(tri_split_writer_add(p->writer, block));
  if (block->first_skipped != NULL && p->report.skipped[0] == '\0') {
    snprintf(p->report.skipped, sizeof p->report.skipped, "%.1000s", block->first_skipped->message);
  }
  for (int64_t i = 0; i < block->num_pieces; i++) {
    p->tokens += block->pieces[i].tokens;
    p->text_bytes += block->pieces[i].text_bytes;
  }
  show_progress(p, "encoding", block->position);
  if (interrupted(p)) return tri_fail(TRI_INTERRUPTED, "interrupted; %s was left as it was", p->options->out);
  return TRI_OK;
}

/* Belongs to the thread that reads. */
typedef struct cut_checker {
  tri_encoder *encoder;
  tri_token_list whole, parts;
} cut_checker;

static bool cut_keeps_ids(void *context, const char *text, size_t bytes, size_t cut) {
  cut_checker *checker = context;
  checker->whole.count = checker->parts.count = 0;
  return tri_encoder_encode_rest(checker->encoder, text, bytes, 0, &checker->whole) == TRI_OK &&
         tri_encoder_encode_rest(checker->encoder, text, cut, 0, &checker->parts) == TRI_OK &&
         tri_encoder_encode_rest(checker->encoder, text + cut, bytes - cut, 0, &checker->parts) == TRI_OK &&
         checker->whole.count == checker->parts.count &&
         memcmp(checker->whole.ids, checker->parts.ids, (size_t)checker->whole.count * sizeof(int32_t)) == 0;
}

static tri_status encode_inputs(prepare *p) {
  const tri_prepare_options *options = p->options;
  tri_status status = TRI_OK;
  tri_text_input *input = NULL;
  cut_checker checker = {0};
  TRI_TRY(open_inputs(p, &input));
  TRI_TRY_GOTO(tri_encoder_create(p->tokenizer, &checker.encoder), destroy_input);
  tri_text_input_check_cuts(input, cut_keeps_ids, &checker);
  p->text_bytes = 0;
  tri_encode_pipeline pipeline = {
      .input = input,
      .tokenizer = p->tokenizer,
      .key = options->key,
      .chat = options->chat ? &p->format : NULL,
      .reading = {options->form, options->key},
      .skip_bad = options->skip_bad,
      .threads = p->report.threads,
      .accept = accept,
      .context = p,
  };
  status = tri_encode_pipeline_run(&pipeline);
  tri_log_progress_end();
  int64_t rough_cuts = tri_text_input_rough_cuts(input);
  if (status == TRI_OK && rough_cuts > 0) {
    tri_warn("%" PRId64
             " times 16 MiB of text had no place where this tokenizer can be interrupted, and were cut "
             "between two characters; the ids around these places may differ from those of the whole",
             rough_cuts);
  }
destroy_input:
  tri_free(checker.whole.ids);
  tri_free(checker.parts.ids);
  tri_encoder_destroy(checker.encoder);
  tri_text_input_destroy(input);
  return status;
}

/* What the record of one of the two corpora tells, but for the generation. */
static tri_status prepare_describe(const prepare *p, const char *prefix, tri_corpus_record *out) {
  tri_corpus *corpus = NULL;
  TRI_TRY(tri_corpus_open(prefix, &corpus));
  *out = (tri_corpus_record){
      .tokens = tri_corpus_num_tokens(corpus),
      .documents = tri_corpus_num_documents(corpus),
      .vocab_size = p->report.vocab_size,
      .end_of_text = p->options->chat ? -1 : tri_tokenizer_end_of_text(p->tokenizer),
  };
  memcpy(out->corpus, tri_corpus_tokens_fingerprint(corpus), sizeof out->corpus);
  memcpy(out->mask, tri_corpus_mask_fingerprint(corpus), sizeof out->mask);
  out->learnt_tokens = tri_corpus_num_learnt(corpus);
  tri_corpus_close(corpus);
  TRI_TRY(tri_tokenizer_fingerprint(p->tokenizer, out->tokenizer));
  TRI_TRY(tri_tokenizer_fingerprint_before(p->tokenizer, out->tokenizer_before));
  if (strcmp(out->tokenizer, out->tokenizer_before) == 0) out->tokenizer_before[0] = '\0';
  return TRI_OK;
}

static tri_status write_records(const prepare *p) {
  static const char *const names[] = {TRI_FILE_TRANSACTION_TRAIN, TRI_FILE_TRANSACTION_VALIDATION};
  enum { BOTH = sizeof names / sizeof names[0] };
  const int count = p->options->validation > 0 ? BOTH : 1;
  tri_corpus_record records[BOTH];
  char prefixes[BOTH][TRI_PATH_BYTES], path[TRI_PATH_BYTES], generation[TRI_FINGERPRINT_BYTES];
  const char *members[BOTH + 1];
  for (int i = 0; i < count; i++) {
    TRI_TRY(tri_path_join(prefixes[i], tri_file_transaction_folder(p->generation), names[i]));
    TRI_TRY(prepare_describe(p, prefixes[i], &records[i]));
    members[i] = records[i].corpus;
  }
  members[count] = records[0].tokenizer;
  TRI_TRY(tri_fingerprint_join(members, count + 1, generation));
  for (int i = 0; i < count; i++) {
    memcpy(records[i].generation, generation, sizeof generation);
    int length = snprintf(path, sizeof path, "%s" TRI_CORPUS_RECORD_SUFFIX, prefixes[i]);
    if (length < 0 || (size_t)length >= sizeof path) {
      return tri_fail(TRI_BAD_USAGE, "the path %s is too long", prefixes[i]);
    }
    TRI_TRY(tri_corpus_record_write(path, &records[i]));
  }
  return TRI_OK;
}

/* What goes on to the models that learn from the corpus: which token ends a text, and the chat template. */
static tri_status write_tokenizer(const prepare *p) {
  char path[TRI_PATH_BYTES], folder[TRI_PATH_BYTES], *text = NULL;
  const char *slash = strrchr(p->tokenizer_path, '/');
  const bool known = !learns(p->options) && strcmp(p->options->tokenizer, "bytes") != 0;
  TRI_TRY(tri_path_join(path, tri_file_transaction_folder(p->generation), "tokenizer.json"));
  TRI_TRY(tri_tokenizer_save(p->tokenizer, path));
  TRI_TRY(tri_path_join(path, tri_file_transaction_folder(p->generation), "tokenizer_config.json"));
  snprintf(folder, sizeof folder, "%.*s", slash == NULL ? 1 : (int)(slash - p->tokenizer_path),
           slash == NULL ? "." : p->tokenizer_path);
  json_t *template = p->options->chat ? tri_chat_format_json(&p->format) : NULL;
  tri_status status = tri_folder_config_text(known ? folder : NULL, p->tokenizer,
                                             tri_tokenizer_end_of_text(p->tokenizer), template, &text);
  json_decref(template);
  if (status == TRI_OK) status = tri_file_replace(path, text, strlen(text));
  tri_free(text);
  return status;
}

static tri_status commit(prepare *p) {
  TRI_TRY(tri_split_writer_finish(p->writer));
  TRI_TRY(tri_split_writer_commit(p->writer));
  TRI_TRY(write_tokenizer(p));
  TRI_TRY(write_records(p));
  return tri_file_transaction_commit(p->generation);
}

static tri_status write_corpus(prepare *p) {
  double start_s = p->start_s = tri_clock_s();
  TRI_TRY(tri_split_writer_create(tri_file_transaction_folder(p->generation), p->report.vocab_size,
                                  p->options->validation, p->options->seed, p->options->chat, &p->writer));
  TRI_TRY(encode_inputs(p));
  TRI_TRY(commit(p));
  tri_split_writer_count(p->writer, &p->report.counts);
  p->report.encode_s = tri_clock_s() - start_s;
  return TRI_OK;
}

tri_status tri_prepare(const tri_prepare_options *options, tri_prepare_report *out) {
  tri_status status = TRI_OK;
  prepare p = {.options = options};
  TRI_TRY(check_options(&p));
  TRI_TRY(check_inputs(&p));
  TRI_TRY(check_folder(&p));
  TRI_TRY_GOTO(make_tokenizer(&p), destroy_tokenizer);
  TRI_TRY_GOTO(tri_file_transaction_begin(options->out, &p.generation), destroy_tokenizer);
  TRI_TRY_GOTO(write_corpus(&p), destroy_generation);
  *out = p.report;
destroy_generation:
  tri_split_writer_destroy(p.writer);
  tri_file_transaction_destroy(p.generation);
destroy_tokenizer:
  tri_chat_format_release(&p.format);
  tri_tokenizer_destroy(p.tokenizer);
  return status;
}
