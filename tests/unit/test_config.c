/* The table-driven reader, with a table for the test: every type, a section in a section, and a name that expands. */
#include "base/memory.h"
#include "base/random.h"
#include "config/config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config_expect.h"

typedef struct sail {
  int64_t area;
  double weight;
} sail;

typedef struct ship {
  int64_t oars, crew;
  uint64_t number;
  double length, bounds[2], banks[3];
  bool ram;
  char name[16], home[16];
  int wood;
  sail main;
  int64_t anchors;
} ship;

static const tri_config_word woods[] = {{"oak", 3}, {"cedar", 5}, {"pine", 0}, {NULL, 0}};

static const tri_config_key sail_keys[] = {
    {.name = "area",
     .type = TRI_CONFIG_INT,
     .offset = offsetof(sail, area),
     .range = {.low = 1, .high = 100},
     .example = "40",
     .help = "in square metres"},
    {.name = "weight",
     .type = TRI_CONFIG_DOUBLE,
     .offset = offsetof(sail, weight),
     .range = {.low = 0, .high = 1, .open_low = true, .open_high = true},
     .fallback = "0.5",
     .help = "a share"},
};
static const tri_config_table sail_table = {.noun = "sail file", .keys = sail_keys, .num_keys = 2};

/* Expands `main: small`, which stands for a file. */
static tri_status expand_sail(tri_yaml_tree *tree, const tri_yaml *name, tri_yaml **out) {
  if (strcmp(name->text, "small") != 0) return tri_yaml_fail(name, "the sail", " `%s` is unknown", name->text);
  const char *text = "weight: 0.25\narea: 7\n";
  return tri_yaml_parse(tree, "small.yaml", false, text, strlen(text), out);
}

static const tri_config_key ship_keys[] = {
    {.name = "oars",
     .type = TRI_CONFIG_INT,
     .offset = offsetof(ship, oars),
     .range = {.low = 1, .high = TRI_CONFIG_MOST},
     .fallback = "170",
     .help = "in three banks"},
    {.name = "crew",
     .type = TRI_CONFIG_AUTO,
     .offset = offsetof(ship, crew),
     .range = {.low = 2, .high = 300},
     .fallback = "auto",
     .help = "men"},
    {.name = "number",
     .type = TRI_CONFIG_SEED,
     .offset = offsetof(ship, number),
     .fallback = "0",
     .help = "on the hull"},
    {.name = "length",
     .type = TRI_CONFIG_DOUBLE,
     .offset = offsetof(ship, length),
     .range = {.low = 0, .high = 2 * TRI_CONFIG_MOST},
     .example = "37.0",
     .help = "in metres"},
    {.name = "bounds",
     .type = TRI_CONFIG_PAIR,
     .offset = offsetof(ship, bounds),
     .range = {.low = -1e300, .high = 1e300},
     .fallback = "[0.5, 2.0]",
     .help = "of its speed"},
    {.name = "banks",
     .type = TRI_CONFIG_NUMBERS,
     .offset = offsetof(ship, banks),
     .bytes = sizeof((ship){0}.banks),
     .range = {.low = 0, .high = 2, .open_low = true},
     .fallback = "[]",
     .help = "heights above the water"},
    {.name = "ram", .type = TRI_CONFIG_BOOL, .offset = offsetof(ship, ram), .fallback = "true", .help = "of bronze"},
    {.name = "name",
     .type = TRI_CONFIG_STRING,
     .offset = offsetof(ship, name),
     .bytes = 16,
     .example = "Argo",
     .help = "on the bow"},
    {.name = "home",
     .type = TRI_CONFIG_STRING,
     .offset = offsetof(ship, home),
     .bytes = 16,
     .fallback = "",
     .help = "a port"},
    {.name = "wood",
     .type = TRI_CONFIG_CHOICE,
     .offset = offsetof(ship, wood),
     .words = woods,
     .fallback = "cedar",
     .help = "of the planks"},
    {.name = "main",
     .type = TRI_CONFIG_SECTION,
     .offset = offsetof(ship, main),
     .table = &sail_table,
     .expand = expand_sail,
     .example = "small",
     .help = "the main sail"},
    {.name = "anchors",
     .type = TRI_CONFIG_INT,
     .offset = offsetof(ship, anchors),
     .range = {.low = 1, .high = 9},
     .derived = "one for 20 oars",
     .help = "of stone"},
};
static const tri_config_table ship_table = {.noun = "ship file", .keys = ship_keys, .num_keys = 12};

