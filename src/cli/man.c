/* Converts a command's help to a manual page. The help has a fixed form: lines of usage, paragraphs, options, and
 * examples. An option is two blanks, its name, two or more blanks and its description; lines that continue the
 * description are indented further. The page has the same text in roff, so that only the help has to be maintained. */
#include "cli/man.h"

#include "cli/build.h"
#include "cli/command_help.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

/* ---- letters ----------------------------------------------------------------------------------------------------- */

/* Writes a text. Escapes the characters that are special in roff. */
static void write_text(const char *text, size_t bytes, FILE *to) {
  for (size_t i = 0; i < bytes; i++) {
    switch (text[i]) {
      case '\\': fputs("\\e", to); break;
      case '-': fputs("\\-", to); break;
      case '`': fputs("\\(ga", to); break;
      case '^': fputs("\\(ha", to); break;
      case '~': fputs("\\(ti", to); break;
      case '\'': fputs("\\(aq", to); break;
      case '"': fputs("\\(dq", to); break;
      default: fputc(text[i], to);
    }
  }
}

/* Writes a whole line. Escapes its first character if that would start a roff request. */
static void write_line(const char *text, size_t bytes, FILE *to) {
  if (bytes > 0 && text[0] == '.') fputs("\\&", to);
  write_text(text, bytes, to);
  fputc('\n', to);
}

static void write_bold(const char *text, size_t bytes, FILE *to) {
  fputs("\\fB", to);
  write_text(text, bytes, to);
  fputs("\\fR\n", to);
}

static void write_head(const char *name, int section, const char *summary, FILE *to) {
  fprintf(to, ".\\\" Written by the program itself: trireme help --man\n.TH ");
  for (const char *c = name; *c != '\0'; c++) fputc(toupper((unsigned char)*c), to);
  fprintf(to, " %d \"%s\" \"Trireme %s\" \"Trireme\"\n.SH NAME\n", section, tri_build_date(), TRIREME_VERSION);
  write_text(name, strlen(name), to);
  fputs(" \\- ", to);
  write_line(summary, strlen(summary), to);
}

/* ---- lines of a help --------------------------------------------------------------------------------------------- */

typedef struct line {
  const char *text; /* text after the leading blanks */
  size_t bytes;     /* length of the text without the newline */
  size_t indent;
} line;

/* The parts of a help, which are read one after the other. Each part has whole lines. */
typedef struct source {
  const char *parts[TRI_HELP_PARTS];
  int count, next;  /* count: number of parts; next: index of the next part */
  const char *text; /* remaining text of the current part; NULL before the first part */
} source;

/* Reads the next line of the parts. Returns false after the last line of the last part. */
static bool next_line(source *from, line *out) {
  while (from->text == NULL || from->text[0] == '\0') {
    if (from->next == from->count) return false;
    from->text = from->parts[from->next++];
  }
  size_t length = strcspn(from->text, "\n");
  out->indent = strspn(from->text, " ");
  out->text = from->text + out->indent;
  out->bytes = length - out->indent;
  from->text += length + (from->text[length] == '\n');
  return true;
}

static bool begins(const line *l, const char *with) {
  return l->bytes >= strlen(with) && strncmp(l->text, with, strlen(with)) == 0;
}

/* Returns the number of bytes before the first two adjacent blanks in a line; the length of the line if it has none. */
static size_t first_column(const line *l) {
  for (size_t i = 0; i + 1 < l->bytes; i++) {
    if (l->text[i] == ' ' && l->text[i + 1] == ' ') return i;
  }
  return l->bytes;
}

/* Returns whether a line of an option's text is an item of a list, such as "FILE.json a tokenizer" or "slerp: along the
 * circle". */
static bool is_item(const line *l) {
  size_t word = 0;
  while (word < l->bytes && (isalnum((unsigned char)l->text[word]) || l->text[word] == '_')) word++;
  return first_column(l) < l->bytes || (word > 2 && word < l->bytes && l->text[word] == ':');
}

/* Writes one line of running text. An item of a list gets a line of its own. */
static void write_running(const line *l, FILE *to) {
  if (is_item(l)) fputs(".br\n", to);
  write_line(l->text, l->bytes, to);
}

static void write_option(const line *l, FILE *to) {
  size_t option = first_column(l), rest = option;
  fputs(".TP\n", to);
  write_bold(l->text, option, to);
  while (rest < l->bytes && l->text[rest] == ' ') rest++;
  if (rest < l->bytes) write_line(l->text + rest, l->bytes - rest, to);
}

/* Writes lines without filling, up to an empty line or the end. Removes the first `cut` bytes, such as "usage: ", and
 * up to `cut` blanks from the beginning of each following line. */
