/* One thread reads, `threads` encode, and the caller's thread writes. They share a ring of slots: block number n is in
 * slot n % size from its reading to its acceptance, which keeps the order without sorting and bounds memory:
 *
 *      accepted <= claimed <= read <= accepted + size
 *
 * [accepted, claimed) is being encoded or done, [claimed, read) waits for an encoder. One mutex guards the three counts
 * and the `done` of the slots in [accepted, read); the other contents of a slot belong to one thread at a time. A block
 * is about a mebibyte of text, so the lock is taken some hundred times a second and hardly contended.
 *
 * A failure is kept in the slot of its block with its message (tri_fail keeps messages per thread), and reported when
 * the block would be accepted, so that the reported error does not depend on the speed of threads. */
#include "data/encode_pipeline.h"

#include "base/memory.h"
#include "base/thread.h"
#include "chat/session.h"
#include "data/encode_preference.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { KEEP_IDS = 1 << 22 };

typedef struct slot {
  tri_text_block block;
  tri_token_list ids;
  tri_encoded_piece *pieces;
  int64_t piece_capacity;
  uint8_t *mask; /* mask of the ids; only for conversations and preferences */
  int64_t mask_room;
  tri_saved_error failure, skipped;
  bool done;
} slot;

typedef struct ring {
  const tri_encode_pipeline *pipeline;
  pthread_mutex_t lock;
  pthread_cond_t room, work,
      done; /* room: signal to the reader; work: signal to the encoders; done: signal to the caller */
  slot *slots;
  int64_t size;
  int64_t read, claimed, accepted;
  bool ended;   /* whether the reader has reached the end of the input */
  bool stopped; /* whether the caller has finished or failed, so that the threads end */
} ring;

typedef struct worker {
  ring *ring;
  tri_encoder *encoder;
  tri_chat_session *session; /* only used for conversations */
  tri_preference_encoder *preferences;
  tri_token_ends ends;
  pthread_t thread;
  bool started;
} worker;

static slot *slot_of(const ring *r, int64_t number) { return &r->slots[number % r->size]; }

static void *read_blocks(void *argument) {
  ring *r = ((worker *)argument)->ring;
  bool more = true;
  while (more) {
    pthread_mutex_lock(&r->lock);
    while (!r->stopped && r->read == r->accepted + r->size) pthread_cond_wait(&r->room, &r->lock);
    more = !r->stopped;
    slot *s = slot_of(r, r->read);
    pthread_mutex_unlock(&r->lock);
    if (!more) break;
    s->done = false;
    s->failure.status = TRI_OK;
    tri_error_save(&s->failure, tri_text_input_next(r->pipeline->input, &s->block));
    more = s->failure.status == TRI_OK && s->block.num_pieces > 0;
    pthread_mutex_lock(&r->lock);
    if (more || s->failure.status != TRI_OK) r->read++;
    r->ended = !more;
    pthread_cond_signal(&r->work);
    if (!more) {
      pthread_cond_broadcast(&r->work);
      pthread_cond_signal(&r->done);
    }
    pthread_mutex_unlock(&r->lock);
  }
  return NULL;
}

static tri_status append_id(tri_token_list *list, int32_t id) {
  TRI_TRY(tri_grow("the ids of a block", sizeof *list->ids, list->count, &list->capacity, &list->ids));
  list->ids[list->count++] = id;
  return TRI_OK;
}

/* Skips a piece with the error `status`, and keeps the message for the report. Fails with `status` for a part of a long
 * document, because other parts of it may be written already. */
static tri_status skip_piece(slot *s, int64_t index, tri_status status) {
  const tri_text_piece *piece = &s->block.pieces[index];
  if (!piece->begins_document || !piece->ends_document) {
    return tri_fail(status, "%s; the document is too long to be left out: divide the text (--documents line)",
                    tri_status_message());
  }
  tri_error_save(&s->skipped, status);
  s->pieces[index] = (tri_encoded_piece){.document = piece->document, .ends_document = true, .skipped = true};
  return TRI_OK;
}