static tri_status read(const char *text, const char *const *options, int num_options, ship *out) {
  tri_yaml_tree *tree = NULL;
  tri_yaml *root = NULL;
  TRI_TRY(tri_yaml_create(&tree));
  tri_status status = tri_yaml_parse(tree, "ship.yaml", false, text, strlen(text), &root);
  for (int i = 0; i < num_options && status == TRI_OK; i++) {
    status = tri_config_set(&ship_table, tree, root, options[i]);
  }
  memset(out, 0, sizeof *out);
  if (status == TRI_OK) status = tri_config_read(&ship_table, tree, root, out);
  tri_yaml_destroy(tree);
  return status;
}

#define LEAST "name: Argo\nlength: 30\nmain: small\n"

static void fills_in_defaults(void **state) {
  (void)state;
  ship s;
  EXPECT_OK(read(LEAST, NULL, 0, &s));
  assert_int_equal(s.oars, 170);
  assert_int_equal(s.crew, 0);
  assert_true(s.number == 0 && s.length == 30 && s.bounds[0] == 0.5 && s.bounds[1] == 2);
  assert_true(s.banks[0] == 0 && s.banks[1] == 0 && s.banks[2] == 0);
  assert_true(s.ram);
  assert_string_equal(s.name, "Argo");
  assert_string_equal(s.home, "");
  assert_int_equal(s.wood, 5);
  assert_int_equal(s.main.area, 7);
  assert_true(s.main.weight == 0.25);
  assert_int_equal(s.anchors, 0); /* the owner sets this default */
}

static void reads_every_type(void **state) {
  (void)state;
  ship s;
  EXPECT_OK(read(
      "oars: 9007199254740992\ncrew: 300\nnumber: 18446744073709551615\nlength: 1.5e-3\n"
      "bounds:\n  - -1e-300\n  - +3.25\nbanks: [1, 0.5]\nram: False\nname: '15 letters long'\nhome: ~\nwood: 'pine'\n"
      "main: {area: 100}\nanchors: 9\n",
      NULL, 0, &s));
  assert_true(s.oars == INT64_C(9007199254740992));
  assert_int_equal(s.crew, 300);
  assert_true(s.number == UINT64_MAX && s.length == 1.5e-3 && s.bounds[0] == -1e-300 && s.bounds[1] == 3.25);
  assert_true(s.banks[0] == 1 && s.banks[1] == 0.5 && s.banks[2] == 0);
  assert_false(s.ram);
  assert_string_equal(s.name, "15 letters long");
  assert_string_equal(s.home, "");
  assert_int_equal(s.wood, 0);
  assert_true(s.main.area == 100 && s.main.weight == 0.5);
  assert_int_equal(s.anchors, 9);
}

