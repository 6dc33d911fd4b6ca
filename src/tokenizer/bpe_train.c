/* Learns a byte-level BPE vocabulary (Sennrich et al. 2016, arXiv 1508.07909, over bytes as GPT-2 does).
 *
 * The words of the text are counted and written as bytes. Then the most frequent pair of adjacent tokens repeatedly
 * becomes a new token, in all words. Two things make this fast:
 *
 *   - The pairs are in a heap by descending count, equal ones by ascending ids. Counts change when neighbours merge; an
 * entry is not moved then, but pushed again with its true count when it is popped (a count in the heap is never too
 * low).
 *   - An entry has the list of the words in which its pair was created, so a merge visits only these.
 *
 * Pair counts, ties, and the order of ids (the special token, the bytes by their letters, the merges) follow Hugging
 * Face's BpeTrainer, so that both learn the same vocabulary; this includes a token that two different pairs create: it
 * gets one id and two merges. */
#include "tokenizer/tokenizer_internal.h"
#include "tokenizer/word_counts.h"

#include "base/memory.h"
#include "tokenizer/utf8.h"

#include <string.h>

static const char end_of_text[] = "<|endoftext|>";
static const char what[] = "learning a vocabulary";

struct tri_tokenizer_trainer {
  int64_t vocab_size;
  tri_pretokenizer pretokenizer;
  tri_splitter splitter;
  tri_word_counts counts;
};

enum { FIRST_BYTE_ID = 1, FIRST_MERGE_ID = 257, NOWHERE = -1 };

/* A pair of adjacent tokens that occurs, or occurred. */
typedef struct pair_facts {
  uint64_t pair; /* left << 32 | right */
  int64_t count;
  int32_t
      fresh; /* first node of the list of words in which the current merge has created this pair; NOWHERE: empty list */
} pair_facts;

/* A node of a list of words. */
typedef struct word_node {
  int32_t word, next;
} word_node;

typedef struct queued_pair {
  int64_t count;
  uint64_t pair;
  int32_t facts; /* index of the pair's facts */
  int32_t words; /* first node of the list of words in which the pair was created */
} queued_pair;

typedef struct learner {
  const tri_word_counts *counts;
  tri_vocabulary *vocabulary;
  int32_t *symbols;  /* symbols of all words; a word's symbols begin at the offset of its bytes in the pool */
  uint32_t *lengths; /* number of symbols of each word */
  pair_facts *pairs;
  int32_t pair_count, pair_room;
  int32_t *table; /* hash table with open addressing: index of the pair + 1; 0: free */
  size_t table_places;
  word_node *nodes;
  int32_t node_count, node_room, free_node;
  queued_pair *heap;
  int64_t heap_count, heap_room;
  int32_t *fresh_pairs; /* indices of the pairs with a fresh list [fresh_count] */
  int32_t fresh_count, fresh_room;
  char *scratch; /* the bytes of a new token */
  size_t scratch_room;
} learner;

static uint64_t pair_of(int32_t left, int32_t right) { return (uint64_t)(uint32_t)left << 32 | (uint32_t)right; }

/* Makes room for one more element in an array, whose `count` is an int32_t. Fails with TRI_UNSUPPORTED if the array
 * becomes too long for this type. */
static tri_status make_room(void *array, size_t size, int32_t count, int32_t *room) {
  if (count < *room) return TRI_OK;
  if (*room > INT32_MAX / 2 - 4096) {
    return tri_fail(TRI_UNSUPPORTED, "the text has too many different words to learn a vocabulary; use less text");
  }
  int32_t more = *room * 2 + 4096;
  TRI_TRY(tri_realloc(what, (size_t)more, size, array));
  *room = more;
  return TRI_OK;
}

/* ---- the heap ---------------------------------------------------------------------------------------------------- */

static bool comes_before(const queued_pair *a, const queued_pair *b) {
  return a->count != b->count ? a->count > b->count : a->pair < b->pair;
}

static tri_status heap_push(learner *l, queued_pair entry) {
  TRI_TRY(tri_grow(what, sizeof *l->heap, l->heap_count, &l->heap_room, &l->heap));
  int64_t i = l->heap_count++;
  for (; i > 0 && comes_before(&entry, &l->heap[(i - 1) / 2]); i = (i - 1) / 2) l->heap[i] = l->heap[(i - 1) / 2];
  l->heap[i] = entry;
  return TRI_OK;
}

