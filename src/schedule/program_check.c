/* Simulates the programs of all stages together. Computing takes no time and always succeeds, a message is sent as soon
 * as both sides have started it, and a rank that waits for another message is blocked. If all ranks are blocked, the
 * programs deadlock. */
#include "base/memory.h"
#include "schedule/program.h"

typedef struct walk {
  const tri_program *const *programs;
  int64_t stages, most_stage_buffers;
  int64_t *at;      /* [stage]: next instruction */
  int64_t *pending; /* number of the message in each stage buffer, among the messages with its tag [stage, kind, stage
                       buffer] */
  int64_t *posted, *sent; /* numbers of messages of each tag that the receiver, and the sender, has started [tag] */
  int64_t num_tags;
} walk;

static int64_t *pending_of(const walk *w, int64_t stage, const tri_instruction *at) {
  return &w->pending[(stage * TRI_NUM_STAGE_BUFFER_KINDS + at->stage_buffer_kind) * w->most_stage_buffers +
                     at->stage_buffer];
}

/* Executes an instruction of a message. Returns whether that was possible. `started`, `started_there` [tag]: numbers of
 * messages that this side and the other side have started. `tag_of_box`: tag of the message in each stage buffer; an
 * instruction that waits uses it, since it may have no tag of its own. */
static bool advance_message(walk *w, int64_t stage, const tri_instruction *at, int64_t *tag_of_box, int64_t *started,
                            const int64_t *started_there) {
  int64_t *pending = pending_of(w, stage, at);
  int64_t *tag = &tag_of_box[pending - w->pending];
  switch (tri_instruction_completion(at->kind)) {
    case TRI_COMPLETION_starts:
      *tag = at->tag;
      *pending = started[at->tag]++;
      return true;
    case TRI_COMPLETION_waits: return started_there[*tag] > *pending;
    case TRI_COMPLETION_at_once: break;
  }
  return true;
}

/* Executes an instruction. Returns whether that was possible. */
static bool advance(walk *w, int64_t stage, const tri_instruction *at, int64_t *tag_of_box) {
  switch (tri_instruction_operands(at->kind)) {
    case TRI_OPERANDS_stage_buffer_from: return advance_message(w, stage, at, tag_of_box, w->posted, w->sent);
    case TRI_OPERANDS_stage_buffer_to:
    case TRI_OPERANDS_stage_buffer: return advance_message(w, stage, at, tag_of_box, w->sent, w->posted);
    case TRI_OPERANDS_nothing:
    case TRI_OPERANDS_micro_batch:
    case TRI_OPERANDS_calls:
    case TRI_OPERANDS_calls_back:
    case TRI_OPERANDS_bucket: break; /* no message */
  }
  return true;
}

static tri_status stuck(const walk *w) {
  for (int64_t s = 0; s < w->stages; s++) {
    const tri_program *program = w->programs[s];
    if (w->at[s] == program->num_instructions) continue;
    const tri_instruction *at = &program->instructions[w->at[s]];
    return tri_fail_internal("the step programs never end: stage %ld waits forever in instruction %ld (%s %s %d)",
                             (long)s, (long)w->at[s], tri_instruction_name(at->kind),
                             tri_stage_buffer_name(at->stage_buffer_kind), at->stage_buffer);
  }
  for (int64_t t = 0; t < w->num_tags; t++) {
    if (w->posted[t] == w->sent[t]) continue;
    return tri_fail_internal("the step programs do not match: %ld messages with tag %ld are sent and %ld received",
                             (long)w->sent[t], (long)t, (long)w->posted[t]);
  }
  return TRI_OK;
}

static tri_status program_check_run(walk *w) {
  int64_t *tag_of_box = NULL;
  TRI_TRY(tri_alloc("a check", (size_t)(w->stages * TRI_NUM_STAGE_BUFFER_KINDS * w->most_stage_buffers) + 1,
                    sizeof *tag_of_box, &tag_of_box));
  for (bool moved = true; moved;) {
    moved = false;
    for (int64_t s = 0; s < w->stages; s++) {
      const tri_program *program = w->programs[s];
      while (w->at[s] < program->num_instructions && advance(w, s, &program->instructions[w->at[s]], tag_of_box)) {
        w->at[s]++;
        moved = true;
      }
    }
  }
  tri_free(tag_of_box);
  return stuck(w);
}

tri_status tri_program_check(const tri_program *const *programs, int64_t stages) {
  walk w = {.programs = programs, .stages = stages, .num_tags = 2 * stages * (programs[0]->num_chunks + 1)};
  tri_status status = TRI_OK;
  for (int64_t s = 0; s < stages; s++) {
    for (int kind = 0; kind < TRI_NUM_STAGE_BUFFER_KINDS; kind++) {
      if (programs[s]->stage_buffers[kind] > w.most_stage_buffers)
        w.most_stage_buffers = programs[s]->stage_buffers[kind];
    }
  }
  size_t stage_buffers = (size_t)(stages * TRI_NUM_STAGE_BUFFER_KINDS * w.most_stage_buffers),
         tags = (size_t)w.num_tags;
  TRI_TRY_GOTO(tri_alloc("a check", (size_t)stages, sizeof *w.at, &w.at), done);
  TRI_TRY_GOTO(tri_alloc("a check", stage_buffers + 1, sizeof *w.pending, &w.pending), done);
  TRI_TRY_GOTO(tri_alloc("a check", tags, sizeof *w.posted, &w.posted), done);
  TRI_TRY_GOTO(tri_alloc("a check", tags, sizeof *w.sent, &w.sent), done);
  status = program_check_run(&w);
done:
  tri_free(w.sent);
  tri_free(w.posted);
  tri_free(w.pending);
  tri_free(w.at);
  return status;
}
