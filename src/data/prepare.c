/* Errors of options, inputs, the folder and the tokenizer are found first, because encoding may take hours. All files
 * are written to a temporary folder, and replace the older corpus together when all of them are on the disk
 * (file_transaction.h). */
#include "data/prepare.h"

#include "base/clock.h"
#include "base/format.h"
#include "base/log.h"
#include "base/memory.h"
#include "chat/forms.h"
#include "chat/markers.h"
#include "chat/session.h"
#include "config/nearest_word.h"
#include "config/yaml.h"
#include "data/corpus.h"
#include "data/corpus_record.h"
#include "data/prepare_inputs.h"
#include "data/text_input.h"
#include "files/file.h"
#include "files/file_transaction.h"
#include "files/hub.h"
#include "tokenizer/folder.h"
#include "tokenizer/tokenizer.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_THREADS = 1024, MIN_VOCAB = 257, MAX_VOCAB = 1 << 24 };

typedef struct prepare {
  const tri_prepare_options *options;
  tri_prepare_report report;
  tri_tokenizer *tokenizer;
  tri_split_writer *writer;
  tri_file_transaction *generation;
  tri_chat_format format; /* format of conversations or preferences */
  char tokenizer_path[TRI_PATH_BYTES];
  double start_s, shown_s;
  int64_t tokens, text_bytes; /* number of tokens, and of bytes of text, encoded so far */
} prepare;

/* ---- before the work --------------------------------------------------------------------------------------------- */

static int count_cores(void) {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) return CPU_COUNT(&cores);
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online < 1 ? 1 : (int)online;
}

/* Returns whether documents have masks of the records' answers. */
static bool is_masked(const tri_prepare_options *options) { return options->chat || options->preferences; }

/* Checks the options for conversations and preferences, and that they may be combined with each other, with --binary
 * and with --tokenizer. */
static tri_status check_record_options(const tri_prepare_options *options) {
  if (options->preferences && options->chat) {
    return tri_fail(
        TRI_BAD_USAGE,
        "--preferences does not go with --chat: the inputs are either preferences or conversations; leave one "
        "of them out");
  }
  if (options->preferences && options->form != NULL) {
    return tri_fail(TRI_BAD_USAGE, "--form goes with --chat; the form of preferences is that of each record's keys");
  }
  if (options->form != NULL && tri_chat_form_named(options->form) == NULL) {
    return tri_fail(TRI_BAD_USAGE, "--form is `%.60s`; it is %s", options->form, tri_chat_form_names());
  }
  if (options->form != NULL && options->key != NULL && !tri_chat_form_named(options->form)->takes_key) {
    return tri_fail(TRI_BAD_USAGE, "--key does not go with --form %s, which has keys of its own; leave one of them out",
                    options->form);
  }
  if (options->binary && (is_masked(options) || options->skip_bad)) {
    return tri_fail(TRI_BAD_USAGE, "--binary takes files byte by byte; it does not go with %s",
                    options->preferences ? "--preferences"
                    : options->chat      ? "--chat"
                                         : "--skip-bad");
  }
  if (is_masked(options) && tri_prepare_learns(options)) {
    return tri_fail(TRI_BAD_USAGE,
                    "--tokenizer %s cannot learn from %s; name the folder of the model that is to be tuned",
                    options->tokenizer, options->preferences ? "preferences" : "conversations");
  }
  return TRI_OK;
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
  if (tri_prepare_learns(options) && options->train_bytes < 1) {
    return tri_fail(TRI_BAD_USAGE, "--train-bytes is %" PRId64 "; a vocabulary is learned from 1 byte or more",
                    options->train_bytes);
  }
  TRI_TRY(check_record_options(options));
  p->report.threads = options->threads > 0 ? options->threads : count_cores();
  if (p->report.threads > MAX_THREADS) p->report.threads = MAX_THREADS;
  return TRI_OK;
}

static bool same_file(const char *a, const char *b) {
  struct stat facts_a, facts_b;
  return stat(a, &facts_a) == 0 && stat(b, &facts_b) == 0 && facts_a.st_dev == facts_b.st_dev &&
         facts_a.st_ino == facts_b.st_ino;
}

/* Returns whether `path` is the file `tokenizer`, or a file of the tokenizer in the same folder. Such a file need not
 * be refused, because the same tokenizer is written in its place. */
