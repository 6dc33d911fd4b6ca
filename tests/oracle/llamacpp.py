"""llama.cpp's tokenizer and models through ctypes. The shared object of PyPI's `xllamacpp` exports the C API of llama.cpp.

    model = Vocabulary("model.gguf")                # RuntimeError with llama.cpp's reason if the file does not load
    model.tokenize("text", specials=True)           # a list of ids; specials: whether control tokens in the text are found
    model.facts()                                   # {"bos": 1, "add_bos": True, "ends": [2], ...}

A failed assertion of llama.cpp aborts the process. Structs of parameters are passed by value in memory, so that a struct of 512 bytes is
as good as the real one, which is shorter; the offset that is set is checked against its default value."""
import ctypes
import glob
import os
import sys

import numpy

PARAMETERS, VOCABULARY_ONLY = 512, 16 + 5 * 4 + 4 + 8 * 4
# Offsets in llama_context_params: n_ctx, n_batch, n_ubatch; n_threads and the one after it; flash_attn_type; type_k and type_v.
CONTEXT, BATCH, UNIT, THREADS, FLASH, CACHE = 0, 4, 8, 28, 52, 14 * 4 + 8 * 4 + 16
LOG = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
NAMES = ("bos", "eos", "eot", "pad", "nl")


class Parameters(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint8 * PARAMETERS)]


class Batch(ctypes.Structure):
    _fields_ = [("count", ctypes.c_int32), ("tokens", ctypes.POINTER(ctypes.c_int32)), ("embeddings", ctypes.c_void_p), ("positions", ctypes.POINTER(ctypes.c_int32)),
                ("sequences", ctypes.POINTER(ctypes.c_int32)), ("ids", ctypes.POINTER(ctypes.POINTER(ctypes.c_int32))), ("logits", ctypes.POINTER(ctypes.c_int8))]


def find_library():
    for folder in sys.path:
        for path in glob.glob(os.path.join(folder, "xllamacpp", "xllamacpp*.so")):
            return path
    raise ImportError("xllamacpp")


def declare(library):
    pointer, number, truth = ctypes.c_void_p, ctypes.c_int32, ctypes.c_bool
    functions = {
        "llama_backend_init": (None, []), "llama_log_set": (None, [LOG, pointer]), "llama_model_default_params": (Parameters, []),
        "llama_model_load_from_file": (pointer, [ctypes.c_char_p, Parameters]), "llama_model_free": (None, [pointer]),
        "llama_model_get_vocab": (pointer, [pointer]), "llama_vocab_n_tokens": (number, [pointer]),
        "llama_tokenize": (number, [pointer, ctypes.c_char_p, number, ctypes.POINTER(number), number, truth, truth]),
        "llama_token_to_piece": (number, [pointer, number, ctypes.c_char_p, number, number, truth]),
        "llama_vocab_get_add_bos": (truth, [pointer]), "llama_vocab_get_add_eos": (truth, [pointer]), "llama_vocab_is_eog": (truth, [pointer, number]),
        "llama_context_default_params": (Parameters, []), "llama_init_from_model": (pointer, [pointer, Parameters]), "llama_free": (None, [pointer]),
        "llama_batch_init": (Batch, [number, number, number]), "llama_batch_free": (None, [Batch]), "llama_decode": (number, [pointer, Batch]),
        "llama_get_logits_ith": (ctypes.POINTER(ctypes.c_float), [pointer, number]),
        "llama_model_chat_template": (ctypes.c_char_p, [pointer, ctypes.c_char_p]), **{f"llama_vocab_{name}": (number, [pointer]) for name in NAMES}}
    for name, (result, arguments) in functions.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


MESSAGES = []


@LOG
def keep_message(_level, text, _context):
    MESSAGES.append(text.decode("utf-8", "replace"))


LIBRARY = declare(ctypes.CDLL(find_library(), mode=os.RTLD_LOCAL | os.RTLD_LAZY))
LIBRARY.llama_log_set(keep_message, None)
LIBRARY.llama_backend_init()


