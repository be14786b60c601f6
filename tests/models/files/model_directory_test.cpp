#include "penstock/models/files/model_directory.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "penstock/base/atomic_files.h"
#include "penstock/models/decoder.h"
#include "penstock/models/files/open_model.h"
#include "penstock/models/formats/tensor_names.h"
#include "penstock/models/formats/torch_safetensors.h"
#include "penstock/models/transformer_xl.h"
#include "penstock/routers/written_out.h"
#include "tests/base/error_of.h"
#include "tests/base/temp_directory.h"

namespace penstock {
namespace {

ModelConfig small() {
  ModelConfig config{.vocab = 11, .d_model = 8, .layers = 2, .heads = 2, .d_ffn = 12};
  config.context = 16;
  config.moe.experts = 3;
  config.router.method = "remoe";
  return config.resolved();
}

void write_model(const std::string& directory, const TensorMap& tensors) {
  auto& fs = real_file_system();
  write_file_atomically(fs, directory + "/config.json", config_json_text(small()));
  save_tensors(fs, directory + "/model.safetensors", tensors);
}

std::string loading_error(const std::string& directory) {
  return testing::error_or("", [&] { load_model(directory); });
}

TEST(ModelDirectory, GivesBackConfigAndEveryTensor) {
  const testing::TempDirectory temp;
  Decoder model(small());
  model.initialize(InitialDraws(1));
  write_model(temp.path().string(), file_tensors(model));
  const auto loaded = load_model(temp.path().string());
  ModelConfig whole = small();
  whole.router = written_out(whole.router);
  EXPECT_EQ(to_toml(write_config(loaded->config())), to_toml(write_config(whole)));
  const auto tensors = file_tensors(*loaded);
  for (const auto& [name, tensor] : file_tensors(model))
    EXPECT_TRUE(torch::equal(tensor, tensors.at(name))) << name;
  EXPECT_FALSE(loaded->is_training());
}

TEST(ModelDirectory, ConfigJsonLeavesNoOptionToADefault) {
  const auto router =
      nlohmann::json::parse(config_json_text(small()))["penstock"]["model"]["router"];
  EXPECT_EQ(router["scorer"], "linear");
  EXPECT_EQ(router["selector"], "relu");
  EXPECT_EQ(router["balancers"], nlohmann::json::array({"adaptive-l1"}));
  EXPECT_EQ(router["adaptive-l1"]["factor"], 1.2);
}

TEST(ModelDirectory, GivesBackATransformerXl) {
  const testing::TempDirectory temp;
  ModelConfig config = small();
  config.architecture = ModelKind::transformer_xl;
  config.xl.cutoffs = {4, 7};
  config.xl.dropout = 0.1;
  config.moe.first_layers = 1;
  config = config.resolved();
  EXPECT_EQ(config.xl.memory, 16);  // the context's length
  TransformerXl model(config);
  model.initialize(InitialDraws(1));
  auto& fs = real_file_system();
  write_file_atomically(fs, temp.path() / "config.json", config_json_text(config.resolved()));
  save_tensors(fs, temp.path() / "model.safetensors", file_tensors(model));
  const auto loaded = load_model(temp.path().string());
  config.router = written_out(config.router);
  EXPECT_EQ(to_toml(write_config(loaded->config())), to_toml(write_config(config)));
  const at::Tensor ids = torch::arange(10).view({1, 10});
  EXPECT_TRUE(torch::equal(loaded->forward({.tokens = ids}, {}).hidden,
                           model.forward({.tokens = ids}, {}).hidden));
  for (const char* name : {"model.layers.0.mlp.experts.2.up_proj.bias", "lm_head.bias",
                           "model.layers.1.mlp.down_proj.weight", "model.cluster_weight"})
    EXPECT_TRUE(file_tensors(model).count(name)) << name;
}

TEST(ModelDirectory, AWeightThatIsNotFiniteIsNamed) {
  for (const double value : {double{NAN}, double{INFINITY}}) {
    const testing::TempDirectory temp;
    Decoder model(small());
    model.initialize(InitialDraws(1));
    const std::string name = "model.layers.1.self_attn.o_proj.weight";
    TensorMap tensors = file_tensors(model);
    tensors.at(name) = tensors.at(name).detach().clone();
    tensors.at(name)[3][2] = value;
    write_model(temp.path().string(), tensors);
    const std::string text = loading_error(temp.path().string());
    testing::expect_says(text, {name, "model.safetensors"});
  }
}

TEST(ModelDirectory, RefusesLengthsThatCountsCannotHold) {
  const testing::TempDirectory temp;
  for (const std::string path :
       {"/penstock/model/context", "/penstock/model/transformer_xl/memory"}) {
    auto json = nlohmann::json::parse(config_json_text(small()));
    json[nlohmann::json::json_pointer(path)] = std::int64_t{1} << 62;
    write_file_atomically(real_file_system(), temp.path() / "config.json", json.dump());
    const std::string text = loading_error(temp.path().string());
    EXPECT_NE(text.find(path.substr(path.rfind('/') + 1) + " = "), std::string::npos) << text;
  }
}

TEST(ModelDirectory, RefusesWhatIsNoModel) {
  const testing::TempDirectory temp;
  write_file_atomically(real_file_system(), temp.path() / "config.json",
                        "{\"model_type\": \"gpt2\"}");
  testing::expect_says(loading_error(temp.path().string()), {"'gpt2'"});
  write_file_atomically(real_file_system(), temp.path() / "config.json", "{\"penstock\": 1}");
  testing::expect_says(loading_error(temp.path().string()), {"\"penstock\""});
  testing::expect_says(loading_error(temp.path("config.json")), {"no model"});
  for (const auto& [path, said] :
       {std::pair(temp.path("absent"), ": no such folder; give a model directory"),
        std::pair(temp.path("empty.gguf"), ": has no config.json; give a model directory")}) {
    if (path.ends_with(".gguf")) real_file_system().create_directory(path);
    EXPECT_EQ(testing::error_of([&] { read_model_config(path); }).find(path + said), 0U) << path;
  }
}

}  // namespace
}  // namespace penstock
