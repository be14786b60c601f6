// llama2.c checkpoints: a small one that the test writes, and stories260K if shared/data has it.
#include "penstock/models/formats/llama2c_source.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cstring>
#include <fstream>

#include "penstock/models/decoder.h"
#include "penstock/models/files/model_directory.h"
#include "penstock/models/formats/tensor_names.h"
#include "tests/base/error_of.h"
#include "tests/models/checkpoints.h"

namespace penstock {
namespace {

using testing::error_of;

std::string bin_bytes(LanguageModel& model) {
  const ModelConfig& c = model.config();
  std::string out;
  const auto integer = [&](std::int64_t value) {
    const auto narrow = static_cast<std::int32_t>(value);
    out.append(reinterpret_cast<const char*>(&narrow), 4);
  };
  for (const std::int64_t value : {c.d_model, c.d_ffn, c.layers, c.heads, c.kv_heads,
                                   c.tie_embeddings ? c.vocab : -c.vocab, c.context})
    integer(value);
  const auto tensors = file_tensors(model);
  const auto add = [&](const std::string& name) {
    const at::Tensor dense = tensors.at(name).contiguous();
    out.append(static_cast<const char*>(dense.data_ptr()), dense.nbytes());
  };
  const auto add_layers = [&](const std::string& tail) {
    for (std::int64_t i = 0; i < c.layers; ++i) add("model.layers." + std::to_string(i) + tail);
  };
  add("model.embed_tokens.weight");
  for (const char* tail :
       {".input_layernorm.weight", ".self_attn.q_proj.weight", ".self_attn.k_proj.weight",
        ".self_attn.v_proj.weight", ".self_attn.o_proj.weight", ".post_attention_layernorm.weight",
        ".mlp.gate_proj.weight", ".mlp.down_proj.weight", ".mlp.up_proj.weight"})
    add_layers(tail);
  add("model.norm.weight");
  out.append(static_cast<std::size_t>(c.context * c.head_dim * 4), '\x7f');  // never read
  if (!c.tie_embeddings) add("lm_head.weight");
  return out;
}

ModelConfig bin_config(bool tied) {
  ModelConfig config{.vocab = 11, .d_model = 8, .layers = 2, .heads = 4, .kv_heads = 2, .d_ffn = 6};
  config.context = 5;
  config.tie_embeddings = tied;
  config.rope_adjacent = true;
  return config.resolved();
}

std::string written(const testing::TempDirectory& folder, const std::string& bytes) {
  const std::string path = folder.path("model.bin");
  write_file_atomically(real_file_system(), path, bytes);
  return path;
}

TEST(Llama2c, GivesBackConfigAndEveryTensor) {
  for (const bool tied : {true, false}) {
    const testing::TempDirectory folder;
    Decoder model(bin_config(tied));
    model.initialize(InitialDraws(1));
    const std::string path = written(folder, bin_bytes(model));
    EXPECT_EQ(to_toml(write_config(read_model_config(path))),
              to_toml(write_config(bin_config(tied))));
    const auto loaded = load_model(path);
    const auto tensors = file_tensors(*loaded);
    for (const auto& [name, tensor] : file_tensors(model))
      EXPECT_TRUE(torch::equal(tensor, tensors.at(name))) << name;
  }
}

TEST(Llama2c, RefusesDamage) {
  const testing::TempDirectory folder;
  Decoder model(bin_config(true));
  model.initialize(InitialDraws(1));
  const std::string bytes = bin_bytes(model);
  const auto error = [&](const std::string& damaged) {
    const std::string path = written(folder, damaged);
    return error_of([&] { open_model_source(path); });
  };
  const auto with = [&](std::size_t field, std::int32_t value) {
    std::string out = bytes;
    std::memcpy(out.data() + 4 * field, &value, 4);
    return out;
  };
  testing::expect_says(error(bytes.substr(0, bytes.size() - 1)), {"cut short"});
  testing::expect_says(error(bytes + "x"), {"of another kind"});
  testing::expect_says(error(bytes.substr(0, 20)), {"too few"});
  EXPECT_NE(error(with(5, -11)).find("cut short"), std::string::npos);  // the untied head is absent
  testing::expect_says(error(with(0, 0x616b3432)), {"later version"});
  testing::expect_says(error(with(2, 0)), {"number of layers"});
  testing::expect_says(error(with(6, -5)), {"context"});
  testing::expect_says(error(with(3, 3)), {"cannot be divided"});
  testing::expect_says(error(with(5, 1 << 24)), {"cut short"});
  // More bytes than a 64-bit number can count.
  std::string huge = with(0, 1 << 24);
  const std::int32_t most = 1 << 24, layers = 10000;
  std::memcpy(huge.data() + 4, &most, 4);
  std::memcpy(huge.data() + 8, &layers, 4);
  testing::expect_says(error(huge), {"cut short"});
  testing::expect_says(error(huge), {"with this header has 6755"});
  testing::expect_says(error(with(5, INT32_MIN)), {"vocabulary"});
}

/// The pieces of a llama2.c tokenizer file. The file has a length, and then score, length and bytes
/// of each piece.
std::vector<std::string> pieces_of_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  std::vector<std::string> out;
  for (std::size_t at = 4; at + 8 <= bytes.size();) {
    std::int32_t length = 0;
    std::memcpy(&length, bytes.data() + at + 4, 4);
    out.push_back(bytes.substr(at + 8, static_cast<std::size_t>(length)));
    at += 8 + static_cast<std::size_t>(length);
  }
  return out;
}

TEST(Stories260K, WritesThePublishedText) {
  const std::string path = testing::public_checkpoint("stories260K/stories260K.bin");
  if (path.empty()) GTEST_SKIP() << "missing data: no stories260K beside the checkout";
  const auto model = load_model(path);
  const auto pieces = pieces_of_file(testing::public_checkpoint("stories260K/tok512.bin"));
  ASSERT_EQ(pieces.size(), 512u);
  const auto expected = read_json(testing::public_checkpoint("stories260K/expected_greedy.json"));
  for (const int steps : {200, 256}) {
    std::vector<std::int64_t> ids = {1};
    std::string text;
    for (int i = 0; i < steps; ++i) {
      ids.push_back(testing::logits_of(*model, ids)[-1].argmax().item<std::int64_t>());
      if (ids.back() == 1) break;
      std::string piece = pieces[static_cast<std::size_t>(ids.back())];
      if (piece.starts_with("<0x"))
        piece = static_cast<char>(std::stoi(piece.substr(3), nullptr, 16));
      text += i == 0 && piece.starts_with(' ') ? piece.substr(1) : piece;
    }
    EXPECT_EQ(text, expected["steps_" + std::to_string(steps) + "_no_prompt"].get<std::string>());
  }
}

TEST(Stories260K, TheTokenizerBesideItGivesTheReferencesIds) {
  const std::string path = testing::public_checkpoint("stories260K/stories260K.bin");
  if (path.empty()) GTEST_SKIP() << "missing data: no stories260K beside the checkout";
  const auto tokenizer = open_model_source(path)->tokenizer();
  const auto reference = read_json(testing::public_checkpoint("stories260K/reference_nll.json"));
  for (const auto& example : reference["examples"]) {
    auto ids = tokenizer->encode(example["text"].get<std::string>());
    ids.insert(ids.begin(), 1);
    ids.resize(std::min(ids.size(), std::size_t{512}));
    EXPECT_EQ(ids, example["ids"].get<std::vector<TokenId>>());
  }
}

/// A llama2.c tokenizer: three control pieces, the bytes, and pieces of one letter up to `pieces`.
std::string tokenizer_bytes(int pieces) {
  std::string out = {6, 0, 0, 0};
  for (int i = 0; i < pieces; ++i) {
    std::string piece(1, static_cast<char>('a' + i - 259));
    if (i < 259) {
      char name[8];
      std::snprintf(name, sizeof name, i < 3 ? "<%d>" : "<0x%02X>", i < 3 ? i : i - 3);
      piece = name;
    }
    out += std::string(4, '\0') + std::string{static_cast<char>(piece.size()), 0, 0, 0} + piece;
  }
  return out;
}

TEST(Llama2c, TakesTheOneTokenizerBesideIt) {
  const testing::TempDirectory folder;
  ModelConfig config = bin_config(true);
  config.vocab = 261;
  Decoder model(config);
  model.initialize(InitialDraws(1));
  const std::string path = written(folder, bin_bytes(model));
  const auto error = [&] { return error_of([&] { open_model_source(path)->tokenizer(); }); };
  const auto add = [&](const char* name, int pieces) {
    write_file_atomically(real_file_system(), folder.path() / name, tokenizer_bytes(pieces));
  };
  testing::expect_says(error(), {"no tokenizer"});
  add("tok262.bin", 262);
  testing::expect_says(error(), {"has 262 pieces"});
  add("tok261.bin", 261);
  testing::expect_says(error(), {"2 files"});
  add("tokenizer.bin", 261);
  EXPECT_EQ(open_model_source(path)->tokenizer()->vocab_size(), 261);
}

TEST(Stories260K, GivesTheReferencesLogLikelihoods) {
  const std::string path = testing::public_checkpoint("stories260K/stories260K.bin");
  if (path.empty()) GTEST_SKIP() << "missing data: no stories260K beside the checkout";
  const auto model = load_model(path);
  const auto reference = read_json(testing::public_checkpoint("stories260K/reference_nll.json"));
  const torch::NoGradGuard no_grad;
  double total = 0;
  for (const auto& example : reference["examples"]) {
    const auto ids = example["ids"].get<std::vector<std::int64_t>>();
    const at::Tensor tokens = torch::tensor(ids, torch::kInt64).unsqueeze(0);
    const auto count = static_cast<std::int64_t>(ids.size()) - 1;
    const at::Tensor hidden = model->forward({.tokens = tokens.narrow(1, 0, count)}, {}).hidden;
    const double nats = model->losses(hidden, tokens[0].narrow(0, 1, count))
                            .to(torch::kDouble)
                            .sum()
                            .item<double>();
    EXPECT_NEAR(nats, example["nll_sum"].get<double>(), 1e-4);
    total += nats;
    const at::Tensor last = testing::logits_of(*model, ids)[-2];
    for (const auto& best : example["last_position_top5"])
      EXPECT_NEAR(last[best[0].get<std::int64_t>()].item<double>(), best[1].get<double>(), 1e-4);
  }
  const auto predicted = reference["total_predicted_tokens"].get<double>();
  EXPECT_NEAR(total / predicted, reference["mean_nll"].get<double>(), 1e-6);
}

TEST(Stories260K, InDoublePrecisionTheLogLikelihoodsAreTheReferences) {
  const std::string path = testing::public_checkpoint("stories260K/stories260K.bin");
  if (path.empty()) GTEST_SKIP() << "missing data: no stories260K beside the checkout";
  const auto model = load_model(path);
  model->to(torch::kDouble);
  const auto reference = read_json(testing::public_checkpoint("stories260K/reference_nll.json"));
  const auto& example = reference["examples"][0];
  const auto ids = example["ids"].get<std::vector<std::int64_t>>();
  const at::Tensor rows = testing::logits_of(*model, ids).log_softmax(1);
  double nats = 0;
  for (std::size_t i = 1; i < ids.size(); ++i)
    nats -= rows[static_cast<std::int64_t>(i) - 1][ids[i]].item<double>();
  EXPECT_NEAR(nats, example["nll_sum"].get<double>(), 1e-7);
}

}  // namespace
}  // namespace penstock
