#include "schedule/instruction.h"

#define ENTRY(KIND, name, operands, completion, ...) {#name, TRI_OPERANDS_##operands, TRI_COMPLETION_##completion},
static const struct entry {
  const char *name;
  tri_operands operands;
  tri_completion completion;
} table[] = {TRI_INSTRUCTIONS(ENTRY)};
#undef ENTRY

const char *tri_instruction_name(tri_instruction_kind kind) { return table[kind].name; }
tri_operands tri_instruction_operands(tri_instruction_kind kind) { return table[kind].operands; }
tri_completion tri_instruction_completion(tri_instruction_kind kind) { return table[kind].completion; }
