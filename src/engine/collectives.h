/* The engine's filling of the table by which operations reach the other ranks (ops/run.h). */
#ifndef TRI_ENGINE_COLLECTIVES_H
#define TRI_ENGINE_COLLECTIVES_H

#include "comm/mesh.h"
#include "engine/exchange.h"
#include "ops/run.h"

/* Whom a run works with. */
struct tri_ranks {
  const tri_mesh *mesh; /* not owned */
  tri_exchange *exchange;
};

/* A domain is this rank's group of it; values go through the exchange. */
extern const tri_collectives tri_engine_collectives;

#endif
