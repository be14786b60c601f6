#!/usr/bin/env python3
"""Writes small valid inputs for the harnesses, one folder a harness:

    make_seeds.py DIRECTORY

A harness's file says how its inputs are laid out.
"""
import json
import os
import struct
import sys

LETTERS = "abcdelow "


def printable(byte):
    """GPT-2's stand-in for a byte."""
    plain = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    rest = [b for b in range(256) if b not in plain]
    return chr(byte) if byte in plain else chr(0x100 + rest.index(byte))


def byte_level(pre_tokenizer, merges, normalizer=None):
    vocab = {printable(ord(letter)): i for i, letter in enumerate(LETTERS)}
    for pair in merges:
        vocab["".join(pair if isinstance(pair, list) else pair.split())] = len(vocab)
    return {"version": "1.0", "normalizer": normalizer, "pre_tokenizer": pre_tokenizer,
            "added_tokens": [{"id": len(vocab), "content": "<end>", "special": True, "lstrip": True,
                              "rstrip": False, "normalized": False, "single_word": False},
                             {"id": len(vocab) + 1, "content": "added", "normalized": True}],
            "decoder": {"type": "ByteLevel"},
            "model": {"type": "BPE", "vocab": vocab, "merges": merges, "unk_token": None,
                      "ignore_merges": True, "byte_fallback": False, "dropout": None}}


