/* Reads at the disk's speed. A large range is read in pieces by all threads, so that one thread copies while another
 * waits. On file systems where that is not slower (see output.c) the page cache is bypassed, through an aligned buffer.
 */
#include "checkpoint/input.h"

#include "base/loop_threads.h"
#include "base/memory.h"
#include "checkpoint/output.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

enum { PIECE_BYTES = 1 << 20, LARGE_BYTES = 2 << 20, PAGE = 4096 };

tri_status tri_input_open(const char *path, tri_input *out) {
  int file = -1;
  TRI_TRY(tri_file_open_plain(path, &file));
  *out = (tri_input){.file = file, .direct = tri_open_direct(path, file, O_RDONLY)};
  snprintf(out->path, sizeof out->path, "%s", path);
  return TRI_OK;
}

void tri_input_close(tri_input *input) {
  if (input->file >= 0) close(input->file);
  if (input->direct >= 0) close(input->direct);
  input->file = input->direct = -1;
}

static tri_status read_through(const tri_input *input, uint64_t offset, uint64_t bytes, void *out) {
  char *to = out;
  while (bytes > 0) {
    ssize_t got = pread(input->file, to, bytes < LARGE_BYTES ? (size_t)bytes : LARGE_BYTES, (off_t)offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return tri_fail(TRI_BAD_FILE, "cannot read %s: %s", input->path, strerror(errno));
    if (got == 0) {
      return tri_fail(TRI_BAD_FILE, "%s ends at byte %" PRIu64 ", where %" PRIu64 " more should follow", input->path,
                      offset, bytes);
    }
    to += got;
    offset += (uint64_t)got;
    bytes -= (uint64_t)got;
  }
  return TRI_OK;
}

/* Reads without the page cache, through `pages` with room for a piece and two pages. If one read does not return all
 * bytes, the whole range is read again with the page cache, and errors are reported. */
static tri_status read_direct(const tri_input *input, uint64_t offset, uint64_t bytes, char *pages, void *out) {
  uint64_t begin = offset / PAGE * PAGE, end = (offset + bytes + PAGE - 1) / PAGE * PAGE;
  ssize_t got = pread(input->direct, pages, (size_t)(end - begin), (off_t)begin);
  if (got < 0 || (uint64_t)got < offset + bytes - begin) return read_through(input, offset, bytes, out);
  memcpy(out, pages + (offset - begin), (size_t)bytes);
  return TRI_OK;
}

/* Keeps the first error of all threads. */
static void note(tri_saved_error *first, tri_status status) {
#pragma omp critical(tri_input_failure)
  tri_error_save(first, status);
}

static tri_status read_pieces(const tri_input *input, uint64_t offset, uint64_t bytes, char *out) {
  tri_saved_error first = {0};
  int64_t pieces = (int64_t)((bytes + PIECE_BYTES - 1) / PIECE_BYTES);
#pragma omp parallel num_threads(tri_loop_threads())
  {
    char *pages = NULL;
    tri_status status = TRI_OK;
    if (input->direct >= 0) status = tri_alloc("the buffer of a read", PIECE_BYTES + 3 * PAGE, 1, &pages);
    note(&first, status);
    char *aligned = pages == NULL ? NULL : pages + (PAGE - (uintptr_t)pages % PAGE) % PAGE;
#pragma omp for schedule(dynamic)
    for (int64_t i = 0; i < pieces; i++) {
      uint64_t at = (uint64_t)i * PIECE_BYTES, some = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
      if (status != TRI_OK) continue;
      status = aligned == NULL ? read_through(input, offset + at, some, out + at)
                               : read_direct(input, offset + at, some, aligned, out + at);
      note(&first, status);
    }
    tri_free(pages);
  }
  return tri_saved_error_restore(&first);
}

tri_status tri_input_read(const tri_input *input, uint64_t offset, uint64_t bytes, void *out) {
  return bytes < LARGE_BYTES ? read_through(input, offset, bytes, out) : read_pieces(input, offset, bytes, out);
}

tri_status tri_input_checksum(const tri_input *input, uint64_t offset, uint64_t bytes, uint64_t *out) {
  tri_status status = TRI_OK;
  char *buffer = NULL;
  XXH3_state_t *state = XXH3_createState();
  if (state == NULL) return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: a checksum");
  TRI_TRY_GOTO(tri_alloc("the buffer of a checksum", PIECE_BYTES, 1, &buffer), free_state);
  XXH3_64bits_reset(state);
  while (bytes > 0) {
    uint64_t piece = bytes < PIECE_BYTES ? bytes : PIECE_BYTES;
    TRI_TRY_GOTO(tri_input_read(input, offset, piece, buffer), free_state);
    XXH3_64bits_update(state, buffer, (size_t)piece);
    offset += piece;
    bytes -= piece;
  }
  *out = XXH3_64bits_digest(state);
free_state:
  tri_free(buffer);
  XXH3_freeState(state);
  return status;
}
