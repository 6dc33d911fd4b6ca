/* The engine's implementation of the collectives that operations use (ops/run.h). */
#ifndef TRI_ENGINE_COLLECTIVES_H
#define TRI_ENGINE_COLLECTIVES_H

#include "comm/mesh.h"
#include "engine/exchange.h"
#include "ops/run.h"

/* The context of the collectives: the groups of ranks, and the means to exchange values on the device. */
struct tri_ranks {
  const tri_mesh *mesh; /* not owned */
  tri_exchange *exchange;
};

/* Runs each collective of a domain on this rank's group in the mesh, through the exchange. */
extern const tri_collectives tri_engine_collectives;

#endif