static queued_pair heap_pop(learner *l) {
  queued_pair top = l->heap[0], moved = l->heap[--l->heap_count];
  int64_t i = 0;
  for (;;) {
    int64_t child = 2 * i + 1;
    if (child >= l->heap_count) break;
    if (child + 1 < l->heap_count && comes_before(&l->heap[child + 1], &l->heap[child])) child++;
    if (!comes_before(&l->heap[child], &moved)) break;
    l->heap[i] = l->heap[child];
    i = child;
  }
  l->heap[i] = moved;
  return top;
}

/* ---- pairs ------------------------------------------------------------------------------------------------------- */

static size_t pair_table_place(const learner *l, uint64_t pair) {
  size_t place = (size_t)((pair * UINT64_C(0x9E3779B97F4A7C15)) >> 20) & (l->table_places - 1);
  while (l->table[place] != 0 && l->pairs[l->table[place] - 1].pair != pair)
    place = (place + 1) & (l->table_places - 1);
  return place;
}

static tri_status grow_table(learner *l) {
  size_t places = l->table_places == 0 ? 1 << 14 : l->table_places * 2;
  int32_t *table = NULL;
  TRI_TRY(tri_alloc(what, places, sizeof *table, &table));
  tri_free(l->table);
  l->table = table;
  l->table_places = places;
  for (int32_t i = 0; i < l->pair_count; i++) table[pair_table_place(l, l->pairs[i].pair)] = i + 1;
  return TRI_OK;
}

/* Finds the index of a pair's facts, and creates them if the pair is new. */
static tri_status find_pair(learner *l, uint64_t pair, int32_t *out) {
  if ((size_t)l->pair_count * 2 >= l->table_places) TRI_TRY(grow_table(l));
  size_t place = pair_table_place(l, pair);
  if (l->table[place] == 0) {
    TRI_TRY(make_room(&l->pairs, sizeof *l->pairs, l->pair_count, &l->pair_room));
    l->pairs[l->pair_count] = (pair_facts){.pair = pair, .fresh = NOWHERE};
    l->table[place] = ++l->pair_count;
  }
  *out = l->table[place] - 1;
  return TRI_OK;
}

/* Adds the occurrences of a pair at one position of a word to its count, and adds the word to the pair's fresh list.
 * Words are visited one after the other, so if the list has the word already, the word is its first. */
static tri_status add_pair(learner *l, int32_t left, int32_t right, int32_t word) {
  int32_t index = 0;
  TRI_TRY(find_pair(l, pair_of(left, right), &index));
  pair_facts *facts = &l->pairs[index];
  facts->count += l->counts->words[word].count;
  if (facts->fresh == NOWHERE) {
    TRI_TRY(make_room(&l->fresh_pairs, sizeof *l->fresh_pairs, l->fresh_count, &l->fresh_room));
    l->fresh_pairs[l->fresh_count++] = index;
  } else if (l->nodes[facts->fresh].word == word) {
    return TRI_OK;
  }
  int32_t node = l->free_node;
  if (node != NOWHERE) {
    l->free_node = l->nodes[node].next;
  } else {
    TRI_TRY(make_room(&l->nodes, sizeof *l->nodes, l->node_count, &l->node_room));
    node = l->node_count++;
  }
  l->nodes[node] = (word_node){.word = word, .next = facts->fresh};
  facts->fresh = node;
  return TRI_OK;
}

static tri_status remove_pair(learner *l, int32_t left, int32_t right, int32_t word) {
  int32_t index = 0;
  TRI_TRY(find_pair(l, pair_of(left, right), &index));
  l->pairs[index].count -= l->counts->words[word].count;
  return TRI_OK;
}

static void free_list(learner *l, int32_t node) {
  while (node != NOWHERE) {
    int32_t next = l->nodes[node].next;
    l->nodes[node].next = l->free_node;
    l->free_node = node;
    node = next;
  }
}

/* Queues the new pairs with their words, except pairs with a count of 0. Afterwards no pair has a fresh list. */
static tri_status queue_fresh(learner *l) {
  for (int32_t i = 0; i < l->fresh_count; i++) {
    pair_facts *facts = &l->pairs[l->fresh_pairs[i]];
    queued_pair entry = {.count = facts->count, .pair = facts->pair, .facts = l->fresh_pairs[i], .words = facts->fresh};
    facts->fresh = NOWHERE;
    if (entry.count > 0) {
      TRI_TRY(heap_push(l, entry));
    } else {
      free_list(l, entry.words);
    }
  }
  l->fresh_count = 0;
  return TRI_OK;
}

