/* What the time of an instruction counts as: the same for a run that measured itself and for one that was simulated,
 * since both ask here, and what is answered are columns of the table of instructions. */
#ifndef TRI_TIMELINE_INSTRUCTION_EVENT_H
#define TRI_TIMELINE_INSTRUCTION_EVENT_H

#include "schedule/instruction.h"
#include "timeline/timeline.h"

/* What it does by itself. TRI_EVENT_COMMUNICATION: nothing but communicate, along tri_instruction_axis. */
tri_event_kind tri_instruction_event(tri_instruction_kind kind);

/* Where what it communicates counts, or TRI_EVENT_NO_AXIS. */
int tri_instruction_axis(tri_instruction_kind kind);

#endif
