/* The text of a corpus's documents, with marks around the learnt tokens, for people who check what is trained on. */
#ifndef TRI_DATA_DOCUMENT_TEXT_H
#define TRI_DATA_DOCUMENT_TEXT_H

#include "data/corpus.h"
#include "tokenizer/tokenizer.h"

/* Strings before and after each run of learnt tokens. */
typedef struct tri_learnt_marks {
  const char *begin, *end;
} tri_learnt_marks;

/* Decodes tokens [first, first + count) of a corpus. Sets *out to the text, with marks if the corpus has a mask, and
 * *bytes to its length. The caller releases *out with tri_free. Fails with TRI_BAD_FILE if an id is negative. */
tri_status tri_document_text(const tri_corpus *corpus, const tri_tokenizer *tokenizer, int64_t first, int64_t count,
                             const tri_learnt_marks *marks, char **out, size_t *bytes);

#endif
