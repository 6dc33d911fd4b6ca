/* What a rank says it is doing, when something is wrong: its flight recorder and what it waits for, as a file that
 * people and other ranks can read. */
#ifndef TRI_RECOVERY_FLIGHT_REPORT_H
#define TRI_RECOVERY_FLIGHT_REPORT_H

#include "comm/mesh.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tri_flight_report {
  int64_t step;       /* counted from 1; 0 outside steps */
  double idle_s;      /* since anything began or ended */
  char doing[96];     /* "forward of micro-batch 2" */
  double doing_s;     /* for so long */
  char operation[24]; /* of the communication that it waits for; "" if it waits for none */
  char group[16];
  int64_t number, bytes;
  int behind; /* the rank of the job that has not come, or -1 if that is not known here */
  double waits_s;
  int64_t joined[TRI_NUM_DOMAINS + 1]; /* the newest collective of each group that it has joined, by the domain
                                        whose it is, and of the world; 0 */
} tri_flight_report;

/* Of this rank, now. From any thread. */
void tri_flight_report_look(const tri_mesh *mesh, tri_flight_report *out);

/* Writes FOLDER/rank-00003.json: what tri_flight_report_look finds, and the newest records. From any thread. */
tri_status tri_flight_report_write(const tri_mesh *mesh, const char *folder);

/* Reads that of another rank of the mesh; false if there is none that can be read. */
bool tri_flight_report_read(const tri_mesh *mesh, const char *folder, int rank, tri_flight_report *out);

#endif
