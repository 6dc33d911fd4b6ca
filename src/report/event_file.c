/* A TensorBoard event file is a TFRecord file of protocol buffers.
 *
 * A record is: length (8 bytes, little-endian), checksum of those 8 bytes (4), data, checksum of the data (4). The
 * checksum is CRC-32C (polynomial 0x1EDC6F41, reflected), "masked": rotated right by 15 bits, then 0xa282ead8 is added,
 * so that a checksum over data that contains checksums remains useful.
 *
 * The data is the message tensorflow.Event. These fields are written:
 *
 *   1 double wall_time   2 int64 step   3 string file_version   5 Summary summary   7 SessionLog session_log
 *   Summary:    1 repeated Value {1 string tag, 2 float simple_value}
 *   SessionLog: 1 Status status (START is 1)
 *
 * A file begins with file_version "brain.Event:2". From version 2 on a reader that meets a session_log START at step N
 * drops every event of step N and later that it has read so far. A resumed run revokes the steps after its checkpoint
 * in this way. */
#include "report/event_file.h"

#include "base/memory.h"
#include "files/file.h"
#include "files/write_fault.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct tri_event_file {
  FILE *file;
  char path[TRI_PATH_BYTES];
};

/* ---- protocol buffers -------------------------------------------------------------------------------------------- */

/* MESSAGE_BYTES: room for three tags that contain a path. */
enum { MESSAGE_BYTES = 4 * TRI_PATH_BYTES, WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

typedef struct message {
  uint8_t data[MESSAGE_BYTES];
  size_t bytes;
  bool overflow;
} message;

static void append_bytes(message *m, const void *data, size_t bytes) {
  if (bytes > sizeof m->data - m->bytes) {
    m->overflow = true;
    return;
  }
  memcpy(m->data + m->bytes, data, bytes);
  m->bytes += bytes;
}

static void append_varint(message *m, uint64_t value) {
  do {
    uint8_t byte = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
    append_bytes(m, &byte, 1);
    value >>= 7;
  } while (value != 0);
}

static void append_little_endian(message *m, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) {
    uint8_t byte = (uint8_t)(value >> (8 * i));
    append_bytes(m, &byte, 1);
  }
}

static void append_key(message *m, unsigned field, unsigned wire) { append_varint(m, (uint64_t)field << 3 | wire); }

static void append_double(message *m, unsigned field, double value) {
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof bits);
  append_key(m, field, WIRE_FIXED64);
  append_little_endian(m, bits, 8);
}

static void append_float(message *m, unsigned field, float value) {
  uint32_t bits = 0;
  memcpy(&bits, &value, sizeof bits);
  append_key(m, field, WIRE_FIXED32);
  append_little_endian(m, bits, 4);
}

static void append_integer(message *m, unsigned field, int64_t value) {
  append_key(m, field, WIRE_VARINT);
  append_varint(m, (uint64_t)value);
}

