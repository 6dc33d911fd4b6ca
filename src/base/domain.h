/* Domains: the ranks over which something is split, copied or added up, said by what they have in common.
 *
 * A domain is a set of axes of the mesh. Its ranks are those that differ along these axes alone; they are numbered in
 * the order of the mesh, its fastest axis first. Who splits, adds or passes on names a domain, never an axis: what an
 * axis more or less means for it stands here. Plain arithmetic, as place.h; the groups are comm/mesh.h's. */
#ifndef TRI_BASE_DOMAIN_H
#define TRI_BASE_DOMAIN_H

#include "base/place.h"

#include <stdbool.h>

typedef enum tri_domain {
  TRI_DOMAIN_BATCH,    /* read different sequences of the global batch */
  TRI_DOMAIN_REPLICAS, /* hold the same parameters and see different tokens: gradients are added up over it */
  TRI_DOMAIN_LOSS,     /* have different labels of the global batch: losses and counts are added up over it */
  TRI_DOMAIN_TENSOR,   /* hold different parts of a layer's parameters, and see the same tokens */
  TRI_DOMAIN_CONTEXT,  /* hold different tokens of the same sequences */
  TRI_DOMAIN_PIPELINE, /* hold different layers */
} tri_domain;
enum { TRI_NUM_DOMAINS = 6 };

/* Of its group, in messages and timelines. */
const char *tri_domain_name(tri_domain domain);

/* Whether it is a domain of that axis. */
bool tri_domain_has(tri_domain domain, tri_axis axis);

/* The axis under which time spent over it is shown: its slowest. */
tri_axis tri_domain_axis(tri_domain domain);

/* Whether what passes over it may wait behind what passes over another of the same ranks, and so use their group: not
 * where a layer waits for it, since gradients travel in the background of layers. */
bool tri_domain_shares_group(tri_domain domain);

/* How many ranks a domain has, and the number in it of the rank at `place`. */
int tri_domain_size(const tri_mesh_shape *shape, tri_domain domain);
int tri_domain_rank(const tri_mesh_shape *shape, const tri_mesh_place *place, tri_domain domain);

/* Where the rank number `rank` of that domain stands, beside the one at `place`. */
tri_mesh_place tri_domain_place(const tri_mesh_shape *shape, const tri_mesh_place *place, tri_domain domain, int rank);

#endif
