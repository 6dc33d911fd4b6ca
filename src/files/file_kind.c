#include "files/file_kind.h"

#include "files/file.h"

#include <ctype.h>
#include <dirent.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* A mark is a row with the bytes that files of a kind have at an offset. The marks of archives and programs are from
 * file(1)'s database, those of the other formats (GGUF, safetensors, Parquet, NumPy, HDF5, Git LFS) from their own
 * documents. If a mark begins with the bytes of another mark, the longer one comes first. */

#define SAVE_PRETRAINED "save the model with transformers (model.save_pretrained(FOLDER)), which writes .safetensors"
#define DECOMPRESS(COMMAND) "of compressed files only .zst is read; convert it: " COMMAND " FILE | zstd > NAME.zst"
#define TO_UTF8(FROM) "convert it: iconv -f " FROM " -t UTF-8 FILE > NEW"
#define SENTENCEPIECE                                                                                                  \
  "let transformers convert it: AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER) writes tokenizer.json"
#define TAKE_TOKENIZER "take tokenizer.json from a Hugging Face folder of the model"
#define TO_JSON_LINES(PACKAGES, READ) "convert it to .jsonl: pip install " PACKAGES "; python3 -c \"" READ "\""
#define WITH_PANDAS(CALL, SEPARATOR)                                                                                   \
  TO_JSON_LINES("pandas pyarrow", "import pandas; pandas." CALL "('FILE'" SEPARATOR                                    \
                                  ").to_json('FILE.jsonl', orient='records', lines=True)")

typedef struct mark {
  tri_file_kind kind;
  size_t at, bytes;
  const char *text;
} mark;

#define MARK(AT, TEXT, IS, ADVICE, NEVER_TEXT)                                                                         \
  { {IS, ADVICE, NEVER_TEXT}, AT, sizeof(TEXT) - 1, TEXT }
