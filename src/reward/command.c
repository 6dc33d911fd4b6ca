#include "reward/command.h"

#include "base/child.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "files/file.h"
#include "tokenizer/json_text.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DEFAULT_BATCH = 64, LONGEST_LINE_BYTES = 1 << 20, CHUNK_BYTES = 1 << 16, CHUNKS = 64 };
/* All items of a worker fail after SILENT_LIVES of its processes in a row have given no answer. TAIL_BYTES: bytes at
 * the end of the log that are searched for its last line. */
enum { SILENT_LIVES = 3, TAIL_BYTES = 4096 };
/* LOOK_S: time between two checks of a process; STATUS_S: longest wait for the exit status of a process that has closed
 * its standard input or output; GRACE_S: time until the next measure when the workers are ended. */
static const double DEFAULT_TIMEOUT_S = 60, LOOK_S = 0.02, STATUS_S = 0.1, GRACE_S = 0.2;

/* An item that has failed once is a suspect. Workers receive suspects last and alone. */
typedef enum item_state { ITEM_WAITING, ITEM_SUSPECT, ITEM_OPEN, ITEM_DONE } item_state;

typedef struct worker {
  tri_child child; /* the process; id 0: not running */
  char *unsent;    /* [unsent_bytes], line that is being sent, allocated by json_dumps; its first `sent` bytes are sent;
                      NULL: none */
  size_t unsent_bytes, sent;
  char *text; /* [held], first bytes of the line that is being received */
  size_t held, room;
  int64_t *open; /* [num_open], indices of the items that are open in this worker, in the order of sending */
  int64_t num_open;
  double since_s;   /* time at which open[0] became the oldest open item (tri_clock_s) */
  double looked_s;  /* time of the last check whether the process has ended */
  bool suspects;    /* whether the open items are suspects */
  bool closed;      /* whether the process has closed its standard input or output */
  bool ended;       /* whether the process has ended; child.result is then set */
  bool answered;    /* whether the process has given an answer */
  int64_t silent;   /* number of processes of this worker since its last answer that failed without an answer; a process
                       counts if its open items were not suspects, or if it ended before any worker had ever answered */
  int64_t log_from; /* size of the log file in bytes when the process was started */
} worker;

/* The reason for which the life of a worker ends: the process has ended by itself; it has not answered in time; it has
 * written a line that is not an answer. */
typedef enum ending { ENDING_OWN, ENDING_TIMEOUT, ENDING_ANSWER } ending;

/* Warnings that have been logged; each is logged once. */
typedef struct warnings {
  bool ended, timeout, bad_answer, unknown, second;
} warnings;

struct tri_reward_command {
  tri_command_settings settings;
  char log[TRI_PATH_BYTES]; /* "": the standard error of this process */
  char **environment;
  worker *workers; /* [settings.workers] */
  bool answered;   /* whether any worker has ever given an answer */
  warnings warned;
  /* The items that were added since the last time at which all items were done. */
  int64_t first_id;         /* id of items[0], or of the next item */
  tri_command_item **items; /* [count] */
  unsigned char *states;    /* [count], an item_state for each item */
  int64_t items_room, states_room, count, done;
  int64_t waiting, suspects; /* lower bounds of the indices of items in the states ITEM_WAITING and ITEM_SUSPECT */
};

/* Sets *warned, and returns whether it was false. */
static bool is_first(bool *warned) {
  const bool first = !*warned;
  *warned = true;
  return first;
}

/* ---- the life of a worker ---------------------------------------------------------------------------------------- */

static tri_status start_worker(tri_reward_command *r, worker *w) {
  char shell[] = "/bin/sh", option[] = "-c";
  char *line[] = {shell, option, r->settings.command, NULL};
  struct stat facts;
  const char *log = r->log[0] == '\0' ? NULL : r->log;
  w->log_from = stat(r->log, &facts) == 0 ? (int64_t)facts.st_size : 0;
  TRI_TRY(tri_child_start(&(tri_child_options){.line = line, .environment = r->environment, .log = log, .pipes = true},
                          &w->child));
  w->looked_s = tri_clock_s();
  w->held = 0;
  w->answered = w->closed = w->ended = false;
  return TRI_OK;
}

/* Ends the process, if it has not ended, and forgets its open items and its unsent line. */
static void end_worker(worker *w) {
  if (w->child.id == 0) return;
  if (!w->ended) tri_child_kill(&w->child);
  tri_child_close(&w->child);
  w->child.id = 0;
  free(w->unsent);
  w->unsent = NULL;
  w->num_open = 0;
}