static void append_block(message *m, unsigned field, const void *data, size_t bytes) {
  append_key(m, field, WIRE_BYTES);
  append_varint(m, bytes);
  append_bytes(m, data, bytes);
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

/* Returns the checksum of a part of a record, CRC-32C in the masked form of event files. It is computed bit by bit: a
 * step has a few hundred bytes, too few for a table to pay off. */
static uint32_t masked_crc32c(const uint8_t *data, size_t bytes) {
  uint32_t crc = 0xffffffffu;
  for (size_t i = 0; i < bytes; i++) {
    crc ^= data[i];
    for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0);
  }
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static tri_status write_record(tri_event_file *file, const message *event) {
  if (event->overflow) return tri_fail_internal("an event for %s is longer than %d bytes", file->path, MESSAGE_BYTES);
  message head = {.bytes = 0}, tail = {.bytes = 0};
  append_little_endian(&head, event->bytes, 8);
  append_little_endian(&head, masked_crc32c(head.data, 8), 4);
  append_little_endian(&tail, masked_crc32c(event->data, event->bytes), 4);
  errno = 0;
  if (fwrite(head.data, head.bytes, 1, file->file) != 1 || fwrite(event->data, event->bytes, 1, file->file) != 1 ||
      fwrite(tail.data, tail.bytes, 1, file->file) != 1 || fflush(file->file) != 0) {
    return tri_fail(TRI_IO_FAILED, "cannot write %s: %s", file->path, tri_write_fault(errno));
  }
  return TRI_OK;
}

static void begin_event(message *event) {
  struct timespec now = {0};
  clock_gettime(CLOCK_REALTIME, &now);
  event->bytes = 0;
  event->overflow = false;
  append_double(event, 1, (double)now.tv_sec + 1e-9 * (double)now.tv_nsec);
}

static tri_status write_beginning(tri_event_file *file, int64_t first_step) {
  static const char version[] = "brain.Event:2";
  static const uint8_t session_start[] = {1 << 3 | WIRE_VARINT, 1};
  message event;
  begin_event(&event);
  append_block(&event, 3, version, sizeof version - 1);
  TRI_TRY(write_record(file, &event));
  begin_event(&event);
  append_integer(&event, 2, first_step);
  append_block(&event, 7, session_start, sizeof session_start);
  return write_record(file, &event);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

#define NAME_PREFIX "events.out.tfevents."

/* Chooses the number in a new file's name: the time, or one more than the highest number in the folder, because two
 * files of one second, or a clock that was set back, must not change the order in which TensorBoard reads. */
static tri_status next_number(const char *directory, long long *out) {
  long long number = (long long)time(NULL);
  DIR *folder = opendir(directory);
  if (folder == NULL) return tri_fail(TRI_IO_FAILED, "cannot open the directory %s: %s", directory, strerror(errno));
  for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
    if (strncmp(entry->d_name, NAME_PREFIX, strlen(NAME_PREFIX)) != 0) continue;
    long long taken = strtoll(entry->d_name + strlen(NAME_PREFIX), NULL, 10);
    if (taken >= number && taken < 9999999999LL)
      number = taken + 1; /* ten digits, so that names are in order as text */
  }
  closedir(folder);
  *out = number;
  return TRI_OK;
}

tri_status tri_event_file_create(const char *directory, int64_t first_step, tri_event_file **out) {
  tri_status status = TRI_OK;
  tri_event_file *file = NULL;
  long long number = 0;
  char host[128] = "localhost", name[256];
  TRI_TRY(next_number(directory, &number));
  if (gethostname(host, sizeof host) == 0) host[sizeof host - 1] = '\0';
  snprintf(name, sizeof name, NAME_PREFIX "%010lld.%s.%ld.0", number, host, (long)getpid());
  TRI_TRY(tri_alloc("an event file", 1, sizeof *file, &file));
  TRI_TRY_GOTO(tri_path_join(file->path, directory, name), free_file);
  file->file = fopen(file->path, "wxe");
  if (file->file == NULL) {
    status = tri_fail(TRI_IO_FAILED, "cannot create %s: %s", file->path, tri_write_fault(errno));
    goto free_file;
  }
  TRI_TRY_GOTO(write_beginning(file, first_step), close_file);
  *out = file;
  return TRI_OK;
close_file:
  fclose(file->file);
free_file:
  tri_free(file);
  return status;
}

tri_status tri_event_file_scalars(tri_event_file *file, int64_t step, const tri_scalar *scalars, int count) {
  message event, summary, value;
  summary.bytes = 0;
  summary.overflow = false;
  for (int i = 0; i < count; i++) {
    value.bytes = 0;
    value.overflow = false;
    append_block(&value, 1, scalars[i].tag, strlen(scalars[i].tag));
    append_float(&value, 2, (float)scalars[i].value);
    append_block(&summary, 1, value.data, value.bytes);
    summary.overflow |= value.overflow;
  }
  begin_event(&event);
  append_integer(&event, 2, step);
  append_block(&event, 5, summary.data, summary.bytes);
  event.overflow |= summary.overflow;
  return write_record(file, &event);
}

tri_status tri_event_file_close(tri_event_file *file) {
  if (file == NULL) return TRI_OK;
  tri_status status = TRI_OK;
  if (fclose(file->file) != 0)
    status = tri_fail(TRI_IO_FAILED, "cannot write %s: %s", file->path, tri_write_fault(errno));
  tri_free(file);
  return status;
}
