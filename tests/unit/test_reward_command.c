/* Rewards by a program: programs that answer in any order, twice, late or wrongly, or not at all, with one worker and
 * with three. */
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/process_identity.h"
#include "check.h"
#include "files/file.h"
#include "reward/command.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* A reader of lines in Python; `mode` chooses the function that answers. */
static const char program[] =
    "import json, sys\n"
    "mode, held = sys.argv[1], []\n"
    "def put(line):\n"
    "    sys.stdout.write(line + '\\n')\n"
    "def answer(item, reward=None):\n"
    "    put(json.dumps({'id': item['id'], 'reward': len(item['completion']) if reward is None else reward}))\n"
    "for line in sys.stdin:\n"
    "    item = json.loads(line)\n"
    "    bad = 'bad' in item['completion']\n"
    "    if mode == 'reverse':\n"
    "        held.append(item)\n"
    "        if len(held) == int(sys.argv[2]):\n"
    "            for each in reversed(held): answer(each)\n"
    "            held = []\n"
    "    elif mode == 'twice': answer(item); answer(item, 99); answer(item, 98)\n"
    "    elif mode == 'again': put('{\"id\": 1, \"reward\": 55}'); answer(item)\n"
    "    elif mode == 'unknown':\n"
    "        put('{\"id\": 1000000, \"reward\": 1}'); put('{\"id\": -5, \"reward\": {\"a\": 1}}'); answer(item)\n"
    "    elif mode == 'parts': answer(item, {'long': len(item['completion']), 'half \\u00e9': 0.5})\n"
    "    elif mode == 'blank': put(''); put('  \\t'); answer(item)\n"
    "    elif mode == 'line' and bad: put('x' * 100000000)\n"
    "    elif mode == 'echo':\n"
    "        sys.stderr.write(line); answer(item, item['tokens'] + 0.25)\n"
    "    else: answer(item)\n";

/* Readers of lines that begin at once, for tests with short timeouts: `CASES` has the cases of a completion. */
#define ANSWER "printf '{\"id\": %s, \"reward\": 1}\\n' \"$id\""
#define SHELL(CASES)                                                                                                   \
  "while read -r line; do id=${line#*:}; id=${id%%,*}; case \"$line\" in " CASES " *) " ANSWER ";; esac; done"

static int warnings;
static char last_warning[4096];

static bool send_line(tri_log_kind kind, const char *text) {
  (void)kind;
  warnings++;
  snprintf(last_warning, sizeof last_warning, "%s", text);
  return true;
}

static bool send_failure(int exit_status, const char *message) {
  (void)exit_status, (void)message;
  return true;
}

static int enter_scratch(void **state) {
  (void)state;
  static const tri_log_sink sink = {send_line, send_failure};
  char folder[] = "/tmp/trireme-test-XXXXXX", mark[64];
  if (mkdtemp(folder) == NULL || chdir(folder) != 0) return 1;
  FILE *file = fopen("program.py", "wbe");
  if (file == NULL || fputs(program, file) < 0 || fclose(file) != 0) return 1;
  tri_log_set_sink(&sink);
  tri_log_mark_lines(false);
  snprintf(mark, sizeof mark, "%d", (int)getpid());
  return setenv("TEST_REWARD_COMMAND", mark, 1); /* all processes of the programs have it, too */
}

static int leave_scratch(void **state) {
  (void)state;
  char folder[TRI_PATH_BYTES];
  if (getcwd(folder, sizeof folder) == NULL) return 1;
  return chdir("/") != 0 || tri_directory_remove(folder) != TRI_OK;
}

/* Fails if a process of a program, or a zombie, is left. */
static void check_none_left(void) {
  char mark[64];
  errno = 0;
  if (waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD) fail_msg("a child is left");
  snprintf(mark, sizeof mark, "TEST_REWARD_COMMAND=%d", (int)getpid());
  DIR *all = opendir("/proc");
  assert_non_null(all);
  for (struct dirent *entry; (entry = readdir(all)) != NULL;) {
    if (!isdigit((unsigned char)entry->d_name[0])) continue;
    if (tri_process_environment_has(strtol(entry->d_name, NULL, 10), mark))
      fail_msg("process %s is left", entry->d_name);
  }
  closedir(all);
}

