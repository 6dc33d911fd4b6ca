/* The kinds of devices. A program links one table of them: kinds/product.c for trireme, or kinds/for_tests.c for
 * trireme-test and the test programs, which have two more devices. */
#ifndef TRI_DEVICE_KINDS_H
#define TRI_DEVICE_KINDS_H

#include "device/device.h"

/* A kind of device. A device's name is KIND or KIND:OPTIONS. */
typedef struct tri_device_kind {
  const char *name;
  unsigned types; /* bit 1 << t for each supported type t of activations, as in tri_device_info */
  bool for_tests; /* whether the kind exists only to test the program; messages never recommend it */
  /* LOCAL. Checks the options as far as possible without the machine. Fails with TRI_BAD_CONFIG if an option is
   * illegal. NULL: options are not checked. */
  tri_status (*check)(const char *options);
  /* LOCAL. Sets the members of a device; the caller has set info.types. NULL: the kind is not in this program. */
  tri_status (*create)(const char *options, const tri_device_request *request, tri_device *out);
  /* LOCAL. Returns whether this machine has such a device; prints nothing. NULL for kinds that every machine has. */
  bool (*is_visible)(void);
} tri_device_kind;

/* An entry without a name ends the table. */
extern const tri_device_kind tri_device_kinds[];

#endif
