/* The checks of `trireme doctor`, and their findings; doctor.c prints them. */
#ifndef TRI_CLI_RUNNING_DOCTOR_H
#define TRI_CLI_RUNNING_DOCTOR_H

#include "base/status.h"
#include "device/gpu/inquiry.h"
#include "files/machine.h"

#include <jansson.h>
#include <stdbool.h>

typedef enum tri_mark { TRI_MARK_OK, TRI_MARK_WARNING, TRI_MARK_MISSING } tri_mark;

typedef struct tri_finding {
  char name[32];
  tri_mark mark;
  bool required;     /* TRI_MARK_MISSING makes the exit status other than 0 */
  char value[320];   /* the result, as text */
  char advice[1024]; /* what to do about it; "": nothing */
  json_t *facts;     /* the value as a JSON object */
} tri_finding;

/* Maximum findings of any machine without GPUs, and further findings of each GPU. */
enum { TRI_DOCTOR_MOST_FINDINGS = 64, TRI_DOCTOR_FINDINGS_OF_GPU = 4 };

typedef struct tri_doctor {
  tri_machine machine;
  double test_s; /* seconds of each test of matrix products; 0: no tests */
  tri_gpu_seen *gpus;
  int num_gpus;
  char no_gpus[1024]; /* attempts to find GPUs, as text, if num_gpus is 0 */
  tri_finding *findings;
  int count;
} tri_doctor;

/* Starts a finding with mark "ok". There is room for all checks below. */
tri_finding *tri_doctor_find(tri_doctor *doctor, const char *name);
void tri_finding_value(tri_finding *finding, const char *format, ...) TRI_PRINTF(2, 3);
/* Sets the mark and the advice. */
void tri_finding_advise(tri_finding *finding, tri_mark mark, const char *format, ...) TRI_PRINTF(3, 4);

void tri_doctor_check_processor(tri_doctor *doctor);
void tri_doctor_check_cores(tri_doctor *doctor);
void tri_doctor_check_memory(tri_doctor *doctor);
void tri_doctor_check_threads(tri_doctor *doctor);
void tri_doctor_check_launcher(tri_doctor *doctor);
void tri_doctor_check_libraries(tri_doctor *doctor);
void tri_doctor_check_disk(tri_doctor *doctor);
void tri_doctor_check_device(tri_doctor *doctor);
void tri_doctor_check_gpus(tri_doctor *doctor);

#endif
