"""llama.cpp's tokenizer through ctypes. The shared object of PyPI's `xllamacpp` exports the C API of llama.cpp.

    model = Vocabulary("model.gguf")                # RuntimeError with llama.cpp's reason if the file does not load
    model.tokenize("text", specials=True)           # a list of ids; specials: whether control tokens in the text are found
    model.facts()                                   # {"bos": 1, "add_bos": True, "ends": [2], ...}

A failed assertion of llama.cpp aborts the process. Structs of parameters are passed by value in memory, so that a struct of 512 bytes is
as good as the real one, which is shorter; the offset that is set is checked against its default value."""
import ctypes
import glob
import os
import sys

PARAMETERS, VOCABULARY_ONLY = 512, 16 + 5 * 4 + 4 + 8 * 4
LOG = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
NAMES = ("bos", "eos", "eot", "pad", "nl")


class Parameters(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint8 * PARAMETERS)]


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
    def __init__(self, path):
        parameters, begin = LIBRARY.llama_model_default_params(), len(MESSAGES)
        assert parameters.bytes[VOCABULARY_ONLY] == 0
        parameters.bytes[VOCABULARY_ONLY] = 1
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