static bool is_of_tokenizer(const char *path, const char *tokenizer) {
  char beside[TRI_PATH_BYTES];
  const char *slash = strrchr(tokenizer, '/'), *name = strrchr(path, '/');
  if (same_file(path, tokenizer)) return true;
  if (name == NULL) return false;
  if (strcmp(name, "/tokenizer.json") != 0 && strcmp(name, "/tokenizer_config.json") != 0) return false;
  const int length = tri_path_is_directory(tokenizer) ? (int)strlen(tokenizer)
                     : slash == NULL                  ? 1
                                                      : (int)(slash - tokenizer);
  snprintf(beside, sizeof beside, "%.*s%s", length,
           slash == NULL && !tri_path_is_directory(tokenizer) ? "." : tokenizer, name);
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

/* ---- progress ---------------------------------------------------------------------------------------------------- */

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

/* ---- the tokenizer ----------------------------------------------------------------------------------------------- */

/* One of the two trainers; the other is NULL. */
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

/* Opens the inputs according to the options. */
static tri_status open_inputs(const prepare *p, tri_text_input **out) {
  const tri_prepare_options *options = p->options;
  TRI_TRY(tri_text_input_create(options->inputs, options->num_inputs, options->documents, out));
  tri_text_input_limit(*out, options->max_records);
  if (options->binary) tri_text_input_allow_binary(*out);
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
  TRI_TRY(tri_prepare_learns_characters(p->options) ? learn_characters(p) : learn_pieces(p));
  tri_log("learned a vocabulary of %" PRId64 " from %s of text", tri_tokenizer_vocab_size(p->tokenizer),
          tri_format_bytes((double)p->text_bytes, amount, sizeof amount));
  return TRI_OK;
}

/* Refuses a --tokenizer that is not learnt and is neither `bytes`, gpt2:DIR nor an existing path. */
static tri_status check_tokenizer_word(const char *given) {
  static const char *const words[] = {"char", "bytes", "train:", "gpt2:"};
  char advice[TRI_HUB_ADVICE_BYTES];
  const bool known = strcmp(given, "bytes") == 0 || strncmp(given, "gpt2:", 5) == 0;
  if (known || tri_path_exists(given)) return TRI_OK;
  const char *nearest = tri_nearest_word(given, words, sizeof words / sizeof words[0]);
  char file[TRI_NEAREST_FILE_BYTES];
  return tri_fail(TRI_BAD_FILE,
                  "--tokenizer %s: there is no such file%s%s%s%s; it is gpt2:DIR, train:VOCAB, char, bytes, or a "
                  "tokenizer.json or its folder%s",
                  given, nearest == NULL ? "" : " (did you mean ", nearest == NULL ? "" : nearest,
                  nearest == NULL ? "" : "?)", nearest == NULL ? tri_yaml_nearest_file(given, "", file) : "",
                  tri_hub_advice(given, advice));
}

static tri_status find_tokenizer(const char *given, char out[TRI_PATH_BYTES]) {
  TRI_TRY(check_tokenizer_word(given));
  return tri_tokenizer_path(given, out);
}

/* Warns if the tokenizer does not have the markers of a chat template that was chosen by name. */
static tri_status warn_of_markers(const prepare *p) {
  tri_chat_session *session = NULL;
  char turn_end[TRI_TURN_END_BYTES];
  int count = 0;
  if (!p->format.is_preset) return TRI_OK;
  const int32_t *ends = tri_tokenizer_ends(p->tokenizer, &count);
  TRI_TRY(tri_chat_session_create(&p->format, &session));
  tri_status status = tri_chat_session_turn_end(session, turn_end);
  if (status == TRI_OK) status = tri_chat_warn_of_markers(&p->format, turn_end, p->tokenizer, ends, count);
  tri_chat_session_destroy(session);
  return status;
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
      .optional = options->preferences,
      .set = options->chat_set,
      .num_set = options->num_chat_set,
      .key_map = options->key_map,
      .end = end,
  };
  TRI_TRY(tri_chat_format_create(&given, &p->format));
  TRI_TRY(warn_of_markers(p));
  return tri_prepare_log_messages(options, &p->format);
}

/* Logs the end-of-text token of a tokenizer that is read from a file. */
static void log_end(const prepare *p) {
  const int32_t end = tri_tokenizer_end_of_text(p->tokenizer);
  size_t bytes = 0;
  const char *token = tri_tokenizer_token(p->tokenizer, end, &bytes);
  if (end < 0 || tri_prepare_learns(p->options) || strcmp(p->options->tokenizer, "bytes") == 0) return;
  tri_log("each document ends with %.*s (%d), from %s", (int)bytes, token, (int)end,
          tri_tokenizer_end_source(p->tokenizer));
}

/* Logs the first of the tokens with which a document begins, and whether there are more, unless the tokenizer is
 * learnt. */
static void log_beginning(const prepare *p) {
  int count = 0;
  size_t bytes = 0;
  const int32_t *beginning = tri_tokenizer_beginning(p->tokenizer, &count);
  if (count == 0 || tri_prepare_learns(p->options)) return;
  const char *token = tri_tokenizer_token(p->tokenizer, beginning[0], &bytes);
  tri_log("each document begins with %.*s (%d)%s, from the tokenizer's post_processor", (int)bytes, token,
          (int)beginning[0], count > 1 ? " and other tokens" : "");
}