enum { MOST = 40 };

static void name_items(tri_command_item items[MOST], const char *const *completions, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    items[i] = (tri_command_item){.prompt = "Why?",
                                  .prompt_bytes = 4,
                                  .completion = completions[i],
                                  .completion_bytes = strlen(completions[i]),
                                  .finish = "end",
                                  .tokens = i};
  }
}

static tri_command_settings settings_of(const char *command, int64_t workers, double timeout_s) {
  tri_command_settings s = {.workers = workers, .timeout_s = timeout_s};
  snprintf(s.command, sizeof s.command, "%s", command);
  return s;
}

static tri_reward_command *create(const char *command, int64_t workers, double timeout_s) {
  tri_reward_command *r = NULL;
  const tri_command_settings s = settings_of(command, workers, timeout_s);
  warnings = 0;
  CHECK_OK(tri_reward_command_create(&s, "reward.log", &r));
  return r;
}

static void score(tri_reward_command *r, tri_command_item *items, int64_t count) {
  CHECK_OK(tri_reward_command_score(r, items, count));
}

/* Scores completions with one worker and with three. A reward of -1 is a completion that fails, NaN is null. */
static void check_rewards(const char *command, double timeout_s, const char *const *completions, const double *rewards,
                          int64_t count) {
  tri_command_item items[MOST];
  for (int64_t workers = 1; workers <= 3; workers += 2) {
    const size_t held = tri_memory_bytes();
    tri_reward_command *r = create(command, workers, timeout_s);
    name_items(items, completions, count);
    score(r, items, count);
    for (int64_t i = 0; i < count; i++) {
      const double reward = items[i].reward, right = rewards[i];
      const bool same = right == -1 ? isnan(reward) : reward == right || (isnan(reward) && isnan(right));
      if (!same || items[i].failed != (right == -1))
        fail_msg("%s, %d workers: item %d has reward %g%s, not %g", command, (int)workers, (int)i, reward,
                 items[i].failed ? " (failed)" : "", right);
    }
    tri_reward_command_release(items, count);
    tri_reward_command_destroy(r);
    assert_int_equal(tri_memory_bytes(), held);
    check_none_left();
  }
}

#define PROGRAM "exec python3 -S program.py "

static const char *const plain[] = {"a", "bb", "ccc", "dddd", "eeeee", "", "ggggggg"};
static const double lengths[] = {1, 2, 3, 4, 5, 0, 7};
static const char *const mixed[] = {"a", "bad", "ccc", "bad, too", "eeeee", "", "bad"};
static const double good[] = {1, -1, 1, -1, 1, 1, -1}, ones[] = {1, 1, 1, 1, 1, 1, 1};

static void test_any_order(void **state) {
  (void)state;
  check_rewards(PROGRAM "plain", 0, plain, lengths, 7);
  check_rewards(SHELL(""), 0, plain, ones, 3);
  check_rewards(PROGRAM "blank", 0, plain, lengths, 7);
  assert_int_equal(warnings, 0);
}

static void test_reverse(void **state) {
  (void)state;
  tri_command_item items[MOST];
  tri_reward_command *r = create(PROGRAM "reverse 7", 1, 0);
  for (int call = 0; call < 2; call++) {
    name_items(items, plain, 7);
    score(r, items, 7);
    for (int i = 0; i < 7; i++) assert_true(items[i].reward == lengths[i] && !items[i].failed);
  }
  score(r, items, 0);
  tri_reward_command_destroy(r);
  assert_int_equal(warnings, 0);
}

/* The line that the program reads: our keys cannot be replaced, bytes that are not UTF-8 are, and numbers keep their
 * digits. */
