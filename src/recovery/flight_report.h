/* Report of what a rank is doing, for a job that hangs or fails: the newest records of its flight recorder, and the
 * communication that it waits for, in a file that people and other ranks can read. */
#ifndef TRI_RECOVERY_FLIGHT_REPORT_H
#define TRI_RECOVERY_FLIGHT_REPORT_H

#include "comm/mesh.h"

#include <stdbool.h>
#include <stdint.h>

enum { TRI_FLIGHT_ASKED_BYTES = 48 };

typedef struct tri_flight_report {
  char asked[TRI_FLIGHT_ASKED_BYTES]; /* id of the request that the report answers (watchdog.c); "": no request */
  int64_t step;                       /* counted from 1; 0 outside steps */
  double idle_s;                      /* seconds since the last record began or ended */
  char doing[96];     /* the work in progress, else the last one ("forward of micro-batch 2"); "": none is recorded */
  double doing_s;     /* seconds since that work began; if it has ended, since it ended */
  char operation[24]; /* communication that the rank waits for ("all_reduce"); "": it does not wait, and group, number,
                         bytes and waits_s are not set */
  char group[16];
  int64_t number, bytes;               /* tri_comm_wait.number of that communication, and its bytes */
  int behind;                          /* world rank that this rank waits for; -1: not known */
  double waits_s;                      /* seconds since the wait began */
  int64_t joined[TRI_NUM_DOMAINS + 1]; /* number of the newest collective that this rank has joined in each domain's
                                          group, then in the world; 0: none */
} tri_flight_report;

/* LOCAL, from any thread. Sets *out to the report of this rank now. */
void tri_flight_report_look(const tri_mesh *mesh, tri_flight_report *out);

/* LOCAL, from any thread. Writes FOLDER/rank-00003.json: the report of this rank, and its newest records. `asked`: the
 * id of the request that it answers, or "". */
tri_status tri_flight_report_write(const tri_mesh *mesh, const char *folder, const char *asked);

/* LOCAL. Reads the file of any rank of the mesh; false if there is no readable file. */
bool tri_flight_report_read(const tri_mesh *mesh, const char *folder, int rank, tri_flight_report *out);

#endif