def characters():
    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2}
    for byte in range(256):
        vocab[f"<0x{byte:02X}>"] = len(vocab)
    for piece in ("\u2581", "a", "b", "ab", "\u2581a", "\u2581ab"):
        vocab[piece] = len(vocab)
    mark = {"String": "\u2581"}
    return {"added_tokens": [{"id": 1, "content": "<s>", "special": True}],
            "normalizer": {"type": "Sequence", "normalizers": [
                {"type": "Prepend", "prepend": "\u2581"},
                {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
            "pre_tokenizer": None,
            "post_processor": {"type": "TemplateProcessing",
                               "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}]},
            "decoder": {"type": "Sequence", "decoders": [
                {"type": "Replace", "pattern": mark, "content": " "}, {"type": "ByteFallback"},
                {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
            "model": {"type": "BPE", "vocab": vocab, "byte_fallback": True, "fuse_unk": True,
                      "unk_token": "<unk>",
                      "merges": [["a", "b"], ["\u2581", "a"], ["\u2581", "ab"], ["\u2581a", "b"]]}}


def tokenizer_json():
    split = {"type": "Split", "pattern": {"Regex": r"\p{L}+|\s+(?!\S)| ?[^\s\p{L}]+"},
             "behavior": "Isolated", "invert": False}
    level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
    metaspace = characters()
    metaspace["normalizer"] = {"type": "NFKC"}
    metaspace["pre_tokenizer"] = {"type": "Metaspace", "replacement": "\u2581",
                                  "prepend_scheme": "first", "split": True}
    metaspace["decoder"] = {"type": "Metaspace", "replacement": "\u2581"}
    removed = {"type": "Sequence", "pretokenizers": [
        {"type": "Digits", "individual_digits": True},
        {"type": "Split", "pattern": {"String": "-"}, "behavior": "MergedWithNext"}, level]}
    roots = {
        "gpt2": byte_level({"type": "ByteLevel", "add_prefix_space": True}, ["l o", "lo w", "e d"]),
        "split": byte_level({"type": "Sequence", "pretokenizers": [split, level]},
                            [["l", "o"], ["lo", "w"]], {"type": "NFC"}),
        "removed": byte_level(removed, ["a b", "ab c"]),
        "characters": characters(),
        "metaspace": metaspace,
    }
    for name, root in roots.items():
        yield name, json.dumps(root, ensure_ascii=False).encode() + b"\0low ab-bed <end> added  \xff"


def vocab_and_merges():
    vocab = {printable(ord(letter)): i for i, letter in enumerate(LETTERS)}
    vocab.update({"lo": 9, "low": 10, "<|endoftext|>": 11})
    config = {"tokenizer_class": "Qwen2Tokenizer", "eos_token": "<end>", "added_tokens_decoder": {
        "12": {"content": "<end>", "special": True}}}
    parts = [json.dumps(vocab), "#version: 0.2\nl o\nlo w\n", "{}", "low lab"]
    yield "gpt2", "\0".join(parts).encode()
    parts[2] = json.dumps(config)
    yield "qwen2", "\0".join(parts).encode()


def tokenizer_bin():
    pieces = [("<unk>", 0), ("\n<s>\n", 0), ("\n</s>\n", 0)]
    pieces += [(f"<0x{byte:02X}>", 0) for byte in range(256)]
    pieces += [(" ", -1), ("a", -2), ("b", -3), ("ab", -4), (" ab", -5), ("\u00e9", -6)]
    out = struct.pack("<i", 8)
    for text, score in pieces:
        out += struct.pack("<fi", score, len(text.encode())) + text.encode()
    yield "small", out + b"\xff\xff\xff\xffab ba \xc3\xa9 x"


def token_file():
    names = b"".join(struct.pack("<I", len(name)) + name for name in (b"one", b"two"))
    for width, code in ((2, "H"), (4, "I")):
        tokens = [1, 2, 3, 4, 5, 6, 7]
        body = struct.pack(f"<{len(tokens)}{code}", *tokens)
        body += bytes(-len(body) % 8)
        documents = b"".join(struct.pack("<QQQII", *row) for row in (
            (0, 3, 9, 0, 0), (3, 2, 8, 1, 1), (5, 2, 7, 0, 2)))
        header = struct.pack("<8sIIIIQQQQQQQQ", b"PSTKTOK\n", 1, 0x01020304, width, 300, 7, 3, 2,
                             len(names), 88 + len(body) + len(documents) + len(names), 0, 0, 0)
        yield f"width-{width}", b"\0" + header + body + documents + names


def string(text):
    content = text.encode()
    return struct.pack("<Q", len(content)) + content


def value(key, kind, content):
    return string(key) + struct.pack("<I", kind) + content


def gguf():
    values = [value("general.architecture", 8, string("llama")),
              value("general.alignment", 4, struct.pack("<I", 32)),
              value("a.strings", 9, struct.pack("<IQ", 8, 2) + string("x") + string("yy")),
              value("a.integers", 9, struct.pack("<IQ3i", 5, 3, 1, 2, 3)),
              value("a.number", 6, struct.pack("<f", 1.5)),
              value("a.truth", 7, b"\1"),
              value("a.long", 10, struct.pack("<Q", 5))]
    tensors = [string("blocks") + struct.pack("<IQQIQ", 2, 32, 2, 8, 0),
               string("halves") + struct.pack("<IQIQ", 1, 4, 1, 96)]
    for version in (2, 3):
        head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(values))
        head += b"".join(values) + b"".join(tensors)
        yield f"version-{version}", head + bytes(-len(head) % 32) + b"\1" * 68 + bytes(28 + 8)
    blocks = {"q4_0": (2, 32, 18), "q4_1": (3, 32, 20), "q5_0": (6, 32, 22), "q5_1": (7, 32, 24),
              "q4_k": (12, 256, 144), "q5_k": (13, 256, 176), "q6_k": (14, 256, 210)}
    for name, (kind, numbers, size) in blocks.items():
        head = b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + string(name)
        head += struct.pack("<IQQIQ", 2, numbers, 2, kind, 0)
        yield name, head + bytes(-len(head) % 32) + bytes(i % 251 for i in range(2 * size))


def gguf_vocabulary():
    def file(model, pieces, types, *more):
        def array(name, kind, contents):
            return value("tokenizer.ggml." + name, 9,
                         struct.pack("<IQ", kind, len(contents)) + b"".join(contents))

        values = [value("general.architecture", 8, string("llama")),
                  value("tokenizer.ggml.model", 8, string(model)),
                  array("tokens", 8, [string(p) for p in pieces]),
                  array("token_type", 5, [struct.pack("<i", t) for t in types])]
        values += [array(*one) if len(one) == 3 and isinstance(one[2], list) else
                   value("tokenizer.ggml." + one[0], *one[1:]) for one in more]
        head = b"GGUF" + struct.pack("<IQQ", 3, 0, len(values)) + b"".join(values)
        return head + bytes(-len(head) % 32) + b"\xff\xff\xff\xff" + b"a low  low lo\xc3\xa9 <end>"

    def identity(name, number):
        return (name + "_token_id", 4, struct.pack("<I", number))

    letters = [printable(b) for b in range(256)]
    merged = ["lo", "low", "\u0120l", "\u0120low"]
    merges = [string(m) for m in ("l o", "lo w", "\u0120 l", "\u0120l ow", "\u0120 low")]
    yield "bpe", file("gpt2", letters + merged + ["<end>"], [1] * 260 + [3], ("merges", 8, merges),
                      ("pre", 8, string("qwen2")), identity("eos", 260), identity("bos", 260))
    yield "bytes", file("gpt2", letters, [1] * 256)
    pieces = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    pieces += ["\u2581", "l", "o", "lo", "w", "low", "\u2581low"]
    types = [2, 3, 3] + [6] * 256 + [1] * 7
    scores = [struct.pack("<f", -float(i)) for i in range(len(pieces))]
    for model in ("llama", "t5"):
        yield model, file(model, pieces, types, ("scores", 6, scores), identity("bos", 1),
                          ("add_bos_token", 7, b"\1"), ("add_space_prefix", 7, b"\1"))


def safetensors():
    header = json.dumps({"__metadata__": {"format": "pt"},
                         "a": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]},
                         "b": {"dtype": "BF16", "shape": [3], "data_offsets": [16, 22]}}).encode()
    yield "two", struct.pack("<Q", len(header)) + header + bytes(22)


def llama2c():
    for name, vocab in (("tied", 3), ("untied", -3)):
        d, f, layers, heads, kv_heads, context = 4, 6, 2, 2, 1, 2
        width = d // heads
        floats = (3 * d + layers * (2 * d + 2 * d * d + 2 * kv_heads * width * d + 3 * f * d) + d +
                  context * width + (3 * d if vocab < 0 else 0))
        yield name, struct.pack("<7i", d, f, layers, heads, kv_heads, vocab, context) + bytes(4 * floats)


def tokenizer_model():
    def field(number, kind, content):
        return bytes([number << 3 | kind]) + content

    def message(number, content):
        return field(number, 2, bytes([len(content)]) + content)

    def piece(text, score, kind):
        return message(1, message(1, text.encode()) + field(2, 5, struct.pack("<f", score)) + field(3, 0, bytes([kind])))

    normal = (("\u2581", -1), ("a", -2), ("b", -3), ("ab", -4), ("\u2581ab", -5))
    for name, kind in (("unigram", 1), ("bpe", 2)):
        pieces = [piece("<unk>", 0, 2), piece("<s>", 0, 3), piece("</s>", 0, 3)]
        pieces += [piece(f"<0x{byte:02X}>", 0, 6) for byte in range(256)]
        pieces += [piece(text, score, 1) for text, score in normal]
        # trainer_spec: model_type and byte_fallback; normalizer_spec: name, no dummy prefix.
        trainer = message(2, field(3, 0, bytes([kind])) + b"\x98\x02\x01")
        normalizer = message(3, message(1, b"identity") + field(3, 0, b"\0") + field(4, 0, b"\0") + field(5, 0, b"\0"))
        yield name, b"".join(pieces) + trainer + normalizer + b"\xff\xff\xff\xffab a b\xc3\xa9"


def config_json():
    yield "llama", json.dumps({"model_type": "llama", "hidden_size": 64, "sliding_window": None,
                               "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
                               "mlp_only_layers": [1, 2.5, True]}).encode()


def task_rows():
    """The templates of the program's tasks with the rows of their tests."""
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    rows = os.path.join(root, "tests/tasks/rows")
    for name in sorted(os.listdir(rows)):
        path = os.path.join(root, "tasks/lm-eval", name.replace(".jsonl", ".toml"))
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                context = next(line for line in file if line.startswith("context")).split('"', 1)[1]
            with open(os.path.join(rows, name), "rb") as file:
                yield name, context.rstrip('"\n').encode() + b"\0" + file.read()


def serve_request():
    common = {"model": "m", "n": 2, "temperature": 0.7, "top_p": 0.9, "top_k": 40, "seed": -1, "stop": ["x", "yz"],
              "stream": True, "stream_options": {"include_usage": True}, "routing": True, "user": "u"}
    yield "completion", json.dumps({**common, "prompt": ["a", [1, 2]], "max_tokens": 5, "logprobs": 2}).encode()
    parts = [{"type": "text", "text": "b"}]
    messages = [{"role": "system", "content": "a"}, {"role": "user", "content": parts}]
    yield "chat", json.dumps({**common, "messages": messages, "max_completion_tokens": 5, "logprobs": True,
                              "top_logprobs": 3, "presence_penalty": 0.5, "logit_bias": {"5": -100}}).encode()
    yield "routing", json.dumps({"input": [1, 2, 3]}).encode()
    yield "content", json.dumps({"content": "a", "add_special": True, "parse_special": False,
                                 "with_pieces": True}).encode()
    yield "messages", json.dumps({"messages": messages, "add_special_tokens": False,
                                  "return_token_strs": True}).encode()
    yield "tokens", json.dumps({"tokens": [1, 2, 3], "model": "m"}).encode()


def serve_http():
    head = b"POST /v1/completions?a=b HTTP/1.1\r\nHost: localhost:8080\r\nConnection: close, x\r\n"
    yield "length", head + b"Content-Length: 5\r\nExpect: 100-continue\r\n\r\nabcde"
    yield "chunks", head + b"Transfer-Encoding: chunked\r\n\r\n4;a=b\r\nabcd\r\n0A\r\n0123456789\r\n0\r\nT: x\r\n\r\n"
    yield "proxy", b"GET http://localhost/health HTTP/1.0\r\nAuthorization: Bearer key\r\n\r\n"


def main():
    for make in (tokenizer_json, vocab_and_merges, tokenizer_bin, token_file, gguf,
                 gguf_vocabulary, safetensors, llama2c, tokenizer_model, config_json, task_rows,
                 serve_request, serve_http):
        folder = os.path.join(sys.argv[1], make.__name__)
        os.makedirs(folder, exist_ok=True)
        for name, content in make():
            with open(os.path.join(folder, name), "wb") as file:
                file.write(content)


if __name__ == "__main__":
    main() if len(sys.argv) == 2 else sys.exit(__doc__)
