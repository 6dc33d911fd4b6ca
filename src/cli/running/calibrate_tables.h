/* Selects the products, collectives and other operations that `trireme calibrate` measures. */
#ifndef TRI_CLI_RUNNING_CALIBRATE_TABLES_H
#define TRI_CLI_RUNNING_CALIBRATE_TABLES_H

#include "engine/measure.h"
#include "model/model.h"
#include "plan/measured.h"

typedef struct tri_calibrate_request {
  tri_measure *measure;
  const tri_group *world;
  tri_dtype precision;
  int64_t ranks;    /* size of `world` */
  double peak;      /* peak of a rank in FLOP/s; 0: unknown, and no size is left out because of its time */
  double longest_s; /* maximum duration of a product of the grid; longer products are left out */
  double until_s;   /* deadline by tri_clock_s; once any rank has passed it, the rest of the fine grid is left out */
  const tri_model
      *model; /* model whose shapes are measured, too, with each possible number of tensor ranks; NULL: no model */
  int64_t sequence, micro_batch; /* with a model: positions of a sequence, and sequences of a micro-batch */
} tri_calibrate_request;

/* COLLECTIVE over `world`. Measures all tables into *out. */
tri_status tri_calibrate_tables(const tri_calibrate_request *request, tri_measured *out);

#endif
