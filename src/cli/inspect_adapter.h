/* Output of `inspect` about an adapter. */
#ifndef TRI_CLI_INSPECT_ADAPTER_H
#define TRI_CLI_INSPECT_ADAPTER_H

#include "checkpoint/peft.h"

#include <jansson.h>

/* Prints two lines: one about the adapter's factors, and one about its base. */
void tri_inspect_print_adapter(const tri_peft *peft);

/* Returns the same facts as a new JSON object; NULL if memory is exhausted. */
json_t *tri_inspect_adapter_json(const tri_peft *peft);

#endif
