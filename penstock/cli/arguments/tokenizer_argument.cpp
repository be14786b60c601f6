#include "penstock/cli/arguments/tokenizer_argument.h"

#include <algorithm>
#include <filesystem>

#include "penstock/base/error.h"
#include "penstock/cli/arguments/model_argument.h"
#include "penstock/data/tokenizers/from_files.h"
#include "penstock/data/tokenizers/from_vocabulary.h"
#include "penstock/data/tokenizers/tokenizer_files.h"
#include "penstock/models/files/open_model.h"
#include "penstock/models/formats/gguf_source.h"
#include "penstock/models/formats/gguf_vocabulary.h"
#include "penstock/models/model_source.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

bool has_tokenizer_file(const fs::path& folder) {
  return std::ranges::any_of(kTokenizerFiles,
                             [&](const char* name) { return fs::exists(folder / name); });
}

/// Whether the file is a llama2.c checkpoint. A .bin file whose name begins with "tok" is a
/// tokenizer.
bool is_checkpoint(const fs::path& path) {
  return is_model_file(path.string()) && !path.filename().string().starts_with("tok");
}

}  // namespace

std::shared_ptr<const Tokenizer> tokenizer_argument(const std::string& path) {
  PENSTOCK_CHECK(fs::exists(path), path, ": no such file or folder; give ", kTokenizerPlaces);
  if (fs::is_directory(path)) {
    if (has_tokenizer_file(path)) return load_tokenizer(path);
    if (fs::exists(fs::path(path) / "checkpoints"))
      return load_tokenizer(model_argument(path).path);
    return load_tokenizer(path);
  }
  // Some GGUF files hold a vocabulary and no model.
  if (is_gguf(path)) return make_tokenizer(read_gguf_vocabulary(GgufFile(path)));
  if (is_checkpoint(path)) return open_model_source(path)->tokenizer();
  return load_tokenizer(path);
}

std::shared_ptr<const Tokenizer> model_tokenizer(const ModelSource& model,
                                                 const std::string& tokenizer) {
  if (!tokenizer.empty()) return tokenizer_argument(tokenizer);
  try {
    return model.tokenizer();
  } catch (const Error& error) {
    const std::string what = error.what();
    if (what.find("--tokenizer") != what.npos) throw;
    fail(what, "; name one with --tokenizer");
  }
}

}  // namespace penstock