static void test_what_is_sent(void **state) {
  (void)state;
  static const char line[] =
      "{\"prompt\": 1, \"id\": 2, \"answer\": [0.1, \"\\u00e9\\u0000\"], \"tokens\": null, \"finish\": "
      "3, \"completion\": 4}";
  char text[1000] = "";
  tri_command_item item = {.json = line,
                           .json_bytes = sizeof line - 1,
                           .prompt = "a\nb",
                           .prompt_bytes = 3,
                           .completion = "\xC3\xA9\xFFx\0y",
                           .completion_bytes = 6,
                           .finish = "length",
                           .tokens = 12};
  remove("reward.log");
  tri_reward_command *r = create(PROGRAM "echo", 1, 0);
  score(r, &item, 1);
  tri_reward_command_destroy(r);
  assert_true(item.reward == 12.25);
  FILE *file = fopen("reward.log", "re");
  assert_non_null(file);
  assert_non_null(fgets(text, sizeof text, file));
  fclose(file);
  assert_string_equal(text,
                      "{\"id\":1,\"prompt\":\"a\\nb\",\"completion\":\"\xC3\xA9\xEF\xBF\xBDx\\u0000y\",\"finish\":"
                      "\"length\",\"tokens\":12,\"answer\":[0.10000000000000001,\"\xC3\xA9\\u0000\"]}\n");
}

static void test_parts_and_null(void **state) {
  (void)state;
  tri_command_item items[MOST];
  const double none[] = {(double)NAN, (double)NAN, (double)NAN};
  check_rewards(SHELL("*) printf '{\"id\": %s, \"reward\": null}\\n' $id;;"), 0, plain, none, 3);
  tri_reward_command *r = create(PROGRAM "parts", 1, 0);
  name_items(items, plain, 3);
  score(r, items, 3);
  for (int i = 0; i < 3; i++) {
    assert_true(items[i].reward == i + 1.5);
    assert_int_equal(items[i].num_parts, 2);
    assert_string_equal(items[i].parts[0].name, "long");
    assert_string_equal(items[i].parts[1].name, "half \xC3\xA9");
    assert_true(items[i].parts[0].value == i + 1 && items[i].parts[1].value == 0.5);
  }
  tri_reward_command_release(items, 3);
  assert_null(items[0].parts);
  tri_reward_command_destroy(r);
}

/* One warning for each kind of answer that is ignored. */
static void test_ignored_answers(void **state) {
  (void)state;
  static const struct {
    const char *command, *warning;
  } cases[] = {{PROGRAM "twice", "id 1 is late, or a second one"},
               {PROGRAM "unknown", "id 1000000, which the process was not given"},
               {PROGRAM "again", "id 1 is late, or a second one"}}; /* in the second call, id 1 is of the first */
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    tri_command_item items[MOST];
    tri_reward_command *r = create(cases[c].command, 1, 0);
    for (int call = 0; call < 2; call++) {
      name_items(items, plain + 1, 5);
      score(r, items, 5);
      for (int i = call == 0 ? 1 : 0; i < 5; i++) assert_true(items[i].reward == lengths[i + 1]);
    }
    tri_reward_command_destroy(r);
    assert_int_equal(warnings, 1);
    if (strstr(last_warning, cases[c].warning) == NULL) fail_msg("%s", last_warning);
    check_none_left();
  }
}

/* A program that ends now and then: open completions are given again, and earlier answers count. */
static void test_ends(void **state) {
  (void)state;
  check_rewards(SHELL("*bad*) exit 3;;"), 0, mixed, good, 7);
  check_rewards("n=1; " SHELL("*) [ $n = 3 ] && exit 7; n=$((n + 1)); " ANSWER ";;"), 0, plain, ones, 7);
  check_rewards(SHELL("*) " ANSWER "; exit 0;;"), 0, plain, ones, 7);
}

/* Lines that are not answers cost only the completion that they stand for. */
static void test_wrong_lines(void **state) {
  (void)state;
  check_rewards(SHELL("*bad*) echo hello;;"), 0, mixed, good, 7);
  assert_int_equal(warnings, 1);
  assert_non_null(strstr(last_warning, "\"hello\" is not JSON"));
  check_rewards(SHELL("*bad*) printf '{\"id\": %s, \"reward\": NaN}\\n' $id;;"), 0, mixed, good, 7);
}