static void refuses_wrong_values(void **state) {
  (void)state;
  static const struct {
    const char *text, *message;
  } cases[] = {
      {"oars: many", "`oars` at line 4 of ship.yaml must be a whole number, not `many`"},
      {"oars: 1.5", "`oars` at line 4 of ship.yaml must be a whole number, not `1.5`"},
      {"oars: 0x10", "`oars` at line 4 of ship.yaml must be a whole number, not `0x10`"},
      {"oars: '3'", "`oars` at line 4 of ship.yaml must be a whole number, not `\"3\"`"},
      {"oars: [1]", "`oars` at line 4 of ship.yaml must be a whole number, not a list"},
      {"oars: {a: b}", "`oars` at line 4 of ship.yaml must be a whole number, not a mapping"},
      {"oars:", "`oars` at line 4 of ship.yaml has no value; it must be a whole number"},
      {"oars: 0", "`oars` at line 4 of ship.yaml must be at least 1, not 0"},
      {"oars: 99999999999999999999",
       "`oars` at line 4 of ship.yaml must be between 1 and 9007199254740992, not 99999999999999999999"},
      {"crew: none", "`crew` at line 4 of ship.yaml must be a whole number or `auto`, not `none`"},
      {"crew: 0", "`crew` at line 4 of ship.yaml must be between 2 and 300 or `auto`, not 0"},
      {"crew: 301", "`crew` at line 4 of ship.yaml must be between 2 and 300 or `auto`, not 301"},
      {"number: -1", "`number` at line 4 of ship.yaml must be a whole number from 0 to 18446744073709551615, not `-1`"},
      {"number: 18446744073709551616",
       "`number` at line 4 of ship.yaml must be a whole number from 0 to 18446744073709551615, not "
       "`18446744073709551616`"},
      {"bounds: 3", "`bounds` at line 4 of ship.yaml must be two numbers in brackets, `[a, b]`, not `3`"},
      {"bounds: [3]", "`bounds` at line 4 of ship.yaml must be two numbers in brackets, `[a, b]`"},
      {"bounds: [1, 2, 3]", "`bounds` at line 4 of ship.yaml must be two numbers in brackets, `[a, b]`"},
      {"bounds: [1, x]", "`bounds` at line 4 of ship.yaml must be two numbers in brackets, `[a, b]`"},
      {"bounds: [1, [2]]", "`bounds` at line 4 of ship.yaml must be two numbers in brackets, `[a, b]`"},
      {"bounds: [1, 1e301]", "`bounds` at line 4 of ship.yaml must be between -1e+300 and 1e+300, not 1e301"},
      {"banks: 3", "`banks` at line 4 of ship.yaml must be numbers in brackets, `[a, b, ...]`, not `3`"},
      {"banks: [1, x]", "`banks` at line 4 of ship.yaml must be numbers in brackets, `[a, b, ...]`"},
      {"banks: [1, 0]", "`banks` at line 4 of ship.yaml must be above 0 and at most 2, not 0"},
      {"banks: [1, 2.5, 1]", "`banks` at line 4 of ship.yaml must be above 0 and at most 2, not 2.5"},
      {"banks: [1, 1, 1, 1]", "`banks` at line 4 of ship.yaml may have at most 3 numbers, not 4"},
      {"ram: yes", "`ram` at line 4 of ship.yaml must be `true` or `false`, not `yes`"},
      {"home: \"a\\nb\"", "`home` at line 4 of ship.yaml must be one line of printable UTF-8 text, not `a?b`"},
      {"home: sixteen letters!", "`home` at line 4 of ship.yaml may have at most 15 bytes"},
      {"home: [a]", "`home` at line 4 of ship.yaml must be a text, not a list"},
      {"wood: ceder",
       "`wood` at line 4 of ship.yaml must be one of oak, cedar, pine, not `ceder`; did you mean `cedar`?"},
      {"wood: steel", "`wood` at line 4 of ship.yaml must be one of oak, cedar, pine, not `steel`"},
  };
  ship s;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char text[256];
    snprintf(text, sizeof text, LEAST "%s\n", cases[i].text);
    EXPECT_FAILS(TRI_BAD_CONFIG, cases[i].message, read(text, NULL, 0, &s));
  }
  static const char *const not_numbers[] = {"inf", "nan", ".inf", "0x1p3", "1e", "1.2.3", "--1", "1 2", "1e5x", "e"};
  for (size_t i = 0; i < sizeof not_numbers / sizeof not_numbers[0]; i++) {
    char text[256];
    char message[256];
    snprintf(text, sizeof text, "length: %s\nname: a\nmain: small\n", not_numbers[i]);
    snprintf(message, sizeof message, "`length` at line 1 of ship.yaml must be a number, not `%s`", not_numbers[i]);
    EXPECT_FAILS(TRI_BAD_CONFIG, message, read(text, NULL, 0, &s));
  }
  EXPECT_FAILS(TRI_BAD_CONFIG, "`length` at line 1 of ship.yaml must be between 0 and 1.80144e+16, not 1e999",
               read("length: 1e999\nname: a\nmain: small\n", NULL, 0, &s));
  EXPECT_FAILS(TRI_BAD_CONFIG, "`name` at line 2 of ship.yaml must not be empty",
               read("length: 1\nname: ''\nmain: small\n", NULL, 0, &s));
}

