/* The kinds of devices of trireme-test and of the test programs (device/kinds.h). */
#include "device/emulated/emulated.h"
#include "device/guarded/guarded.h"
#include "device/kinds.h"
#include "device/kinds/in_both.h"

const tri_device_kind tri_device_kinds[] = {
    TRI_KINDS_IN_BOTH,
    {"guarded", 1u << TRI_FP64 | 1u << TRI_FP32, true, tri_guarded_check, tri_guarded_create, NULL},
    {"emulated", 1u << TRI_FP64 | 1u << TRI_FP32 | 1u << TRI_BF16, true, tri_emulated_check, tri_emulated_create, NULL},
    {0},
};