static void test_long_line(void **state) {
  (void)state;
  static const double lengths_of[] = {1, -1, 3};
  check_rewards(PROGRAM "line", 0, mixed, lengths_of, 3);
  assert_non_null(strstr(last_warning, "longer than 1048576 bytes"));
}

static void test_closed_output(void **state) {
  (void)state;
  check_rewards(SHELL("*bad*) exec >&-; exec sleep 1000;;"), 0, mixed, good, 3);
}

static void check_answer(const char *text, const char *reason) {
  tri_reward_answer answer;
  const size_t held = tri_memory_bytes(), bytes = strlen(text);
  char *line = malloc(bytes + 1); /* a block of its own, so that a read past its end is detected */
  assert_non_null(line);
  memcpy(line, text, bytes);
  if (reason == NULL) CHECK_OK(tri_reward_answer_read(line, bytes, &answer));
  if (reason != NULL) CHECK_FAILS(tri_reward_answer_read(line, bytes, &answer), TRI_BAD_FILE, reason);
  tri_free(answer.parts);
  free(line);
  assert_int_equal(tri_memory_bytes(), held);
}

static void test_answers(void **state) {
  (void)state;
  static const char *const not_numbers[] = {"\"1\"", "true", "[1]", "{\"a\": null}", "{\"b\": 1, \"a\": {\"c\": 1}}"};
  static const char *const not_json[] = {"{",
                                         "",
                                         "NaN",
                                         "{\"id\": 1, \"reward\": Infinity}",
                                         "{\"id\": 1, \"reward\": 1e999}",
                                         "{\"id\": 1, \"id\": 2, \"reward\": 1}",
                                         "{\"id\": 1, \"reward\": 1} x",
                                         "\xFF"};
  char text[400];
  for (size_t i = 0; i < sizeof not_numbers / sizeof *not_numbers; i++) {
    snprintf(text, sizeof text, "{\"id\": 1, \"reward\": %s}", not_numbers[i]);
    check_answer(text, "as a reward; write a number, null, or an object of numbers");
  }
  for (size_t i = 0; i < sizeof not_json / sizeof *not_json; i++) check_answer(not_json[i], "is not JSON");
  check_answer("{\"id\": 1, \"reward\": -1.5, \"more\": \"\\u0000\"}", NULL);
  check_answer(" {\"reward\": {\"\xC3\xA9\": 1e99}, \"id\": 9223372036854775807}\r", NULL);
  check_answer("[1]", "is not a JSON object");
  check_answer("7", "is not a JSON object");
  check_answer("{\"reward\": 1}", "has no whole number as its id");
  check_answer("{\"id\": 1.0, \"reward\": 1}", "has no whole number as its id");
  check_answer("{\"id\": 1}", "has no reward");
  check_answer("{\"id\": 1, \"reward\": {}}", "has no part");
  check_answer("{\"id\": 1, \"reward\": {\"\": 1}}", "empty or too long");
  check_answer("{\"id\": 1, \"reward\": {\"a\\n\": 1}}", "control character");
  check_answer("{\"id\": 1, \"reward\": {\"a\": 1, \"b\": 1.1e100}}", "above 1e100");
  check_answer("{\"id\": 1, \"reward\": -1e308}", "above 1e100");
  check_answer("{\"id\": 1, \"reward\": {\"a\": 1, \"mean\": 1}}", "named mean or std");
}

static void test_timeouts(void **state) {
  (void)state;
  static const double none[] = {-1, -1, -1, -1};
  check_rewards(SHELL("*bad*) sleep 1000;;"), 0.15, mixed, good, 3);
  assert_int_equal(warnings, 1);
  assert_non_null(strstr(last_warning, "has not answered for 0.15 s"));
  check_rewards("trap '' TERM; while :; do sleep 1000; done", 0.05, plain, none, 4);
}