static void refuses_wrong_sections(void **state) {
  (void)state;
  ship s;
  EXPECT_FAILS(TRI_BAD_CONFIG, "`main` at line 3 of ship.yaml must be a name or a mapping of keys, not a list",
               read("name: a\nlength: 1\nmain: [1]\n", NULL, 0, &s));
  EXPECT_FAILS(TRI_BAD_CONFIG, "`main` at line 3 of ship.yaml has no value; it must be a name or a mapping of keys",
               read("name: a\nlength: 1\nmain:\n", NULL, 0, &s));
  EXPECT_FAILS(TRI_BAD_CONFIG, "the sail at line 3 of ship.yaml `huge` is unknown",
               read("name: a\nlength: 1\nmain: huge\n", NULL, 0, &s));
  EXPECT_FAILS(TRI_BAD_CONFIG, "`area` under `main:` at line 5 of ship.yaml must be between 1 and 100, not 0",
               read("name: a\nlength: 1\nmain:\n  weight: 0.1\n  area: 0\n", NULL, 0, &s));
  EXPECT_FAILS(TRI_BAD_CONFIG, "`weight` under `main:` at line 4 of ship.yaml must be above 0 and below 1, not 1",
               read("name: a\nlength: 1\nmain:\n  weight: 1\n  area: 1\n", NULL, 0, &s));
  EXPECT_FAILS(TRI_BAD_CONFIG, "a ship file at line 1 of ship.yaml must be a mapping of keys, not a list",
               read("[a]\n", NULL, 0, &s));
  EXPECT_FAILS(TRI_BAD_CONFIG, "a ship file at line 1 of ship.yaml must be a mapping of keys, not a single value",
               read("a\n", NULL, 0, &s));
}

static void names_missing_keys(void **state) {
  (void)state;
  ship s;
  EXPECT_FAILS(TRI_BAD_CONFIG, "`length` is missing from ship.yaml; add `length:`, for example `length: 37.0`",
               read("name: a\nmain: small\n", NULL, 0, &s));
  EXPECT_FAILS(TRI_BAD_CONFIG, "`main` is missing from ship.yaml; add `main:`, for example `main: small`",
               read("name: a\nlength: 1\n", NULL, 0, &s));
  EXPECT_FAILS(TRI_BAD_CONFIG,
               "`main.area` is missing from ship.yaml; add `area:` under `main:`, for example `area: 40`",
               read("name: a\nlength: 1\nmain: {}\n", NULL, 0, &s));
}

static void suggests_keys(void **state) {
  (void)state;
  ship s;
  EXPECT_FAILS(TRI_BAD_CONFIG, "`lenght` is not a key of a ship file at line 4 of ship.yaml; did you mean `length`?",
               read(LEAST "lenght: 3\n", NULL, 0, &s));
  EXPECT_FAILS(TRI_BAD_CONFIG,
               "`area` is not a key of a ship file at line 4 of ship.yaml; did you mean `area` under `main:`?",
               read(LEAST "area: 3\n", NULL, 0, &s));
  EXPECT_FAILS(TRI_BAD_CONFIG, "`are` is not a key of `main:` at line 2 of ship.yaml; did you mean `area`?",
               read("main:\n  are: 3\n", NULL, 0, &s));
  EXPECT_FAILS(TRI_BAD_CONFIG, "`colour` is not a key of `main:` at line 2 of ship.yaml; the keys are area, weight",
               read("main:\n  colour: 3\n", NULL, 0, &s));
  EXPECT_FAILS_LIKE(TRI_BAD_CONFIG, "`?[31m` is not a key of a ship file", read("\"\\e[31m\": 3\n", NULL, 0, &s));
}

