#include "chat/known_templates.h"

#include "base/fnv1a.h"
#include "base/memory.h"

#include <string.h>

typedef enum edit_kind {
  NONE,       /* the row has no further edit */
  BEGIN_LINE, /* a block begins on a line of its own */
  END_LINE,   /* a block ends on a line of its own */
  AT_SUM,     /* in an expression 'header' ~ answer, the block begins after the header */
  IN_STRING,  /* in a string, the block begins at this byte */
  END,        /* a block ends after an expression */
} edit_kind;

typedef struct edit {
  const char *text; /* text to insert */
  size_t removed;   /* number of bytes of the source that it replaces */
} edit;

static edit edit_of(edit_kind kind) {
  switch (kind) {
    case NONE: break;
    case BEGIN_LINE: return (edit){"{%- generation %}\n", 0};
    case END_LINE: return (edit){"{%- endgeneration %}\n", 0};
    case AT_SUM: return (edit){"' }}{%- generation %}{{- ", 4};
    case IN_STRING: return (edit){"' }}{%- generation %}{{- '", 0};
    case END: return (edit){"{%- endgeneration %}", 0};
  }
  return (edit){"", 0};
}

enum { MOST_EDITS = 8 };

static const struct {
  uint64_t hash; /* FNV-1a of the source */
  size_t bytes;  /* length of the source */
  struct {
    size_t offset; /* in the source, ascending */
    edit_kind kind;
  } edits[MOST_EDITS]; /* ends with a NONE unless all are used */
} known[] = {
    /* The rows are printed by tests/oracle/make_known_templates.py. clang-format off */
    /* gptoss */
    {UINT64_C(0x5da66262d54a9064), 16738, {{12982, BEGIN_LINE}, {16113, END_LINE}}},
    /* nemotron_3_nano */
    {UINT64_C(0x7056fcc5115fe4c9),
     10503,
     {{6400, BEGIN_LINE},
      {8606, END_LINE},
      {8820, AT_SUM},
      {8889, END},
      {9282, AT_SUM},
      {9307, END},
      {9384, IN_STRING},
      {9400, END}}},
    /* nemotron_3_super */
    {UINT64_C(0x0705315174620708),
     10770,
     {{6471, BEGIN_LINE},
      {8677, END_LINE},
      {8891, AT_SUM},
      {8960, END},
      {9353, AT_SUM},
      {9378, END},
      {9455, IN_STRING},
      {9471, END}}},
    /* nemotron_3_ultra */
    {UINT64_C(0x30fa1947e9ca3dab),
     10152,
     {{6137, BEGIN_LINE},
      {8112, END_LINE},
      {8265, AT_SUM},
      {8334, END},
      {8727, AT_SUM},
      {8752, END},
      {8829, IN_STRING},
      {8845, END}}},
    /* nemotron_3_5_lightning */
    {UINT64_C(0xe024b304c346f44d),
     9867,
     {{6057, BEGIN_LINE},
      {8032, END_LINE},
      {8185, AT_SUM},
      {8254, END},
      {8647, AT_SUM},
      {8672, END},
      {8749, IN_STRING},
      {8765, END}}},
    /* clang-format on */
};

tri_status tri_chat_known_template(const char *source, size_t bytes, char **out, size_t *out_bytes) {
  const uint64_t hash = tri_fnv1a(TRI_FNV1A_BEGIN, source);
  size_t row = 0, from = 0, to = 0, more = 0;
  *out = NULL;
  while (row < sizeof known / sizeof known[0] && (known[row].hash != hash || known[row].bytes != bytes)) row++;
  if (row == sizeof known / sizeof known[0]) return TRI_OK;
  for (int i = 0; i < MOST_EDITS; i++) more += strlen(edit_of(known[row].edits[i].kind).text);
  TRI_TRY(tri_alloc("a chat template", bytes + more + 1, 1, out));
  for (int i = 0; i < MOST_EDITS && known[row].edits[i].kind != NONE; i++) {
    const size_t offset = known[row].edits[i].offset;
    const edit made = edit_of(known[row].edits[i].kind);
    memcpy(*out + to, source + from, offset - from);
    to += offset - from;
    memcpy(*out + to, made.text, strlen(made.text));
    to += strlen(made.text);
    from = offset + made.removed;
  }
  memcpy(*out + to, source + from, bytes - from);
  *out_bytes = to + bytes - from;
  return TRI_OK;
}
