/* Pool of pages of keys and values, with reference counts and a prefix cache: if a text begins like an earlier one, the
 * pages of the common tokens are found in the cache, and only the tokens after them are read. A page is a number here;
 * no device memory is touched.
 *
 * A page is *in use* if its reference count is above 0. A page is *cached* (kept) if tri_pages_find can return it; it
 * is looked up by its tokens and by the prefix before it. A cached page that is not in use remains cached until it is
 * allocated again. Unused pages are allocated in this order: first the ones that are not cached, then the cached one
 * that was released longest ago. */
#ifndef TRI_GENERATION_PAGES_H
#define TRI_GENERATION_PAGES_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tri_pages tri_pages;

/* Creates `count` pages of `rows` positions. Release with tri_pages_destroy. */
tri_status tri_pages_create(int64_t count, int64_t rows, tri_pages **out);
void tri_pages_destroy(tri_pages *pages);

int64_t tri_pages_count(const tri_pages *pages);
/* Returns the number of pages with reference count 0, cached ones included. */
int64_t tri_pages_free(const tri_pages *pages);
/* Returns the reference counts of all pages: [count]. */
const int32_t *tri_pages_holders(const tri_pages *pages);

/* Allocates a page with reference count 1, and evicts it from the prefix cache. Returns -1 if all pages are in use. */
int32_t tri_pages_allocate(tri_pages *pages);
/* Increment and decrement a page's reference count. */
void tri_pages_hold(tri_pages *pages, int32_t page);
void tri_pages_release(tri_pages *pages, int32_t page);

/* Identifies a prefix of cached pages: each cached page gets a new number for the prefix that ends with it. A root is a
 * prefix of no pages. Pages that are cached after one root are never found after another one. Each version of the
 * weights must therefore have a root of its own; several roots keep texts of different users from sharing pages. */
typedef uint64_t tri_prefix;
/* Returns a new root. */
tri_prefix tri_pages_root(tri_pages *pages);

/* Looks up the cached page that holds tokens ids[rows] after *prefix, takes a reference to it, and sets *prefix to the
 * prefix that ends with it. Returns -1 if there is no such page. */
int32_t tri_pages_find(tri_pages *pages, tri_prefix *prefix, const int32_t *ids);
/* Caches `page`, which is in use and full of tokens ids[rows] after *prefix, and returns it. If another page is cached
 * with the same tokens, takes a reference to that one and returns it; the caller should then release `page`. Sets
 * *prefix to the prefix that ends with the page. */
int32_t tri_pages_keep(tri_pages *pages, int32_t page, tri_prefix *prefix, const int32_t *ids);

#endif