static void lays_options_over_the_file(void **state) {
  (void)state;
  ship s = {0};
  const char *const plain[] = {"oars=3",      "crew=auto", "name=a: *b #", "bounds=[1, 2e3]", "banks=[2, 1, 0.25]",
                               "wood = oak ", "home="};
  EXPECT_OK(read(LEAST "crew: 5\nhome: Chios\n", plain, 7, &s));
  assert_int_equal(s.oars, 3);
  assert_int_equal(s.crew, 0);
  assert_string_equal(s.name, "a: *b #"); /* the text of an option is not parsed as YAML */
  assert_string_equal(s.home, "");
  assert_true(s.bounds[0] == 1 && s.bounds[1] == 2000);
  assert_true(s.banks[0] == 2 && s.banks[1] == 1 && s.banks[2] == 0.25);
  assert_int_equal(s.wood, 3);
  const char *const over_name[] = {"main.weight=0.75"};
  EXPECT_OK(read(LEAST, over_name, 1, &s));
  assert_true(s.main.area == 7 && s.main.weight == 0.75);
  const char *const over_keys[] = {"main.weight=0.75", "main.area=9", "main.area=8"};
  EXPECT_OK(read("name: a\nlength: 1\nmain: {area: 3, weight: 0.1}\n", over_keys, 3, &s));
  assert_true(s.main.area == 8 && s.main.weight == 0.75);
  const char *const in_order[] = {"main.weight=0.75", "main=small", "main.area=3"};
  EXPECT_OK(read("name: a\nlength: 1\nmain: unknown until replaced\n", in_order + 1, 2, &s));
  assert_true(s.main.area == 3 && s.main.weight == 0.25);
  EXPECT_OK(read("name: a\nlength: 1\n", in_order, 3, &s)); /* the name replaces the mapping before it */
  assert_true(s.main.area == 3 && s.main.weight == 0.25);
  const char *const mapping[] = {"main={area: 11}"};
  EXPECT_OK(read(LEAST, mapping, 1, &s));
  assert_true(s.main.area == 11 && s.main.weight == 0.5);
  const char *const made[] = {"main.area=12"};
  EXPECT_OK(read("name: a\nlength: 1\nmain:\n", made, 1, &s));
  assert_int_equal(s.main.area, 12);
}

static void names_the_option_at_fault(void **state) {
  (void)state;
  static const struct {
    const char *option, *message;
  } cases[] = {
      {"oars=x", "--set oars=x: `oars` must be a whole number, not `x`"},
      {"main.area=x", "--set main.area=x: `area` under `main:` must be a whole number, not `x`"},
      {"aera=1", "--set aera=1: `aera` is not a key; did you mean `main.area`?"},
      {"main.are=1", "--set main.are=1: `are` is not a key of `main:`; did you mean `main.area`?"},
      {"main.oars=1", "--set main.oars=1: `oars` is not a key of `main:`; did you mean `oars`?"},
      {"oars.x=1", "--set oars.x=1: `oars` has no keys below it"},
      {"=1",
       "--set =1: `` is not a key; the keys are oars, crew, number, length, bounds, banks, ram, name, home, wood, "
       "main, "
       "anchors"},
      {"main.=1", "--set main.=1: `` is not a key of `main:`; the keys are area, weight"},
      {"bounds=[1",
       "--set bounds=[1: not valid YAML: did not find expected ',' or ']' (while parsing a flow sequence)"},
      {"main=[1]", "--set main=[1]: `main` must be a name or a mapping of keys, not a list"},
      {"main=huge", "--set main=huge: the sail `huge` is unknown"},
      {"main={are: 1}", "--set main={are: 1}: `are` is not a key of `main:`; did you mean `area`?"},
      {"main={weight: 0.1}",
       "`main.area` is missing from --set main={weight: 0.1}; add `area:` under `main:`, for example `area: 40`"},
  };
  ship s;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    EXPECT_FAILS(TRI_BAD_CONFIG, cases[i].message,
                 read("name: a\nlength: 1\nmain: {area: 3}\n", &cases[i].option, 1, &s));
  }
  const char *const no_equals[] = {"oars"};
  EXPECT_FAILS(TRI_BAD_USAGE, "--set oars: `=` is missing; write --set key=value, for example --set optimizer.lr=1e-4",
               read(LEAST, no_equals, 1, &s));
  /* An option for a key below an expanded name; the file of that name has no `main:`. */
  const char *const below[] = {"main.area=x"};
  EXPECT_FAILS(TRI_BAD_CONFIG, "--set main.area=x: `area` must be a whole number, not `x`", read(LEAST, below, 1, &s));
  char huge[10000];
  memset(huge, 'x', sizeof huge);
  huge[sizeof huge - 1] = '\0';
  const char *const huge_option[] = {huge};
  EXPECT_FAILS_LIKE(TRI_BAD_USAGE, "is too long for a key and its value", read(LEAST, huge_option, 1, &s));
}