/* ---- words and merges -------------------------------------------------------------------------------------------- */

/* Computes the id of each byte. The ids follow that of the special token, in the order of the bytes' letters. */
static void byte_ids(int32_t out[256]) {
  for (int byte = 0; byte < 256; byte++) {
    out[byte] = FIRST_BYTE_ID;
    for (int other = 0; other < 256; other++) {
      out[byte] += tri_byte_letter((uint8_t)other) < tri_byte_letter((uint8_t)byte);
    }
  }
}

static tri_status bpe_train_begin(learner *l) {
  const tri_word_counts *counts = l->counts;
  int32_t ids[256];
  byte_ids(ids);
  TRI_TRY(tri_vocabulary_add(l->vocabulary, 0, end_of_text, sizeof end_of_text - 1, true));
  for (int byte = 0; byte < 256; byte++) {
    char one = (char)(uint8_t)byte;
    TRI_TRY(tri_vocabulary_add(l->vocabulary, ids[byte], &one, 1, true));
  }
  TRI_TRY(tri_alloc(what, counts->pool_bytes, sizeof *l->symbols, &l->symbols));
  TRI_TRY(tri_alloc(what, (size_t)counts->word_count, sizeof *l->lengths, &l->lengths));
  for (size_t i = 0; i < counts->pool_bytes; i++) l->symbols[i] = ids[(uint8_t)counts->pool[i]];
  for (int32_t word = 0; word < (int32_t)counts->word_count; word++) {
    const int32_t *symbols = l->symbols + counts->words[word].offset;
    l->lengths[word] = counts->words[word].bytes;
    for (uint32_t i = 0; i + 1 < l->lengths[word]; i++) TRI_TRY(add_pair(l, symbols[i], symbols[i + 1], word));
  }
  return queue_fresh(l);
}

/* Merges all occurrences of the pair in a word, and counts the pairs that this ends and creates. */
static tri_status merge_in_word(learner *l, int32_t word, uint64_t pair, int32_t merged) {
  int32_t *symbols = l->symbols + l->counts->words[word].offset;
  int32_t left = (int32_t)(pair >> 32), right = (int32_t)(uint32_t)pair;
  uint32_t length = l->lengths[word], kept = 0;
  for (uint32_t i = 0; i < length; i++) {
    if (symbols[i] != left || i + 1 == length || symbols[i + 1] != right) {
      symbols[kept++] = symbols[i];
      continue;
    }
    if (kept > 0) {
      TRI_TRY(remove_pair(l, symbols[kept - 1], left, word));
      TRI_TRY(add_pair(l, symbols[kept - 1], merged, word));
    }
    if (i + 2 < length) {
      TRI_TRY(remove_pair(l, right, symbols[i + 2], word));
      TRI_TRY(add_pair(l, merged, symbols[i + 2], word));
    }
    symbols[kept++] = merged;
    i++;
  }
  l->lengths[word] = kept;
  return TRI_OK;
}

/* Finds the token that a pair merges into. If there is none, adds it with the id `next`. */
static tri_status token_of(learner *l, uint64_t pair, int32_t next, int32_t *out) {
  const tri_token *left = &l->vocabulary->tokens[pair >> 32], *right = &l->vocabulary->tokens[(uint32_t)pair];
  size_t bytes = (size_t)left->bytes + right->bytes;
  TRI_TRY(tri_reserve(what, 1, bytes, &l->scratch_room, &l->scratch));
  memcpy(l->scratch, l->vocabulary->pool + left->offset, left->bytes);
  memcpy(l->scratch + left->bytes, l->vocabulary->pool + right->offset, right->bytes);
  *out = tri_vocabulary_find(l->vocabulary, l->scratch, bytes);
  if (*out >= 0) return TRI_OK;
  *out = next;
  return tri_vocabulary_add(l->vocabulary, next, l->scratch, bytes, true);
}

static tri_status merge_pair(learner *l, const queued_pair *top, int32_t *next) {
  int32_t left = (int32_t)(top->pair >> 32), right = (int32_t)(uint32_t)top->pair, merged = 0;
  TRI_TRY(token_of(l, top->pair, *next, &merged));
  if (merged == *next) (*next)++;
  TRI_TRY(tri_vocabulary_add_merge(l->vocabulary, left, right, merged));
  for (int32_t node = top->words; node != NOWHERE; node = l->nodes[node].next) {
    TRI_TRY(merge_in_word(l, l->nodes[node].word, top->pair, merged));
  }
  free_list(l, top->words);
  return queue_fresh(l);
}

