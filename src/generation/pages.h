/* The pool of pages of keys and values: who holds which page, and which full pages hold what, so that a text that
 * begins like an earlier one reads what is new alone.
 *
 * A page belongs to all that hold it. One that is full may be kept: it is then found by the tokens of its
 * positions and by the page before it, as long as its place is not needed. Unused pages are given out again,
 * the empty ones first, then of the kept ones the one that was released longest ago. Nothing here is device
 * memory: a page is a number. */
#ifndef TRI_GENERATION_PAGES_H
#define TRI_GENERATION_PAGES_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tri_pages tri_pages;

/* `count` pages of `rows` positions. Release with tri_pages_destroy. */
tri_status tri_pages_create(int64_t count, int64_t rows, tri_pages **out);
void tri_pages_destroy(tri_pages *pages);

int64_t tri_pages_count(const tri_pages *pages);
/* Unused ones. */
int64_t tri_pages_free(const tri_pages *pages);
/* By how many a page is held: [count]. */
const int32_t *tri_pages_holders(const tri_pages *pages);

/* An unused page, now held once; -1 if there is none. What it held is forgotten. */
int32_t tri_pages_take(tri_pages *pages);
void tri_pages_hold(tri_pages *pages, int32_t page);
void tri_pages_release(tri_pages *pages, int32_t page);

/* What a prefix is known by: that of no tokens, and behind each kept page another. */
typedef uint64_t tri_prefix;
enum { TRI_PREFIX_NONE = 0 };

/* The kept page with these tokens [rows] behind the prefix, held once more, with *prefix that of its end; -1 if there
 * is none. */
int32_t tri_pages_find(tri_pages *pages, tri_prefix *prefix, const int32_t *ids);
/* Keeps a held page that is full of these tokens. If another is kept with the same, that one is returned, held once
 * more, and the caller should release its own; else `page`. *prefix becomes that of its end. */
int32_t tri_pages_keep(tri_pages *pages, int32_t page, tri_prefix *prefix, const int32_t *ids);

/* The weights have changed: no page is found any more. Pages that are held stay held. */
void tri_pages_forget(tri_pages *pages);

#endif