static void blames_the_place_of_a_key(void **state) {
  (void)state;
  tri_yaml_tree *tree = NULL;
  tri_yaml *root = NULL;
  EXPECT_OK(tri_yaml_create(&tree));
  EXPECT_OK(tri_yaml_parse(tree, "f.yaml", false, "a: 1\nb:\n  c: 1\n", 15, &root));
  assert_int_equal(tri_config_blame(root, TRI_OK), TRI_OK);
  EXPECT_FAILS(TRI_BAD_LAYOUT, "`b.c` is odd (line 3 of f.yaml)",
               tri_config_blame(root, tri_fail(TRI_BAD_LAYOUT, "`b.c` is odd")));
  EXPECT_FAILS(TRI_BAD_CONFIG, "`b.d` is odd (line 2 of f.yaml)",
               tri_config_blame(root, tri_fail(TRI_BAD_CONFIG, "`b.d` is odd")));
  EXPECT_FAILS(TRI_BAD_CONFIG, "`z` is odd (f.yaml)", tri_config_blame(root, tri_fail(TRI_BAD_CONFIG, "`z` is odd")));
  EXPECT_FAILS(TRI_BAD_CONFIG, "odd (f.yaml)", tri_config_blame(root, tri_fail(TRI_BAD_CONFIG, "odd")));
  tri_yaml_destroy(tree);
}

static void checks_structs(void **state) {
  (void)state;
  ship s;
  EXPECT_OK(read(LEAST "anchors: 2\n", NULL, 0, &s));
  EXPECT_OK(tri_config_check(&ship_table, &s));
  ship bad = s;
  bad.main.area = 101;
  EXPECT_FAILS(TRI_BAD_CONFIG, "`main.area` must be between 1 and 100, not 101", tri_config_check(&ship_table, &bad));
  bad = s;
  bad.length = NAN;
  EXPECT_FAILS(TRI_BAD_CONFIG, "`length` must be at least 0, not nan", tri_config_check(&ship_table, &bad));
  bad = s;
  bad.wood = 4;
  EXPECT_FAILS(TRI_BAD_CONFIG, "`wood` holds 4, which stands for no word", tri_config_check(&ship_table, &bad));
  bad = s;
  memset(bad.name, 'x', sizeof bad.name); /* no NUL */
  EXPECT_FAILS(TRI_BAD_CONFIG, "`name` may have at most 15 bytes", tri_config_check(&ship_table, &bad));
  char *text = NULL;
  assert_int_equal(tri_config_print(&ship_table, &bad, "", &text), TRI_BAD_CONFIG);
  assert_null(text);
}

/* Returns a random double, from random bits; not NaN or infinity. */
static double any_double(tri_random_key key, uint64_t *index) {
  for (;;) {
    uint64_t bits = (uint64_t)tri_random_u32(key, *index) << 32 | tri_random_u32(key, *index + 1);
    *index += 2;
    double value = 0;
    memcpy(&value, &bits, sizeof value);
    if (isfinite(value)) return value;
  }
}

static void formats_doubles_that_read_back(void **state) {
  (void)state;
  static const struct {
    double value;
    const char *text;
  } cases[] = {{0, "0.0"},           {-0.0, "-0.0"}, {1, "1.0"},        {10000, "10000.0"},    {6e-4, "0.0006"},
               {6e-5, "6.0e-05"},    {0.1, "0.1"},   {1e22, "1.0e+22"}, {1.5e300, "1.5e+300"}, {0.95, "0.95"},
               {5e-324, "5.0e-324"}, {-2.5, "-2.5"}};
  char text[32];
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    assert_string_equal(tri_config_format_double(cases[i].value, text), cases[i].text);
  }
  tri_random_key key = tri_random_stream(7, TRI_RANDOM_TEST, 0);
  uint64_t index = 0;
  for (int i = 0; i < 20000; i++) {
    double value = any_double(key, &index);
    double back = strtod(tri_config_format_double(value, text), NULL);
    assert_memory_equal(&back, &value, sizeof value);
    assert_non_null(strchr(text, '.'));
  }
}