static const mark marks[] = {
    MARK(0, "version https://git-lfs.github.com/", "a Git LFS pointer",
         "the file itself was not downloaded; run `git lfs pull` in its folder", true),
    MARK(0, "version https://hawser.github.com/", "a Git LFS pointer",
         "the file itself was not downloaded; run `git lfs pull` in its folder", true),
    MARK(0, "GGUF", "a GGUF file of llama.cpp", "trireme import FILE CHECKPOINT makes a checkpoint of it", true),
    MARK(0, "\x80\x02", "a Python pickle (PyTorch's .bin, .pt, .pth)", SAVE_PRETRAINED, true),
    MARK(0, "\x80\x03", "a Python pickle", SAVE_PRETRAINED, true),
    MARK(0, "\x80\x04\x95", "a Python pickle", SAVE_PRETRAINED, true),
    MARK(0, "\x80\x05\x95", "a Python pickle", SAVE_PRETRAINED, true),
    MARK(0, "PK\x03\x04", "a ZIP archive (as PyTorch's .bin, .pt and .pth, and .npz and .docx are)",
         "weights: " SAVE_PRETRAINED "; texts: unpack it (unzip FILE)", true),
    MARK(0, "\x1F\x8B", "compressed with gzip", DECOMPRESS("gzip -dc"), true),
    MARK(0, "BZh", "compressed with bzip2", DECOMPRESS("bzip2 -dc"), true),
    MARK(0,
         "\xFD"
         "7zXZ\0",
         "compressed with xz", DECOMPRESS("xz -dc"), true),
    MARK(0, "\x04\x22\x4D\x18", "compressed with lz4", DECOMPRESS("lz4 -dc"), true),
    MARK(0, "\x28\xB5\x2F\xFD", "compressed with zstd", "give it a name that ends in .zst, or decompress it (zstd -d)",
         true),
    MARK(0, "7z\xBC\xAF\x27\x1C", "a 7z archive", "unpack it (7z x FILE)", true),
    MARK(0, "Rar!\x1A\x07", "a RAR archive", "unpack it (unrar x FILE)", true),
    MARK(257, "ustar", "a tar archive", "unpack it (tar xf FILE)", true),
    MARK(0,
         "\x7F"
         "ELF",
         "a program or library (ELF)", "name another file", true),
    MARK(0, "\xCF\xFA\xED\xFE", "a program (Mach-O)", "name another file", true),
    MARK(0, "%PDF-", "a PDF document", "extract its text (pdftotext FILE)", true),
    MARK(0, "PAR1", "a Parquet file", WITH_PANDAS("read_parquet", ""), true),
    MARK(0, "ARROW1", "an Arrow file",
         TO_JSON_LINES("datasets", "import datasets; datasets.Dataset.from_file('FILE').to_json('FILE.jsonl')"), true),
    MARK(0, "\x89HDF\r\n\x1A\n", "an HDF5 file (as Keras's .h5 is)", SAVE_PRETRAINED, true),
    MARK(0,
         "\x93"
         "NUMPY",
         "a NumPy array", "tokens: write Megatron-LM's .bin and .idx; weights: " SAVE_PRETRAINED, true),
    MARK(0, "SQLite format 3", "an SQLite database", "export what you need as text", true),
    MARK(0, "\x89PNG\r\n\x1A\n", "a picture (PNG)", "name another file", true),
    MARK(0, "\xFF\xD8\xFF", "a picture (JPEG)", "name another file", true),
    MARK(0, "MMIDIDX\0\0", "the index of a corpus (.idx)", "name the corpus without .bin and .idx in data.train", true),
    MARK(0, "\x0A\x0E\x0A\x05<unk>", "a SentencePiece model", SENTENCEPIECE, true),
    MARK(0, "\x0A\x0E\x0A\x05<pad>", "a SentencePiece model", SENTENCEPIECE, true),
    MARK(0, "IQ== 0\n", "a tokenizer of tiktoken", SENTENCEPIECE, true), /* the token ! in base64, and its number */
    MARK(0, "\xFF\xFE\0\0", "a text in UTF-32", TO_UTF8("UTF-32"), true),
    MARK(0, "\0\0\xFE\xFF", "a text in UTF-32", TO_UTF8("UTF-32"), true),
    MARK(0, "\xFF\xFE", "a text in UTF-16 (PowerShell's `>` and Notepad's \"Unicode\")", TO_UTF8("UTF-16"), true),
    MARK(0, "\xFE\xFF", "a text in UTF-16", TO_UTF8("UTF-16"), true),
};

static const tri_file_kind html = {"a page of HTML",
                                   "a server's answer instead of the file, most likely; download it again", false};
static const tri_file_kind safetensors = {"a file of weights (.safetensors)", "name the folder that it is in", true};

static const tri_file_kind tekken = {"a tokenizer of Mistral's own form (tekken.json)", TAKE_TOKENIZER, false};

static bool begins_with_word(const char *text, size_t bytes, const char *word) {
  const size_t length = strlen(word);
  return bytes >= length && strncasecmp(text, word, length) == 0;
}

/* Returns whether a file begins with an 8-byte number below 2^32 (the length of the header) and a JSON object. */
static bool is_safetensors(const unsigned char *first, size_t bytes) {
  return bytes > 9 && first[4] == 0 && first[5] == 0 && first[6] == 0 && first[7] == 0 && first[8] == '{' &&
         (first[9] == '"' || first[9] == '}');
}

/* Returns whether the file begins with {"config": {"pattern": with any white space. */
static bool is_tekken(const char *text, size_t bytes) {
  static const char beginning[] = "{\"config\":{\"pattern\":";
  size_t same = 0;
  for (size_t i = 0; i < bytes && same < sizeof beginning - 1; i++) {
    if (isspace((unsigned char)text[i])) continue;
    if (text[i] != beginning[same++]) return false;
  }
  return same == sizeof beginning - 1;
}

