/* Fibers: stacks that a CPU thread switches to. A switch to a fiber returns when the fiber switches back; there is no
 * scheduler here. AddressSanitizer and valgrind are notified of the stacks. */
#ifndef TRI_DEVICE_EMULATED_FIBER_H
#define TRI_DEVICE_EMULATED_FIBER_H

#include "base/status.h"

#include <stddef.h>

typedef struct tri_fiber tri_fiber;

/* Allocates stacks for `count` fibers, each with an inaccessible page below it. Release with tri_fibers_destroy. */
tri_status tri_fibers_create(int count, tri_fiber **out);
void tri_fibers_destroy(tri_fiber *fibers);

/* Makes fiber `which` begin at entry(argument) when it is next entered; its previous state is dropped. `entry` must not
 * return: it ends with a tri_fiber_leave, after which the fiber is not entered again. */
void tri_fiber_begin(tri_fiber *fibers, int which, void (*entry)(void *argument), void *argument);
/* Runs the fiber until it leaves. Must not be called within a fiber. */
void tri_fiber_enter(tri_fiber *fibers, int which);
/* Returns to the caller of tri_fiber_enter. Must be called within fiber `which`. */
void tri_fiber_leave(tri_fiber *fibers, int which);

#endif
