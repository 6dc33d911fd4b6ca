#include "run/allowed_changes.h"

#include "base/memory.h"
#include "config/nearest_word.h"

#include <string.h>

enum { KEY_BYTES = 64 };

/* Copies the next word of a list that is separated by commas or blanks; returns false at its end. */
static bool next_word(const char **at, char word[KEY_BYTES]) {
  *at += strspn(*at, ", ");
  size_t length = strcspn(*at, ", ");
  if (length == 0) return false;
  snprintf(word, KEY_BYTES, "%.*s", (int)length, *at);
  *at += length;
  return true;
}

bool tri_change_is_allowed(const char *allow_change, const char *key) {
  char word[KEY_BYTES];
  while (next_word(&allow_change, word)) {
    if (strcmp(word, key) == 0) return true;
  }
  return false;
}

/* Names of the keys that are compared. */
typedef struct name_list {
  const char **names; /* [count]; each points into `texts` */
  char (*texts)[KEY_BYTES];
  size_t count; /* number of names; while `names` is NULL, the number of keys counted so far */
} name_list;

static void add_name(void *context, const char *key, unsigned change) {
  name_list *list = context;
  if ((change & (TRI_CHANGE_FUNCTION | TRI_CHANGE_LEARNING)) == 0) return;
  if (list->names != NULL) {
    snprintf(list->texts[list->count], KEY_BYTES, "%s", key);
    list->names[list->count] = list->texts[list->count];
  }
  list->count++;
}

static tri_status list_names(const tri_config_table *table, name_list *list) {
  tri_config_changes(table, add_name, list);
  TRI_TRY(tri_alloc("names of keys", list->count + 1, sizeof *list->texts, &list->texts));
  TRI_TRY(tri_alloc("names of keys", list->count + 1, sizeof *list->names, &list->names));
  list->count = 0;
  tri_config_changes(table, add_name, list);
  add_name(list, "run", TRI_CHANGE_FUNCTION);
  return TRI_OK;
}

static tri_status check_word(const name_list *list, const char *word) {
  for (size_t i = 0; i < list->count; i++) {
    if (strcmp(word, list->names[i]) == 0) return TRI_OK;
  }
  const char *nearest = tri_nearest_word(word, list->names, list->count);
  return tri_fail(TRI_BAD_CONFIG,
                  "`allow_change` names `%s`, which is not compared; it takes keys such as model.rope_theta, "
                  "data.train or data.tokenizer, with commas between%s%s%s",
                  word, nearest == NULL ? "" : "; did you mean `", nearest == NULL ? "" : nearest,
                  nearest == NULL ? "" : "`?");
}

tri_status tri_allowed_changes_check(const tri_config_table *table, const char *allow_change) {
  name_list list = {0};
  char word[KEY_BYTES];
  tri_status status = list_names(table, &list);
  while (status == TRI_OK && next_word(&allow_change, word)) status = check_word(&list, word);
  tri_free(list.names);
  tri_free(list.texts);
  return status;
}
