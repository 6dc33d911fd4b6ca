#include "cli/running/doctor.h"

#include "base/log.h"
#include "base/memory.h"
#include "cli/cli.h"
#include "files/file.h"
#include "options/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *mark_name(tri_mark mark) {
  switch (mark) {
    case TRI_MARK_OK: return "ok";
    case TRI_MARK_WARNING: return "warning";
    case TRI_MARK_MISSING: return "missing";
  }
  return "?";
}

static const char *colour_of(tri_mark mark) {
  switch (mark) {
    case TRI_MARK_OK: return "\033[32m";
    case TRI_MARK_WARNING: return "\033[33m";
    case TRI_MARK_MISSING: return "\033[31m";
  }
  return "";
}

static void print_findings(const tri_doctor *doctor) {
  const char *no_colour = getenv("NO_COLOR"), *terminal = getenv("TERM");
  bool colour = isatty(STDOUT_FILENO) == 1 && (no_colour == NULL || no_colour[0] == '\0') &&
                (terminal == NULL || strcmp(terminal, "dumb") != 0);
  for (int i = 0; i < doctor->count; i++) {
    const tri_finding *f = &doctor->findings[i];
    printf("%s%-8s%s %-16s %s\n", colour ? colour_of(f->mark) : "", mark_name(f->mark), colour ? "\033[0m" : "",
           f->name, f->value);
    if (f->advice[0] != '\0') printf("%-25s -> %s\n", "", f->advice);
  }
}

static bool all_required(const tri_doctor *doctor) {
  for (int i = 0; i < doctor->count; i++) {
    if (doctor->findings[i].required && doctor->findings[i].mark == TRI_MARK_MISSING) return false;
  }
  return true;
}

/* Returns a text as a JSON string. If the text is not UTF-8, as names of folders may be, each byte that is not ASCII
 * becomes `?`. Changes `text`. */
static json_t *text_json(char *text) {
  json_t *string = json_string(text);
  if (string != NULL) return string;
  for (char *c = text; *c != '\0'; c++) {
    if ((unsigned char)*c >= 0x80) *c = '?';
  }
  return json_string(text);
}

/* Prints {"ok": true, "version": "...", "checks": [{"name", "mark", "required", "value", "advice", ...facts}]}. In the
 * text output an indented name belongs to the check above it; here the fact `gpu` names the GPU. */
static tri_status doctor_print_json(tri_doctor *doctor) {
  json_t *checks = json_array();
  int failed = checks == NULL;
  for (int i = 0; i < doctor->count; i++) {
    tri_finding *f = &doctor->findings[i];
    json_t *check =
        json_pack("{s:s, s:s, s:b, s:o, s:o}", "name", f->name + strspn(f->name, " "), "mark", mark_name(f->mark),
                  "required", f->required, "value", text_json(f->value), "advice", text_json(f->advice));
    failed |= check == NULL || json_object_update(check, f->facts) != 0;
    failed |= json_array_append_new(checks, check) != 0;
  }
  json_t *all = json_pack("{s:b, s:s, s:O}", "ok", all_required(doctor), "version", TRIREME_VERSION, "checks", checks);
  /* If standard output cannot be written, `main` reports it. */
  failed |= all == NULL || (json_dumpf(all, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) != 0 && !ferror(stdout));
  if (!failed) putchar('\n');
  json_decref(all);
  json_decref(checks);
  return failed ? tri_fail_internal("the findings cannot be written as JSON") : TRI_OK;
}

/* Rows for the help and for completion; doctor_parse reads these words itself. */
static const tri_option doctor_options[] = {
    {.name = "json", .kind = TRI_OPTION_FLAG, .help = "  --json   one JSON document on standard output\n"},
    {.name = "quick", .kind = TRI_OPTION_FLAG, .help = "  --quick  do not time matrix products\n"},
    {.name = "compile",
     .kind = TRI_OPTION_TEXT,
     .help = "  --compile CHIP,... FOLDER   compile all kernels for these chips (sm_80, sm_90a, sm_100a, gfx90a, ...) "
             "into a\n"
             "           folder, for TRIREME_CACHE on machines without a compiler, and show what each kernel needs\n"},
    {0}};

static tri_status doctor_parse(int count, char **arguments, bool *json, double *test_s) {
  for (int i = 1; i < count; i++) {
    if (strcmp(arguments[i], "--json") == 0) {
      *json = true;
    } else if (strcmp(arguments[i], "--quick") == 0) {
      *test_s = 0;
    } else if (strcmp(arguments[i], "--compile") == 0) {
      return tri_fail(TRI_BAD_USAGE, "doctor: --compile goes alone: doctor --compile sm_90a,gfx90a kernels");
    } else {
      static const char *const names[] = {"--json", "--quick", "--compile"};
      return tri_option_unknown("doctor", arguments[i], names, 3);
    }
  }
  return TRI_OK;
}

static void print_kernels(void *to, const char *architecture, const char *module, tri_dtype type, const char *log) {
  (void)to;
  printf("%s, %s, %s\n", architecture, module, tri_dtype_name(type));
  for (const char *line = log; *line != '\0';) {
    int length = (int)strcspn(line, "\n");
    if (length > 0) printf("  %.*s\n", length, line);
    line += length + (line[length] == '\n');
  }
}

enum { CHIP_BYTES = 32 };

