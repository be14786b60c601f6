#include "penstock/models/llama2c_source.h"

#include <array>
#include <cstring>
#include <filesystem>
#include <vector>

#include "penstock/base/error.h"

namespace penstock {
namespace {

constexpr std::int32_t kLaterVersions = 0x616b3432;  // "ak42"
constexpr std::size_t kHeaderBytes = 7 * sizeof(std::int32_t);

ModelConfig read_header(std::span<const std::byte> file, const std::string& path) {
  std::array<std::int32_t, 7> header{};
  PENSTOCK_CHECK(file.size() >= kHeaderBytes, path, ": ", file.size(),
                 " bytes are too few for a llama2.c checkpoint");
  std::memcpy(header.data(), file.data(), kHeaderBytes);
  PENSTOCK_CHECK(header[0] != kLaterVersions, path,
                 ": is a llama2.c checkpoint of a later version; only version 0, which has no "
                 "magic number, is read");
  const std::array names = {"width",           "feed-forward width", "number of layers", "heads",
                            "key/value heads", "vocabulary",         "context"};
  for (std::size_t i = 0; i < header.size(); ++i) {
    const std::int64_t value = header[i], size = i == 5 && value < 0 ? -value : value;
    PENSTOCK_CHECK(size >= 1 && size <= (i == 2 ? 10000 : 1 << 24), path,
                   ": not a llama2.c checkpoint of version 0: its ", names[i], " would be ", value);
  }
  ModelConfig config;
  config.d_model = header[0];
  config.d_ffn = header[1];
  config.layers = header[2];
  config.heads = header[3];
  config.kv_heads = header[4];
  config.vocab = std::abs(std::int64_t{header[5]});
  config.context = header[6];
  config.tie_embeddings = header[5] > 0;
  config.rope_adjacent = true;
  config.rope_base = 1e4;
  config.norm_eps = 1e-5;
  try {
    return config.resolved();
  } catch (const Error& error) {
    fail(path, ": not a llama2.c checkpoint of version 0: ", error.what());
  }
}

/// The file's floats, handed out piece by piece. Sizes are counted before the file is looked at, so
/// that any header may be tried.
class Pieces {
 public:
  using Shape = std::vector<std::int64_t>;
  struct Piece {
    std::string name;  ///< empty: not part of the model
    Shape shape;
    double begin;  ///< in floats; exact below 2^53
  };
  void add(const std::string& name, const Shape& shape) {
    pieces_.push_back({name, shape, floats_});
    double count = 1;
    for (const std::int64_t size : shape) count *= static_cast<double>(size);
    floats_ += count;
  }
  /// One for each layer, under "model.layers.<i>.<tail>".
  void add_layers(std::int64_t layers, const std::string& tail, const Shape& shape) {
    for (std::int64_t i = 0; i < layers; ++i)
      add("model.layers." + std::to_string(i) + "." + tail, shape);
  }
  double bytes() const { return kHeaderBytes + sizeof(float) * floats_; }
  const std::vector<Piece>& all() const { return pieces_; }

 private:
  std::vector<Piece> pieces_;
  double floats_ = 0;
};

Pieces pieces_of(const ModelConfig& c) {
  const std::int64_t d = c.d_model, f = c.d_ffn, kv = c.kv_heads * c.head_dim;
  Pieces out;
  out.add("model.embed_tokens.weight", {c.vocab, d});
  out.add_layers(c.layers, "input_layernorm.weight", {d});
  out.add_layers(c.layers, "self_attn.q_proj.weight", {d, d});
  out.add_layers(c.layers, "self_attn.k_proj.weight", {kv, d});
  out.add_layers(c.layers, "self_attn.v_proj.weight", {kv, d});
  out.add_layers(c.layers, "self_attn.o_proj.weight", {d, d});
  out.add_layers(c.layers, "post_attention_layernorm.weight", {d});
  out.add_layers(c.layers, "mlp.gate_proj.weight", {f, d});
  out.add_layers(c.layers, "mlp.down_proj.weight", {d, f});
  out.add_layers(c.layers, "mlp.up_proj.weight", {f, d});
  out.add("model.norm.weight", {d});
  out.add("", {c.context, c.head_dim});
  if (!c.tie_embeddings) out.add("lm_head.weight", {c.vocab, d});
  return out;
}

std::string tokenizer_beside(const std::string& path) {
  namespace fs = std::filesystem;
  const fs::path folder = parent_directory(path);
  if (fs::is_regular_file(folder / "tokenizer.bin")) return (folder / "tokenizer.bin").string();
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("tok") && name.ends_with(".bin") && entry.path() != fs::path(path))
      found.push_back(entry.path().string());
  }
  PENSTOCK_CHECK(!found.empty(), path,
                 ": no tokenizer lies beside it; put its tokenizer.bin (or tok*.bin) there");
  PENSTOCK_CHECK(found.size() == 1, path, ": ", found.size(),
                 " files called tok*.bin lie beside it; name the model's tokenizer.bin");
  return found.front();
}

}  // namespace

Llama2cSource::Llama2cSource(const std::string& path) : Llama2cSource(path, MappedFile(path)) {}

Llama2cSource::Llama2cSource(const std::string& path, MappedFile file)
    : MappedSource(read_header(file.bytes(), path), path), file_(std::move(file)) {
  const Pieces pieces = pieces_of(config());
  PENSTOCK_CHECK(pieces.bytes() == static_cast<double>(file_.bytes().size()), path, ": has ",
                 file_.bytes().size(), " bytes, and a llama2.c checkpoint with this header has ",
                 static_cast<std::uint64_t>(pieces.bytes()),
                 "; it is cut short or of another kind");
  for (const auto& piece : pieces.all()) {
    if (piece.name.empty()) continue;
    std::size_t bytes = sizeof(float);
    for (const std::int64_t size : piece.shape) bytes *= static_cast<std::size_t>(size);
    const auto begin = kHeaderBytes + static_cast<std::size_t>(piece.begin) * sizeof(float);
    tensors_[piece.name] = {.name = piece.name,
                            .dtype = Dtype::kF32,
                            .shape = piece.shape,
                            .data = file_.bytes().subspan(begin, bytes)};
  }
}

std::shared_ptr<const Tokenizer> Llama2cSource::tokenizer() const {
  const std::string file = tokenizer_beside(origin());
  auto out = load_tokenizer(file);
  PENSTOCK_CHECK(out->vocab_size() == config().vocab, file, ": has ", out->vocab_size(),
                 " pieces, and ", origin(), " a vocabulary of ", config().vocab);
  return out;
}

}  // namespace penstock