/* Returns the last line of the log after byte `from`, on one line; "nothing" if there is no such line; NULL if the log
 * is not a plain file. */
static const char *last_line(const char *path, int64_t from, char out[TRI_REWARD_SHOWN_BYTES]) {
  static const char none[] = "nothing";
  char text[TAIL_BYTES];
  struct stat facts;
  int file = -1;
  if (stat(path, &facts) != 0 || !S_ISREG(facts.st_mode)) return NULL;
  if (tri_file_open_plain(path, &file) != TRI_OK) return none;
  ssize_t held = 0;
  if (fstat(file, &facts) == 0) {
    const int64_t begin = (int64_t)facts.st_size - TAIL_BYTES;
    held = pread(file, text, sizeof text, begin > from ? begin : from);
  }
  close(file);
  while (held > 0 && (text[held - 1] == '\n' || text[held - 1] == ' ')) held--;
  ssize_t first = held;
  while (first > 0 && text[first - 1] != '\n') first--;
  return held > 0 ? tri_reward_show(text + first, (size_t)(held - first), out) : none;
}

static const char *result_text(const worker *w, char out[64]) {
  const int result = w->child.result;
  snprintf(out, 64, "exit status %d", WIFEXITED(result) ? WEXITSTATUS(result) : 0);
  if (!w->ended) snprintf(out, 64, "its standard input or output closed");
  if (w->ended && WIFSIGNALED(result)) snprintf(out, 64, "signal %d", WTERMSIG(result));
  return out;
}

static tri_status report_end(const tri_reward_command *r, const worker *w, bool refused) {
  char result[64], shown[TRI_REWARD_SHOWN_BYTES];
  const char *last = last_line(r->log, w->log_from, shown);
  result_text(w, result);
  if (refused)
    return tri_fail(TRI_BAD_CONFIG, "reward command: command: `%s` cannot be started (%s)%s%s", r->settings.command,
                    result, last == NULL ? "" : ": ", last == NULL ? "" : last);
  if (last == NULL)
    return tri_fail(TRI_IO_FAILED, "reward command: `%s` has ended three times in a row without an answer, with %s",
                    r->settings.command, result);
  return tri_fail(TRI_IO_FAILED,
                  "reward command: `%s` has ended three times in a row without an answer, with %s; the last line of "
                  "its standard error is: "
                  "%s (all of them are in %s)",
                  r->settings.command, result, last, r->log);
}

static bool is_refused(const worker *w) {
  const int result = w->child.result;
  return w->ended && WIFEXITED(result) && (WEXITSTATUS(result) == 126 || WEXITSTATUS(result) == 127);
}

/* ---- items ------------------------------------------------------------------------------------------------------- */

static void set_state(tri_reward_command *r, int64_t index, item_state state) {
  r->states[index] = (unsigned char)state;
  switch (state) {
    case ITEM_WAITING:
      if (index < r->waiting) r->waiting = index;
      break;
    case ITEM_SUSPECT:
      if (index < r->suspects) r->suspects = index;
      break;
    case ITEM_OPEN: break;
    case ITEM_DONE:
      r->items[index]->done = true;
      r->done++;
      break;
  }
}

static void fail_item(tri_reward_command *r, int64_t index) {
  r->items[index]->failed = true;
  set_state(r, index, ITEM_DONE);
}

/* Moves *from to the next item of a state. Returns whether there is one. */
static bool find_item(const tri_reward_command *r, item_state state, int64_t *from) {
  while (*from < r->count && r->states[*from] != state) ++*from;
  return *from < r->count;
}

/* Sets the states of the open items of a worker that has failed for the reason `why`. All of them fail if SILENT_LIVES
 * processes in a row have given no answer. Otherwise the oldest one becomes a suspect or, if it is a suspect, fails,
 * unless the process has given an answer and then ended by itself: such a process may already have been ending when it
 * was sent the suspect. */
static void blame(tri_reward_command *r, const worker *w, ending why) {
  const bool all = w->silent >= SILENT_LIVES, again = why == ENDING_OWN && w->answered;
  for (int64_t i = 0; i < w->num_open; i++) {
    const int64_t index = w->open[i];
    if (all || (i == 0 && w->suspects && !again)) {
      fail_item(r, index);
    } else if (i == 0 || w->suspects) {
      set_state(r, index, ITEM_SUSPECT);
    } else {
      set_state(r, index, ITEM_WAITING);
    }
  }
}

