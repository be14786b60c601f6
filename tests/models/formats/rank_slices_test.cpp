// What each rank of a layout holds of a model: every part is held once, and drawn as in the whole
// model.
#include "penstock/models/formats/rank_slices.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "penstock/models/formats/tensor_names.h"
#include "penstock/models/language_model.h"
#include "penstock/models/make_model.h"
#include "tests/base/error_of.h"
#include "tests/models/tiny_decoder.h"

namespace penstock {
namespace {

ModelConfig config(const std::string& method) {
  ModelConfig out = testing::tiny_decoder(method, /*context=*/8);
  out.kv_heads = 2;
  out.heads = 4;
  out.layers = 4;
  out.moe.shared_width = 4;
  return out.resolved();
}

TEST(TensorSlices, OfOneRankAreTheModel) {
  const auto model = make_model(config("topk"), 1);
  const auto slices = model_slices(model->config(), {});
  const auto tensors = held_tensors(*model);
  ASSERT_EQ(slices.size(), tensors.size());
  for (const auto& [name, slice] : slices) {
    EXPECT_TRUE(slice.whole()) << name;
    EXPECT_EQ(tensors.at(name).sizes(), at::IntArrayRef(slice.shape)) << name;
  }
}

TEST(TensorSlices, NameHeadsNeuronsExpertsAndLayers) {
  const ModelConfig c = config("topk");
  const auto slices = model_slices(
      c, {.tensor = 1, .tensors = 2, .expert = 1, .expert_ranks = 2, .layers = {{1, 2}}});
  const std::int64_t hd = c.head_dim, f = c.expert_width(), d = c.d_model, e = c.total_experts();
  using Ranges = std::vector<std::vector<IndexRange>>;
  EXPECT_EQ(slices.at("layer_1.self_attn.qkv_proj.weight").ranges,
            (Ranges{{{2 * hd, 4 * hd}, {5 * hd, 6 * hd}, {7 * hd, 8 * hd}}, {{0, d}}}));
  EXPECT_EQ(slices.at("layer_1.self_attn.o_proj.weight").ranges,
            (Ranges{{{0, d}}, {{2 * hd, 4 * hd}}}));
  EXPECT_EQ(slices.at("layer_1.mlp.experts.gate_up").ranges,
            (Ranges{{{e / 2, e}}, {{f / 2, f}, {f + f / 2, 2 * f}}, {{0, d}}}));
  EXPECT_EQ(slices.at("layer_1.mlp.experts.down").ranges,
            (Ranges{{{e / 2, e}}, {{0, d}}, {{f / 2, f}}}));
  const auto whole = model_slices(
      c, {.tensor = 1, .tensors = 2, .expert = 1, .expert_ranks = 2, .whole_experts = true});
  EXPECT_EQ(whole.at("layer_1.mlp.experts.gate_up").ranges,
            (Ranges{{{e / 2, e}}, {{0, 2 * f}}, {{0, d}}}));
  EXPECT_EQ(whole.at("layer_1.mlp.experts.down").ranges,
            (Ranges{{{e / 2, e}}, {{0, d}}, {{0, f}}}));
  EXPECT_EQ(whole.at("layer_1.mlp.shared_expert.down").ranges, (Ranges{{{0, d}}, {{2, 4}}}));
  EXPECT_FALSE(slices.contains("embed_tokens"));
  EXPECT_FALSE(slices.contains("layer_0.input_layernorm.weight"));
  EXPECT_FALSE(slices.contains("norm.weight"));
}

/// The tensors' elements are numbered. A part's elements of each tensor lie in the part's
/// parameters where file_parts() says.
TEST(TensorSlices, LieBehindEachOtherInWhatARankHolds) {
  const ModelConfig c = config("topk");
  const auto tensors = model_tensors(c.resolved());
  std::map<std::string, at::Tensor> whole;
  std::int64_t next = 0;
  for (const auto& [name, slice] : model_slices(c, {})) {
    std::int64_t numbers = 1;
    for (const std::int64_t size : slice.shape) numbers *= size;
    whole[name] = torch::arange(next, next + numbers, at::kLong).view(slice.shape);
    next += numbers;
  }
  const auto files = file_views(c, whole);
  for (const ModelPart& part :
       {ModelPart{}, ModelPart{.tensor = 1, .tensors = 2},
        ModelPart{.expert = 1, .expert_ranks = 2, .layers = {{1, 2}, {3, 4}}},
        ModelPart{.tensor = 1, .tensors = 2, .expert = 1, .expert_ranks = 2},
        ModelPart{
            .tensor = 1, .tensors = 2, .expert = 1, .expert_ranks = 2, .whole_experts = true}}) {
    std::map<std::string, std::int64_t> numbers;
    const auto slices = model_slices(tensors, c, part);
    for (const FilePart& each : file_parts(tensors, c, part)) {
      const at::Tensor held = take(whole.at(each.module), slices.at(each.module)).reshape({-1});
      EXPECT_TRUE(torch::equal(held.slice(0, each.offset, each.offset + each.numbers()),
                               take(files.at(each.name), each.slice).reshape({-1})))
          << each.name;
      numbers[each.module] += each.numbers();
    }
    for (const auto& [name, slice] : slices)
      EXPECT_EQ(numbers.at(name), take(whole.at(name), slice).numel()) << name;
  }
}

TEST(TensorSlices, NameTheGradientsThatAreShares) {
  ModelConfig c = config("topk");
  c.layers = 1;
  c.qk_norm_per_head = true;
  const auto in_shares = [&](const dist::Layout& layout) {
    return parameters_in_shares(model_tensors(c.resolved()), layout);
  };
  const std::set<std::string> of_heads = {"layer_0.self_attn.q_norm.weight",
                                          "layer_0.self_attn.k_norm.weight"};
  EXPECT_TRUE(in_shares({.data = 2, .pipeline = 2}).empty());
  EXPECT_EQ(in_shares({.tensor = 2}), of_heads);
  std::set<std::string> of_rows = {"embed_tokens", "lm_head", "norm.weight",
                                   "layer_0.input_layernorm.weight",
                                   "layer_0.post_attention_layernorm.weight"};
  of_rows.insert(of_heads.begin(), of_heads.end());
  EXPECT_EQ(in_shares({.tensor = 2, .sequence = true}), of_rows);
}

TEST(TensorSlices, AreEachHeldFirstOnce) {
  for (const std::string method : {"topk", "remoe"}) {
    const ModelConfig c = config(method);
    const auto all = model_slices(c, {});
    for (const dist::Layout& layout :
         {dist::Layout{.data = 4, .expert = 2}, dist::Layout{.data = 2, .tensor = 2, .pipeline = 2},
          dist::Layout{.data = 2, .tensor = 2, .pipeline = 4, .expert = 2},
          dist::Layout{.data = 2, .tensor = 2, .expert = 4, .whole_experts = true},
          dist::Layout{.data = 2, .tensor = 2, .expert = 2, .whole_experts = true},
          dist::Layout{.tensor = 2, .pipeline = 2, .whole_experts = true}}) {
      std::map<std::string, at::Tensor> times;
      for (const auto& [name, slice] : all) times[name] = torch::zeros(slice.shape);
      for (int rank = 0; rank < layout.ranks(); ++rank) {
        const auto slices = model_slices(c, part_of_rank(c, layout, rank));
        for (const std::string& name : first_held(c, layout, rank)) {
          const Slice& slice = slices.at(name);
          put(times[name], slice, take(times[name], slice) + 1);
        }
      }
      for (const auto& [name, count] : times) EXPECT_TRUE(count.eq(1).all().item<bool>()) << name;
    }
  }
}

TEST(TensorSlices, DivideLayersAsEquallyAsCanBe) {
  EXPECT_EQ(layers_of_stage(7, 0, 3), (std::vector<IndexRange>{{0, 3}}));
  EXPECT_EQ(layers_of_stage(7, 2, 3), (std::vector<IndexRange>{{5, 7}}));
  EXPECT_EQ(layers_of_stage(8, 1, 2, 2), (std::vector<IndexRange>{{2, 4}, {6, 8}}));
}

TEST(TensorSlices, RefuseWhatDoesNotDivide) {
  const auto refusal = [](ModelConfig c, const dist::Layout& layout) -> std::string {
    return testing::error_or("accepted", [&] { check_divides(c.resolved(), layout); });
  };
  const ModelConfig c = config("topk");
  EXPECT_EQ(refusal(c, {.data = 4, .tensor = 2, .pipeline = 4, .expert = 4}), "accepted");
  EXPECT_EQ(
      refusal(c, {.tensor = 4}),
      "parallel.tensor = 4 does not divide model.kv_heads = 2; the nearest value that does is 2");
  EXPECT_EQ(refusal(c, {.data = 3, .expert = 3}),
            "parallel.expert = 3 does not divide model.moe.experts = 4; the nearest value that "
            "does is 2");
  ModelConfig odd = c;
  odd.d_ffn = 15;
  EXPECT_EQ(
      refusal(odd, {.tensor = 2}),
      "parallel.tensor = 2 does not divide model.d_ffn = 15; the nearest value that does is 1");
  ModelConfig fine = odd;
  fine.d_ffn = 30;
  fine.moe.granularity = 2;
  testing::expect_says(refusal(fine, {.tensor = 2}), {"model.d_ffn / model.moe.granularity = 15"});
  testing::expect_says(
      refusal(fine, {.data = 3, .expert = 3}),
      {"model.moe.experts x model.moe.granularity = 8; the nearest value that does"});
  EXPECT_EQ(refusal(odd, {.tensor = 2, .whole_experts = true}), "accepted");
  testing::expect_says(refusal(c, {.pipeline = 5}), {"set it to 4 or less"});
  ModelConfig norms = c;
  norms.qk_norm = true;
  testing::expect_says(refusal(norms, {.tensor = 2}), {"model.qk_norm"});
  ModelConfig shared = config("hyperrouter");
  EXPECT_EQ(refusal(shared, {.pipeline = 2}), "accepted");
  shared.router.parts["hypernetwork"].set("share", true);
  testing::expect_says(refusal(shared, {.pipeline = 2}), {"parameters in common"});
  testing::expect_says(refusal(config("dense"), {.data = 2, .expert = 2}), {"no experts"});
}

}  // namespace
}  // namespace penstock
