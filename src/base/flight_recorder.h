/* The flight recorder of a rank: a log of its activities in memory.
 *
 * Code that takes time records its begin and its end. The newest records are always available, so that the activity of
 * a stuck or failed rank can be reported (recovery/watchdog.h). On request all records from a moment on are kept, and a
 * timeline is drawn from them (report/timing.h). A record costs some 100 ns.
 *
 * Any thread may record and read. */
#ifndef TRI_BASE_FLIGHT_RECORDER_H
#define TRI_BASE_FLIGHT_RECORDER_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum tri_record_kind {
  TRI_RECORD_WORK,       /* an instruction of a step program, a save, an evaluation */
  TRI_RECORD_COLLECTIVE, /* a collective, from its start until it is complete on this rank */
  TRI_RECORD_SEND,       /* a message, from its start until it is complete on this rank */
  TRI_RECORD_RECEIVE,    /* a message, from its start until it is complete on this rank */
  TRI_RECORD_PROGRESS,   /* progress of collectives in the background */
} tri_record_kind;

/* Codes of work that is a part of a step and is not an instruction of its program. Instructions have their own codes,
 * which are smaller. */
enum { TRI_RECORD_SAMPLE = 1000, TRI_RECORD_MOVE };

/* Texts are not copied and must stay valid. Numbers that do not apply are -1. */
typedef struct tri_record {
  tri_record_kind kind;
  int32_t code;      /* work: the code of an instruction, or TRI_RECORD_SAMPLE or _MOVE; -1: not a part of a step */
  const char *name;  /* name of the activity, such as "forward" or "all_reduce" */
  const char *group; /* communication: name of the group, such as "tensor"; NULL otherwise */
  uint64_t number; /* collective: its number in the group, from 1; message: a number that its start and its wait share;
                      0: tri_recorder_begin and _note set it to the ticket */
  double begin_s,
      end_s; /* times on tri_clock_s, set by tri_recorder_begin, _note and _end; end_s is 0 while in progress */
  int64_t step, bytes; /* step of the training, set by tri_recorder_begin or _note; bytes of a message or of a
                          collective's buffer */
  int32_t micro_batch, chunk, bucket;
  int32_t peer, tag; /* message: the other rank, numbered in the group, and the tag */
  bool background;   /* whether the communication overlaps with other work */
} tri_record;

/* Makes a record of this kind and name; all other members are -1, 0, NULL or false. */
tri_record tri_record_make(tri_record_kind kind, const char *name);

/* Adds a record that begins now, and returns a ticket for tri_recorder_end. Records may overlap. */
uint64_t tri_recorder_begin(const tri_record *record);
/* Sets the end of a record to now. */
void tri_recorder_end(uint64_t ticket);
/* Adds a record that began at begin_s, on tri_clock_s, and ends now. */
void tri_recorder_note(const tri_record *record, double begin_s);

/* Records that this rank is alive. Call it at least once a second in a wait that is known to end (another rank or a
 * time limit ends it), so that the rank does not look stuck. */
void tri_recorder_beat(void);

/* Sets the step of later records. */
void tri_recorder_step(int64_t step);

enum { TRI_RECORDER_NEWEST = 256 };

/* Copies the newest records in the order of their tickets, and returns their number. For any thread. */
int tri_recorder_look(tri_record out[TRI_RECORDER_NEWEST]);
/* Returns the time of the last begin, end or beat, on tri_clock_s; 0 before the first. For any thread. */
double tri_recorder_last_s(void);

/* Keeps all records that begin from now on, until tri_recorder_kept. */
void tri_recorder_keep(void);
/* Stops keeping, and sets *out to the kept records, [*count]; release with tri_free (NULL if no record was kept).
 * Records that have not ended are left out. Fails with TRI_OUT_OF_MEMORY if some records could not be kept. */
tri_status tri_recorder_kept(tri_record **out, int64_t *count);

#endif
