// Loads the SentencePiece module at first use. The program does not link the library directly:
// Debian's libsentencepiece has its own old protobuf under public names, and libtorch has a newer
// one. In one symbol scope the two crash before main. In the module's scope SentencePiece's own
// symbols come first.
#include "penstock/data/tokenizers/sentencepiece_tokenizer.h"

#include <dlfcn.h>

#include <filesystem>

#include "penstock/base/error.h"
#include "penstock/data/tokenizers/sentencepiece_functions.h"

namespace penstock {
namespace {

/// The module beside the library that holds this function.
std::string module_path() {
  Dl_info info{};
  PENSTOCK_ASSERT(dladdr(reinterpret_cast<void*>(&module_path), &info) != 0 && info.dli_fname);
  return (std::filesystem::path(info.dli_fname).parent_path() / "libpenstock_sentencepiece.so")
      .string();
}

SentencePieceFunctions load_module() {
  int flags = RTLD_NOW | RTLD_LOCAL;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  flags |= RTLD_DEEPBIND;  // it breaks the interceptors of sanitizers
#endif
  const std::string path = module_path();
  void* handle = dlopen(path.c_str(), flags);  // stays loaded: tokenizers hold its code
  PENSTOCK_CHECK(handle, "the SentencePiece module cannot be loaded (", dlerror(),
                 "); reinstall Penstock, or use the tokenizer bytes");
  using Entry = SentencePieceFunctions (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(handle, kSentencePieceEntry));
  PENSTOCK_CHECK(entry, path, ": is not Penstock's SentencePiece module; reinstall Penstock");
  return entry();
}

const SentencePieceFunctions& functions() {
  static const SentencePieceFunctions loaded = load_module();
  return loaded;
}

}  // namespace

std::shared_ptr<const Tokenizer> train_sentencepiece_tokenizer(
    const std::string& kind, std::int64_t vocab_size, std::span<const std::string_view> texts) {
  return functions().train(kind, vocab_size, texts);
}

std::shared_ptr<const Tokenizer> load_sentencepiece_tokenizer(
    const std::string& content, const std::string& name,
    const std::map<std::string, std::string>& beside) {
  return functions().load(content, name, beside);
}

}  // namespace penstock
