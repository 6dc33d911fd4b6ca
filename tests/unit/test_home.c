/* A leading `~/` of a path: in a text, and as the value of a key of any kind that takes paths. */
#include "files/home.h"

#include "base/memory.h"
#include "check.h"
#include "config/config.h"

#include <stdlib.h>

static void expect_path(const char *path, const char *expected) {
  char out[TRI_PATH_BYTES], fault[TRI_HOME_FAULT_BYTES];
  assert_null(tri_home_path(path, out, fault));
  assert_string_equal(out, expected);
}

static void expect_fault(const char *path, const char *expected) {
  char out[TRI_PATH_BYTES], fault[TRI_HOME_FAULT_BYTES];
  const char *said = tri_home_path(path, out, fault);
  assert_non_null(said);
  if (strstr(said, expected) == NULL) fail_msg("`%s` is not in `%s`", expected, said);
}

static void paths(void **state) {
  (void)state;
  setenv("HOME", "/home/ann", 1);
  expect_path("~/corpus/train", "/home/ann/corpus/train");
  expect_path("~/", "/home/ann/");
  expect_path("gpt2:~/gpt2", "gpt2:/home/ann/gpt2");
  static const char *const as_they_are[] = {"",     "corpus", "/a/~/b",    "a~/b",  "./~/b",  "./~bob/b",
                                            "~bob", "~",      "gpt2-124m", "bytes", "gpt2:a", "x:~/b"};
  for (size_t i = 0; i < sizeof as_they_are / sizeof as_they_are[0]; i++) expect_path(as_they_are[i], as_they_are[i]);
  setenv("HOME", "/", 1);
  expect_path("~/x", "/x");
}

static void refusals(void **state) {
  (void)state;
  char text[TRI_PATH_BYTES + 8];
  setenv("HOME", "/home/ann", 1);
  expect_fault("~bob/x", "`~bob/x` names the home folder of another user, `bob`, which is not supported");
  expect_fault("gpt2:~bob/x", "another user, `bob`");
  memset(text, 'x', sizeof text - 1);
  text[sizeof text - 1] = '\0';
  expect_fault(text, "is too long a path");
  memcpy(text, "~/", 2);
  text[TRI_PATH_BYTES - 4] = '\0';
  expect_fault(text, "is too long a path");
  setenv("HOME", "", 1);
  expect_fault("~/x", "`~/x` is in the home folder, but HOME is empty; write the whole path");
  unsetenv("HOME");
  expect_fault("~/x", "`~/x` is in the home folder, but HOME is not set; write the whole path");
  expect_path("x", "x");
}

/* ---- as values of keys ------------------------------------------------------------------------------------------- */

typedef struct place {
  char path[24];
} place;

typedef struct journey {
  char from[24], name[24];
  place stops[3];
  int64_t num_stops;
  place end;
} journey;

static const tri_config_key place_keys[] = {{.name = "path",
                                             .type = TRI_CONFIG_PATH,
                                             .offset = offsetof(place, path),
                                             .bytes = sizeof(((place *)0)->path),
                                             .example = "here",
                                             .help = "where"}};
static const tri_config_table place_table = {.noun = "place", .keys = place_keys, .num_keys = 1};

/* Expands a name to a file that contains the name. */
static tri_status expand_place(tri_yaml_tree *tree, const tri_yaml *name, tri_yaml **out) {
  char text[64];
  snprintf(text, sizeof text, "path: %s\n", name->text);
  return tri_yaml_parse(tree, "place.yaml", false, text, strlen(text), out);
}

static const tri_config_key journey_keys[] = {
    {.name = "from",
     .type = TRI_CONFIG_PATH,
     .offset = offsetof(journey, from),
     .bytes = sizeof(((journey *)0)->from),
     .fallback = "",
     .help = "where it begins"},
    {.name = "name",
     .type = TRI_CONFIG_STRING,
     .offset = offsetof(journey, name),
     .bytes = sizeof(((journey *)0)->name),
     .fallback = "",
     .help = "a text"},
    {.name = "stops",
     .type = TRI_CONFIG_LIST,
     .offset = offsetof(journey, stops),
     .bytes = sizeof(place),
     .count = offsetof(journey, num_stops),
     .range = {.low = 0, .high = 3},
     .table = &place_table,
     .plain = "path",
     .derived = "none",
     .help = "in between"},
    {.name = "end",
     .type = TRI_CONFIG_SECTION,
     .offset = offsetof(journey, end),
     .table = &place_table,
     .expand = expand_place,
     .example = "here",
     .help = "where it ends"},
};
static const tri_config_table journey_table = {.noun = "journey", .keys = journey_keys, .num_keys = 4};

static tri_status read_journey(const char *text, const char *set, journey *out) {
  tri_yaml_tree *tree = NULL;
  tri_yaml *root = NULL;
  memset(out, 0, sizeof *out);
  CHECK_OK(tri_yaml_create(&tree));
  CHECK_OK(tri_yaml_parse(tree, "journey.yaml", false, text, strlen(text), &root));
  tri_status status = set == NULL ? TRI_OK : tri_config_set(&journey_table, tree, root, set);
  if (status == TRI_OK) status = tri_config_read(&journey_table, tree, root, out);
  tri_yaml_destroy(tree);
  return status;
}

static void values(void **state) {
  (void)state;
  journey j;
  char *printed = NULL;
  setenv("HOME", "/home/ann", 1);
  CHECK_OK(read_journey("from: ~/a\nname: ~/a\nstops: [~/b, {path: ~/c}, d]\nend: ~/e\n", NULL, &j));
  assert_string_equal(j.from, "/home/ann/a");
  assert_string_equal(j.name, "~/a");
  assert_string_equal(j.stops[0].path, "/home/ann/b");
  assert_string_equal(j.stops[1].path, "/home/ann/c");
  assert_string_equal(j.stops[2].path, "d");
  assert_string_equal(j.end.path, "/home/ann/e");
  CHECK_OK(tri_config_print(&journey_table, &j, "", &printed));
  assert_non_null(strstr(printed, "from: /home/ann/a"));
  tri_free(printed);
  CHECK_OK(read_journey("stops: ~/b\nend: {path: ~/e}\n", "from=~/s", &j));
  assert_string_equal(j.from, "/home/ann/s");
  assert_string_equal(j.stops[0].path, "/home/ann/b");
  assert_string_equal(j.end.path, "/home/ann/e");
  CHECK_FAILS(read_journey("end: here\nfrom: ~bob/x\n", NULL, &j), TRI_BAD_CONFIG,
              "`from` at line 2 of journey.yaml: `~bob/x` names the home folder of another user, `bob`");
  CHECK_FAILS(read_journey("end: here\nfrom: ~/longer-than-there-is-room\n", NULL, &j), TRI_BAD_CONFIG,
              "may have at most 23 bytes");
  unsetenv("HOME");
  CHECK_FAILS(read_journey("end: ~/e\n", NULL, &j), TRI_BAD_CONFIG,
              "`end` at line 1 of journey.yaml: `~/e` is in the home folder, but HOME is not set");
  CHECK_FAILS(read_journey("end: here\n", "from=~/s", &j), TRI_BAD_CONFIG, "`~/s` is in the home folder");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(paths), cmocka_unit_test(refusals), cmocka_unit_test(values)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
