/* Reads the resources of kernels from AMD's compiled code (code_object.h). The ELF file has a note, whose text is a map
 * in MessagePack; its entry "amdhsa.kernels" is an array with a map for each kernel. The file may be damaged, so every
 * length is compared with the bytes that are left, and the functions return false if the bytes are wrong. */
#include "device/gpu/code_object.h"

#include "base/memory.h"

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* ---- MessagePack, as far as the note uses it (github.com/msgpack/msgpack/blob/master/spec.md) -------------------- */

/* The bytes that have not been read yet. */
typedef struct reader {
  const unsigned char *at, *end;
} reader;

typedef enum kind { KIND_MAP, KIND_ARRAY, KIND_TEXT, KIND_NUMBER, KIND_OTHER } kind;

/* A value of the map. The elements of a map or an array follow it in the bytes, and are values too. */
typedef struct value {
  kind kind;
  uint64_t number;  /* the number itself; or the count of an array's elements, of a map's pairs, or of a text's bytes */
  const char *text; /* address of a text within the reader's bytes */
} value;

static bool read_big_endian(reader *r, size_t bytes, uint64_t *out) {
  if ((size_t)(r->end - r->at) < bytes) return false;
  *out = 0;
  for (size_t i = 0; i < bytes; i++) *out = *out << 8 | r->at[i];
  r->at += bytes;
  return true;
}

/* Reads out->number bytes: a text, or a value that is skipped. */
static bool read_bytes(reader *r, value *out) {
  if ((uint64_t)(r->end - r->at) < out->number) return false;
  out->text = (const char *)r->at;
  r->at += out->number;
  return true;
}

/* Reads a value whose number or count is in the `size_bytes` bytes after its tag. */
static bool read_sized(reader *r, kind what, size_t size_bytes, value *out) {
  out->kind = what;
  return read_big_endian(r, size_bytes, &out->number) && (what != KIND_TEXT || read_bytes(r, out));
}

/* Reads a value that has a fixed number of bytes after its tag. */
static bool read_fixed(reader *r, size_t bytes, value *out) {
  out->kind = KIND_OTHER;
  out->number = bytes;
  return read_bytes(r, out);
}

/* Reads a value after a tag of 0xc0 or more, which gives its kind and the size of its count. */
static bool read_tagged(reader *r, unsigned tag, value *out) {
  if (tag >= 0xcc && tag <= 0xcf) return read_sized(r, KIND_NUMBER, (size_t)1 << (tag - 0xcc), out);
  /* Signed numbers, which this program does not use. */
  if (tag >= 0xd0 && tag <= 0xd3) return read_fixed(r, (size_t)1 << (tag - 0xd0), out);
  if (tag >= 0xd9 && tag <= 0xdb) return read_sized(r, KIND_TEXT, (size_t)1 << (tag - 0xd9), out);
  if (tag == 0xdc || tag == 0xdd) return read_sized(r, KIND_ARRAY, tag == 0xdc ? 2 : 4, out);
  if (tag == 0xde || tag == 0xdf) return read_sized(r, KIND_MAP, tag == 0xde ? 2 : 4, out);
  if (tag == 0xca || tag == 0xcb) return read_fixed(r, tag == 0xca ? 4 : 8, out);
  if (tag == 0xc0 || tag == 0xc2 || tag == 0xc3 || tag >= 0xe0) return read_fixed(r, 0, out);
  return false; /* a byte string or an extension, which LLVM does not write */
}

/* Reads a value. If it is a map or an array, reads only the count; further calls read the elements. */
static bool read_value(reader *r, value *out) {
  uint64_t tag = 0;
  *out = (value){0};
  if (!read_big_endian(r, 1, &tag)) return false;
  if (tag >= 0x80) {
    if (tag >= 0xc0) return read_tagged(r, (unsigned)tag, out);
    out->kind = tag < 0x90 ? KIND_MAP : tag < 0xa0 ? KIND_ARRAY : KIND_TEXT;
    out->number = tag & (tag < 0xa0 ? 15 : 31);
    return out->kind != KIND_TEXT || read_bytes(r, out);
  }
  out->kind = KIND_NUMBER;
  out->number = tag;
  return true;
}

/* Returns the number of values that are contained in this one and follow it. */
static uint64_t num_within(const value *v) {
  switch (v->kind) {
    case KIND_ARRAY: return v->number;
    case KIND_MAP: return 2 * v->number;
    case KIND_TEXT:
    case KIND_NUMBER:
    case KIND_OTHER: break;
  }
  return 0;
}

/* Skips the next value with all values in it. Each value has at least one byte, so a wrong number of elements is
 * detected as soon as more values are expected than bytes are left. */
static bool skip(reader *r) {
  value v;
  for (uint64_t pending = 1; pending > 0; pending--) {
    if (pending > (uint64_t)(r->end - r->at) || !read_value(r, &v)) return false;
    pending += num_within(&v);
  }
  return true;
}

static bool is_text(const value *v, const char *text) {
  return v->kind == KIND_TEXT && v->number == strlen(text) && memcmp(v->text, text, v->number) == 0;
}

/* ---- the note ---------------------------------------------------------------------------------------------------- */

