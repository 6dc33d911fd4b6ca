/* The engine's thread of a server: it takes jobs from the queue between steps, generates their texts, and replies. */
#ifndef TRI_SERVE_ENGINE_H
#define TRI_SERVE_ENGINE_H

#include "serve/front.h"

/* On the first rank. Serves until this process is asked to stop: requests that run are then finished, those that wait
 * are refused, and the other ranks return. If the generator fails, replies to all requests with the error, and fails.
 */
tri_status tri_serve_run(tri_serve_front *front);

#endif