/* Adds the number of an array's element to the message of an error in a record, because many elements may be in one
 * line; returns `status`. */
static tri_status name_element(const tri_text_piece *piece, tri_status status) {
  char message[1024];
  if (piece->element == 0 || (status != TRI_BAD_FILE && status != TRI_UNSUPPORTED)) return status;
  snprintf(message, sizeof message, "%s", tri_status_message());
  return tri_fail(status, "%s (element %" PRId64 " of the array)", message, piece->element);
}

static tri_status encode_piece(const tri_encode_pipeline *pipeline, tri_encoder *encoder, slot *s, int64_t index) {
  const tri_text_piece *piece = &s->block.pieces[index];
  int64_t before = s->ids.count;
  tri_piece_text text = {0};
  if (pipeline->skip_bad) {
    const tri_status got = name_element(piece, tri_piece_text_get_clean(&s->block, piece, pipeline->key, &text));
    if (got == TRI_BAD_FILE) return skip_piece(s, index, got);
    TRI_TRY(got);
  } else {
    TRI_TRY(name_element(piece, tri_piece_text_get(&s->block, piece, pipeline->key, &text)));
  }
  int64_t text_bytes = (int64_t)text.bytes;
  const bool empty_document = s->block.json && text_bytes == 0;
  tri_status status = TRI_OK;
  if (!piece->begins_document) {
    status = tri_encoder_encode_rest(encoder, text.text, text.bytes, 0, &s->ids);
  } else if (!empty_document) {
    status = tri_encoder_encode_text(encoder, text.text, text.bytes, 0, &s->ids);
  }
  tri_piece_text_release(&text);
  TRI_TRY(status);
  if (piece->ends_document && !empty_document) {
    TRI_TRY(append_id(&s->ids, tri_tokenizer_end_of_text(pipeline->tokenizer)));
  }
  s->pieces[index] = (tri_encoded_piece){
      .tokens = s->ids.count - before,
      .text_bytes = text_bytes,
      .document = piece->document,
      .ends_document = piece->ends_document,
  };
  return TRI_OK;
}

/* ---- conversations ----------------------------------------------------------------------------------------------- */

/* Sets the mask of tokens. A token is learnt if one of its bytes belongs to an answer. A token may have no bytes,
 * because normalization gave them to the token before; it is then learnt if that token is. */
static void mark_tokens(const tri_chat_answered *c, const tri_token_ends *ends, uint8_t *mask) {
  size_t begin = 0;
  int64_t k = 0;
  for (int64_t i = 0; i < ends->count; i++) {
    size_t end = ends->ends[i];
    while (k < c->num_answers && c->answers[k].end <= begin) k++;
    mask[i] = k < c->num_answers && c->answers[k].begin < end;
    if (end == begin && i > 0) mask[i] = mask[i - 1];
    begin = end;
  }
}

static tri_status encode_text(worker *w, slot *s, const tri_chat_answered *c) {
  int64_t before = s->ids.count;
  w->ends.count = 0;
  TRI_TRY(c->is_text ? tri_encoder_encode_text_with_ends(w->encoder, c->text, c->bytes, &s->ids, &w->ends)
                     : tri_encoder_encode_with_ends(w->encoder, c->text, c->bytes, &s->ids, &w->ends));
  TRI_TRY(tri_grow("the mask of a block", 1, s->ids.count, &s->mask_room, &s->mask));
  mark_tokens(c, &w->ends, s->mask + before);
  return TRI_OK;
}

static tri_status encode_conversation(worker *w, slot *s, int64_t index) {
  const tri_encode_pipeline *pipeline = w->ring->pipeline;
  const tri_text_piece *piece = &s->block.pieces[index];
  int64_t before = s->ids.count;
  tri_chat_answered c = {0};
  tri_status status = tri_chat_session_read(w->session, s->block.path, piece->line, &pipeline->reading,
                                            s->block.text + piece->offset, piece->bytes, &c);
  if (status == TRI_OK) status = encode_text(w, s, &c);
  status = name_element(piece, status);
  bool skipped = pipeline->skip_bad && (status == TRI_BAD_FILE || status == TRI_UNSUPPORTED);
  if (skipped) tri_error_save(&s->skipped, status);
  if (status != TRI_OK && !skipped) return status;
  if (skipped) s->ids.count = before;
  s->pieces[index] = (tri_encoded_piece){
      .tokens = s->ids.count - before,
      .text_bytes = skipped ? 0 : (int64_t)c.bytes,
      .document = piece->document,
      .ends_document = true,
      .skipped = skipped,
  };
  return TRI_OK;
}

