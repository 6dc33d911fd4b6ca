/* Ranks that must agree: on a status, or on a text. */
#ifndef TRI_COMM_AGREEMENT_H
#define TRI_COMM_AGREEMENT_H

#include "comm/comm.h"

/* COLLECTIVE. Rank 0 did something for all; `status` is its result (ignored on other ranks). All ranks return it, those
 * other than rank 0 with an empty message. */
tri_status tri_first_rank_status(const tri_group *group, tri_status status);

/* COLLECTIVE. Every rank did the same thing; if it failed on any rank, it fails on all. The lowest rank that failed
 * keeps its message and the others have an empty one, so that it is printed once. */
tri_status tri_common_status(const tri_group *group, tri_status status);

/* COLLECTIVE. As tri_common_status, but every rank has the message: for failures that do not end the job. */
tri_status tri_common_failure(const tri_group *group, tri_status status);

/* COLLECTIVE. All ranks must have equal texts; else TRI_BAD_CONFIG on every rank, with a message that names the lowest
 * rank whose text differs from rank 0's, and `what` differs. */
tri_status tri_must_agree(const tri_group *group, const char *what, const char *text, size_t length);

#endif
