#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The message of the last failure, kept per thread like errno until the entry point prints it. */
static _Thread_local char message[TRI_MESSAGE_BYTES];

/* Maximum number of bytes of a word (text without spaces), and of a path; number of bytes that are printed of a longer
 * one. */
enum { MOST_WORD_BYTES = 1000, MOST_PATH_BYTES = 4096, SHOWN_BYTES = 200 };

/* Returns the number of bytes of a long word to print, so that the print does not end inside a UTF-8 character. */
static size_t shown_bytes(const char *word) {
  size_t bytes = SHOWN_BYTES;
  while (bytes > SHOWN_BYTES - 4 && ((unsigned char)word[bytes] & 0xC0) == 0x80) bytes--;
  return bytes;
}

/* Truncates the long words of a message: a name from a file may have a megabyte. */
static void shorten_words(char *text) {
  static const char closing[] = "`\"'.,:;)";
  char *to = text;
  for (const char *at = text; *at != '\0';) {
    size_t length = strcspn(at, " \n"), kept = length, tail = 0;
    if (length > MOST_PATH_BYTES || (length > MOST_WORD_BYTES && memchr(at, '/', length) == NULL)) {
      kept = shown_bytes(at);
      while (tail < 3 && strchr(closing, at[length - tail - 1]) != NULL) tail++;
    }
    memmove(to, at, kept);
    to += kept;
    if (kept < length) {
      memcpy(to, "...", 3);
      memmove(to + 3, at + length - tail, tail);
      to += 3 + tail;
    }
    at += length;
    if (*at != '\0') *to++ = *at++;
  }
  *to = '\0';
}

#undef tri_fail
tri_status tri_fail(tri_status code, const char *format, ...) {
  char text[sizeof message], *whole = NULL; /* the arguments may point into the old message */
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  int length = vsnprintf(text, sizeof text, format, arguments);
  if (length >= (int)sizeof text && vasprintf(&whole, format, again) < 0) whole = NULL;
  va_end(again);
  va_end(arguments);
  shorten_words(whole != NULL ? whole : text);
  length = snprintf(message, sizeof message, "%s", whole != NULL ? whole : text);
  if (length >= (int)sizeof message) memcpy(message + sizeof message - 4, "...", 4);
  free(whole);
  return code;
}

void tri_fail_at(const char *file, int line, const char *format, ...) {
  char text[sizeof message - 256]; /* the arguments may point into the old message; 256 bytes for the place */
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  while (strncmp(file, "../", 3) == 0) file += 3; /* names of files with a compiler cache */
  snprintf(message, sizeof message, "%s (%.200s:%d)", text, file, line);
}

const char *tri_status_message(void) { return message; }

void tri_error_save(tri_saved_error *kept, tri_status status) {
  if (status == TRI_OK || kept->status != TRI_OK) return;
  kept->status = status;
  memcpy(kept->message, message, sizeof message);
}

tri_status tri_saved_error_restore(const tri_saved_error *kept) {
  return kept->status == TRI_OK ? TRI_OK : tri_fail(kept->status, "%s", kept->message);
}

int tri_status_exit(tri_status code) {
  switch (code) {
    case TRI_OK: return 0;
    case TRI_BAD_USAGE: return 2;
    case TRI_BAD_CONFIG:
    case TRI_BAD_LAYOUT: return 3;
    case TRI_BAD_FILE: return 4;
    case TRI_IO_FAILED: return 5;
    case TRI_OUT_OF_MEMORY: return 6;
    case TRI_UNSUPPORTED: return 7;
    case TRI_DIVERGED: return 8;
    case TRI_COMM: return 9;
    case TRI_BUSY: return 10;
    case TRI_DEVICE_FAILED: return 11;
    case TRI_DIFFERENT: return 1;
    case TRI_INTERRUPTED: return 130;
    case TRI_INTERNAL: return 70;
  }
  return 70;
}

tri_status tri_status_of_exit(int exit_status) {
  for (int code = TRI_OK; code <= TRI_INTERNAL; code++) {
    if (tri_status_exit((tri_status)code) == exit_status) return (tri_status)code;
  }
  return TRI_COMM;
}
