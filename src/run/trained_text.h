/* Text that describes the trained parameters of a run: checkpoints record it, and a resume compares it. */
#ifndef TRI_RUN_TRAINED_TEXT_H
#define TRI_RUN_TRAINED_TEXT_H

#include "model/trainable.h"

enum {
  TRI_PATTERNS_TEXT_BYTES = TRI_ADAPTER_PATTERNS * (TRI_TRAINABLE_WORD_BYTES + 32) + 32,
  TRI_ADAPTER_TEXT_BYTES = 2 * TRI_TRAINABLE_TEXT_BYTES + 2 * TRI_PATTERNS_TEXT_BYTES + 100
};

/* Describe an adapter as text; "" without an adapter. tri_adapter_text has all keys that change the adapter's function;
 * tri_factors_text has only the keys that determine its factors and their shapes. */
void tri_adapter_text(const tri_adapter *adapter, char out[TRI_ADAPTER_TEXT_BYTES]);
void tri_factors_text(const tri_adapter *adapter, char out[TRI_ADAPTER_TEXT_BYTES]);

#endif
