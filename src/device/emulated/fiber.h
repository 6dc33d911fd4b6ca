/* A fiber: a stack of its own that a thread of the CPU goes on with, and comes back from. A switch to a fiber returns
 * when the fiber switches back; there is no scheduler here. Sanitizers and valgrind are told of the stacks. */
#ifndef TRI_DEVICE_EMULATED_FIBER_H
#define TRI_DEVICE_EMULATED_FIBER_H

#include "base/status.h"

#include <stddef.h>

typedef struct tri_fiber tri_fiber;

/* Stacks for `count` fibers, each ending at a page that may not be touched. Release with tri_fibers_destroy. */
tri_status tri_fibers_create(int count, tri_fiber **out);
void tri_fibers_destroy(tri_fiber *fibers);

/* Fiber `which` is to begin at entry(argument) when it is next switched to; what it was doing is forgotten. `entry`
 * never returns: it ends with a tri_fiber_leave after which it is never entered. */
void tri_fiber_begin(tri_fiber *fibers, int which, void (*entry)(void *argument), void *argument);
/* Goes on with the fiber until it leaves. Not from within a fiber. */
void tri_fiber_enter(tri_fiber *fibers, int which);
/* From within fiber `which`: back to who entered it. */
void tri_fiber_leave(tri_fiber *fibers, int which);

#endif
