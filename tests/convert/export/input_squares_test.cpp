// Sums of squares of the matrices' inputs against those of a plain forward pass with ATen, and the
// column weights made from them.
#include "penstock/convert/export/input_squares.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "penstock/models/files/model_directory.h"
#include "tests/base/temp_directory.h"
#include "tests/convert/small_models.h"

namespace penstock {
namespace {

using namespace testing;

at::Tensor f64(const std::vector<double>& values) { return at::tensor(values, at::kDouble); }

/// A plain ATen implementation of a small model. It records each matrix's inputs under the matrix's
/// name.
class PlainModel {
 public:
  PlainModel(const ModelConfig& config, LanguageModel& model)
      : config_(config.resolved()), tensors_(file_tensors(model)) {}

  /// @param tokens  one window, [L]
  void run(const at::Tensor& tokens) {
    at::Tensor x = of("model.embed_tokens.weight").index_select(0, tokens);
    for (std::int64_t layer = 0; layer < config_.layers; ++layer) {
      const std::string stem = "model.layers." + std::to_string(layer) + ".";
      x = x + attended(stem + "self_attn.", normed(x, stem + "input_layernorm.weight"));
      const at::Tensor h = normed(x, stem + "post_attention_layernorm.weight");
      x = x + (config_.is_moe(layer) ? mixed(stem + "mlp.", h) : fed(stem + "mlp.", h));
    }
    times(normed(x, "model.norm.weight"),
          config_.tie_embeddings ? "model.embed_tokens.weight" : "lm_head.weight");
  }

  std::map<std::string, at::Tensor> squares;  // Σ x_j² by matrix
  std::map<std::string, std::int64_t> rows;

 private:
  at::Tensor of(const std::string& name) const { return tensors_.at(name).to(at::kDouble); }
  at::Tensor times(const at::Tensor& x, const std::string& name) {
    const at::Tensor sum = x.square().sum(0);
    at::Tensor& all = squares[name];
    all = all.defined() ? all + sum : sum;
    rows[name] += x.size(0);
    return x.matmul(of(name).t());
  }
  at::Tensor normed(const at::Tensor& x, const std::string& gain) const {
    return x / (x.square().mean(1, true) + config_.norm_eps).sqrt() * of(gain);
  }
  at::Tensor rotated(const at::Tensor& heads) const {  // [H, T, hd], rotary pairs in two halves
    const std::int64_t half = config_.head_dim / 2;
    const at::Tensor place = at::arange(heads.size(1), at::kDouble).unsqueeze(1);
    const at::Tensor angle =
        place * at::pow(config_.rope_base, at::arange(half, at::kDouble) * -2.0 /
                                               static_cast<double>(config_.head_dim));
    const at::Tensor a = heads.slice(2, 0, half), b = heads.slice(2, half);
    return at::cat({a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()}, 2);
  }
  at::Tensor attended(const std::string& stem, const at::Tensor& x) {
    const auto heads = [&](const char* name, std::int64_t count) {
      const at::Tensor y = times(x, stem + name + ".weight").view({-1, count, config_.head_dim});
      return y.transpose(0, 1).repeat_interleave(config_.heads / count, 0);
    };
    const at::Tensor q = rotated(heads("q_proj", config_.heads)),
                     k = rotated(heads("k_proj", config_.kv_heads)),
                     v = heads("v_proj", config_.kv_heads);
    const double scale = 1 / std::sqrt(static_cast<double>(config_.head_dim));
    const at::Tensor hidden = at::ones({x.size(0), x.size(0)}, at::kBool).triu(1);
    const at::Tensor share =
        (q.matmul(k.transpose(1, 2)) * scale).masked_fill(hidden, -1e30).softmax(2);
    return times(share.matmul(v).transpose(0, 1).reshape({x.size(0), -1}), stem + "o_proj.weight");
  }
  at::Tensor fed(const std::string& stem, const at::Tensor& x) {
    const at::Tensor gate = times(x, stem + "gate_proj.weight"),
                     up = times(x, stem + "up_proj.weight");
    return times(at::silu(gate) * up, stem + "down_proj.weight");
  }
  /// A MoE layer whose gates are the k highest softmax probabilities over all experts.
  at::Tensor mixed(const std::string& stem, const at::Tensor& x) {
    const at::Tensor gates = x.matmul(of(stem + "gate.weight").t()).softmax(1);
    const auto k = static_cast<std::int64_t>(config_.router.k);
    const at::Tensor best = std::get<1>(gates.topk(k, 1));
    at::Tensor y = at::zeros_like(x);
    for (std::int64_t e = 0; e < config_.moe.experts; ++e) {
      const at::Tensor own = best.eq(e).any(1).nonzero().squeeze(1);
      const at::Tensor out =
          fed(stem + "experts." + std::to_string(e) + ".", x.index_select(0, own));
      y.index_add_(0, own, out * gates.index_select(0, own).select(1, e).unsqueeze(1));
    }
    return config_.moe.shared_width > 0 ? y + fed(stem + "shared_expert.", x) : y;
  }

  ModelConfig config_;
  TensorMap tensors_;
};

/// Expects both sums over the same windows to agree, for exactly the same matrices.
void expect_same(const ModelConfig& config, std::int64_t windows) {
  const TempDirectory temp;
  write_random_model(config, temp.path().string());
  const auto model = load_model(temp.path().string());
  const torch::NoGradGuard no_grad;
  const at::Tensor tokens = some_tokens(windows * 40).view({windows, 40});
  PlainModel plain(config, *model);
  for (std::int64_t w = 0; w < windows; ++w) plain.run(tokens[w]);
  const auto ours = input_squares(*model, tokens);
  EXPECT_EQ(ours.size(), plain.squares.size());
  for (const auto& [name, wanted] : plain.squares) {
    ASSERT_TRUE(ours.contains(name)) << name;
    const InputSquares& own = ours.at(name);
    EXPECT_EQ(own.rows, plain.rows.at(name)) << name;
    if (own.rows == 0) continue;
    const double off = (f64(own.sums) - wanted).abs().max().item<double>();
    EXPECT_LT(off, 1e-3 * wanted.max().item<double>()) << name;
  }
}

TEST(InputSquares, AreThoseOfADenseModel) { expect_same(small_dense(), 3); }

TEST(InputSquares, OfATiedHeadAreTheEmbeddings) {
  ModelConfig config = small_dense();
  config.tie_embeddings = true;
  expect_same(config, 30);  // more tokens than one pass takes
}

TEST(InputSquares, AreOfTheTokensOfEachExpert) { expect_same(small_moe(), 3); }

TEST(InputSquares, OfSharedExpertsAreOfAllTokens) { expect_same(small_deepseek(), 3); }

TEST(ColumnWeights, AreMeansOverTheirMeanAndAHundredthAtTheLeast) {
  const std::vector<float> weights = column_weights({.sums = {64, 0, 192, 1e-9}, .rows = 64});
  EXPECT_EQ(weights, (std::vector<float>{1, 0.01f, 3, 0.01f}));
  EXPECT_TRUE(column_weights({.sums = {64, 192}, .rows = 31}).empty());
  EXPECT_EQ(column_weights({.sums = {64, 192}, .rows = 32}), (std::vector<float>{0.5f, 1.5f}));
  EXPECT_TRUE(column_weights({.sums = {0, 0}, .rows = 64}).empty());
  EXPECT_TRUE(column_weights({}).empty());
}

}  // namespace
}  // namespace penstock