static tri_status make_tokenizer(prepare *p) {
  double start_s = p->start_s = tri_clock_s();
  if (tri_prepare_learns(p->options)) {
    TRI_TRY(learn_tokenizer(p));
    p->report.learn_s = tri_clock_s() - start_s;
  } else {
    TRI_TRY(find_tokenizer(p->options->tokenizer, p->tokenizer_path));
    TRI_TRY(tri_tokenizer_create(p->tokenizer_path, &p->tokenizer));
  }
  p->report.vocab_size = tri_tokenizer_vocab_size(p->tokenizer);
  tri_tokenizer_log_class(p->tokenizer);
  if (is_masked(p->options)) return make_format(p);
  log_end(p);
  log_beginning(p);
  if (tri_tokenizer_end_of_text(p->tokenizer) < 0) {
    return tri_fail(
        TRI_BAD_FILE,
        "the tokenizer %s has no end-of-text token, which is needed between documents; name one as eos_token in a "
        "tokenizer_config.json in its folder, or add one, for example <|endoftext|>, to its added tokens",
        p->options->tokenizer);
  }
  return TRI_OK;
}

/* ---- the work ---------------------------------------------------------------------------------------------------- */

static tri_status accept(void *context, const tri_encoded_block *block) {
  prepare *p = context;
  TRI_TRY(tri_split_writer_add(p->writer, block));
  if (block->first_skipped != NULL && p->report.skipped[0] == '\0') {
    snprintf(p->report.skipped, sizeof p->report.skipped, "%.1000s", block->first_skipped->message);
  }
  if (p->report.skipped[0] == '\0') {
    snprintf(p->report.skipped, sizeof p->report.skipped, "%s", tri_split_writer_skipped(p->writer));
  }
  for (int64_t i = 0; i < block->num_pieces; i++) {
    p->tokens += block->pieces[i].tokens;
    p->text_bytes += block->pieces[i].text_bytes;
  }
  show_progress(p, "encoding", block->position);
  if (interrupted(p)) return tri_fail(TRI_INTERRUPTED, "interrupted; %s was left as it was", p->options->out);
  return TRI_OK;
}

/* Context of cut_keeps_ids, which only the reading thread calls. */
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
      .chat = is_masked(options) ? &p->format : NULL,
      .preferences = options->preferences,
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

static void set_beginning(const prepare *p, tri_corpus_record *out) {
  const int32_t *beginning = tri_tokenizer_beginning(p->tokenizer, &out->num_beginning);
  memcpy(out->beginning, beginning, (size_t)out->num_beginning * sizeof *beginning);
}

/* Makes the record of one of the two corpora, without the generation. */
static tri_status prepare_describe(const prepare *p, const char *prefix, bool validation, tri_corpus_record *out) {
  tri_corpus *corpus = NULL;
  tri_split_counts counts;
  tri_split_writer_count(p->writer, &counts);
  TRI_TRY(tri_corpus_open(prefix, &corpus));
  *out = (tri_corpus_record){
      .tokens = tri_corpus_num_tokens(corpus),
      .documents = tri_corpus_num_documents(corpus),
      .vocab_size = p->report.vocab_size,
      .end_of_text = is_masked(p->options) ? -1 : tri_tokenizer_end_of_text(p->tokenizer),
  };
  if (!is_masked(p->options)) set_beginning(p, out);
  if (!is_masked(p->options) && !counts.from_tail) {
    out->text_bytes = validation ? counts.validation_bytes : counts.text_bytes - counts.validation_bytes;
  }
  memcpy(out->corpus, tri_corpus_tokens_fingerprint(corpus), sizeof out->corpus);
  memcpy(out->mask, tri_corpus_mask_fingerprint(corpus), sizeof out->mask);
  memcpy(out->labels, tri_corpus_labels_fingerprint(corpus), sizeof out->labels);
  out->learnt_tokens = tri_corpus_num_learnt(corpus);
  out->preferences = counts.preferences;
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
    TRI_TRY(prepare_describe(p, prefixes[i], i > 0, &records[i]));
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

/* Writes the tokenizer's files for models that learn from the corpus: tokenizer.json, and tokenizer_config.json with
 * the token that ends a text and, for conversations and preferences, the chat template. */
static tri_status write_tokenizer(const prepare *p) {
  char path[TRI_PATH_BYTES], folder[TRI_PATH_BYTES], *text = NULL;
  const char *slash = strrchr(p->tokenizer_path, '/');
  const bool known = !tri_prepare_learns(p->options) && strcmp(p->options->tokenizer, "bytes") != 0;
  TRI_TRY(tri_path_join(path, tri_file_transaction_folder(p->generation), "tokenizer.json"));
  TRI_TRY(tri_tokenizer_save(p->tokenizer, path));
  TRI_TRY(tri_path_join(path, tri_file_transaction_folder(p->generation), "tokenizer_config.json"));
  snprintf(folder, sizeof folder, "%.*s", slash == NULL ? 1 : (int)(slash - p->tokenizer_path),
           slash == NULL ? "." : p->tokenizer_path);
  json_t *template = is_masked(p->options) ? tri_chat_format_json(&p->format) : NULL;
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
                                  p->options->validation, p->options->seed, is_masked(p->options), &p->writer));
  if (p->options->preferences) tri_split_writer_expect_preferences(p->writer, p->options->skip_bad);
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
  TRI_TRY(tri_prepare_check_inputs(options, &p.report.input_bytes));
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