/* ---- preferences ------------------------------------------------------------------------------------------------- */

static tri_status encode_preference(worker *w, slot *s, int64_t index) {
  const tri_encode_pipeline *pipeline = w->ring->pipeline;
  const tri_text_piece *piece = &s->block.pieces[index];
  tri_encoded_preference e = {.num_documents = 0};
  const tri_preference_line line = {s->block.path, piece->line, s->block.text + piece->offset, piece->bytes};
  const tri_status status = name_element(piece, tri_preference_encoder_add(w->preferences, &line, &s->ids, &e));
  const bool skipped = pipeline->skip_bad && (status == TRI_BAD_FILE || status == TRI_UNSUPPORTED);
  if (skipped) tri_error_save(&s->skipped, status);
  if (status != TRI_OK && !skipped) return status;
  TRI_TRY(tri_grow("the mask of a block", 1, s->ids.count, &s->mask_room, &s->mask));
  const int64_t first = s->ids.count - e.tokens[0] - e.tokens[1];
  tri_preference_mark(&e, s->mask + first);
  s->pieces[index] = (tri_encoded_piece){
      .tokens = e.tokens[0] + e.tokens[1],
      .text_bytes = e.text_bytes,
      .document = piece->document,
      .line = piece->line,
      .ends_document = true,
      .skipped = skipped,
      .is_pair = e.num_documents == 2,
      .desirable = e.desirable,
      .chosen_tokens = e.tokens[0],
  };
  return TRI_OK;
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

static tri_status encode_block(worker *w, slot *s) {
  const tri_encode_pipeline *pipeline = w->ring->pipeline;
  int64_t count = s->block.num_pieces;
  s->ids.count = 0;
  s->skipped.status = TRI_OK;
  TRI_TRY(tri_grow("the pieces of a block", sizeof *s->pieces, count, &s->piece_capacity, &s->pieces));
  for (int64_t i = 0; i < count; i++) {
    TRI_TRY(pipeline->preferences    ? encode_preference(w, s, i)
            : pipeline->chat != NULL ? encode_conversation(w, s, i)
                                     : encode_piece(pipeline, w->encoder, s, i));
  }
  return TRI_OK;
}

static void *encode_blocks(void *argument) {
  worker *self = argument;
  ring *r = self->ring;
  pthread_mutex_lock(&r->lock);
  for (;;) {
    while (!r->stopped && !r->ended && r->claimed == r->read) pthread_cond_wait(&r->work, &r->lock);
    if (r->stopped || r->claimed == r->read) break;
    slot *s = slot_of(r, r->claimed++);
    pthread_mutex_unlock(&r->lock);
    if (s->failure.status == TRI_OK) tri_error_save(&s->failure, encode_block(self, s));
    pthread_mutex_lock(&r->lock);
    s->done = true;
    pthread_cond_signal(&r->done);
  }
  pthread_mutex_unlock(&r->lock);
  return NULL;
}

static tri_status accept_slot(const ring *r, slot *s) {
  TRI_TRY(tri_saved_error_restore(&s->failure));
  tri_encoded_block block = {
      .ids = s->ids.ids,
      .mask = r->pipeline->chat != NULL ? s->mask : NULL,
      .first_skipped = s->skipped.status != TRI_OK ? &s->skipped : NULL,
      .pieces = s->pieces,
      .path = s->block.path,
      .num_pieces = s->block.num_pieces,
      .position = s->block.position,
  };
  TRI_TRY(r->pipeline->accept(r->pipeline->context, &block));
  tri_text_block_trim(&s->block);
  if (s->ids.capacity > KEEP_IDS) {
    tri_free(s->ids.ids);
    s->ids = (tri_token_list){0};
  }
  return TRI_OK;
}

static tri_status accept_blocks(ring *r) {
  for (;;) {
    pthread_mutex_lock(&r->lock);
    while (!(r->accepted < r->read && slot_of(r, r->accepted)->done) && !(r->ended && r->accepted == r->read)) {
      pthread_cond_wait(&r->done, &r->lock);
    }
    bool finished = r->accepted == r->read;
    pthread_mutex_unlock(&r->lock);
    if (finished) return TRI_OK;
    TRI_TRY(accept_slot(r, slot_of(r, r->accepted)));
    pthread_mutex_lock(&r->lock);
    r->accepted++;
    pthread_cond_signal(&r->room);
    pthread_mutex_unlock(&r->lock);
  }
}

static tri_status encode_pipeline_start(worker *w, void *(*body)(void *)) {
  tri_status status = tri_thread_start("one of the threads of --threads", body, w, &w->thread);
  w->started = status == TRI_OK;
  return status;
}

/* Starts the workers (workers[0] reads, the others encode), accepts all blocks, and ends and releases the workers. */
static tri_status run_workers(ring *r, worker *workers, int count) {
  tri_status status = TRI_OK;
  for (int i = 0; i < count; i++) {
    workers[i].ring = r;
    if (i > 0) TRI_TRY_GOTO(tri_encoder_create(r->pipeline->tokenizer, &workers[i].encoder), stop);
    if (i > 0 && r->pipeline->preferences) {
      TRI_TRY_GOTO(tri_preference_encoder_create(r->pipeline->chat, r->pipeline->tokenizer, &workers[i].preferences),
                   stop);
    } else if (i > 0 && r->pipeline->chat != NULL) {
      TRI_TRY_GOTO(tri_chat_session_create(r->pipeline->chat, &workers[i].session), stop);
    }
    TRI_TRY_GOTO(encode_pipeline_start(&workers[i], i == 0 ? read_blocks : encode_blocks), stop);
  }
  status = accept_blocks(r);
stop:
  pthread_mutex_lock(&r->lock);
  r->stopped = true;
  pthread_cond_broadcast(&r->room);
  pthread_cond_broadcast(&r->work);
  pthread_mutex_unlock(&r->lock);
  for (int i = 0; i < count; i++) {
    if (workers[i].started) pthread_join(workers[i].thread, NULL);
    tri_chat_session_destroy(workers[i].session);
    tri_preference_encoder_destroy(workers[i].preferences);
    tri_free(workers[i].ends.ends);
    tri_encoder_destroy(workers[i].encoder);
  }
  return status;
}

tri_status tri_encode_pipeline_run(const tri_encode_pipeline *pipeline) {
  tri_status status = TRI_OK;
  worker *workers = NULL;
  ring r = {.pipeline = pipeline, .size = 2 * pipeline->threads + 2};
  pthread_mutex_init(&r.lock, NULL);
  pthread_cond_init(&r.room, NULL);
  pthread_cond_init(&r.work, NULL);
  pthread_cond_init(&r.done, NULL);
  TRI_TRY_GOTO(tri_alloc("the blocks in work", (size_t)r.size, sizeof *r.slots, &r.slots), destroy_ring);
  TRI_TRY_GOTO(tri_alloc("the threads", (size_t)pipeline->threads + 1, sizeof *workers, &workers), destroy_ring);
  status = run_workers(&r, workers, pipeline->threads + 1);
destroy_ring:
  for (int64_t i = 0; r.slots != NULL && i < r.size; i++) {
    tri_text_block_destroy(&r.slots[i].block);
    tri_free(r.slots[i].ids.ids);
    tri_free(r.slots[i].pieces);
    tri_free(r.slots[i].mask);
  }
  tri_free(r.slots);
  tri_free(workers);
  pthread_cond_destroy(&r.done);
  pthread_cond_destroy(&r.work);
  pthread_cond_destroy(&r.room);
  pthread_mutex_destroy(&r.lock);
  return status;
}
