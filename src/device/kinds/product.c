/* The kinds of devices of trireme (device/kinds.h). */
#include "device/kinds.h"
#include "device/kinds/in_both.h"

/* The devices for tests are only in trireme-test. */
const tri_device_kind tri_device_kinds[] = {
    TRI_KINDS_IN_BOTH,
    {"guarded", 0, true, NULL, NULL, NULL},
    {"emulated", 0, true, NULL, NULL, NULL},
    {0},
};
