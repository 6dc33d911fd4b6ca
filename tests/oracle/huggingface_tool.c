/* Reads a folder's config.json and prints it as we would write it: huggingface_tool FOLDER. Fails with 1 and the
 * library's message. */
#include "base/memory.h"
#include "checkpoint/huggingface.h"

#include <stdio.h>

static tri_status run(const char *folder) {
  tri_model model;
  char *text = NULL;
  TRI_TRY(tri_huggingface_load(folder, &model));
  TRI_TRY(tri_huggingface_print(&model, TRI_FP32, 5, NULL, &text));
  puts(text);
  tri_free(text);
  return TRI_OK;
}

int main(int count, char **arguments) {
  if (count == 2 && run(arguments[1]) == TRI_OK) return 0;
  fprintf(stderr, "%s\n", count == 2 ? tri_status_message() : "usage: huggingface_tool FOLDER");
  return 1;
}
