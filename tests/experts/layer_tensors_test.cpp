#include "penstock/experts/layer_tensors.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "penstock/experts/experts.h"
#include "tests/experts/described.h"

namespace penstock::layer_tensors {
namespace {

TEST(LayerTensors, NameATensorByItsPlace) {
  std::vector<ModelTensor> out;
  const LayerTensors layer(out, "model.layers.3.", "layer_3.", 3);
  layer.add("scale", "gain", {2, 5});
  layer.below("mlp").below("experts").of_each(4).add("bias", "in_bias", {7}, TensorRole::expert);
  ASSERT_EQ(out.size(), 2U);
  EXPECT_EQ(out[0].name(), "model.layers.3.scale");
  EXPECT_EQ(out[0].module, "layer_3.gain");
  EXPECT_EQ(out[0].size(), 10);
  EXPECT_EQ(out[0].experts, 0);
  EXPECT_EQ(out[1].name(2), "model.layers.3.mlp.experts.2.bias");
  EXPECT_EQ(out[1].module, "layer_3.mlp.experts.in_bias");
  EXPECT_EQ(out[1].experts, 4);
  for (const ModelTensor& tensor : out) EXPECT_EQ(tensor.layer, 3);
}

TEST(LayerTensors, PutFusedMatricesBelowEachOther) {
  std::vector<ModelTensor> out;
  LayerTensors(out, "", "")
      .add_fused({{"a", 3, TensorRole::query, TensorSplit::rows},
                  {"b", 2, TensorRole::output, TensorSplit::columns}},
                 4, "both", "both_bias");
  EXPECT_EQ(file_names(out),
            (std::vector<std::string>{"a.weight", "a.bias", "b.weight", "b.bias"}));
  EXPECT_EQ(described_shapes(out), (ShapesByName{{"both", {5, 4}}, {"both_bias", {5}}}));
  // Each rank has the whole bias of a matrix that is split by columns. A bias has the role `rest`.
  EXPECT_EQ(out[1].split, TensorSplit::rows);
  EXPECT_EQ(out[3].split, TensorSplit::none);
  EXPECT_EQ(out[0].role, TensorRole::query);
  EXPECT_EQ(out[1].role, TensorRole::rest);
}

TEST(LayerTensors, TheExpertsDescribeWhatTheyHold) {
  for (const FfnForm form :
       {FfnForm{}, FfnForm{.activation = ops::Activation::relu, .bias = true}}) {
    std::vector<ModelTensor> out;
    Experts::describe(3, 4, 5, form, LayerTensors(out, "", ""));
    EXPECT_EQ(described_shapes(out), held_shapes(Experts(3, 4, 5, form)));
    for (const ModelTensor& tensor : out)
      EXPECT_EQ(tensor.role, tensor.shape.size() == 2 ? TensorRole::expert : TensorRole::rest);
  }
}

}  // namespace
}  // namespace penstock::layer_tensors
