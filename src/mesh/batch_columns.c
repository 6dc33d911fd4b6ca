#include "mesh/batch_columns.h"

#include "base/memory.h"
#include "mesh/label.h"

#include <string.h>

#define IS_WHOLE_OWN false
#define IS_WHOLE_WHOLE true
#define SAMPLE_COLUMN(NAME, TYPE, BLANK, ROWS, WANTED) [TRI_COLUMN_##NAME] = {sizeof(TYPE), true, IS_WHOLE_##ROWS, 0},
#define CUT_COLUMN(NAME, TYPE, ROWS) [TRI_COLUMN_##NAME] = {sizeof(TYPE), false, false, TRI_CUT_ROWS_##ROWS},
const tri_column tri_columns[TRI_NUM_BATCH_COLUMNS] = {TRI_SAMPLE_COLUMNS(SAMPLE_COLUMN) TRI_CUT_COLUMNS(CUT_COLUMN)};
#undef SAMPLE_COLUMN
#undef CUT_COLUMN
#undef IS_WHOLE_OWN
#undef IS_WHOLE_WHOLE

tri_status tri_sample_alloc(unsigned columns, int64_t tokens, tri_sample *out) {
  *out = (tri_sample){0};
#define ALLOC_COLUMN(NAME, TYPE, ...)                                                                                  \
  if ((columns & TRI_COLUMN_BIT(NAME)) != 0) TRI_TRY(tri_alloc("a sample", (size_t)tokens, sizeof(TYPE), &out->NAME));
  TRI_SAMPLE_COLUMNS(ALLOC_COLUMN)
#undef ALLOC_COLUMN
  return TRI_OK;
}

void tri_sample_free(tri_sample *sample) {
#define FREE_COLUMN(NAME, ...) tri_free(sample->NAME);
  TRI_SAMPLE_COLUMNS(FREE_COLUMN)
#undef FREE_COLUMN
  *sample = (tri_sample){0};
}

void tri_sample_fill(const tri_tokens *from, int64_t first, int64_t tokens, const tri_sample *out) {
#define FILL_COLUMN(NAME, TYPE, BLANK, ...)                                                                            \
  for (int64_t i = 0; i < tokens && out->NAME != NULL; i++)                                                            \
    out->NAME[i] = from->NAME == NULL ? BLANK : from->NAME[first + i];
  TRI_SAMPLE_COLUMNS(FILL_COLUMN)
#undef FILL_COLUMN
}

void tri_sample_fill_padding(int64_t tokens, const tri_sample *out) {
  const tri_tokens blanks = {0};
  tri_sample_fill(&blanks, 0, tokens, out);
  for (int64_t i = 0; i < tokens && out->labels != NULL; i++) out->labels[i] = TRI_LABEL_PADDING;
}
