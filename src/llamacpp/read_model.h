/* Reads the model that the keys and the tensors of a GGUF file describe. */
#ifndef TRI_LLAMACPP_READ_MODEL_H
#define TRI_LLAMACPP_READ_MODEL_H

#include "gguf/gguf.h"
#include "llamacpp/architecture.h"
#include "model/model.h"

/* LOCAL. Reads the model. What llama.cpp has no keys for follows from the architecture (the activation), or from the
 * tensors that the file has (biases, a tied output projection). Fails with TRI_UNSUPPORTED for an architecture that no
 * family has, or a value that its family does not have, and with TRI_BAD_FILE if a key is missing or wrong. */
tri_status tri_llamacpp_read_model(const tri_gguf_file *file, tri_model *model, const tri_llamacpp_arch **arch);

#endif
