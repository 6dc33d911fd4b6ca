/* A flight report says what a rank is doing, for a job that hangs or fails: its newest records
 * (base/flight_recorder.h), and the communication that it waits for. It is a file that people and other ranks can
 * read. */
#ifndef TRI_RECOVERY_FLIGHT_REPORT_H
#define TRI_RECOVERY_FLIGHT_REPORT_H

#include "comm/mesh.h"

#include <stdbool.h>
#include <stdint.h>

enum { TRI_FLIGHT_ASKED_BYTES = 48 };

typedef struct tri_flight_report {
  char asked[TRI_FLIGHT_ASKED_BYTES]; /* id of the request that the report answers (watchdog.c); "": no request */
  int64_t step;                       /* number of the step, from 1; 0 outside of steps */
  double idle_s;                      /* seconds since a record last began or ended */
  /* The newest work in progress, or if none is, the newest that has ended ("forward of micro-batch 2"); "": no work
   * is recorded. */
  char doing[96];
  double doing_s; /* seconds since this work began, or if it has ended, since its end */
  /* Communication that the rank waits for ("all_reduce"); "": it does not wait, and group, number, bytes and waits_s
   * are not set. */
  char operation[24];
  char group[16];
  int64_t number, bytes; /* number of the collective in its group, from 1 (0: a message); bytes of the communication */
  int behind;            /* world rank that this rank waits for; -1: unknown */
  double waits_s;        /* seconds since the wait began */
  /* Number of the newest collective that this rank has joined in a group; 0: its newest records (TRI_RECORDER_NEWEST)
   * have none. Element d is for the group of domain d, and the last two for the world and for the group `tied`
   * (comm/mesh.h). */
  int64_t joined[TRI_NUM_DOMAINS + 2];
} tri_flight_report;

/* Returns the index of a group, given by its name, in tri_flight_report.joined. */
int tri_flight_report_index(const tri_mesh *mesh, const char *group);

/* LOCAL, from any thread. Sets *out to the current report of this rank. */
void tri_flight_report_look(const tri_mesh *mesh, tri_flight_report *out);

/* LOCAL, from any thread. Writes the report of this rank, with its newest records, to FOLDER/rank-00003.json (for
 * rank 3). `asked`: id of the request that it answers, or "". */
tri_status tri_flight_report_write(const tri_mesh *mesh, const char *folder, const char *asked);

/* LOCAL. Reads the report of any rank of the mesh. Returns false if its file does not exist or cannot be read. */
bool tri_flight_report_read(const tri_mesh *mesh, const char *folder, int rank, tri_flight_report *out);

#endif
