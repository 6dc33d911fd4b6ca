/* Tokens of a template, like Jinja with trim_blocks and lstrip_blocks. Private to this folder. */
#ifndef TRI_CHAT_LEXER_H
#define TRI_CHAT_LEXER_H

#include "chat/value.h"

typedef enum tri_chat_token_kind {
  TRI_TOKEN_END,
  TRI_TOKEN_TEXT,        /* between tags */
  TRI_TOKEN_BEGIN_PRINT, /* {{ */
  TRI_TOKEN_END_PRINT,
  TRI_TOKEN_BEGIN_BLOCK, /* {% */
  TRI_TOKEN_END_BLOCK,
  TRI_TOKEN_NAME,
  TRI_TOKEN_STRING, /* without quotes, with escapes decoded */
  TRI_TOKEN_INTEGER,
  TRI_TOKEN_REAL,
  TRI_TOKEN_SIGN, /* "==", "(", ... */
} tri_chat_token_kind;

typedef struct tri_chat_token {
  uint8_t kind; /* a tri_chat_token_kind */
  int32_t line, column;
  tri_chat_value value;
} tri_chat_token;

typedef struct tri_chat_lexer {
  const char *name, *source;
  size_t bytes, at;
  size_t counted; /* offset in the source to which line and column belong */
  int32_t line, column;
  tri_chat_arena *arena;
  bool in_tag, in_block;
  bool line_starts; /* whether the text at `at` begins a line: at the beginning of the source, or after a tag that
                       removed the newline after it */
  int32_t brackets;
} tri_chat_lexer;

/* Reads the next token: TRI_TOKEN_END at the end of the source. Fails with TRI_BAD_FILE for invalid text in a tag. */
tri_status tri_chat_lexer_next(tri_chat_lexer *lexer, tri_chat_token *out);

/* Fails with `code`, and a message that begins with the template's name, the line and the column. */
tri_status tri_chat_fault_at(const char *name, int32_t line, int32_t column, tri_status code, const char *format, ...)
    TRI_PRINTF(5, 6);

#endif
