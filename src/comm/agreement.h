/* Agreement of the ranks of a group on a status or a text. */
#ifndef TRI_COMM_AGREEMENT_H
#define TRI_COMM_AGREEMENT_H

#include "comm/comm.h"

/* COLLECTIVE. Returns rank 0's `status` on all ranks, for work that rank 0 did for all; the argument is ignored on the
 * other ranks. The message is empty on all ranks but rank 0. */
tri_status tri_first_rank_status(const tri_group *group, tri_status status);

/* COLLECTIVE. Returns TRI_OK if `status` is TRI_OK on all ranks, else the status of the lowest rank that failed. That
 * rank keeps its message and the others have an empty one, so that it is printed once. */
tri_status tri_common_status(const tri_group *group, tri_status status);

/* COLLECTIVE. Returns the status of tri_common_status, with the failed rank's message on every rank. For failures that
 * do not end the job. */
tri_status tri_common_failure(const tri_group *group, tri_status status);

/* COLLECTIVE. Checks that all ranks have equal texts, text[length], by their hashes. Otherwise fails with
 * TRI_BAD_CONFIG on every rank, with a message that names the lowest rank whose text differs from rank 0's, and
 * `what`, the noun for the text. */
tri_status tri_must_agree(const tri_group *group, const char *what, const char *text, size_t length);

#endif