static tri_status learn(learner *l) {
  TRI_TRY(bpe_train_begin(l));
  int32_t next = FIRST_MERGE_ID, size = (int32_t)l->vocabulary->size;
  while (next < size) {
    queued_pair top = {0};
    if (l->heap_count > 0) top = heap_pop(l);
    if (top.count > 0 && top.count != l->pairs[top.facts].count) {
      top.count = l->pairs[top.facts].count;
      TRI_TRY(heap_push(l, top));
      continue;
    }
    if (top.count < 1) {
      return tri_fail(TRI_BAD_CONFIG,
                      "the text is enough for a vocabulary of %d tokens, not of %d; ask for %d or fewer, or give "
                      "more text",
                      next, size, next);
    }
    TRI_TRY(merge_pair(l, &top, &next));
  }
  return TRI_OK;
}

static void release(learner *l) {
  tri_free(l->symbols);
  tri_free(l->lengths);
  tri_free(l->pairs);
  tri_free(l->table);
  tri_free(l->nodes);
  tri_free(l->heap);
  tri_free(l->fresh_pairs);
  tri_free(l->scratch);
}

/* ---- the trainer ------------------------------------------------------------------------------------------------- */

tri_status tri_tokenizer_trainer_create(int64_t vocab_size, tri_tokenizer_trainer **out) {
  if (vocab_size < FIRST_MERGE_ID || vocab_size > TRI_MAX_VOCABULARY) {
    return tri_fail(TRI_BAD_CONFIG,
                    "a learned vocabulary must have %d to %d tokens (256 bytes, %s and the learned ones), not %lld",
                    FIRST_MERGE_ID, TRI_MAX_VOCABULARY, end_of_text, (long long)vocab_size);
  }
  tri_status status = TRI_OK;
  tri_tokenizer_trainer *trainer = NULL;
  TRI_TRY(tri_alloc(what, 1, sizeof *trainer, &trainer));
  trainer->vocab_size = vocab_size;
  TRI_TRY_GOTO(tri_pretokenizer_add_pattern(&trainer->pretokenizer, "GPT-2", tri_pattern_gpt2, strlen(tri_pattern_gpt2),
                                            false, false),
               fail);
  TRI_TRY_GOTO(tri_splitter_create(&trainer->splitter, &trainer->pretokenizer), fail);
  *out = trainer;
  return TRI_OK;
fail:
  tri_tokenizer_trainer_destroy(trainer);
  return status;
}

void tri_tokenizer_trainer_destroy(tri_tokenizer_trainer *trainer) {
  if (trainer == NULL) return;
  tri_splitter_release(&trainer->splitter);
  tri_pretokenizer_release(&trainer->pretokenizer);
  tri_word_counts_release(&trainer->counts);
  tri_free(trainer);
}

static tri_status count_word(void *context, const char *word, size_t bytes) {
  return tri_word_counts_add(context, word, bytes);
}

tri_status tri_tokenizer_trainer_feed(tri_tokenizer_trainer *trainer, const char *text, size_t bytes) {
  return tri_splitter_run(&trainer->splitter, text, bytes, count_word, &trainer->counts);
}

tri_status tri_tokenizer_trainer_finish(tri_tokenizer_trainer *trainer, tri_tokenizer **out) {
  tri_tokenizer *tokenizer = NULL;
  tri_status status = TRI_OK;
  learner l = {.counts = &trainer->counts, .free_node = NOWHERE};
  TRI_TRY_GOTO(tri_tokenizer_begin(trainer->vocab_size, &tokenizer), release_all);
  l.vocabulary = &tokenizer->vocabulary;
  TRI_TRY_GOTO(learn(&l), release_all);
  TRI_TRY_GOTO(tri_pretokenizer_add_pattern(&tokenizer->pretokenizer, "GPT-2", tri_pattern_gpt2,
                                            strlen(tri_pattern_gpt2), false, false),
               release_all);
  tri_added_token added = {.id = 0, .special = true};
  TRI_TRY_GOTO(tri_tokenizer_add_token(tokenizer, &added, end_of_text, sizeof end_of_text - 1), release_all);
  TRI_TRY_GOTO(tri_tokenizer_end(tokenizer, "the learnt vocabulary"), release_all);
  *out = tokenizer;
  tokenizer = NULL;
release_all:
  release(&l);
  tri_tokenizer_destroy(tokenizer);
  return status;
}
