/* The parameters of a layer, in the order of the parameter table. Used by blocks*.c only. */
#ifndef TRI_MODEL_BLOCKS_ROWS_H
#define TRI_MODEL_BLOCKS_ROWS_H

#include "model/blocks.h"

/* All parameters that a layer may have. */
typedef enum tri_block_row {
  TRI_ROW_NORM1_WEIGHT,
  TRI_ROW_NORM1_BIAS,
  TRI_ROW_Q_WEIGHT, /* if tri_blocks.in_out is set, q, k and v together */
  TRI_ROW_K_WEIGHT,
  TRI_ROW_V_WEIGHT,
  TRI_ROW_Q_BIAS,
  TRI_ROW_K_BIAS,
  TRI_ROW_V_BIAS,
  TRI_ROW_Q_NORM,
  TRI_ROW_K_NORM,
  TRI_ROW_OUT_WEIGHT,
  TRI_ROW_OUT_BIAS,
  TRI_ROW_POST1_WEIGHT,
  TRI_ROW_NORM2_WEIGHT,
  TRI_ROW_NORM2_BIAS,
  TRI_ROW_GATE_WEIGHT,
  TRI_ROW_UP_WEIGHT,
  TRI_ROW_GATE_BIAS,
  TRI_ROW_UP_BIAS,
  TRI_ROW_DOWN_WEIGHT,
  TRI_ROW_DOWN_BIAS,
  TRI_ROW_ROUTER_WEIGHT,
  TRI_ROW_ROUTER_BIAS,
  TRI_ROW_SHARED_GATE,
  TRI_ROW_SHARED_UP,
  TRI_ROW_SHARED_DOWN,
  TRI_ROW_EXPERT_GATE_UP,
  TRI_ROW_EXPERT_DOWN,
  TRI_ROW_POST2_WEIGHT,
} tri_block_row;
enum { TRI_NUM_BLOCK_ROWS = TRI_ROW_POST2_WEIGHT + 1 };

/* Numbers of the first parameters: the embedding, and learned positions if the family has them. The parameters of the
 * layers, of the last norm and of the output projection follow. */
enum { TRI_BLOCKS_TOKENS, TRI_BLOCKS_POSITIONS };

/* Returns the description of the layers of the model's family. */
const tri_blocks *tri_blocks_of(const tri_model *model);

/* Returns whether feed-forward parts are gated. */
bool tri_blocks_gated(const tri_blocks *blocks);

/* Returns the number of a layer's parameter in the parameter table; -1 if the layer does not have it. */
int32_t tri_blocks_find(const tri_model *model, int64_t layer, tri_block_row row);
/* The numbers of the parameters after the last layer; -1: no such bias. */
typedef struct tri_blocks_last {
  int32_t norm_weight, norm_bias, head_weight, head_bias;
} tri_blocks_last;
tri_blocks_last tri_blocks_find_last(const tri_model *model);

#endif