static void set_number(tri_gpu_code_kernel *kernel, const value *key, uint64_t number) {
  const int count = number > INT32_MAX ? INT32_MAX : (int)number;
  if (is_text(key, ".vgpr_count")) kernel->registers = count;
  if (is_text(key, ".sgpr_count")) kernel->scalar_registers = count;
  if (is_text(key, ".wavefront_size")) kernel->warp = count;
  if (is_text(key, ".max_flat_workgroup_size")) kernel->block_threads = count;
  if (is_text(key, ".group_segment_fixed_size")) kernel->shared_bytes = number;
  if (is_text(key, ".private_segment_fixed_size")) kernel->private_bytes = number;
  if (is_text(key, ".kernarg_segment_size")) kernel->argument_bytes = number;
}

/* Reads the map of a kernel. Entries that are not used are skipped. */
static bool read_kernel(reader *r, tri_gpu_code_kernel *kernel) {
  value map, key, entry;
  if (!read_value(r, &map) || map.kind != KIND_MAP) return false;
  for (uint64_t i = 0; i < map.number; i++) {
    reader here;
    if (!read_value(r, &key)) return false;
    here = *r;
    if (!skip(r) || !read_value(&here, &entry)) return false;
    if (entry.kind == KIND_NUMBER) set_number(kernel, &key, entry.number);
    if (entry.kind == KIND_TEXT && is_text(&key, ".name")) {
      snprintf(kernel->name, sizeof kernel->name, "%.*s", (int)(entry.number < 64 ? entry.number : 64), entry.text);
    }
  }
  return kernel->name[0] != '\0';
}

static tri_status damaged(void) {
  return tri_fail(
      TRI_BAD_FILE,
      "the compiled kernels are not a whole code object of AMD's (or of a version that this program does not know)");
}

static tri_status read_kernels(reader *r, tri_gpu_code_kernel **out, int *count) {
  value list;
  tri_gpu_code_kernel *all = NULL;
  if (!read_value(r, &list) || list.kind != KIND_ARRAY || list.number > (uint64_t)(r->end - r->at)) return damaged();
  TRI_TRY(tri_alloc("kernels of a code object", list.number, sizeof *all, &all));
  for (uint64_t i = 0; i < list.number; i++) {
    if (read_kernel(r, &all[i])) continue;
    tri_free(all);
    return damaged();
  }
  *out = all;
  *count = (int)list.number;
  return TRI_OK;
}

static tri_status read_metadata(reader r, tri_gpu_code_kernel **out, int *count) {
  value map, key;
  if (!read_value(&r, &map) || map.kind != KIND_MAP) return damaged();
  for (uint64_t i = 0; i < map.number; i++) {
    if (!read_value(&r, &key)) return damaged();
    if (is_text(&key, "amdhsa.kernels")) return read_kernels(&r, out, count);
    if (!skip(&r)) return damaged();
  }
  return damaged();
}

/* ---- the position of the note in the file ------------------------------------------------------------------------ */

enum { NOTE_OF_METADATA = 32 /* NT_AMDGPU_METADATA */ };

static bool within(size_t bytes, uint64_t offset, uint64_t length) {
  return offset <= bytes && length <= bytes - offset;
}

static uint64_t padded(uint64_t bytes) { return (bytes + 3) / 4 * 4; }

static bool find_in_notes(const char *notes, uint64_t bytes, reader *out) {
  Elf64_Nhdr note;
  for (uint64_t at = 0; within(bytes, at, sizeof note);) {
    memcpy(&note, notes + at, sizeof note);
    const uint64_t name = at + sizeof note, text = name + padded(note.n_namesz);
    if (!within(bytes, name, padded(note.n_namesz)) || !within(bytes, text, note.n_descsz)) return false;
    if (note.n_type == NOTE_OF_METADATA && note.n_namesz == sizeof "AMDGPU" && memcmp(notes + name, "AMDGPU", 7) == 0) {
      out->at = (const unsigned char *)notes + text;
      out->end = out->at + note.n_descsz;
      return true;
    }
    at = text + padded(note.n_descsz);
  }
  return false;
}

static bool find_metadata(const char *image, size_t bytes, reader *out) {
  Elf64_Ehdr file;
  Elf64_Phdr part;
  if (bytes < sizeof file) return false;
  memcpy(&file, image, sizeof file);
  if (memcmp(file.e_ident, ELFMAG, SELFMAG) != 0 || file.e_ident[EI_CLASS] != ELFCLASS64 ||
      file.e_phentsize != sizeof part || !within(bytes, file.e_phoff, (uint64_t)file.e_phnum * sizeof part)) {
    return false;
  }
  for (int i = 0; i < file.e_phnum; i++) {
    memcpy(&part, image + file.e_phoff + (size_t)i * sizeof part, sizeof part);
    if (part.p_type == PT_NOTE && within(bytes, part.p_offset, part.p_filesz) &&
        find_in_notes(image + part.p_offset, part.p_filesz, out)) {
      return true;
    }
  }
  return false;
}

tri_status tri_gpu_code_kernels(const void *image, size_t bytes, tri_gpu_code_kernel **out, int *count) {
  reader metadata;
  if (!find_metadata(image, bytes, &metadata)) return damaged();
  return read_metadata(metadata, out, count);
}

size_t tri_gpu_code_kernel_print(const tri_gpu_code_kernel *kernel, char *out, size_t room) {
  return (size_t)snprintf(out, room, "kernel %s: %d registers, %zu bytes of shared memory, %zu bytes spilled\n",
                          kernel->name, kernel->registers, kernel->shared_bytes, kernel->private_bytes);
}