class Vocabulary:
    def __init__(self, path, weights=False):
        parameters, begin = LIBRARY.llama_model_default_params(), len(MESSAGES)
        assert parameters.bytes[VOCABULARY_ONLY] == 0
        parameters.bytes[VOCABULARY_ONLY] = not weights
        self.model = LIBRARY.llama_model_load_from_file(os.fsencode(path), parameters)
        if not self.model:
            raise RuntimeError("".join(MESSAGES[begin:][-5:]))
        self.vocabulary = LIBRARY.llama_model_get_vocab(self.model)
        self.size = LIBRARY.llama_vocab_n_tokens(self.vocabulary)

    def close(self):
        LIBRARY.llama_model_free(self.model)

    def tokenize(self, text, specials=True, add=False):
        data = text.encode()
        out = (ctypes.c_int32 * (len(data) + 16))()
        count = LIBRARY.llama_tokenize(self.vocabulary, data, len(data), out, len(out), add, specials)
        assert count >= 0
        return list(out[:count])

    def text(self, ids):
        out, buffer = b"", ctypes.create_string_buffer(1024)
        for id in ids:
            count = LIBRARY.llama_token_to_piece(self.vocabulary, id, buffer, len(buffer), 0, True)
            out += buffer.raw[:count]
        return out

    def template(self):
        found = LIBRARY.llama_model_chat_template(self.model, None)
        return found and found.decode()

    def facts(self):
        facts = {name: getattr(LIBRARY, f"llama_vocab_{name}")(self.vocabulary) for name in NAMES}
        facts.update(add_bos=LIBRARY.llama_vocab_get_add_bos(self.vocabulary), add_eos=LIBRARY.llama_vocab_get_add_eos(self.vocabulary))
        return dict(facts, ends=[id for id in range(self.size) if LIBRARY.llama_vocab_is_eog(self.vocabulary, id)])


def put(parameters, offset, value):
    ctypes.cast(ctypes.byref(parameters, offset), ctypes.POINTER(ctypes.c_int32))[0] = value


def get(parameters, offset):
    return ctypes.cast(ctypes.byref(parameters, offset), ctypes.POINTER(ctypes.c_int32))[0]


class Model(Vocabulary):
    """A model with its weights. It computes on one thread, with a cache in fp32 and without flash attention."""

    def __init__(self, path):
        super().__init__(path, weights=True)

    def context(self, positions):
        parameters = LIBRARY.llama_context_default_params()
        assert get(parameters, BATCH) == 2048 and get(parameters, CACHE) == 1, "another form of llama_context_params"
        for offset, value in ((CONTEXT, positions), (BATCH, max(positions, 32)), (UNIT, max(positions, 32)), (THREADS, 1), (THREADS + 4, 1), (FLASH, 0),
                              (CACHE, 0), (CACHE + 4, 0)):
            put(parameters, offset, value)
        context = LIBRARY.llama_init_from_model(self.model, parameters)
        assert context, "".join(MESSAGES[-5:])
        return context

    def decode(self, context, ids, begin):
        """Returns the logits [ids, tokens] after each of `ids`. The first id has the position `begin`."""
        batch = LIBRARY.llama_batch_init(len(ids), 0, 1)
        batch.count = len(ids)
        for i, id in enumerate(ids):
            batch.tokens[i], batch.positions[i], batch.sequences[i], batch.logits[i], batch.ids[i][0] = id, begin + i, 1, 1, 0
        assert LIBRARY.llama_decode(context, batch) == 0
        rows = [numpy.ctypeslib.as_array(LIBRARY.llama_get_logits_ith(context, i), (self.size,)).copy() for i in range(len(ids))]
        LIBRARY.llama_batch_free(batch)
        return numpy.stack(rows)

    def logits(self, ids):
        context = self.context(len(ids) + 8)
        rows = self.decode(context, ids, 0)
        LIBRARY.llama_free(context)
        return rows

    def greedy(self, ids, count):
        context, written = self.context(len(ids) + count + 8), []
        rows = self.decode(context, ids, 0)
        for _ in range(count):
            written.append(int(rows[-1].argmax()))
            rows = self.decode(context, written[-1:], len(ids) + len(written) - 1)
        LIBRARY.llama_free(context)
        return written