const tri_file_kind *tri_file_kind_of(const void *first, size_t bytes) {
  const char *text = first;
  if (is_safetensors(first, bytes))
    return &safetensors; /* before the marks: the length may be 0x8B1F, which is gzip's mark */
  for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
    if (bytes >= marks[i].at + marks[i].bytes && memcmp(text + marks[i].at, marks[i].text, marks[i].bytes) == 0)
      return &marks[i].kind;
  }
  if (is_tekken(text, bytes)) return &tekken;
  while (bytes > 0 && isspace((unsigned char)*text)) text++, bytes--;
  return begins_with_word(text, bytes, "<!doctype html") || begins_with_word(text, bytes, "<html") ? &html : NULL;
}

const tri_file_kind *tri_file_kind_find(const char *path) {
  char first[TRI_FILE_KIND_BYTES];
  size_t held = 0;
  int file = -1;
  if (tri_path_odd_kind(path) != NULL || tri_file_open_plain(path, &file) != TRI_OK) return NULL;
  for (ssize_t got = 1; got > 0 && held<sizeof first; held += got> 0 ? (size_t)got : 0) {
    got = read(file, first + held, sizeof first - held);
  }
  close(file);
  return tri_file_kind_of(first, held);
}

/* Copies a text, and replaces each word FILE by the path, unless the path has characters that the shell or Python
 * interprets. */
static const char *name_file(const char *text, const char *path, char out[TRI_ADVICE_BYTES]) {
  size_t held = 0;
  if (strpbrk(path, "'\"\\$`!") != NULL) path = "FILE";
  out[0] = '\0';
  for (const char *at = text; *at != '\0' && held + 1 < TRI_ADVICE_BYTES;) {
    const char *word = strstr(at, "FILE");
    const int length = word == NULL ? (int)strlen(at) : (int)(word - at);
    const int added = snprintf(out + held, TRI_ADVICE_BYTES - held, "%.*s%s", length, at, word == NULL ? "" : path);
    held += (size_t)added;
    at += length + (word == NULL ? 0 : 4);
  }
  return out;
}

const char *tri_file_kind_advice(const tri_file_kind *kind, const char *path, char out[TRI_ADVICE_BYTES]) {
  return name_file(kind->advice, path, out);
}

bool tri_table_is_named(const char *path) {
  const size_t length = strlen(path);
  return length > 4 && (strcasecmp(path + length - 4, ".csv") == 0 || strcasecmp(path + length - 4, ".tsv") == 0);
}

const char *tri_table_advice(const char *path, char out[TRI_ADVICE_BYTES]) {
  const size_t length = strlen(path);
  const char *advice = WITH_PANDAS("read_csv", "");
  if (length > 4 && strcasecmp(path + length - 4, ".tsv") == 0) advice = WITH_PANDAS("read_csv", ", sep='\\t'");
  if (length > 8 && strcasecmp(path + length - 8, ".parquet") == 0) advice = WITH_PANDAS("read_parquet", "");
  return name_file(advice, path, out);
}

tri_status tri_file_kind_refuse(tri_status status, const char *path, const tri_file_kind *kind, const char *wanted) {
  char advice[TRI_ADVICE_BYTES];
  return tri_fail(status, "%s is %s, not %s: %s", path, kind->is, wanted, tri_file_kind_advice(kind, path, advice));
}

tri_status tri_text_begin(const char *name, const char *wanted, const char **text, size_t *bytes) {
  const tri_file_kind *kind = tri_file_kind_of(*text, *bytes);
  if (kind != NULL && kind->never_text) return tri_file_kind_refuse(TRI_BAD_FILE, name, kind, wanted);
  if (*bytes < 3 || memcmp(*text, "\xEF\xBB\xBF", 3) != 0) return TRI_OK;
  *bytes -= 3;
  *text += 3;
  return TRI_OK;
}

/* ---- folders ----------------------------------------------------------------------------------------------------- */

/* A row with a shell pattern of names in a folder. The first row that matches any name is used. */
typedef struct content {
  const char *pattern;
  unsigned wanted; /* a bit for each tri_folder_content for which the row applies */
  const char *is, *advice;
} content;

