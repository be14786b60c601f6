#include "penstock/convert/export/export_gguf.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "penstock/convert/export/export_model.h"
#include "penstock/convert/export/not_portable.h"
#include "penstock/convert/export/portable_source.h"
#include "penstock/models/formats/gguf_source.h"
#include "tests/base/error_of.h"
#include "tests/base/temp_directory.h"
#include "tests/convert/small_models.h"
#include "tests/models/formats/rewritten_gguf.h"

namespace penstock {
namespace {

using testing::small_deepseek;
using testing::small_dense;
using testing::small_moe;
using testing::small_qwen3;
using testing::TempDirectory;
using testing::write_random_model;

/// Exports a random model with this config and returns the certificate.
Certificate exported(const TempDirectory& temp, const ModelConfig& config,
                     const std::string& architecture = "",
                     std::optional<ExportDtype> dtype = std::nullopt) {
  const std::string model = write_random_model(config, temp.path("model"));
  return export_model({.model = model,
                       .out = temp.path("m.gguf"),
                       .format = ExportFormat::kGguf,
                       .architecture = architecture,
                       .dtype = dtype,
                       .check_tokens = 64});
}

TEST(ExportGguf, TellsHowFarItIs) {
  const TempDirectory temp;
  const std::string model = write_random_model(small_moe(), temp.path("model"));
  std::vector<std::pair<std::string, double>> told;
  export_model({.model = model,
                .out = temp.path("m.gguf"),
                .format = ExportFormat::kGguf,
                .check_tokens = 64},
               [&](std::string_view what, double done) { told.emplace_back(what, done); });
  ASSERT_GT(told.size(), 10u);
  EXPECT_TRUE(std::ranges::is_sorted(told.begin(), told.end() - 2, {},
                                     &std::pair<std::string, double>::second));
  EXPECT_EQ(told[0].first, "writing");
  EXPECT_EQ(told[told.size() - 3], std::pair(std::string("writing"), 1.0));
  EXPECT_EQ(told.back(), std::pair(std::string("measuring"), 0.5));
}

double difference(const TempDirectory& temp) {
  return testing::relative_difference(temp.path("model"), temp.path("m.gguf"));
}

TEST(ExportGguf, EveryArchitectureComputesTheModel) {
  ModelConfig biased = small_dense(), olmoe = small_moe(), tied = small_moe(), shared = small_moe(),
              adjacent = small_moe(), ungated = small_moe();
  biased.qkv_bias = true;
  olmoe.qk_norm = true;
  olmoe.kv_heads = 4;
  tied.tie_embeddings = true;
  shared.moe.shared_width = 32;
  shared.moe.shared_gate = true;
  shared.qkv_bias = true;
  ungated.moe.shared_width = 32;
  adjacent.rope_adjacent = true;
  ModelConfig tied_dense = small_dense();
  tied_dense.tie_embeddings = true;
  tied_dense.rope_adjacent = true;
  const std::vector<std::pair<ModelConfig, std::string>> cases = {{small_dense(), "llama"},
                                                                  {biased, "qwen2"},
                                                                  {small_moe("after"), "mixtral"},
                                                                  {small_moe(), "qwen2moe"},
                                                                  {olmoe, "olmoe"},
                                                                  {tied, "qwen2moe"},
                                                                  {shared, "qwen2moe"},
                                                                  {adjacent, "qwen2moe"},
                                                                  {tied_dense, "llama"},
                                                                  {ungated, "qwen2moe"},
                                                                  {small_qwen3(), "qwen3moe"},
                                                                  {small_deepseek(), "deepseek"}};
  for (const auto& [config, architecture] : cases) {
    const TempDirectory temp;
    const Certificate certificate = exported(temp, config);
    EXPECT_EQ(certificate.architecture, architecture);
    EXPECT_EQ(certificate.verdict, ExportVerdict::exact);
    EXPECT_FALSE(certificate.rounded);
    EXPECT_EQ(certificate.agreement.same_experts, 1);
    EXPECT_LT(difference(temp), 2e-6) << architecture;
  }
}

/// The file has the names, keys and shapes that llama.cpp's loader reads.
TEST(ExportGguf, KeysAndTensorsAreThoseOfTheGraphs) {
  using Shape = std::vector<std::int64_t>;
  const TempDirectory temp, other;
  exported(temp, small_deepseek());
  const GgufFile deepseek(temp.path() / "m.gguf");
  EXPECT_EQ(*deepseek.value("general.architecture")->as_string(), "deepseek");
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, std::int64_t>>{{"leading_dense_block_count", 1},
                                                         {"feed_forward_length", 160},
                                                         {"expert_feed_forward_length", 96},
                                                         {"expert_count", 4},
                                                         {"expert_used_count", 2},
                                                         {"expert_shared_count", 2}})
    EXPECT_EQ(deepseek.value("deepseek." + key)->as_integer(), value) << key;
  EXPECT_EQ(deepseek.value("deepseek.expert_weights_scale")->as_number(), 1);
  EXPECT_EQ(deepseek.find("blk.0.ffn_gate.weight")->shape, (Shape{160, 64}));
  EXPECT_EQ(deepseek.find("blk.0.ffn_gate_inp.weight"), nullptr);
  EXPECT_EQ(deepseek.find("blk.1.ffn_gate_exps.weight")->shape, (Shape{4, 96, 64}));
  EXPECT_EQ(deepseek.find("blk.1.ffn_down_shexp.weight")->shape, (Shape{64, 192}));
  exported(other, small_qwen3());
  const GgufFile qwen3(other.path() / "m.gguf");
  EXPECT_EQ(*qwen3.value("general.architecture")->as_string(), "qwen3moe");
  EXPECT_EQ(qwen3.value("qwen3moe.expert_feed_forward_length")->as_integer(), 96);
  EXPECT_EQ(qwen3.value("qwen3moe.attention.key_length")->as_integer(), 32);
  EXPECT_EQ(qwen3.find("blk.1.attn_q_norm.weight")->shape, Shape{32});
  EXPECT_EQ(qwen3.find("blk.1.attn_k_norm.weight")->shape, Shape{32});
}

TEST(ExportGguf, AFileOfOurOwnIsTheSameFileAgain) {
  for (const ModelConfig& config :
       {small_dense(), small_moe("after"), small_moe(), small_qwen3(), small_deepseek()}) {
    const TempDirectory temp;
    exported(temp, config);
    std::filesystem::create_directory(temp.path() / "again");
    export_model({.model = temp.path("m.gguf"),
                  .out = temp.path("again/m.gguf"),
                  .format = ExportFormat::kGguf,
                  .check_tokens = 0});
    const auto read = [&](const char* name) { return real_file_system().read(temp.path() / name); };
    EXPECT_EQ(read("m.gguf"), read("again/m.gguf"));
  }
}

TEST(ExportGguf, TheNullSharedExpertGivesNothingButIsNoDivisionByZero) {
  const TempDirectory temp;
  exported(temp, small_moe());
  const GgufFile file(temp.path() / "m.gguf");
  const GgufTensor* const gate = file.find("blk.1.ffn_gate_inp_shexp.weight");
  ASSERT_TRUE(gate);
  EXPECT_EQ(gate->shape, (std::vector<std::int64_t>{64}));
  EXPECT_EQ(gate->type, GgmlType::kF32);
  const GgufSource source(temp.path("m.gguf"));
  EXPECT_TRUE(
      source.tensor("model.layers.1.mlp.shared_expert_gate.weight").ne(0).all().item<bool>());
  EXPECT_FALSE(
      source.tensor("model.layers.1.mlp.shared_expert.down_proj.weight").any().item<bool>());
  // silu(z)/z must be finite for tokens of a model, so z must never be 0.
  const at::Tensor hidden = torch::randn({10000, 64});
  const at::Tensor z =
      hidden.matmul(source.tensor("model.layers.1.mlp.shared_expert_gate.weight").t());
  EXPECT_TRUE((at::silu(z) / z).isfinite().all().item<bool>());
}

/// llama.cpp computes a shared expert's gate as silu(z)/z. For a model without this gate it must be
/// exactly 1/2, and down_proj is doubled.
TEST(ExportGguf, AGateThatMakesUpForNoneIsAHalf) {
  const TempDirectory temp;
  ModelConfig config = small_moe();
  config.moe.shared_width = 32;
  exported(temp, config);
  const GgufSource source(temp.path("m.gguf"));
  const at::Tensor z =
      torch::randn({10000, 64})
          .matmul(source.tensor("model.layers.1.mlp.shared_expert_gate.weight").t());
  EXPECT_TRUE((at::silu(z) / z).eq(0.5).all().item<bool>());
  EXPECT_TRUE(z.sigmoid().eq(0.5).all().item<bool>());
  const std::string down = "model.layers.1.mlp.shared_expert.down_proj.weight";
  EXPECT_TRUE(
      source.tensor(down).equal(load_tensors(temp.path("model")).at(down).to(at::kFloat) * 2));
}

TEST(ExportGguf, ExpertsOfWidthOneKeepTheirAxes) {
  const TempDirectory temp;
  ModelConfig config = small_moe();
  config.d_ffn = 3;
  config.moe.granularity = 3;
  exported(temp, config);
  const GgufFile file(temp.path() / "m.gguf");
  EXPECT_EQ(file.find("blk.0.ffn_up_exps.weight")->shape, (std::vector<std::int64_t>{12, 1, 64}));
  EXPECT_LT(difference(temp), 2e-6);
}

/// Bytes of mapped files that are resident in this process.
std::int64_t resident_file_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::int64_t kib = 0;
    if (word == "RssFile:" && status >> kib) return kib << 10;
  }
  return -1;
}

