#include "schedule/instruction.h"

const char *tri_instruction_name(tri_instruction_kind kind) {
#define NAME(KIND, name) #name,
  static const char *const names[] = {TRI_INSTRUCTIONS(NAME)};
#undef NAME
  return names[kind];
}