static void warn_end(tri_reward_command *r, const worker *w, ending why) {
  char result[64];
  switch (why) {
    case ENDING_OWN:
      if (is_first(&r->warned.ended))
        tri_warn("reward command: a process has ended (%s) and is started again%s%s", result_text(w, result),
                 r->log[0] == '\0' ? "" : "; its standard error is in ", r->log);
      break;
    case ENDING_TIMEOUT:
      if (is_first(&r->warned.timeout))
        tri_warn(
            "reward command: a process has not answered for %g s (timeout) and is started again; it has "
            "to flush its output after each answer",
            r->settings.timeout_s);
      break;
    case ENDING_ANSWER:
      if (is_first(&r->warned.bad_answer))
        tri_warn("reward command: a process has written a line that is not an answer, and is started again: %s",
                 tri_status_message());
      break;
  }
}

/* Waits, for STATUS_S at most, for the exit status of a process that has closed its standard input or output. */
static void await_status(worker *w) {
  const double until_s = tri_clock_s() + STATUS_S;
  while (!w->ended && tri_clock_s() < until_s) {
    w->ended = tri_child_ended(&w->child);
    if (!w->ended) tri_pause_s(0.1 * LOOK_S);
  }
}

/* Ends the life of a worker that has failed. Its next process is started when it is given an item again. If a process
 * ends and no process has ever answered, the program is at fault, and no item is blamed. */
static tri_status end_life(tri_reward_command *r, worker *w, ending why) {
  if (why == ENDING_OWN) await_status(w);
  const bool new_program = why == ENDING_OWN && !r->answered;
  if (!w->answered && (new_program || (w->num_open > 0 && !w->suspects))) w->silent++;
  const bool refused = new_program && is_refused(w);
  if (refused || (why == ENDING_OWN && w->silent >= SILENT_LIVES)) return report_end(r, w, refused);
  warn_end(r, w, why);
  if (new_program) {
    for (int64_t i = 0; i < w->num_open; i++) set_state(r, w->open[i], w->suspects ? ITEM_SUSPECT : ITEM_WAITING);
  } else {
    blame(r, w, why);
  }
  end_worker(w);
  return TRI_OK;
}

/* ---- sending ----------------------------------------------------------------------------------------------------- */

/* Makes the line of an item. The keys of the prompt's line cannot replace the keys that are set here. */
static tri_status write_line(const tri_command_item *item, int64_t id, char **out) {
  json_t *line = json_pack("{s:I, s:o, s:o, s:s, s:I}", "id", (json_int_t)id, "prompt",
                           tri_json_text(item->prompt, item->prompt_bytes), "completion",
                           tri_json_text(item->completion, item->completion_bytes), "finish", item->finish, "tokens",
                           (json_int_t)item->tokens);
  json_error_t error;
  json_t *rest = item->json == NULL ? json_object() : json_loadb(item->json, item->json_bytes, JSON_ALLOW_NUL, &error);
  tri_status status = TRI_OK;
  if (!json_is_object(rest)) {
    status = tri_fail(TRI_BAD_FILE, "reward command: the line of a prompt is not a JSON object");
  } else if (line == NULL || json_object_update_missing(line, rest) != 0 ||
             (*out = json_dumps(line, JSON_COMPACT)) == NULL) {
    status = tri_fail(TRI_OUT_OF_MEMORY, "no memory for a line of a reward's program");
  }
  json_decref(rest);
  json_decref(line);
  return status;
}

/* Sends as much of the line as the pipe has room for. */
static void send_unsent(worker *w) {
  while (w->unsent != NULL && !w->closed) {
    const ssize_t wrote = tri_child_write(&w->child, w->unsent + w->sent, w->unsent_bytes - w->sent);
    if (wrote == 0) return;
    if (wrote < 0) w->closed = true;
    if (wrote > 0) w->sent += (size_t)wrote;
    if (w->sent < w->unsent_bytes) continue;
    free(w->unsent);
    w->unsent = NULL;
  }
}

