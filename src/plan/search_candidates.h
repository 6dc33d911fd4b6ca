/* The candidates of a search: how search_candidates.c finds and stores them, for search.c. */
#ifndef TRI_PLAN_SEARCH_CANDIDATES_H
#define TRI_PLAN_SEARCH_CANDIDATES_H

#include "plan/bounds.h"
#include "plan/search.h"

/* AT_ONCE: largest number of candidates that are simulated in parallel, and of threads. KEYS: largest number of
 * searched keys. */
enum { TRI_SEARCH_AT_ONCE = 16, TRI_SEARCH_KEYS = 32 };

/* A candidate is a valid layout with its lower bounds. It is simulated (*timed*) unless a closer bound of its time is
 * above the step times of other candidates, or a stage needs too much memory (*large*). */
typedef struct tri_candidate {
  tri_layout layout;
  tri_bound bound;
  double late_s;     /* closer bound of the step time (TRI_OUTCOME_TOO_SLOW); 0: not computed, or not above the limit */
  bool timed, large; /* at most one of them is true */
  bool reported;     /* whether tri_search_request.simulated was called for the candidate */
  tri_prediction *prediction; /* owned; NULL: not timed */
} tri_candidate;

/* The search stores only candidates that may be answers: those whose bound of memory is within the memory of a device,
 * and whose bound of time is within the limit of the request. As long as no bound of memory is within it, all
 * candidates are stored, to find the one that needs the least memory. */
typedef struct tri_searching {
  double begin_s;                    /* time at which the search began (tri_clock_s) */
  const tri_search_request *request; /* with a cache of prices */
  int64_t lowest_trained;            /* index of the lowest layer with a trained weight (tri_trainable_lowest_layer) */
  tri_candidate *all;                /* stored candidates [count]; enumerate sorts them by their bounds of time */
  int64_t count, room, simulated;    /* room: capacity of `all`; simulated: number of simulated candidates */
  int64_t valid;                     /* number of candidates, stored or not */
  bool stores_all;                   /* whether all candidates are stored */
  bool some_fit;                     /* whether the bound of memory of any candidate is within the memory of a device */
  tri_layout first;                  /* layout of the first candidate */
  /* Searched keys that have the same value in all candidates [num_alike]. */
  const tri_config_key *alike[TRI_SEARCH_KEYS];
  int num_alike;
} tri_searching;

/* Finds all candidates, and sorts the stored ones by their bounds of time. Fails with TRI_BAD_LAYOUT if no layout is
 * valid. Release with tri_search_forget. */
tri_status tri_search_enumerate(tri_searching *search);
void tri_search_forget(tri_searching *search);

/* Returns whether the progress is logged now: the search has taken longer than two seconds. Sets *seconds to the
 * duration of the search. */
bool tri_search_shows_progress(const tri_searching *search, double *seconds);

/* Returns the bytes of a device that a layout may use. */
double tri_search_room(const tri_search_request *request);

#endif
