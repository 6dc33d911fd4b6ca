#include "reward/answer.h"

#include "base/memory.h"
#include "files/json_kind.h"
#include "tokenizer/utf8.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const double MOST = 1e100;

const char *tri_reward_show(const char *text, size_t bytes, char out[TRI_REWARD_SHOWN_BYTES]) {
  static const char dots[] = "...";
  const size_t room = TRI_REWARD_SHOWN_BYTES - sizeof dots;
  size_t shown = tri_utf8_valid_bytes(text, bytes < room ? bytes : room);
  for (size_t i = 0; i < shown; i++) out[i] = (unsigned char)text[i] < ' ' || text[i] == 0x7F ? ' ' : text[i];
  strcpy(out + shown, shown < bytes ? dots : "");
  return out;
}

typedef struct line {
  const char *text;
  size_t bytes;
} line;

static tri_status refuse(const line *l, const char *reason) {
  char shown[TRI_REWARD_SHOWN_BYTES];
  return tri_fail(TRI_BAD_FILE, "\"%s\" %s", tri_reward_show(l->text, l->bytes, shown), reason);
}

static tri_status read_number(const line *l, const json_t *value, double *out) {
  char reason[160];
  if (!json_is_number(value)) {
    snprintf(reason, sizeof reason, "has %s as a reward; write a number, null, or an object of numbers",
             tri_json_kind(value));
    return refuse(l, reason);
  }
  *out = json_number_value(value);
  if (fabs(*out) > MOST) return refuse(l, "has a reward whose magnitude is above 1e100; its square must be finite");
  return TRI_OK;
}

static tri_status read_name(const line *l, const char *name, char out[TRI_REWARD_PART_BYTES]) {
  const size_t bytes = strlen(name);
  if (bytes == 0 || bytes >= TRI_REWARD_PART_BYTES) return refuse(l, "has a part whose name is empty or too long");
  for (size_t i = 0; i < bytes; i++) {
    if ((unsigned char)name[i] < ' ' || name[i] == 0x7F) return refuse(l, "has a part with a control character");
  }
  if (strcmp(name, "mean") == 0 || strcmp(name, "std") == 0)
    return refuse(l, "has a part that is named mean or std, as metrics of the reward are; give it another name");
  memcpy(out, name, bytes + 1);
  return TRI_OK;
}

static tri_status read_parts(const line *l, json_t *object, tri_reward_answer *out) {
  const char *name;
  const json_t *value;
  const size_t count = json_object_size(object);
  if (count == 0 || count > TRI_REWARD_PARTS) return refuse(l, "has no part, or more than 64");
  TRI_TRY(tri_alloc("the parts of a reward", count, sizeof *out->parts, &out->parts));
  out->reward = 0;
  json_object_foreach(object, name, value) {
    tri_reward_part *part = &out->parts[out->num_parts++];
    TRI_TRY(read_name(l, name, part->name));
    TRI_TRY(read_number(l, value, &part->value));
    out->reward += part->value;
  }
  return TRI_OK;
}

static tri_status read_object(const line *l, const json_t *object, tri_reward_answer *out) {
  const json_t *id = json_object_get(object, "id");
  json_t *reward = json_object_get(object, "reward");
  if (!json_is_object(object)) return refuse(l, "is not a JSON object");
  if (!json_is_integer(id)) return refuse(l, "has no whole number as its id");
  if (reward == NULL) return refuse(l, "has no reward");
  out->id = json_integer_value(id);
  if (json_is_null(reward)) return TRI_OK;
  if (json_is_object(reward)) return read_parts(l, reward, out);
  return read_number(l, reward, &out->reward);
}

tri_status tri_reward_answer_read(const char *text, size_t bytes, tri_reward_answer *out) {
  const line l = {text, bytes};
  json_error_t error;
  *out = (tri_reward_answer){.reward = (double)NAN};
  json_t *object = json_loadb(text, bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &error);
  if (object == NULL) return refuse(&l, "is not JSON");
  const tri_status status = read_object(&l, object, out);
  json_decref(object);
  if (status == TRI_OK) return TRI_OK;
  tri_free(out->parts);
  *out = (tri_reward_answer){.reward = (double)NAN};
  return status;
}