static void write_verbatim(line *l, source *from, size_t cut, FILE *to) {
  bool more = true;
  fputs(".nf\n", to);
  l->text += cut;
  l->bytes -= cut;
  while (more && l->bytes > 0) {
    write_line(l->text, l->bytes, to);
    more = next_line(from, l);
    size_t kept = more && l->indent > cut ? l->indent - cut : 0;
    l->text -= kept; /* the rest of the indentation stays */
    l->bytes += l->bytes > 0 ? kept : 0;
  }
  fputs(".fi\n", to);
}

/* Writes the rest of a help, with a heading for each part: paragraphs, options, and the examples from a line "example:
 * ..." on. */
static void write_body(source *from, FILE *to) {
  bool described = false, in_options = false, new_paragraph = false;
  line l;
  while (next_line(from, &l)) {
    if (begins(&l, "example: ") && l.indent == 0) {
      fputs(".SH EXAMPLES\n", to);
      write_verbatim(&l, from, strlen("example: "), to);
    } else if (l.bytes == 0) {
      new_paragraph = true;
    } else if (l.indent == 2 && l.text[0] == '-') {
      if (!in_options) fputs(".SH OPTIONS\n", to);
      in_options = true;
      write_option(&l, to);
    } else if (l.indent == 0) {
      bool begun = described && !in_options;
      if (!begun) fputs(described ? ".SH NOTES\n" : ".SH DESCRIPTION\n", to);
      if (begun && new_paragraph) fputs(".PP\n", to);
      described = true;
      in_options = false;
      new_paragraph = false;
      write_line(l.text, l.bytes, to);
    } else {
      write_running(&l, to);
    }
  }
}

/* ---- pages ------------------------------------------------------------------------------------------------------- */

void tri_man_command(const tri_command *command, FILE *to) {
  char name[64];
  source from = {.next = 0};
  line l;
  from.count = tri_command_help(command, from.parts);
  snprintf(name, sizeof name, "trireme-%s", command->name);
  write_head(name, 1, command->summary, to);
  if (strncmp(command->usage, "usage: ", 7) == 0 && next_line(&from, &l)) {
    fputs(".SH SYNOPSIS\n", to);
    write_verbatim(&l, &from, strlen("usage: "), to);
  }
  write_body(&from, to);
  fputs(".SH EXIT STATUS\n0, or the status of a failure, as\n.BR trireme (1)\nlists them.\n", to);
  fputs(".SH SEE ALSO\n.BR trireme (1)\n", to);
}

/* Returns the meaning of an exit status. */
static const char *meaning(tri_status status) {
  switch (status) {
    case TRI_OK: return "success";
    case TRI_DIFFERENT: return "two things that were compared are not the same";
    case TRI_BAD_USAGE: return "the command line is wrong";
    case TRI_BAD_CONFIG:
    case TRI_BAD_LAYOUT: return "a key or a value is wrong, or a layout is impossible";
    case TRI_BAD_FILE: return "a file is missing, unreadable, truncated or damaged";
    case TRI_IO_FAILED: return "the system refused a read or a write: a full disk, for example";
    case TRI_OUT_OF_MEMORY: return "out of memory, or it is known beforehand that there is too little memory";
    case TRI_UNSUPPORTED: return "legal, but not on this device or in this build";
    case TRI_DIVERGED: return "too many bad steps in a row: the loss is NaN or infinite";
    case TRI_COMM: return "another rank is gone, or MPI has failed";
    case TRI_BUSY: return "another run is alive in the output folder";
    case TRI_DEVICE_FAILED: return "the device failed: a kernel, or a copy";
    case TRI_INTERRUPTED: return "a signal asked to stop; a run resumes from its newest checkpoint";
    case TRI_INTERNAL: return "a mistake of the program's own; please report it";
  }
  return "";
}

static void write_exit_statuses(FILE *to) {
  fputs(".SH EXIT STATUS\n", to);
  for (int exit_status = 0; exit_status <= 255; exit_status++) {
    tri_status status = tri_status_of_exit(exit_status);
    if (tri_status_exit(status) != exit_status) continue; /* no status has this exit status */
    fprintf(to, ".TP\n.B %d\n", exit_status);
    write_line(meaning(status), strlen(meaning(status)), to);
  }
}

static void write_entry(const char *name, const char *text, FILE *to) {
  fputs(".TP\n", to);
  write_bold(name, strlen(name), to);
  write_line(text, strlen(text), to);
}