/* Makes a text of characters that YAML could interpret. */
static void any_text(tri_random_key key, uint64_t *index, char *out, size_t most) {
  static const char *const pieces[] = {
      "a", "Z", "0", ".", "-", "/", " ", ":", "#", "'", "\"", "\\", "{",        "]",
      "&", "*", "!", "%", "@", "`", "~", ",", "?", "|", ">",  "=",  "\xC3\xA9", "\xF0\x9F\x9A\xA2"};
  size_t length = tri_random_u32(key, (*index)++) % most;
  for (out[0] = '\0';;) {
    const char *piece = pieces[tri_random_u32(key, (*index)++) % (sizeof pieces / sizeof pieces[0])];
    if (strlen(out) + strlen(piece) > length) return;
    strcat(out, piece);
  }
}

static void prints_what_reads_back(void **state) {
  (void)state;
  tri_random_key key = tri_random_stream(8, TRI_RANDOM_TEST, 1);
  uint64_t index = 0;
  static const char *const words[] = {"null", "~", "true", "123", "1e5", "- a", ".", "...", "---", " x ", "=", "no"};
  for (int i = 0; i < 3000; i++) {
    ship made;
    ship back;
    memset(&made, 0, sizeof made);
    made.oars = 1 + (int64_t)((uint64_t)tri_random_u32(key, index) << 21);
    made.crew = tri_random_u32(key, index + 1) % 5;
    if (made.crew == 1) made.crew = 0;
    made.number = (uint64_t)tri_random_u32(key, index + 2) << 32 | tri_random_u32(key, index + 3);
    made.ram = tri_random_u32(key, index + 4) % 2 == 0;
    made.wood = woods[tri_random_u32(key, index + 5) % 3].value;
    made.main.area = 1 + tri_random_u32(key, index + 6) % 100;
    made.main.weight = 0.5 * tri_random_uniform(key, index + 7) + 0.25;
    made.anchors = 1 + tri_random_u32(key, index + 8) % 9;
    index += 9;
    do {
      made.length = fabs(any_double(key, &index));
    } while (made.length > TRI_CONFIG_MOST);
    for (int j = 0; j < 2; j++) {
      do {
        made.bounds[j] = any_double(key, &index);
      } while (fabs(made.bounds[j]) > 1e300);
    }
    for (int j = 0; j < i % 4; j++) made.banks[j] = 1.5 * tri_random_uniform(key, index++) + 0.25;
    any_text(key, &index, made.home, sizeof made.home);
    snprintf(made.name, sizeof made.name, "%s", words[(size_t)i % (sizeof words / sizeof words[0])]);
    char *text = NULL;
    EXPECT_OK(tri_config_print(&ship_table, &made, "# A ship.\n", &text));
    EXPECT_OK(read(text, NULL, 0, &back));
    assert_memory_equal(&back, &made, sizeof made);
    tri_free(text);
  }
}

static void prints_help_for_people(void **state) {
  (void)state;
  char *text = NULL;
  size_t bytes = 0;
  FILE *to = open_memstream(&text, &bytes);
  tri_config_help(&ship_table, to);
  fclose(to);
  int lines = 0;
  for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++) lines++;
  assert_int_equal(lines, 1 + 12 + 2);
  const char *const parts[] = {"main.area ",     "oak|cedar|pine",  "(required)",      "integer|auto",
                               "name|path|keys", "one for 20 oars", "in square metres"};
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) assert_non_null(strstr(text, parts[i]));
  free(text);
}

static void holds_no_memory(void **state) {
  (void)state;
  assert_int_equal(tri_memory_bytes(), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(fills_in_defaults),
      cmocka_unit_test(reads_every_type),
      cmocka_unit_test(refuses_wrong_values),
      cmocka_unit_test(refuses_wrong_sections),
      cmocka_unit_test(names_missing_keys),
      cmocka_unit_test(suggests_keys),
      cmocka_unit_test(lays_options_over_the_file),
      cmocka_unit_test(names_the_option_at_fault),
      cmocka_unit_test(blames_the_place_of_a_key),
      cmocka_unit_test(checks_structs),
      cmocka_unit_test(formats_doubles_that_read_back),
      cmocka_unit_test(prints_what_reads_back),
      cmocka_unit_test(prints_help_for_people),
      cmocka_unit_test(holds_no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
