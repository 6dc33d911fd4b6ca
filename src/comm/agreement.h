/* Ranks that must go the same way. */
#ifndef TRI_COMM_AGREEMENT_H
#define TRI_COMM_AGREEMENT_H

#include "comm/comm.h"

/* COLLECTIVE. The first rank did something for all and tells how it went; the others fail with the same status and an
 * empty message. */
tri_status tri_first_rank_status(const tri_group *group, tri_status status);

/* COLLECTIVE. Every rank did the same thing; if it failed on any, it fails on all, and the lowest rank that failed
 * keeps its message while the others' are empty: so it is printed once. */
tri_status tri_common_status(const tri_group *group, tri_status status);

/* COLLECTIVE. As tri_common_status, and every rank has the message: for failures that are not the end. */
tri_status tri_common_failure(const tri_group *group, tri_status status);

/* COLLECTIVE. All ranks must have equal texts; TRI_BAD_CONFIG on every rank, with the lowest rank whose text differs
 * from rank 0's, and what it is that differs. */
tri_status tri_must_agree(const tri_group *group, const char *what, const char *text, size_t length);

#endif
