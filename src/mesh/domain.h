/* Domains: sets of ranks over which data are split, copied or summed (process groups in PyTorch), named by what their
 * ranks have in common.
 *
 * A domain is a set of axes of the mesh, or of the expert mesh (mesh/coordinates.h). Its ranks differ along these axes
 * only, and are numbered in the order of the mesh, its fastest axis first. Operations, sums and buckets name a domain,
 * never an axis, so that a new axis changes this file alone. Plain arithmetic, as coordinates.h; the groups are in
 * comm/mesh.h. */
#ifndef TRI_MESH_DOMAIN_H
#define TRI_MESH_DOMAIN_H

#include "mesh/coordinates.h"

#include <stdbool.h>

typedef enum tri_domain {
  TRI_DOMAIN_BATCH,    /* ranks read different sequences of the global batch */
  TRI_DOMAIN_REPLICAS, /* ranks hold the same parameters and have different tokens: gradients are summed over this
                          domain */
  TRI_DOMAIN_LOSS, /* ranks have different labels of the global batch: losses and counts are summed over this domain */
  TRI_DOMAIN_TENSOR,          /* ranks hold different parts of a layer's parameters, and have the same tokens */
  TRI_DOMAIN_CONTEXT,         /* ranks hold different tokens of the same sequences */
  TRI_DOMAIN_CONTEXT_INNER,   /* context ranks that exchange attention heads for tokens */
  TRI_DOMAIN_CONTEXT_OUTER,   /* context ranks that have the same heads, and exchange keys */
  TRI_DOMAIN_PIPELINE,        /* ranks hold different layers */
  TRI_DOMAIN_EXPERT,          /* ranks hold different parts of the experts of a layer, and exchange rows for them */
  TRI_DOMAIN_EXPERT_HOLDERS,  /* expert ranks that hold different experts */
  TRI_DOMAIN_EXPERT_TENSOR,   /* expert ranks that hold different parts of the same experts */
  TRI_DOMAIN_EXPERT_REPLICAS, /* ranks hold the same parts of the same experts: their gradients are summed over this
                                 domain */
  TRI_DOMAIN_SEQUENCE, /* ranks share sequences: context ranks have different tokens of a sequence, and tensor ranks
                          have the same tokens, or different slices of their rows */
} tri_domain;
enum { TRI_NUM_DOMAINS = TRI_DOMAIN_SEQUENCE + 1 };

/* Returns the name of a domain in messages and timelines. */
const char *tri_domain_name(tri_domain domain);

/* Returns whether an axis is one of the domain's axes. */
bool tri_domain_has(tri_domain domain, tri_axis axis);

/* Returns whether the domain's axes belong to the expert mesh. */
bool tri_domain_is_folded(tri_domain domain);

/* Return the axis under which reports show the domain's communication; and whether reports show the communication of
 * any domain under `axis`. */
tri_axis tri_domain_axis(tri_domain domain);
bool tri_axis_is_shown(tri_axis axis);

/* Returns whether a domain has a group. CONTEXT has no group because its ranks communicate over its inner and outer
 * domains, and EXPERT_HOLDERS because its ranks do not communicate. */
bool tri_domain_has_group(tri_domain domain);

/* Returns whether only layers with experts use the domain. */
bool tri_domain_is_of_experts(tri_domain domain);

/* Returns whether `domain` may use the group of `first` if both have the same ranks, so that its communication is
 * ordered after that of `first`. Gradients and losses may share a group, but not with layers, because they are
 * exchanged in the background of layers. Sums of routers may use a group of layers. */
bool tri_domain_may_share(tri_domain first, tri_domain domain);
/* Returns whether both domains have the same ranks. */
bool tri_domains_are_same(const tri_mesh_shape *shape, tri_domain a, tri_domain b);

/* Return the number of ranks of a domain; and the number that the rank at `place` has in its domain. */
int tri_domain_size(const tri_mesh_shape *shape, tri_domain domain);
int tri_domain_rank(const tri_mesh_shape *shape, const tri_mesh_coordinates *place, tri_domain domain);

/* Returns the coordinates of rank number `rank` of the domain that contains the rank at `place`. */
tri_mesh_coordinates tri_domain_coordinates(const tri_mesh_shape *shape, const tri_mesh_coordinates *place,
                                            tri_domain domain, int rank);

#endif
