/* The kinds of devices. A program links one table of them: kinds/product.c is trireme's, kinds/for_tests.c that of
 * trireme-test and of the test programs, which has two devices more. */
#ifndef TRI_DEVICE_KINDS_H
#define TRI_DEVICE_KINDS_H

#include "device/device.h"

/* A device's name is its kind's, or that, a colon and options of the kind. */
typedef struct tri_device_kind {
  const char *name;
  unsigned types; /* as in tri_device_info */
  bool for_tests; /* for testing the program; never recommended */
  /* LOCAL. Whether the options are such as the kind has, as far as that can be said without the machine. May be NULL.
   */
  tri_status (*check)(const char *options);
  /* LOCAL. Fills in a device that has its types. NULL: the kind is known, and not in this program. */
  tri_status (*create)(const char *options, const tri_device_request *request, tri_device *out);
} tri_device_kind;

/* A row without a name ends it. */
extern const tri_device_kind tri_device_kinds[];

#endif