TEST(ExportGguf, ReadingATensorKeepsNoPagesOfTheFile) {
  const TempDirectory temp;
  ModelConfig config = small_dense();
  config.vocab = 1 << 17;
  const std::string model = temp.path("model"), out = temp.path("m");
  write_random_model(config, model, /*with_tokenizer=*/false);
  for (const auto dtype : {ExportDtype::kF32, ExportDtype::kQ8_0}) {
    const std::string file = out + std::string(word(dtype)) + ".gguf";
    export_model({.model = model,
                  .out = file,
                  .format = ExportFormat::kGguf,
                  .dtype = dtype,
                  .check_tokens = 0});
    const GgufSource source(file);
    const std::int64_t before = resident_file_bytes();
    if (before < 0) GTEST_SKIP() << "the system does not tell how much of a file is in memory";
    // 32 MiB in F32, 8 in Q8_0.
    const at::Tensor embeddings = source.tensor("model.embed_tokens.weight");
    EXPECT_LT(resident_file_bytes() - before, 2 << 20) << file;
    EXPECT_TRUE(embeddings.any().item<bool>());
  }
}

TEST(ExportGguf, ATokenizerOfMorePiecesThanRowsIsNotTheModels) {
  const TempDirectory temp;
  ModelConfig config = small_dense();
  config.vocab = 300;
  exported(temp, config);
  const std::string file = temp.path("m.gguf");
  EXPECT_EQ(GgufSource(file).tokenizer()->vocab_size(), 256);  // padding pieces are left out
  config.vocab = 200;
  const std::string model = write_random_model(config, temp.path("small"));
  export_model({.model = model,
                .out = temp.path("s.gguf"),
                .format = ExportFormat::kGguf,
                .with_tokenizer = false,
                .check_tokens = 0});
  const GgufFile rows(temp.path("s.gguf")), pieces(file);
  GgufMetadata keys;
  for (const auto& [key, value] : rows.metadata())
    if (!key.starts_with("tokenizer.")) keys.emplace_back(key, value);
  for (const auto& [key, value] : pieces.metadata())
    if (key.starts_with("tokenizer.")) keys.emplace_back(key, value);
  testing::rewrite_gguf(rows, keys, temp.path("odd.gguf"));
  testing::expect_error([&] { GgufSource(temp.path("odd.gguf")).tokenizer(); },
                        {"tokenizer.ggml.tokens"});
}

