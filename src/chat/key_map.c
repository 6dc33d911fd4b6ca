#include "chat/key_map.h"

#include "chat/forms.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

typedef struct pair {
  char key[TRI_KEY_MAP_NAME_BYTES], from[TRI_KEY_MAP_NAME_BYTES];
} pair;

/* Reads the pair at *at and moves *at after it. Returns false if it is not KEY=OTHER. */
static bool next_pair(const char **at, pair *out) {
  const size_t length = strcspn(*at, ","), key = strcspn(*at, "=,");
  const bool good = key > 0 && key + 1 < length && key < sizeof out->key && length - key - 1 < sizeof out->from;
  if (good) {
    snprintf(out->key, sizeof out->key, "%.*s", (int)key, *at);
    snprintf(out->from, sizeof out->from, "%.*s", (int)(length - key - 1), *at + key + 1);
  }
  *at += length + ((*at)[length] == ',');
  return good;
}

tri_status tri_key_map_check(const char *map) {
  pair pairs[TRI_KEY_MAP_PAIRS];
  int count = 0;
  if (*map == '\0') return tri_fail(TRI_BAD_USAGE, "--map needs a value such as prompt=question,chosen=good");
  for (const char *at = map; *at != '\0'; count++) {
    if (count == TRI_KEY_MAP_PAIRS)
      return tri_fail(TRI_BAD_USAGE, "--map has more than %d pairs", (int)TRI_KEY_MAP_PAIRS);
    if (!next_pair(&at, &pairs[count])) {
      return tri_fail(TRI_BAD_USAGE,
                      "--map %.200s is not a list such as prompt=question,chosen=good, whose names have "
                      "fewer than %d characters",
                      map, (int)TRI_KEY_MAP_NAME_BYTES);
    }
    for (int i = 0; i < count; i++) {
      if (strcmp(pairs[i].key, pairs[count].key) != 0) continue;
      return tri_fail(TRI_BAD_USAGE, "--map has `%s` twice", pairs[i].key);
    }
  }
  return TRI_OK;
}

tri_status tri_key_map_apply(const char *map, json_t *record) {
  pair p;
  char keys[512];
  if (map == NULL || !json_is_object(record)) return TRI_OK;
  json_t *taken = json_object();
  tri_status status = TRI_OK;
  for (const char *at = map; *at != '\0' && status == TRI_OK && next_pair(&at, &p);) {
    json_t *value = json_object_get(record, p.from);
    if (value == NULL) {
      status = tri_fail(TRI_BAD_FILE, "--map %s=%s: the record has %s, and no `%s`", p.key, p.from,
                        tri_chat_list_keys(record, keys, sizeof keys), p.from);
    } else if (json_object_set(taken, p.key, value) != 0) {
      status = tri_fail(TRI_OUT_OF_MEMORY, "out of memory: the keys of a record");
    }
  }
  for (const char *at = map; *at != '\0' && status == TRI_OK && next_pair(&at, &p);) json_object_del(record, p.from);
  if (status == TRI_OK && json_object_update(record, taken) != 0)
    status = tri_fail(TRI_OUT_OF_MEMORY, "out of memory: the keys of a record");
  json_decref(taken);
  return status;
}
