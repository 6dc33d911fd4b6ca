/* The kind and the axis of an instruction's events, from the columns of the table of instructions
 * (schedule/instruction.h). Measured and simulated runs both use these functions. */
#ifndef TRI_TIMELINE_INSTRUCTION_EVENT_H
#define TRI_TIMELINE_INSTRUCTION_EVENT_H

#include "schedule/instruction.h"
#include "timeline/timeline.h"

/* Returns the kind of an instruction's event. TRI_EVENT_COMMUNICATION means that the instruction only communicates,
 * along tri_instruction_axis. */
tri_event_kind tri_instruction_event(tri_instruction_kind kind);

/* Returns the axis that an instruction communicates along; TRI_EVENT_NO_AXIS if all ranks take part, or if it does not
 * communicate. */
int tri_instruction_axis(tri_instruction_kind kind);

#endif
