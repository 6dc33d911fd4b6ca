/* The constants of a cluster that a fit changes (tri_efficiency): their keys in a cluster file, and their values as
 * an array. */
#include "plan/cluster.h"

#include <stddef.h>

#define NOT_NEGATIVE .range = {.low = 0, .high = 1e30}
#define SHARE .range = {.low = 0, .high = 1, .open_low = true}

#define EFFICIENCY(NAME) .name = #NAME, .type = TRI_CONFIG_DOUBLE, .offset = offsetof(tri_efficiency, NAME)
static const tri_config_key efficiency_keys[] = {
    {EFFICIENCY(matmul), SHARE, .example = "0.7", .help = "share of the peak that a large matrix product reaches"},
    {EFFICIENCY(matmul_half), NOT_NEGATIVE, .fallback = "0.0",
     .help = "without `tiles`: dimension of a product at which half of that is left"},
    {EFFICIENCY(attention), SHARE, .example = "0.4", .help = "share of the peak that attention reaches"},
    {EFFICIENCY(memory), SHARE, .example = "0.8", .help = "share of the memory's bandwidth"},
    {EFFICIENCY(link), SHARE, .example = "0.7", .help = "share of the links' bandwidth"},
    {EFFICIENCY(launch), NOT_NEGATIVE, .example = "5.0e-6",
     .help = "seconds that the host takes to launch a kernel, in addition to the device's work"},
    {EFFICIENCY(start), NOT_NEGATIVE, .fallback = "0.0", .help = "mean seconds that a rank is late at a collective"},
};
const tri_config_table tri_efficiency_table = TRI_CONFIG_TABLE("efficiency", efficiency_keys);

double *tri_cluster_constants(tri_cluster *cluster) { return &cluster->efficiency.matmul; }

const char *tri_cluster_constant_name(int i) { return efficiency_keys[i].name; }
