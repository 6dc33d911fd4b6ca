/* The methods of studies in rounds. */
#include "tune/rounds.h"

const tri_rounds_method *tri_rounds_method_of(const tri_study *study) {
  switch (study->search.method) {
    case TRI_METHOD_POPULATION: return &tri_method_population;
    case TRI_METHOD_HALVING: return &tri_method_halving;
    case TRI_METHOD_AUTO:
    case TRI_METHOD_GAUSSIAN:
    case TRI_METHOD_RANDOM:
    case TRI_METHOD_GRID:
    case TRI_METHOD_EXHAUSTIVE: break;
  }
  return NULL;
}