enum {
  OF_MODEL = 1u << TRI_CONTENT_MODEL | 1u << TRI_CONTENT_WEIGHTS,
  OF_FOLDER = 1u << TRI_CONTENT_MODEL,
  OF_TOKENIZER = 1u << TRI_CONTENT_TOKENIZER,
};

static const content contents[] = {
    {"latest_checkpointed_iteration.txt", OF_MODEL, "a checkpoint of Megatron-LM",
     "convert it with Megatron-LM's own tools/checkpoint/convert.py or Megatron Bridge to a Hugging Face folder"},
    {"mp_rank_*", OF_MODEL, "a checkpoint of Megatron-LM or DeepSpeed",
     "convert it with the program's own tools to a Hugging Face folder"},
    {"iter_[0-9]*", OF_MODEL, "a checkpoint of Megatron-LM",
     "convert it with Megatron-LM's own tools/checkpoint/convert.py or Megatron Bridge to a Hugging Face folder"},
    {"zero_to_fp32.py", OF_MODEL, "a checkpoint of DeepSpeed",
     "run the zero_to_fp32.py in it, load the result with transformers and save it with save_pretrained"},
    {"global_step[0-9]*", OF_MODEL, "a checkpoint of DeepSpeed",
     "run the zero_to_fp32.py in the same folder, load the result with transformers and save it with save_pretrained"},
    {".metadata", OF_MODEL, "a distributed checkpoint of PyTorch (FSDP, torchtitan)",
     "convert it to a Hugging Face folder (torchtitan: checkpoint.last_save_in_hf; else "
     "torch.distributed.checkpoint.format_utils and save_pretrained)"},
    {"*.distcp", OF_MODEL, "a distributed checkpoint of PyTorch (FSDP, torchtitan)",
     "convert it to a Hugging Face folder (torch.distributed.checkpoint.format_utils and save_pretrained)"},
    {"params.json", OF_MODEL, "a folder of Meta's or Mistral's own form",
     "take the Hugging Face folder of the model, or convert it with transformers' "
     "convert_llama_weights_to_hf.py or convert_mistral_weights_to_hf.py"},
    {"consolidated.*", OF_MODEL, "a folder of Meta's or Mistral's own form",
     "take the Hugging Face folder of the model, or convert it with transformers' "
     "convert_llama_weights_to_hf.py or convert_mistral_weights_to_hf.py"},
    {"lit_model.pth", OF_MODEL, "a model of LitGPT", "convert it: litgpt convert_from_litgpt"},
    {"*.nemo", OF_MODEL, "an archive of NeMo", "export it with NeMo to a Hugging Face folder"},
    {"weights.npz", OF_MODEL, "a model of MLX", "take the Hugging Face folder that it was made from"},
    {"pytorch_model*.bin", OF_MODEL, "pickled weights of PyTorch, which are not read", SAVE_PRETRAINED},
    {"pytorch_model.bin.index.json", OF_MODEL, "pickled weights of PyTorch, which are not read", SAVE_PRETRAINED},
    {"adapter_model.bin", OF_MODEL, "a pickled adapter of PEFT, which is not read",
     "save it with PEFT (model.save_pretrained(FOLDER)), which writes .safetensors"},
    {"tf_model.h5", OF_MODEL, "weights of TensorFlow, which are not read", SAVE_PRETRAINED},
    {"flax_model.msgpack", OF_MODEL, "weights of Flax, which are not read", SAVE_PRETRAINED},
    {"*.gguf", OF_MODEL | OF_TOKENIZER, "a GGUF file of llama.cpp",
     "trireme import FILE.gguf CHECKPOINT makes a checkpoint of it"},
    {"*.onnx", OF_MODEL, "an ONNX file", "take the Hugging Face folder it was made from"},
    {"*.pth", OF_MODEL, "pickled weights of PyTorch, which are not read", SAVE_PRETRAINED},
    {"*.pt", OF_MODEL, "pickled weights of PyTorch, which are not read", SAVE_PRETRAINED},
    {"*.ckpt", OF_MODEL, "a checkpoint of PyTorch Lightning or TensorFlow, which is not read", SAVE_PRETRAINED},
    {"*.bin", 1u << TRI_CONTENT_WEIGHTS, "a file that is not .safetensors", SAVE_PRETRAINED},
    {"snapshots", OF_MODEL | OF_TOKENIZER, "the cache of the Hugging Face hub", "name the folder snapshots/HASH in it"},
    {"*.safetensors.tmp", OF_MODEL, "an unfinished download", "download it again"},
    {"*.incomplete", OF_MODEL | OF_TOKENIZER, "an unfinished download", "download it again"},
    {"model-*-of-*.safetensors", 1u << TRI_CONTENT_WEIGHTS, "a part of the weights without their index",
     "get model.safetensors.index.json, too"},
    {"*.safetensors", OF_FOLDER, "weights without a config.json", "get the model's config.json, too"},
    {"*.safetensors", 1u << TRI_CONTENT_WEIGHTS, "weights by another name",
     "name the file model.safetensors if it is the whole model in the names of transformers"},
    {"tekken.json", OF_TOKENIZER, "a tokenizer of Mistral's own form", TAKE_TOKENIZER},
    {"tokenizer.model*", OF_TOKENIZER, "a tokenizer of SentencePiece or tiktoken", SENTENCEPIECE},
    {"spiece.model", OF_TOKENIZER, "a tokenizer of SentencePiece", SENTENCEPIECE},
    {"*.tiktoken", OF_TOKENIZER, "a tokenizer of tiktoken", SENTENCEPIECE},
    {"vocab.txt", OF_TOKENIZER, "a vocabulary of WordPiece, which is not read",
     "take a model with a byte-level tokenizer"},
    {"vocab.json", OF_TOKENIZER, "a vocabulary without merges.txt", "get merges.txt, too"},
    {"merges.txt", OF_TOKENIZER, "merges without vocab.json", "get vocab.json, too"},
};