static void write_environment(FILE *to) {
  static const struct {
    const char *name, *text;
  } variables[] = {
      {"TRIREME_CONFIGS",
       "a folder with presets (models/, clusters/, systems/, ...) that take precedence over the program's own"},
      {"TRIREME_CACHE",
       "folder of compiled GPU kernels and of the best measured peaks; default ~/.cache/trireme; none: they are not "
       "stored"},
      {"TRIREME_RANKS_PER_NODE", "ranks of a node in runs on one machine, to try layouts that span nodes"},
      {"OMP_NUM_THREADS",
       "threads of loops that do not run on a device, at most the number of cores; `threads` of a run file sets the "
       "threads of a rank"},
      {"NO_COLOR", "no colours on a terminal"},
  };
  fputs(".SH ENVIRONMENT\n", to);
  for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
    write_entry(variables[i].name, variables[i].text, to);
  }
}

void tri_man_program(const tri_command *const *commands, int num_commands, FILE *to) {
  const tri_topic *topic;
  write_head("trireme", 1, "train large language models over MPI, and predict speed and memory beforehand", to);
  fputs(
      ".SH SYNOPSIS\n.nf\n\\fBtrireme\\fR \\fICOMMAND\\fR [options]\n\\fBtrireme\\fR \\fICOMMAND\\fR \\-\\-help\n"
      "\\fBtrireme help\\fR [\\fICOMMAND\\fR|\\fIFILE'S KIND\\fR]\n\\fBtrireme \\-\\-version\\fR\n.fi\n",
      to);
  fputs(".SH COMMANDS\n", to);
  for (int i = 0; i < num_commands; i++) {
    fprintf(to, ".TP\n.BR trireme\\-%s (1)\n", commands[i]->name);
    write_line(commands[i]->summary, strlen(commands[i]->summary), to);
  }
  fputs(".SH FILES\n", to);
  for (int i = 0; (topic = tri_topic_at(i)) != NULL; i++) {
    fprintf(to, ".TP\n.BR trireme\\-%s (5)\n", topic->name);
    write_line(topic->summary, strlen(topic->summary), to);
  }
  write_entry("PREFIX/share/trireme/configs", "presets, if the program is in PREFIX/bin", to);
  write_environment(to);
  write_exit_statuses(to);
}

static void write_key(void *context, const tri_config_described *described) {
  FILE *to = context;
  fputs(".TP\n\\fB", to);
  write_text(described->name, strlen(described->name), to);
  fputs("\\fR  (", to);
  write_text(described->type, strlen(described->type), to);
  if (described->standard[0] != '\0') {
    bool words = described->standard[0] == '(';
    fputs(words ? "; " : "; default ", to);
    write_text(described->standard + words, strlen(described->standard) - 2 * words, to);
  }
  fputs(")\n", to);
  write_line(described->key->help, strlen(described->key->help), to);
}

typedef struct keys_to {
  const tri_topic *topic;
  FILE *file;
} keys_to;

/* Writes a key of a topic. A key below a section that has its own page is left out; the section itself gets a reference
 * to that page. */
static void write_own_key(void *context, const tri_config_described *described) {
  const keys_to *to = context;
  const char *elsewhere = to->topic->elsewhere;
  size_t length = elsewhere == NULL ? 0 : strlen(elsewhere);
  if (elsewhere != NULL && strncmp(described->name, elsewhere, length) == 0) {
    if (described->name[length] == '.') return;
    write_key(to->file, described);
    if (described->name[length] == '\0') fprintf(to->file, ".br\nIts keys:\n.BR trireme\\-%s (5)\n", elsewhere);
    return;
  }
  write_key(to->file, described);
}

static void write_paragraphs(const char *text, FILE *to) {
  source from = {.parts = {text}, .count = 1};
  line l;
  while (next_line(&from, &l)) {
    if (l.bytes == 0) {
      fputs(".PP\n", to);
    } else {
      write_line(l.text, l.bytes, to);
    }
  }
}

void tri_man_topic(const tri_topic *topic, FILE *to) {
  char name[64];
  source example = {.parts = {topic->example}, .count = 1};
  line l;
  snprintf(name, sizeof name, "trireme-%s", topic->name);
  write_head(name, 5, topic->summary, to);
  fputs(".SH DESCRIPTION\n", to);
  write_paragraphs(topic->about, to);
  fputs(".SH KEYS\n", to);
  tri_config_describe(topic->table(), write_own_key, &(keys_to){topic, to});
  fputs(".SH EXAMPLES\n", to);
  if (next_line(&example, &l)) write_verbatim(&l, &example, 0, to);
  fputs(".SH SEE ALSO\n.BR trireme (1)\n", to);
}