/* Copies the first chip of *chips, a list with commas, and moves *chips to the next chip. Fails with TRI_BAD_USAGE if
 * its name is empty or too long. */
static tri_status next_chip(const char **chips, char out[CHIP_BYTES]) {
  const size_t length = strcspn(*chips, ",");
  if (length == 0 || length >= CHIP_BYTES) {
    return tri_fail(TRI_BAD_USAGE, "doctor --compile: `%.*s` is not a chip; it is names such as sm_90a,gfx90a",
                    (int)length, *chips);
  }
  snprintf(out, CHIP_BYTES, "%.*s", (int)length, *chips);
  *chips += length + ((*chips)[length] == ',');
  return TRI_OK;
}

/* Compiles all kernels for the chips (names with commas) into a folder. Checks all names and creates the folder first,
 * because compilation takes minutes for each chip. Prints and logs what was compiled. */
static tri_status doctor_compile(const char *chips, const char *folder) {
  char chip[CHIP_BYTES];
  for (const char *rest = chips; *rest != '\0';) {
    TRI_TRY(next_chip(&rest, chip));
    TRI_TRY(tri_gpu_compile_check(chip));
  }
  TRI_TRY(tri_directory_create(folder));
  while (*chips != '\0') {
    TRI_TRY(next_chip(&chips, chip));
    TRI_TRY(tri_gpu_compile_all(chip, folder, print_kernels, NULL));
  }
  tri_log("the kernels are in %s: TRIREME_CACHE=%s uses them where there is no compiler", folder, folder);
  return TRI_OK;
}

/* Creates the doctor, with room for the findings of all GPUs that were found. The caller destroys *out, also after a
 * failure. */
static tri_status doctor_create(double test_s, tri_doctor **out) {
  tri_doctor *doctor = NULL;
  TRI_TRY(tri_alloc("the doctor", 1, sizeof *doctor, &doctor));
  doctor->test_s = test_s;
  tri_status status = tri_gpu_look(&doctor->gpus, &doctor->num_gpus, doctor->no_gpus, sizeof doctor->no_gpus);
  if (status == TRI_OK) {
    const size_t most = TRI_DOCTOR_MOST_FINDINGS + (size_t)doctor->num_gpus * TRI_DOCTOR_FINDINGS_OF_GPU;
    status = tri_alloc("the doctor's findings", most, sizeof *doctor->findings, &doctor->findings);
  }
  *out = doctor;
  return status;
}

static void doctor_destroy(tri_doctor *doctor) {
  if (doctor == NULL) return;
  for (int i = 0; i < doctor->count; i++) json_decref(doctor->findings[i].facts);
  tri_free(doctor->findings);
  tri_free(doctor->gpus);
  tri_free(doctor);
}

static tri_status doctor_run(int count, char **arguments) {
  tri_status status = TRI_OK;
  if (count > 1 && strcmp(arguments[1], "--compile") == 0) {
    if (count == 4 && arguments[2][0] != '\0' && arguments[3][0] != '\0')
      return doctor_compile(arguments[2], arguments[3]);
    return tri_fail(TRI_BAD_USAGE, "doctor --compile takes chips and a folder: doctor --compile sm_90a,gfx90a kernels");
  }
  bool json = false;
  double test_s = 2;
  tri_doctor *doctor = NULL;
  TRI_TRY(doctor_parse(count, arguments, &json, &test_s));
  TRI_TRY_GOTO(doctor_create(test_s, &doctor), free_doctor);
  TRI_TRY_GOTO(tri_machine_read("/", &doctor->machine), free_doctor);
  tri_doctor_check_processor(doctor);
  tri_doctor_check_cores(doctor);
  tri_doctor_check_memory(doctor);
  tri_doctor_check_threads(doctor);
  tri_doctor_check_launcher(doctor);
  tri_doctor_check_libraries(doctor);
  tri_doctor_check_disk(doctor);
  if (test_s > 0) tri_log_progress("testing matrix products, some %.0f seconds", 2 * test_s + 1);
  tri_doctor_check_device(doctor);
  tri_doctor_check_gpus(doctor);
  tri_log_progress_end();
  if (json) {
    TRI_TRY_GOTO(doctor_print_json(doctor), free_doctor);
  } else {
    print_findings(doctor);
  }
  if (!all_required(doctor)) {
    status = tri_fail(TRI_UNSUPPORTED, "something that training needs is missing; see the lines marked `missing`");
  }
free_doctor:
  doctor_destroy(doctor);
  return status;
}

const tri_command tri_command_doctor = {
    .name = "doctor",
    .summary = "check this machine: list the software it has, what is missing, and how to get it",
    .usage =
        "usage: trireme doctor [--json] [--quick]\n"
        "       trireme doctor --compile CHIP,... FOLDER\n"
        "\n"
        "Checks the processor, cores, memory, threads, MPI, libraries, disk, GPUs and the tools that GPUs need, and "
        "times\n"
        "matrix products for about five seconds on the CPU and four on the GPUs. Each line has a mark (ok, warning, "
        "missing)\n"
        "and, below it, what to do. The exit status is 0 unless something is missing that training cannot do without.\n"
        "\n",
    .examples =
        "\n"
        "example: trireme doctor --json | python3 -m json.tool\n",
    .options = doctor_options,
    .run = doctor_run,
};
