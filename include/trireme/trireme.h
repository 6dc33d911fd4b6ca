/* All headers of libtrireme. docs/installing.md explains how to build with it; examples/ has a program for each part.
 */
#ifndef TRIREME_H
#define TRIREME_H

#include "trireme/base.h"
#include "trireme/checkpoint.h"
#include "trireme/corpus.h"
#include "trireme/plan.h"
#include "trireme/tokenizer.h"

#endif