/* The time of a completion begins when the one before it is answered. */
static void test_time_of_each(void **state) {
  (void)state;
  check_rewards(
      "while read -r line; do sleep 0.06; id=${line#*:}; printf '{\"id\": %s, \"reward\": 1}\\n' ${id%%,*}; done", 0.3,
      plain, ones, 7);
}

/* Processes that the program leaves, in its session and in their own, also when it is idle. */
static void test_left_processes(void **state) {
  (void)state;
  check_rewards(SHELL("*bad*) sleep 1000 & setsid sleep 1000 & exit 3;;"), 0, mixed, good, 3);
  check_rewards("sleep 1000 & setsid sleep 1000 & " SHELL(""), 0, plain, ones, 3);
  check_rewards("trap '' TERM; " SHELL("") "; sleep 1000", 0, plain, ones, 3);
}

static void check_failure(const char *command, int64_t workers, tri_status status, const char *message) {
  tri_command_item items[MOST];
  const size_t held = tri_memory_bytes();
  tri_reward_command *r = create(command, workers, 0);
  name_items(items, plain, 3);
  CHECK_FAILS(tri_reward_command_score(r, items, 3), status, message);
  for (int i = 0; i < 3; i++) assert_null(items[i].parts);
  tri_reward_command_destroy(r);
  assert_int_equal(tri_memory_bytes(), held);
  check_none_left();
}

static void test_command_that_does_not_work(void **state) {
  (void)state;
  for (int64_t workers = 1; workers <= 3; workers += 2) {
    check_failure("nowhere/program", workers, TRI_BAD_CONFIG,
                  "`nowhere/program` cannot be started (exit status 127): ");
    check_failure("nowhere/program", workers, TRI_BAD_CONFIG, "not found");
    check_failure("echo first >&2; echo the reason >&2; exit 5", workers, TRI_IO_FAILED,
                  "has ended three times in a row without an answer, with exit status 5; the last line of its standard "
                  "error is: the reason");
    check_failure("read line; kill -9 $$", workers, TRI_IO_FAILED,
                  "with signal 9; the last line of its standard error is: nothing");
  }
  check_failure("exec >&-; exec sleep 1000", 1, TRI_IO_FAILED, "its standard input or output closed");
}

static void check_refused(tri_command_settings s, const char *message) {
  tri_reward_command *r = NULL;
  const size_t held = tri_memory_bytes();
  CHECK_FAILS(tri_reward_command_create(&s, "reward.log", &r), TRI_BAD_CONFIG, message);
  assert_null(r);
  assert_int_equal(tri_memory_bytes(), held);
}

static void test_refused_settings(void **state) {
  (void)state;
  tri_reward_command *r = NULL;
  tri_command_settings s = settings_of("cat", 1, 1);
  check_refused(settings_of("", 1, 1), "reward command: command");
  check_refused(settings_of("cat", 65, 1), "reward command: workers is 65");
  check_refused(settings_of("cat", -1, 1), "reward command: workers is -1");
  check_refused(settings_of("cat", 1, -1), "reward command: timeout is -1");
  check_refused(settings_of("cat", 1, (double)INFINITY), "reward command: timeout is inf");
  s.batch = -2;
  check_refused(s, "reward command: batch is -2");
  s.batch = 1;
  CHECK_FAILS(tri_reward_command_create(&s, "nowhere/log", &r), TRI_IO_FAILED, "nowhere/log");
  assert_null(r);
}

static void test_bad_prompt_line(void **state) {
  (void)state;
  tri_command_item items[MOST];
  tri_reward_command *r = create(SHELL(""), 1, 0);
  name_items(items, plain, 2);
  items[1].json = "[1]";
  items[1].json_bytes = 3;
  CHECK_FAILS(tri_reward_command_score(r, items, 2), TRI_BAD_FILE, "not a JSON object");
  items[1].json = NULL;
  score(r, items, 2); /* the reward is still of use */
  assert_true(items[0].reward == 1 && items[1].reward == 1);
  tri_reward_command_destroy(r);
  check_none_left();
}

