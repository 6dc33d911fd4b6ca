#include "base/flight_recorder.h"

#include "base/clock.h"
#include "base/memory.h"

#include <pthread.h>
#include <string.h>

/* The recorder is global, because it describes the whole process. The lock is held only for some ten instructions,
 * or while records are copied, so a rank that is stuck is not stuck here. */
static struct {
  pthread_mutex_t lock;
  tri_record
      newest[TRI_RECORDER_NEWEST]; /* ring: ticket t is at index t % TRI_RECORDER_NEWEST until it is overwritten */
  uint64_t tickets[TRI_RECORDER_NEWEST]; /* ticket at each index of `newest` */
  uint64_t num_begun;                    /* the newest ticket; tickets count from 1 */
  double last_s;
  int64_t step;
  bool keeps, lacks_memory;
  tri_record *kept; /* [num_kept]: kept[i] has the ticket first_kept + i */
  int64_t num_kept, room;
  uint64_t first_kept;
} recorder = {.lock = PTHREAD_MUTEX_INITIALIZER, .step = -1};

tri_record tri_record_make(tri_record_kind kind, const char *name) {
  return (tri_record){.kind = kind,
                      .name = name,
                      .bytes = -1,
                      .code = -1,
                      .micro_batch = -1,
                      .chunk = -1,
                      .bucket = -1,
                      .peer = -1,
                      .tag = -1};
}

static tri_record *record_of_ticket(uint64_t ticket) { return &recorder.newest[ticket % TRI_RECORDER_NEWEST]; }

static void keep(const tri_record *record) {
  if (tri_grow("kept records", sizeof *recorder.kept, recorder.num_kept, &recorder.room, &recorder.kept) != TRI_OK) {
    recorder.lacks_memory = true;
    recorder.keeps = false;
    return;
  }
  recorder.kept[recorder.num_kept++] = *record;
}

/* Adds a record that begins at begin_s, in the current step, and returns it. The caller holds the lock. */
static tri_record *add(const tri_record *record, double begin_s) {
  uint64_t ticket = ++recorder.num_begun;
  tri_record *place = record_of_ticket(ticket);
  *place = *record;
  place->begin_s = begin_s;
  place->end_s = 0;
  place->step = recorder.step;
  if (record->number == 0) place->number = ticket;
  recorder.tickets[ticket % TRI_RECORDER_NEWEST] = ticket;
  return place;
}

uint64_t tri_recorder_begin(const tri_record *record) {
  double now_s = tri_clock_s();
  pthread_mutex_lock(&recorder.lock);
  const tri_record *added = add(record, now_s);
  uint64_t ticket = recorder.num_begun;
  recorder.last_s = now_s;
  if (recorder.keeps) keep(added);
  pthread_mutex_unlock(&recorder.lock);
  return ticket;
}

void tri_recorder_end(uint64_t ticket) {
  double now_s = tri_clock_s();
  pthread_mutex_lock(&recorder.lock);
  recorder.last_s = now_s;
  if (recorder.tickets[ticket % TRI_RECORDER_NEWEST] == ticket) record_of_ticket(ticket)->end_s = now_s;
  if (recorder.keeps && ticket >= recorder.first_kept) recorder.kept[ticket - recorder.first_kept].end_s = now_s;
  pthread_mutex_unlock(&recorder.lock);
}

void tri_recorder_note(const tri_record *record, double begin_s) {
  double now_s = tri_clock_s();
  pthread_mutex_lock(&recorder.lock);
  tri_record *added = add(record, begin_s);
  added->end_s = recorder.last_s = now_s;
  if (recorder.keeps) keep(added);
  pthread_mutex_unlock(&recorder.lock);
}

void tri_recorder_beat(void) {
  double now_s = tri_clock_s();
  pthread_mutex_lock(&recorder.lock);
  recorder.last_s = now_s;
  pthread_mutex_unlock(&recorder.lock);
}

void tri_recorder_step(int64_t step) {
  pthread_mutex_lock(&recorder.lock);
  recorder.step = step;
  pthread_mutex_unlock(&recorder.lock);
}

int tri_recorder_look(tri_record out[TRI_RECORDER_NEWEST]) {
  int count = 0;
  pthread_mutex_lock(&recorder.lock);
  uint64_t held = recorder.num_begun < TRI_RECORDER_NEWEST ? recorder.num_begun : TRI_RECORDER_NEWEST;
  for (uint64_t ticket = recorder.num_begun - held + 1; ticket <= recorder.num_begun; ticket++) {
    out[count++] = *record_of_ticket(ticket);
  }
  pthread_mutex_unlock(&recorder.lock);
  return count;
}

double tri_recorder_last_s(void) {
  pthread_mutex_lock(&recorder.lock);
  double last_s = recorder.last_s;
  pthread_mutex_unlock(&recorder.lock);
  return last_s;
}

void tri_recorder_keep(void) {
  pthread_mutex_lock(&recorder.lock);
  recorder.keeps = true;
  recorder.lacks_memory = false;
  recorder.num_kept = 0;
  recorder.first_kept = recorder.num_begun + 1;
  pthread_mutex_unlock(&recorder.lock);
}

tri_status tri_recorder_kept(tri_record **out, int64_t *count) {
  pthread_mutex_lock(&recorder.lock);
  int64_t ended = 0;
  for (int64_t i = 0; i < recorder.num_kept; i++) {
    if (recorder.kept[i].end_s > 0) recorder.kept[ended++] = recorder.kept[i];
  }
  tri_record *taken = recorder.kept;
  bool lacked = recorder.lacks_memory;
  recorder.kept = NULL;
  recorder.room = recorder.num_kept = 0;
  recorder.keeps = false;
  pthread_mutex_unlock(&recorder.lock);
  if (lacked) {
    tri_free(taken);
    return tri_fail(TRI_OUT_OF_MEMORY, "there is not enough memory for a timeline of that many steps; use fewer");
  }
  *out = taken;
  *count = ended;
  return TRI_OK;
}
