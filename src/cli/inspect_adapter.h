/* What `inspect` says of an adapter. */
#ifndef TRI_CLI_INSPECT_ADAPTER_H
#define TRI_CLI_INSPECT_ADAPTER_H

#include "checkpoint/peft.h"

#include <jansson.h>

/* Two lines, of the factors and of the base. */
void tri_inspect_print_adapter(const tri_peft *peft);

/* The same for programs; NULL: out of memory. */
json_t *tri_inspect_adapter_json(const tri_peft *peft);

#endif
