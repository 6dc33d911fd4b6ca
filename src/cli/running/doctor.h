/* The checks of `trireme doctor` and their findings. doctor.c prints the findings. */
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
  bool required;     /* whether TRI_MARK_MISSING makes the exit status of the command other than 0 */
  char value[320];   /* the result, as text */
  char advice[1024]; /* advice to the user about the result; "": none */
  json_t *facts;     /* the value as keys and values of the JSON output, which the finding owns */
} tri_finding;

/* Maximum number of findings on a machine without GPUs, and number of further findings for each GPU. */
enum { TRI_DOCTOR_MOST_FINDINGS = 64, TRI_DOCTOR_FINDINGS_OF_GPU = 4 };

typedef struct tri_doctor {
  tri_machine machine;
  double test_s;      /* duration of each test of matrix products in seconds; 0: no tests */
  tri_gpu_seen *gpus; /* [num_gpus] */
  int num_gpus;
  char no_gpus[1024];    /* if num_gpus is 0: the attempts to find GPUs, as text */
  tri_finding *findings; /* [count] */
  int count;
} tri_doctor;

/* Starts a finding with the mark "ok", and returns it. There is room for the findings of all checks below. */
tri_finding *tri_doctor_find(tri_doctor *doctor, const char *name);
/* Sets the value of a finding, formatted as by printf. */
void tri_finding_value(tri_finding *finding, const char *format, ...) TRI_PRINTF(2, 3);
/* Sets the mark and the advice of a finding. */
void tri_finding_advise(tri_finding *finding, tri_mark mark, const char *format, ...) TRI_PRINTF(3, 4);

/* The checks. Each adds one or more findings. */
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