static tri_status give(tri_reward_command *r, worker *w, int64_t index) {
  char *line = NULL;
  if (w->child.id == 0) TRI_TRY(start_worker(r, w));
  TRI_TRY(write_line(r->items[index], r->first_id + index, &line));
  w->unsent = line;
  w->unsent_bytes = strlen(line) + 1;
  w->unsent[w->unsent_bytes - 1] = '\n'; /* instead of the NUL */
  w->sent = 0;
  w->suspects = r->states[index] == ITEM_SUSPECT;
  if (w->num_open == 0) w->since_s = tri_clock_s();
  w->open[w->num_open++] = index;
  set_state(r, index, ITEM_OPEN);
  send_unsent(w);
  return TRI_OK;
}

/* Returns the worker with the fewest open items that can be given a suspect or, if `suspect` is false, a waiting item;
 * NULL if no worker can. A suspect is alone in its worker, unless the worker's last SILENT_LIVES processes have not
 * answered. */
static worker *find_worker(const tri_reward_command *r, bool suspect) {
  worker *best = NULL;
  for (int64_t i = 0; i < r->settings.workers; i++) {
    worker *w = &r->workers[i];
    if (w->closed && w->child.id != 0) continue;
    if (w->unsent != NULL || w->num_open == r->settings.batch) continue;
    if (w->num_open > 0 && (w->suspects != suspect || (suspect && w->silent < SILENT_LIVES))) continue;
    if (best == NULL || w->num_open < best->num_open) best = w;
  }
  return best;
}

static tri_status give_all(tri_reward_command *r) {
  for (worker *w; find_item(r, ITEM_WAITING, &r->waiting) && (w = find_worker(r, false)) != NULL;)
    TRI_TRY(give(r, w, r->waiting));
  if (r->waiting < r->count) return TRI_OK;
  for (worker *w; find_item(r, ITEM_SUSPECT, &r->suspects) && (w = find_worker(r, true)) != NULL;)
    TRI_TRY(give(r, w, r->suspects));
  return TRI_OK;
}

/* ---- receiving --------------------------------------------------------------------------------------------------- */

static void ignore_answer(tri_reward_command *r, int64_t id) {
  const int64_t index = id - r->first_id;
  const bool second = id >= 1 && (index < 0 || (index < r->count && r->states[index] == ITEM_DONE));
  if (!is_first(second ? &r->warned.second : &r->warned.unknown)) return;
  if (second)
    tri_warn("reward command: the answer with id %" PRId64 " is late, or a second one; such answers are ignored", id);
  else
    tri_warn("reward command: an answer has id %" PRId64 ", which the process was not given; such answers are ignored",
             id);
}

static void accept_answer(tri_reward_command *r, worker *w, tri_reward_answer *answer) {
  int64_t at = 0;
  while (at < w->num_open && r->first_id + w->open[at] != answer->id) at++;
  if (at == w->num_open) {
    ignore_answer(r, answer->id);
    tri_free(answer->parts);
    return;
  }
  tri_command_item *item = r->items[w->open[at]];
  item->reward = answer->reward;
  item->parts = answer->parts;
  item->num_parts = answer->num_parts;
  set_state(r, w->open[at], ITEM_DONE);
  w->num_open--;
  memmove(w->open + at, w->open + at + 1, (size_t)(w->num_open - at) * sizeof *w->open);
  if (at == 0) w->since_s = tri_clock_s();
  w->answered = r->answered = true;
  w->silent = 0;
}

/* Reads the whole lines in w->text. Sets *bad if one is not an answer; blank lines are ignored. */
static tri_status read_lines(tri_reward_command *r, worker *w, bool *bad) {
  size_t begin = 0;
  const char *end;
  while (!*bad && (end = memchr(w->text + begin, '\n', w->held - begin)) != NULL) {
    const char *line = w->text + begin;
    const size_t bytes = (size_t)(end - line);
    tri_reward_answer answer;
    begin += bytes + 1;
    if (strspn(line, " \t\r\n") >= bytes) continue;
    const tri_status status = tri_reward_answer_read(line, bytes, &answer);
    if (status == TRI_OK) accept_answer(r, w, &answer);
    if (status == TRI_BAD_FILE) *bad = true;
    if (status != TRI_OK && status != TRI_BAD_FILE) return status;
  }
  w->held -= begin;
  memmove(w->text, w->text + begin, w->held);
  return TRI_OK;
}

