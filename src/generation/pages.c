#include "generation/pages.h"

#include "base/fnv1a.h"
#include "base/memory.h"

#include <string.h>

/* State of a page. Lists are linked by page numbers; -1 ends a list. The list of unused pages has the uncached pages,
 * then the cached ones in the order of their release. */
typedef struct page_state {
  int32_t before, after;     /* neighbours in the list of unused pages */
  int32_t next_in_bucket;    /* next cached page in the same bucket */
  bool kept;                 /* whether the page is cached */
  tri_prefix parent, prefix; /* prefix before a cached page, and the prefix that ends with it */
} page_state;

struct tri_pages {
  int64_t count, rows, free; /* pages; positions of a page; pages with reference count 0 */
  int32_t *holders;          /* [count], reference counts */
  page_state *state;         /* [count] */
  int32_t *ids;              /* [count, rows], tokens of cached pages */
  int32_t *buckets; /* [num_buckets], first cached page of each bucket, -1: none; num_buckets is a power of 2 */
  uint64_t num_buckets;
  int32_t oldest, newest; /* ends of the list of unused pages; the oldest is allocated first */
  tri_prefix last_prefix; /* the largest number given to a prefix */
};

static const char what[] = "pages";

tri_status tri_pages_create(int64_t count, int64_t rows, tri_pages **out) {
  tri_pages *p = NULL;
  if (count < 1 || count > INT32_MAX / rows) return tri_fail_internal("a pool of %ld pages", (long)count);
  TRI_TRY(tri_alloc(what, 1, sizeof *p, &p));
  p->count = p->free = count;
  p->rows = rows;
  p->num_buckets = 16;
  while (p->num_buckets < (uint64_t)count) p->num_buckets *= 2;
  tri_status status = tri_alloc(what, (size_t)count, sizeof *p->holders, &p->holders);
  if (status == TRI_OK) status = tri_alloc(what, (size_t)count, sizeof *p->state, &p->state);
  if (status == TRI_OK) status = tri_alloc(what, (size_t)(count * rows), sizeof *p->ids, &p->ids);
  if (status == TRI_OK) status = tri_alloc(what, (size_t)p->num_buckets, sizeof *p->buckets, &p->buckets);
  if (status != TRI_OK) {
    tri_pages_destroy(p);
    return status;
  }
  for (int32_t i = 0; i < (int32_t)count; i++)
    p->state[i] = (page_state){.before = i - 1, .after = i + 1 < (int32_t)count ? i + 1 : -1, .next_in_bucket = -1};
  for (uint64_t i = 0; i < p->num_buckets; i++) p->buckets[i] = -1;
  p->newest = (int32_t)count - 1;
  *out = p;
  return TRI_OK;
}

void tri_pages_destroy(tri_pages *p) {
  if (p == NULL) return;
  tri_free(p->buckets);
  tri_free(p->ids);
  tri_free(p->state);
  tri_free(p->holders);
  tri_free(p);
}

int64_t tri_pages_count(const tri_pages *p) { return p->count; }
int64_t tri_pages_free(const tri_pages *p) { return p->free; }
const int32_t *tri_pages_holders(const tri_pages *p) { return p->holders; }

/* ---- unused pages ------------------------------------------------------------------------------------------------ */

static void unlink_page(tri_pages *p, int32_t page) {
  const page_state *s = &p->state[page];
  if (s->before >= 0) p->state[s->before].after = s->after;
  if (s->after >= 0) p->state[s->after].before = s->before;
  if (p->oldest == page) p->oldest = s->after;
  if (p->newest == page) p->newest = s->before;
  p->free--;
}

/* Adds a page to the list of unused ones: at the end if it is cached, else at the front, to be allocated first. */
static void link_page(tri_pages *p, int32_t page) {
  page_state *s = &p->state[page];
  s->before = s->kept ? p->newest : -1;
  s->after = s->kept ? -1 : p->oldest;
  if (s->before >= 0) p->state[s->before].after = page;
  if (s->after >= 0) p->state[s->after].before = page;
  if (s->kept || p->newest < 0) p->newest = page;
  if (!s->kept || p->oldest < 0) p->oldest = page;
  p->free++;
}

/* ---- prefix cache ------------------------------------------------------------------------------------------------ */

static int32_t *bucket_of(const tri_pages *p, tri_prefix prefix, const int32_t *ids) {
  const uint64_t hash = tri_fnv1a_numbers(TRI_FNV1A_BEGIN ^ prefix, ids, (size_t)p->rows);
  return &p->buckets[hash & (p->num_buckets - 1)];
}

static const int32_t *ids_of(const tri_pages *p, int32_t page) { return p->ids + page * p->rows; }

static void forget(tri_pages *p, int32_t page) {
  page_state *s = &p->state[page];
  if (!s->kept) return;
  int32_t *at = bucket_of(p, s->parent, ids_of(p, page));
  while (*at != page) at = &p->state[*at].next_in_bucket;
  *at = s->next_in_bucket;
  s->next_in_bucket = -1;
  s->kept = false;
}

static int32_t kept_page(const tri_pages *p, tri_prefix parent, const int32_t *ids) {
  for (int32_t i = *bucket_of(p, parent, ids); i >= 0; i = p->state[i].next_in_bucket) {
    if (p->state[i].parent == parent && memcmp(ids_of(p, i), ids, (size_t)p->rows * sizeof *ids) == 0) return i;
  }
  return -1;
}

int32_t tri_pages_find(tri_pages *p, tri_prefix *prefix, const int32_t *ids) {
  const int32_t found = kept_page(p, *prefix, ids);
  if (found < 0) return -1;
  tri_pages_hold(p, found);
  *prefix = p->state[found].prefix;
  return found;
}

int32_t tri_pages_keep(tri_pages *p, int32_t page, tri_prefix *prefix, const int32_t *ids) {
  const int32_t found = tri_pages_find(p, prefix, ids);
  if (found == page) tri_pages_release(p, page); /* already cached: tri_pages_find has added a reference */
  if (found >= 0) return found;
  page_state *s = &p->state[page];
  int32_t *bucket = bucket_of(p, *prefix, ids);
  memcpy(p->ids + page * p->rows, ids, (size_t)p->rows * sizeof *ids);
  *s = (page_state){.before = -1, .after = -1, .next_in_bucket = *bucket, .kept = true, .parent = *prefix};
  *bucket = page;
  *prefix = s->prefix = ++p->last_prefix;
  return page;
}

tri_prefix tri_pages_root(tri_pages *p) { return ++p->last_prefix; }

/* ---- reference counts -------------------------------------------------------------------------------------------- */

int32_t tri_pages_allocate(tri_pages *p) {
  const int32_t page = p->oldest;
  if (page < 0) return -1;
  unlink_page(p, page);
  forget(p, page);
  p->holders[page] = 1;
  return page;
}

void tri_pages_hold(tri_pages *p, int32_t page) {
  if (p->holders[page]++ == 0) unlink_page(p, page);
}

void tri_pages_release(tri_pages *p, int32_t page) {
  if (--p->holders[page] == 0) link_page(p, page);
}
