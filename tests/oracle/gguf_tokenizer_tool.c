/* gguf_tokenizer_tool FILE FOLDER: writes the tokenizer of a GGUF file into an existing folder
 * (src/llamacpp/tokenizer_files.h). */
#include "llamacpp/tokenizer_files.h"

#include <stdio.h>

int main(int argc, char **argv) {
  tri_gguf_file file;
  if (argc != 3) return 2;
  tri_status status = tri_gguf_open(argv[1], &file);
  if (status == TRI_OK) {
    status = tri_llamacpp_write_tokenizer(&file, argv[2]);
    tri_gguf_close(&file);
  }
  if (status != TRI_OK) fprintf(stderr, "%s\n", tri_status_message());
  return (int)status;
}