/* Returns whether `name` in `folder` is a folder with a config.json; sets `inside` to the path of that folder. */
static bool has_config(const char *folder, const char *name, char inside[TRI_PATH_BYTES]) {
  char below[TRI_PATH_BYTES];
  return name[0] != '.' && tri_path_join(below, folder, name) == TRI_OK &&
         tri_path_join(inside, below, "config.json") == TRI_OK && tri_path_exists(inside) &&
         tri_path_join(inside, folder, name) == TRI_OK;
}

const char *tri_folder_hint(const char *folder, tri_folder_content wanted, char out[TRI_FOLDER_HINT_BYTES]) {
  enum { ROWS = sizeof contents / sizeof contents[0], NAME_BYTES = 256 };
  char name[NAME_BYTES] = "", inside[TRI_PATH_BYTES] = "";
  size_t best = ROWS;
  bool empty = true;
  out[0] = '\0';
  DIR *directory = opendir(folder);
  if (directory == NULL) return out;
  for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    empty = false;
    for (size_t i = 0; i < best; i++) {
      if ((contents[i].wanted & 1u << wanted) == 0 || fnmatch(contents[i].pattern, entry->d_name, 0) != 0) continue;
      best = i;
      snprintf(name, sizeof name, "%s", entry->d_name);
    }
    if (wanted == TRI_CONTENT_MODEL && inside[0] == '\0' && !has_config(folder, entry->d_name, inside))
      inside[0] = '\0';
  }
  closedir(directory);
  if (empty) snprintf(out, TRI_FOLDER_HINT_BYTES, ": it is empty");
  if (best < ROWS) {
    snprintf(out, TRI_FOLDER_HINT_BYTES, ": it holds %s, %s; %s", name, contents[best].is, contents[best].advice);
  } else if (inside[0] != '\0') {
    snprintf(out, TRI_FOLDER_HINT_BYTES, ": the folder %.900s in it has a config.json; name that one", inside);
  }
  return out;
}