/* Completions that are dropped while one of them is open, and completions that are scored after that. */
static void test_drop(void **state) {
  (void)state;
  tri_command_item items[MOST];
  tri_reward_command *r = create(SHELL("*ccc*) exec sleep 1000;;"), 1, 0);
  name_items(items, plain, 7);
  for (int i = 0; i < 7; i++) CHECK_OK(tri_reward_command_add(r, &items[i]));
  while (!items[1].done) CHECK_OK(tri_reward_command_attend(r, true));
  tri_reward_command_drop(r);
  assert_false(items[2].done);
  name_items(items, plain, 2);
  score(r, items, 2);
  for (int i = 0; i < 2; i++) assert_true(items[i].reward == 1);
  tri_reward_command_destroy(r);
  check_none_left();
}

/* Completions that are added while others are open, without a wait for any answer. */
static void test_added_later(void **state) {
  (void)state;
  enum { ROUNDS = 200 };
  static tri_command_item items[ROUNDS];
  static const char *const word[] = {"word"};
  for (int64_t workers = 1; workers <= 3; workers += 2) {
    tri_reward_command *r = create("exec python3 program.py plain", workers, 0);
    int64_t done = 0;
    for (int i = 0; i < ROUNDS; i++) {
      name_items(&items[i], word, 1);
      CHECK_OK(tri_reward_command_add(r, &items[i]));
      CHECK_OK(tri_reward_command_attend(r, i % 7 == 0));
    }
    while (done < ROUNDS) {
      CHECK_OK(tri_reward_command_attend(r, true));
      done = 0;
      for (int i = 0; i < ROUNDS; i++) done += items[i].done;
    }
    for (int i = 0; i < ROUNDS; i++) assert_true(items[i].reward == 4 && !items[i].failed);
    CHECK_OK(tri_reward_command_attend(r, true)); /* returns at once: no completion is left */
    tri_reward_command_destroy(r);
    check_none_left();
  }
}

/* Lines and answers that are much longer than a pipe's buffer, in both directions at once. */
static void test_much_text(void **state) {
  (void)state;
  enum { BYTES = 300000 };
  static char text[BYTES];
  tri_command_item items[MOST];
  memset(text, 'x', sizeof text);
  tri_reward_command *r = create(
      "exec python3 -S -E -c \"import sys\nfor i, line in enumerate(sys.stdin):"
      " print('{\\\"id\\\": %d, \\\"text\\\": \\\"%s\\\", \\\"reward\\\": %d}' % (i + 1, "
      "line.count('x') * 'y', len(line)), flush=True)\"",
      1, 0);
  for (int i = 0; i < 8; i++)
    items[i] = (tri_command_item){
        .prompt = "", .completion = text, .completion_bytes = BYTES - (size_t)i, .finish = "end", .tokens = 1};
  score(r, items, 8);
  for (int i = 1; i < 8; i++) assert_true(items[0].reward - items[i].reward == i);
  tri_reward_command_destroy(r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_any_order),
      cmocka_unit_test(test_reverse),
      cmocka_unit_test(test_what_is_sent),
      cmocka_unit_test(test_parts_and_null),
      cmocka_unit_test(test_ignored_answers),
      cmocka_unit_test(test_ends),
      cmocka_unit_test(test_wrong_lines),
      cmocka_unit_test(test_long_line),
      cmocka_unit_test(test_closed_output),
      cmocka_unit_test(test_answers),
      cmocka_unit_test(test_timeouts),
      cmocka_unit_test(test_time_of_each),
      cmocka_unit_test(test_left_processes),
      cmocka_unit_test(test_command_that_does_not_work),
      cmocka_unit_test(test_refused_settings),
      cmocka_unit_test(test_bad_prompt_line),
      cmocka_unit_test(test_drop),
      cmocka_unit_test(test_added_later),
      cmocka_unit_test(test_much_text),
  };
  return cmocka_run_group_tests(tests, enter_scratch, leave_scratch);
}