TEST(ExportGguf, AGateOfZerosIsRefused) {
  const TempDirectory temp;
  ModelConfig config = small_moe();
  config.moe.shared_width = 32;
  config.moe.shared_gate = true;
  const std::string model = write_random_model(config, temp.path("model"));
  auto tensors = load_tensors(model);
  tensors.at("model.layers.0.mlp.shared_expert_gate.weight").zero_();
  save_tensors(real_file_system(), model + "/model.safetensors", tensors);
  EXPECT_THROW(
      export_model({.model = model, .out = temp.path("m.gguf"), .format = ExportFormat::kGguf}),
      NotPortableError);
  EXPECT_FALSE(std::filesystem::exists(temp.path() / "m.gguf"));
}

TEST(ExportGguf, SmallerTypesRoundAndSaySo) {
  ModelConfig config = small_moe("after");
  // All experts are active, so rounding changes no choice.
  config.router.k = static_cast<double>(config.moe.experts);
  for (const auto& [dtype, tolerance] : std::vector<std::pair<ExportDtype, double>>{
           {ExportDtype::kF16, 5e-3}, {ExportDtype::kBF16, 5e-2}, {ExportDtype::kQ8_0, 5e-2}}) {
    const TempDirectory temp;
    const Certificate certificate = exported(temp, config, "", dtype);
    EXPECT_TRUE(certificate.rounded);
    const double off = difference(temp);
    EXPECT_GT(off, 0);
    EXPECT_LT(off, tolerance) << word(certificate.dtype);
    const GgufFile file(temp.path() / "m.gguf");
    EXPECT_EQ(file.find("blk.0.ffn_up_exps.weight")->type, ggml_dtype(dtype));
    EXPECT_EQ(file.find("blk.0.ffn_gate_inp.weight")->type, GgmlType::kF32);
    EXPECT_EQ(file.find("output_norm.weight")->type, GgmlType::kF32);
  }
}