/* Reads up to `chunks` chunks of the output of the process. Sets *bad if a line is not an answer. */
static tri_status receive(tri_reward_command *r, worker *w, int chunks, bool *bad) {
  for (ssize_t got = 1; chunks > 0 && got > 0 && !*bad; chunks--) {
    TRI_TRY(tri_reserve("an answer", 1, w->held + CHUNK_BYTES + 1, &w->room, &w->text));
    got = tri_child_read(&w->child, w->text + w->held, CHUNK_BYTES);
    if (got < 0) w->closed = true;
    if (got <= 0) break;
    w->held += (size_t)got;
    w->text[w->held] = '\0';
    TRI_TRY(read_lines(r, w, bad));
    if (*bad || w->held <= LONGEST_LINE_BYTES) continue;
    (void)tri_fail(TRI_BAD_FILE, "it is longer than %d bytes", LONGEST_LINE_BYTES);
    *bad = true;
  }
  return TRI_OK;
}

/* Receives a worker's answers, and ends its life if it has failed. Answers that a process wrote before it ended
 * count. */
static tri_status attend(tri_reward_command *r, worker *w) {
  bool bad = false;
  if (w->child.id == 0) return TRI_OK;
  send_unsent(w);
  TRI_TRY(receive(r, w, 1, &bad));
  const double now_s = tri_clock_s();
  if (!w->ended && now_s - w->looked_s >= LOOK_S) {
    w->looked_s = now_s;
    w->ended = tri_child_ended(&w->child);
  }
  if ((w->closed || w->ended) && !bad) TRI_TRY(receive(r, w, CHUNKS, &bad));
  if (bad) return end_life(r, w, ENDING_ANSWER);
  if (w->closed || w->ended) return end_life(r, w, ENDING_OWN);
  if (w->num_open > 0 && now_s - w->since_s >= r->settings.timeout_s) return end_life(r, w, ENDING_TIMEOUT);
  return TRI_OK;
}

/* Waits until a worker can be attended to, at most LOOK_S. */
static void wait_for_workers(const tri_reward_command *r) {
  struct pollfd files[2 * TRI_COMMAND_WORKERS];
  nfds_t count = 0;
  for (int64_t i = 0; i < r->settings.workers; i++) {
    const worker *w = &r->workers[i];
    if (w->child.id == 0) continue;
    files[count++] = (struct pollfd){.fd = w->child.from, .events = POLLIN};
    if (w->unsent != NULL) files[count++] = (struct pollfd){.fd = w->child.to, .events = POLLOUT};
  }
  (void)poll(files, count, (int)(1000 * LOOK_S));
}

/* ---- scoring ----------------------------------------------------------------------------------------------------- */

/* Forgets all items. Their ids are not used again. */
static void forget_items(tri_reward_command *r) {
  r->first_id += r->count;
  r->count = r->done = r->waiting = r->suspects = 0;
}

tri_status tri_reward_command_add(tri_reward_command *r, tri_command_item *item) {
  if (r->done == r->count) forget_items(r);
  TRI_TRY(tri_grow("completions to score", sizeof *r->items, r->count, &r->items_room, &r->items));
  TRI_TRY(tri_grow("completions to score", sizeof *r->states, r->count, &r->states_room, &r->states));
  item->done = item->failed = false;
  item->reward = (double)NAN;
  item->parts = NULL;
  item->num_parts = 0;
  r->items[r->count] = item;
  r->states[r->count++] = ITEM_WAITING;
  return TRI_OK;
}

tri_status tri_reward_command_attend(tri_reward_command *r, bool waits) {
  if (r->done == r->count) return TRI_OK;
  TRI_TRY(give_all(r));
  if (waits) wait_for_workers(r);
  for (int64_t i = 0; i < r->settings.workers; i++) TRI_TRY(attend(r, &r->workers[i]));
  return TRI_OK;
}

void tri_reward_command_drop(tri_reward_command *r) {
  for (int64_t i = 0; i < r->settings.workers; i++) {
    if (r->workers[i].num_open > 0) end_worker(&r->workers[i]);
  }
  forget_items(r);
}

void tri_reward_command_release(tri_command_item *items, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    tri_free(items[i].parts);
    items[i].parts = NULL;
    items[i].num_parts = 0;
  }
}

tri_status tri_reward_command_score(tri_reward_command *r, tri_command_item *items, int64_t count) {
  tri_status status = TRI_OK;
  int64_t added = 0;
  while (added < count && status == TRI_OK) {
    status = tri_reward_command_add(r, &items[added]);
    if (status == TRI_OK) added++;
  }
  while (status == TRI_OK && r->done < r->count) status = tri_reward_command_attend(r, true);
  if (status == TRI_OK) return TRI_OK;
  tri_reward_command_drop(r);
  tri_reward_command_release(items, added);
  return status;
}

