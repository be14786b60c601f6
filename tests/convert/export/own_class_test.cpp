// Penstock's class for transformers: its logits in Python against our own, and the models that it
// does not support.
#include "penstock/convert/export/own_class.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "penstock/convert/export/export_choice.h"
#include "penstock/convert/export/export_model.h"
#include "penstock/convert/export/not_portable.h"
#include "penstock/io/config_json.h"
#include "tests/base/error_of.h"
#include "tests/base/temp_directory.h"
#include "tests/convert/small_models.h"

namespace penstock {
namespace {

using testing::logits_of;
using testing::run_on_logits;
using testing::small_deepseek;
using testing::small_dense;
using testing::small_moe;
using testing::small_qwen3;
using testing::some_tokens;
using testing::TempDirectory;
using testing::write_random_model;

/// A model with four experts and ReLU routing.
ModelConfig small_relu(bool bias = false) {
  ModelConfig config = small_dense();
  config.moe.experts = 4;
  config.router.method = "remoe";
  if (bias) config.router.parts["linear"].set("bias", true);
  return config;
}

struct OwnCase {
  const char* what;
  ModelConfig config;
  const char* other_gates;  ///< gates that would be wrong; "" if there are none
};

std::vector<OwnCase> own_cases() {
  ModelConfig shared = small_relu(), granular = small_relu(), some = small_relu(),
              adjacent = small_relu(), clipped = small_relu(), tied = small_relu(),
              biased = small_relu(), normed = small_relu(), gated = small_relu(),
              dense = small_dense();
  shared.moe.shared_width = 40;
  gated.moe.shared_width = 40;
  gated.moe.shared_gate = true;
  granular.moe.granularity = 3;
  some.layers = 4;
  some.moe.dense_layers = 1;
  some.moe.every = 2;
  some.moe.dense_width = 128;
  adjacent.rope_adjacent = true;
  clipped.clip_qkv = dense.clip_qkv = 1.5;
  tied.tie_embeddings = true;
  biased.qkv_bias = true;
  normed.qk_norm = true;
  return {{"relu", small_relu(), "softmax-over-kept"},
          {"a router with a bias", small_relu(true), "softmax-over-all"},
          {"a shared expert", shared, ""},
          {"a shared expert with a gate", gated, ""},
          {"granular", granular, ""},
          {"layers without experts", some, ""},
          {"adjacent pairs", adjacent, ""},
          {"cuts", clipped, ""},
          {"tied", tied, ""},
          {"biases", biased, ""},
          {"norms over all heads", normed, ""},
          {"norms of each head", small_qwen3(), "relu"},
          {"kept", small_moe("after"), "softmax-over-all"},
          {"probabilities", small_moe("before"), "softmax-over-kept"},
          {"dense", dense, ""}};
}

int run_class(const TempDirectory& temp, const std::string& directory, const std::string& more) {
  return run_on_logits("penstock_class.py", temp, directory, more);
}

TEST(OwnClass, ComputesOurLogits) {
  for (const OwnCase& item : own_cases()) {
    const TempDirectory temp;
    const std::string model = write_random_model(item.config, temp.path("model")),
                      out = temp.path("hf");
    const Certificate certificate =
        export_model({.model = model, .out = out, .architecture = "penstock", .check_tokens = 48});
    EXPECT_EQ(certificate.verdict, ExportVerdict::exact) << item.what;
    EXPECT_FALSE(certificate.rounded) << item.what;
    const at::Tensor tokens = some_tokens(), logits = logits_of(model, tokens);
    EXPECT_TRUE(torch::equal(logits_of(out, tokens), logits)) << item.what;
    save_tensors(real_file_system(), temp.path() / "expected.safetensors",
                 {{"tokens", tokens}, {"logits", logits}});
    const int status = run_class(temp, out, "");
    if (status == 77) GTEST_SKIP() << "python3 has no PyTorch";
    EXPECT_EQ(status, 0) << item.what;
    EXPECT_NE(run_on_logits("transformers_logits.py", temp, out, ""), 1) << item.what;
    if (*item.other_gates == '\0') continue;
    EXPECT_EQ(run_class(temp, out, std::string("--gates ") + item.other_gates), 1) << item.what;
  }
}

TEST(OwnClass, IsTakenWhereNoOtherFits) {
  const auto name = [](const ModelConfig& config, const std::string& asked = "") {
    return std::string(choose_export_target(config.resolved(), ExportFormat::kHuggingFace, asked)
                           .architecture->name);
  };
  EXPECT_EQ(name(small_relu()), "penstock");
  EXPECT_EQ(name(small_moe("after")), "mixtral");
  EXPECT_EQ(name(small_moe("after"), "penstock"), "penstock");
  ModelConfig clipped = small_dense();
  clipped.clip_qkv = 1;
  EXPECT_EQ(name(clipped), "penstock");
}

TEST(OwnClass, FoldsWhatIsNoMatrix) {
  const TempDirectory temp;
  ModelConfig config = small_relu();
  config.router.scorer = "mixture";
  const std::string model = write_random_model(config, temp.path("model")), out = temp.path("hf");
  const Certificate certificate = export_model({.model = model, .out = out, .check_tokens = 48});
  EXPECT_EQ(certificate.architecture, "penstock");
  testing::expect_says(certificate.routers, {"folded"});
  const at::Tensor tokens = some_tokens(), ours = logits_of(model, tokens);
  EXPECT_LT((logits_of(out, tokens) - ours).abs().max().item<double>(),
            1e-5 * ours.abs().max().item<double>());
}

TEST(OwnClass, RefusesOtherGatesAndFiles) {
  const auto refused = [](const ModelConfig& config, ExportFormat format, const std::string& asked,
                          const char* part) {
    try {
      choose_export_target(config.resolved(), format, asked);
      ADD_FAILURE() << "accepted: " << part;
    } catch (const NotPortableError& error) {
      testing::expect_says(error.what(), {part});
    }
  };
  for (const char* method : {"hash", "expert-choice", "lory", "loss-free", "switch"}) {
    ModelConfig config = small_relu();
    config.router.method = method;
    refused(config, ExportFormat::kHuggingFace, "", "not portable");
    refused(config, ExportFormat::kHuggingFace, "penstock", "as penstock");
  }
  refused(small_relu(), ExportFormat::kGguf, "", "penstock handoff");
  refused(small_relu(), ExportFormat::kGguf, "penstock", "GGUF");
}

TEST(OwnClass, ConfigNamesTheFoldersOwnFiles) {
  const TempDirectory temp;
  const std::string model = write_random_model(small_deepseek(), temp.path("model")),
                    out = temp.path("hf");
  export_model({.model = model,
                .out = out,
                .architecture = "penstock",
                .dtype = ExportDtype::kBF16,
                .check_tokens = 0});
  const nlohmann::json config = read_json(out + "/config.json");
  EXPECT_EQ(config["model_type"], "penstock");
  EXPECT_EQ(config["dtype"], "bfloat16");
  EXPECT_EQ(config["moe_layers"], nlohmann::json({1, 2}));
  EXPECT_EQ(config["intermediate_size"], 160);
  EXPECT_EQ(config["gates"], "softmax-over-all");
  for (const auto& [key, reference] : config["auto_map"].items()) {
    const std::string text = reference;
    const std::string path = out + "/" + text.substr(0, text.find('.')) + ".py";
    std::ifstream file(path);
    const std::string source((std::istreambuf_iterator<char>(file)), {});
    EXPECT_NE(source.find("class " + text.substr(text.find('.') + 1)), std::string::npos) << path;
  }
}

}  // namespace
}  // namespace penstock