/// All experts are active, so rounding changes no choice.
TEST(ExportGguf, EveryArchitectureComputesTheModelInEveryType) {
  ModelConfig biased = small_dense(), olmoe = small_moe();
  biased.qkv_bias = true;
  olmoe.qk_norm = true;
  olmoe.kv_heads = 4;
  const std::vector<std::pair<std::string, ModelConfig>> cases = {
      {"llama", small_dense()},      {"qwen2", biased}, {"mixtral", small_moe("after")},
      {"qwen2moe", small_moe()},     {"olmoe", olmoe},  {"qwen3moe", small_qwen3()},
      {"deepseek", small_deepseek()}};
  for (auto [architecture, config] : cases)
    for (const auto& [dtype, tolerance] : std::vector<std::pair<ExportDtype, double>>{
             {ExportDtype::kF16, 1e-2}, {ExportDtype::kBF16, 0.1}, {ExportDtype::kQ8_0, 0.1}}) {
      SCOPED_TRACE(concat(architecture, " ", word(dtype)));
      if (config.moe.experts > 0) config.router.k = static_cast<double>(config.moe.experts);
      const TempDirectory temp;
      const Certificate certificate = exported(temp, config, architecture, dtype);
      EXPECT_EQ(certificate.architecture, architecture);
      EXPECT_TRUE(certificate.rounded);
      EXPECT_GT(difference(temp), 0);
      EXPECT_LT(difference(temp), tolerance);
    }
}

TEST(ExportGguf, RowsThatAreNoBlocksAreRefusedByName) {
  const TempDirectory temp;
  ModelConfig config = small_moe();
  config.d_ffn = 44;
  testing::expect_error([&] { exported(temp, config, "", ExportDtype::kQ8_0); },
                        {"ffn_down_exps", "44"});
  EXPECT_FALSE(std::filesystem::exists(temp.path() / "m.gguf"));
}

TEST(ExportGguf, RoutersFoldOrSayWhy) {
  ModelConfig mixture = small_moe();
  mixture.router = {.method = "topk", .scorer = "mixture", .k = 2};
  {
    const TempDirectory temp;
    const Certificate certificate = exported(temp, mixture);
    testing::expect_says(certificate.routers, {"mixture"});
    EXPECT_EQ(certificate.agreement.differ_beyond_ties, 0);
    EXPECT_LT(difference(temp), 1e-5);
  }
  mixture.router.parts["mixture"].set("pool", "max");
  {
    const TempDirectory temp;
    EXPECT_THROW(exported(temp, mixture), NotPortableError);
  }
  ModelConfig biased = small_moe();
  biased.router.parts["linear"].set("bias", true);
  const TempDirectory temp;
  try {
    exported(temp, biased);
    FAIL() << "the model was exported though the format has no tensor for the bias";
  } catch (const NotPortableError& error) {
    EXPECT_EQ(std::string(error.what()).find("needs a bias"), 0u);
  }
}

TEST(ExportGguf, TheCertificateLiesBesideTheFile) {
  const TempDirectory temp;
  exported(temp, small_moe());
  std::ifstream in(temp.path() / "m.gguf.certificate.json");
  const nlohmann::json certificate = nlohmann::json::parse(in);
  EXPECT_EQ(certificate["verdict"], "exact");
  EXPECT_EQ(certificate["measured"]["tokens"], 64);
  EXPECT_EQ(certificate["measured"]["top_k_agreement"], 1.0);
  EXPECT_THROW(exported(temp, small_moe()), Error);  // the file exists already
}

TEST(ExportGguf, TokenizersComeBack) {
  const TempDirectory temp;
  exported(temp, small_moe());
  const auto tokenizer = GgufSource(temp.path("m.gguf")).tokenizer();
  const auto ours = make_bytes_tokenizer(true);
  const std::string text = "A caf\xc3\xa9, twice  over.\n\t\xe2\x96\x81!";
  EXPECT_EQ(tokenizer->encode(text), ours->encode(text));
  EXPECT_EQ(tokenizer->end_of_document(), 0);
}

TEST(ExportGguf, KeepsTheChatTemplateOfAFolderAndGivesItBack) {
  const TempDirectory temp;
  const std::string model = temp.path("model"), text = "{{ '<|im_start|>' }}\n";
  write_random_model(small_moe(), model);
  write_file_atomically(real_file_system(), model + "/chat_template.jinja", text);
  const std::string file = temp.path("m.gguf");
  export_model({.model = model, .out = file, .format = ExportFormat::kGguf, .check_tokens = 0});
  const GgufFile written(file);
  const GgufValue* const kept = written.value("tokenizer.chat_template");
  ASSERT_TRUE(kept && kept->as_string());
  EXPECT_EQ(*kept->as_string(), text);
  const std::string folder = temp.path("again");
  export_model({.model = file, .out = folder, .check_tokens = 0});
  EXPECT_EQ(real_file_system().read(folder + "/chat_template.jinja"), text);
}

}  // namespace
}  // namespace penstock
