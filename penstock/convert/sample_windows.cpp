#include "penstock/convert/sample_windows.h"

#include <torch/types.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <span>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/data/corpus/corpus.h"
#include "penstock/models/files/same_tokenizer.h"

namespace penstock {
namespace {

constexpr std::int64_t kLongestWindow = 512;
constexpr std::int64_t kMostBytesPerToken = 16;  // of a text file; a bound for reading enough of it
constexpr std::int64_t kMostAsked = std::int64_t{1} << 40;

using Reader = std::function<void(std::int64_t begin, std::span<std::int64_t> out)>;

at::Tensor spread(std::int64_t available, const Reader& read, std::int64_t tokens,
                  std::int64_t length) {
  length = std::min(length, available);
  const std::int64_t count = std::clamp<std::int64_t>(tokens / length, 1, available / length);
  const at::Tensor out = at::empty({count, length}, at::kLong);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t begin = count == 1 ? 0 : i * (available - length) / (count - 1);
    read(begin, {out.data_ptr<std::int64_t>() + i * length, static_cast<std::size_t>(length)});
  }
  return out;
}

std::string beginning_of(const std::string& path, std::int64_t bytes) {
  std::ifstream file(path, std::ios::binary);
  PENSTOCK_CHECK(file && std::filesystem::is_regular_file(path), path,
                 ": cannot be read; give a corpus directory or a text file");
  const auto all = static_cast<std::int64_t>(std::filesystem::file_size(path));
  std::string text(static_cast<std::size_t>(std::min(all, bytes)), '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (all <= bytes) return text;
  // The cut may lie within a character. Removes the last character if it has several bytes.
  const auto last = [&] { return static_cast<unsigned char>(text.back()); };
  while (!text.empty() && (last() & 0xc0) == 0x80) text.pop_back();
  if (!text.empty() && last() >= 0xc0) text.pop_back();
  return text;
}

void check_ids(const at::Tensor& ids, std::int64_t vocabulary, const std::string& text) {
  PENSTOCK_CHECK(ids.max().item<std::int64_t>() < vocabulary, text, ": has token ",
                 ids.max().item<std::int64_t>(), ", and the model's vocabulary is ", vocabulary,
                 "; prepare the text with the model's tokenizer");
}

}  // namespace

at::Tensor sample_windows(const std::string& text, const ModelSource& model,
                          const SampleOptions& options) {
  const ModelConfig& config = model.config();
  const std::int64_t length =
      options.length > 0
          ? options.length
          : std::min(config.context > 0 ? config.context : kLongestWindow, kLongestWindow);
  at::Tensor out;
  if (std::filesystem::is_directory(text)) {
    const Corpus corpus = Corpus::open(text);
    check_same_tokenizer(model, corpus);
    const TokenFile::Range range = corpus.file().range(Split::kTrain);
    PENSTOCK_CHECK(range.tokens > 0, text, ": the training split is empty");
    out = spread(
        range.tokens,
        [&](std::int64_t begin, std::span<std::int64_t> ids) {
          corpus.file().read(range.begin + begin, ids);
        },
        options.tokens, length);
  } else {
    const std::string raw =
        beginning_of(text, std::min(options.tokens, kMostAsked) * kMostBytesPerToken);
    const std::vector<TokenId> ids = model.tokenizer()->encode_file(text, raw);
    PENSTOCK_CHECK(!ids.empty(), text, ": holds no text");
    out = spread(
        static_cast<std::int64_t>(ids.size()),
        [&](std::int64_t begin, std::span<std::int64_t> window) {
          std::copy_n(ids.begin() + begin, window.size(), window.begin());
        },
        options.tokens, length);
  }
  check_ids(out, config.vocab, text);
  return out;
}

at::Tensor some_windows(const at::Tensor& windows, std::int64_t tokens) {
  const std::int64_t most = std::max<std::int64_t>(1, tokens / windows.size(1));
  const std::int64_t step = (windows.size(0) + most - 1) / most;
  return windows.slice(0, 0, windows.size(0), step);
}

}  // namespace penstock