/* ---- creation ---------------------------------------------------------------------------------------------------- */

static tri_status check_settings(tri_command_settings *s) {
  if (s->workers == 0) s->workers = 1;
  if (s->batch == 0) s->batch = DEFAULT_BATCH;
  if (s->timeout_s == 0) s->timeout_s = DEFAULT_TIMEOUT_S;
  if (s->command[0] == '\0') return tri_fail(TRI_BAD_CONFIG, "reward command: command is missing; write a command");
  if (s->workers < 1 || s->workers > TRI_COMMAND_WORKERS)
    return tri_fail(TRI_BAD_CONFIG, "reward command: workers is %" PRId64 "; write a number from 1 to %d", s->workers,
                    TRI_COMMAND_WORKERS);
  if (s->batch < 1 || s->batch > TRI_COMMAND_BATCH)
    return tri_fail(TRI_BAD_CONFIG, "reward command: batch is %" PRId64 "; write a number from 1 to %d", s->batch,
                    TRI_COMMAND_BATCH);
  if (!isfinite(s->timeout_s) || s->timeout_s < 0)
    return tri_fail(TRI_BAD_CONFIG, "reward command: timeout is %g; write a number of seconds above 0", s->timeout_s);
  return TRI_OK;
}

static tri_status create_workers(tri_reward_command *r, const char *log_path) {
  TRI_TRY(check_settings(&r->settings));
  if (log_path != NULL) TRI_TRY(tri_path_with(r->log, log_path, ""));
  /* Without this variable, the answers of a Python program that does not flush its output would arrive late, or never.
   */
  TRI_TRY(tri_child_environment("PYTHONUNBUFFERED=1", &r->environment));
  TRI_TRY(tri_alloc("workers", (size_t)r->settings.workers, sizeof *r->workers, &r->workers));
  for (int64_t i = 0; i < r->settings.workers; i++) {
    TRI_TRY(tri_alloc("open completions", (size_t)r->settings.batch, sizeof *r->workers->open, &r->workers[i].open));
    TRI_TRY(start_worker(r, &r->workers[i]));
  }
  return TRI_OK;
}

tri_status tri_reward_command_create(const tri_command_settings *settings, const char *log_path,
                                     tri_reward_command **out) {
  tri_reward_command *r = NULL;
  *out = NULL;
  TRI_TRY(tri_alloc("a reward", 1, sizeof *r, &r));
  r->settings = *settings;
  r->first_id = 1;
  const tri_status status = create_workers(r, log_path);
  if (status == TRI_OK) *out = r;
  if (status != TRI_OK) tri_reward_command_destroy(r);
  return status;
}

/* Waits until all workers have ended, at most most_s seconds. */
static void await_ends(tri_reward_command *r, double most_s) {
  const double until_s = tri_clock_s() + most_s;
  for (bool all = false; !all && tri_clock_s() < until_s;) {
    all = true;
    for (int64_t i = 0; i < r->settings.workers; i++) {
      worker *w = &r->workers[i];
      if (w->child.id == 0 || w->ended) continue;
      w->ended = tri_child_ended(&w->child);
      all = all && w->ended;
    }
    if (!all) tri_pause_s(0.1 * LOOK_S);
  }
}

void tri_reward_command_destroy(tri_reward_command *r) {
  if (r == NULL) return;
  if (r->workers != NULL) {
    for (int64_t i = 0; i < r->settings.workers; i++) {
      if (r->workers[i].child.id != 0) tri_child_close_input(&r->workers[i].child);
    }
    await_ends(r, GRACE_S);
    for (int64_t i = 0; i < r->settings.workers; i++) {
      const worker *w = &r->workers[i];
      if (w->child.id != 0 && !w->ended) tri_child_ask(&w->child);
    }
    await_ends(r, GRACE_S);
    for (int64_t i = 0; i < r->settings.workers; i++) {
      end_worker(&r->workers[i]);
      tri_free(r->workers[i].text);
      tri_free(r->workers[i].open);
    }
  }
  tri_free(r->items);
  tri_free(r->states);
  tri_free(r->workers);
  tri_free(r->environment);
  tri_free(r);
}
