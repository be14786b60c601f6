// The recipes at published settings, compared with the papers' tables value by value.
// read_recipe_test.cpp tests sizes and FLOPs.
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <variant>

#include "penstock/io/toml.h"
#include "penstock/routers/resolve.h"
#include "penstock/train/read_recipe.h"

namespace penstock {
namespace {

Recipe recipe_of(const std::string& file) {
  return read_recipe(read_toml(std::string(PENSTOCK_SOURCE_DIR) + "/recipes/" + file + ".toml"));
}

/// The value of an option of a part in use, by the option's dotted key.
double number(const Recipe& recipe, const std::string& part, const std::string& key) {
  const ResolvedRouter router = resolve(recipe.model.router);
  const ConfigNode* node = &router.options.at(part);
  std::istringstream keys(key);
  for (std::string name; node && std::getline(keys, name, '.');) node = node->find(name);
  if (node) {
    if (const auto* whole = std::get_if<std::int64_t>(&node->value()))
      return static_cast<double>(*whole);
    if (const auto* value = std::get_if<double>(&node->value())) return *value;
  }
  ADD_FAILURE() << "no number " << part << "." << key;
  return -1;
}

void expect_adam(const TrainConfig& t, double beta2, double decay, double clip) {
  EXPECT_EQ(t.optimizer.beta1, 0.9);
  EXPECT_EQ(t.optimizer.beta2, beta2);
  EXPECT_EQ(t.optimizer.eps, 1e-8);
  EXPECT_EQ(t.optimizer.weight_decay, decay);
  EXPECT_EQ(t.optimizer.clip, clip);
}

/// ReMoE, section 4.1 and the authors' training scripts.
TEST(PaperRecipes, ReMoE) {
  struct Shape {
    const char* size;
    std::int64_t layers, width, heads, head_dim;
  };
  for (const auto& [size, layers, width, heads, head_dim] :
       {Shape{"182m", 12, 768, 12, 64}, Shape{"469m", 24, 1024, 16, 64},
        Shape{"978m", 24, 1536, 16, 96}})
    for (const std::string method : {"dense", "topk", "remoe"}) {
      SCOPED_TRACE(method + "-" + size);
      const Recipe recipe = recipe_of("remoe/" + method + "-" + size);
      const ModelConfig& m = recipe.model;
      EXPECT_EQ(m.layers, layers);
      EXPECT_EQ(m.d_model, width);
      EXPECT_EQ(m.heads, heads);
      EXPECT_EQ(m.kv_heads, 4);
      EXPECT_EQ(m.resolved().head_dim, head_dim);
      EXPECT_EQ(m.d_ffn, 4 * width);
      EXPECT_EQ(m.vocab, 51200);
      EXPECT_EQ(m.rope_base, 1e6);
      EXPECT_EQ(m.init_std, 0.01);
      EXPECT_FALSE(m.tie_embeddings);
      const TrainConfig& t = recipe.train;
      EXPECT_EQ(t.steps, 60000);
      EXPECT_EQ(t.batch_sequences, 512);
      EXPECT_EQ(t.sequence_length, 1024);
      EXPECT_EQ(t.micro_batch, 16);
      EXPECT_EQ(t.optimizer.lr, 5e-4);
      EXPECT_EQ(t.optimizer.min_lr, 5e-5);
      EXPECT_EQ(t.optimizer.lr_schedule, LrSchedule::cosine);
      EXPECT_EQ(t.optimizer.warmup_steps, 600);
      EXPECT_EQ(t.seed, 1234);
      expect_adam(t, 0.999, 0.01, 1.0);
      if (method == "remoe") {
        EXPECT_EQ(number(recipe, "adaptive-l1", "initial"), 1e-8);
        EXPECT_EQ(number(recipe, "adaptive-l1", "factor"), 1.2);
      }
      if (method == "topk") {
        EXPECT_EQ(number(recipe, "load-balance", "coefficient"), 0.01);
      }
      if (method != "dense") {
        EXPECT_EQ(m.moe.experts, 8);
        EXPECT_EQ(m.router.k, 1);
      }
    }
}

/// HyperRouter, section C.1 and Tables A1 and A2; the authors' scripts where they say more.
TEST(PaperRecipes, HyperRouter) {
  struct Size {
    const char* name;
    std::int64_t layers, steps;
  };
  for (const auto& [size, layers, steps] :
       {Size{"small", 4, 400000}, Size{"medium", 8, 400000}, Size{"large", 12, 100000}})
    for (const std::string method :
         {"dense", "dense-dropout", "smoe", "smoe-dropout", "hyperrouter", "thor"}) {
      SCOPED_TRACE(method + "-" + size);
      const Recipe recipe = recipe_of("hyperrouter/" + method + "-" + size);
      const ModelConfig& m = recipe.model;
      EXPECT_EQ(m.layers, layers);
      EXPECT_EQ(m.d_model, 256);
      EXPECT_EQ(m.heads, 8);
      EXPECT_EQ(m.resolved().head_dim, 64);
      EXPECT_EQ(m.init_std, 0.02);
      EXPECT_EQ(m.xl.memory, 512);
      const bool dense = method.starts_with("dense");
      EXPECT_EQ(m.d_ffn, dense ? 16 * 512 : 512);
      EXPECT_EQ(m.moe.experts, dense ? 0 : 16);
      EXPECT_EQ(m.xl.dropout, method == "dense" || method == "smoe" ? 0.0 : 0.1);
      if (!dense) {
        EXPECT_EQ(m.moe_layers(), 4);
      }
      const TrainConfig& t = recipe.train;
      EXPECT_EQ(t.steps, steps);
      EXPECT_EQ(t.batch_sequences, 22);
      EXPECT_EQ(t.sequence_length, 512);
      EXPECT_EQ(t.optimizer.lr, 2.5e-4);
      EXPECT_EQ(t.optimizer.min_lr, 0);
      EXPECT_EQ(t.optimizer.warmup_steps, 0);
      EXPECT_EQ(t.seed, 1111);
      EXPECT_EQ(t.evaluation.sequence_length, 128);
      EXPECT_EQ(t.evaluation.memory, 896);
      EXPECT_EQ(t.evaluation.streams, 10);
      expect_adam(t, 0.999, 0, 0.25);
      // No script of the authors drops blocks of neurons, or sets another dropout for the FFN.
      EXPECT_EQ(m.xl.ffn_block_dropout, 0);
      EXPECT_EQ(m.xl.ffn_dropout, -1);
      if (method ==
          "thor") {  // arXiv:2110.04260: one random expert, and two passes that should agree
        EXPECT_EQ(m.router.k, 1);
        EXPECT_EQ(number(recipe, "thor", "consistency"), 5);
      } else if (!dense) {
        // SMoE has the k of the scripts behind its published row. The text gives no k for it.
        EXPECT_EQ(m.router.k, 16);
        EXPECT_EQ(number(recipe, "topk", "schedule.start"), method == "smoe" ? 8 : 2);
      }
    }
}

/// Router Upcycling, section 4.1.
TEST(PaperRecipes, RouterUpcycling) {
  const Recipe recipe = recipe_of("router-upcycling/scratch");
  const ModelConfig& m = recipe.model;
  EXPECT_EQ(m.layers, 24);
  EXPECT_EQ(m.d_model, 1024);
  EXPECT_EQ(m.heads, 16);
  EXPECT_EQ(m.d_ffn, 2816);
  EXPECT_EQ(m.vocab, 151936);
  EXPECT_EQ(m.moe.experts, 8);
  EXPECT_EQ(m.router.k, 2);
  EXPECT_EQ(m.init, WeightInit::flat);
  EXPECT_EQ(m.init_std, 0.02);
  EXPECT_FALSE(m.tie_embeddings);
  const TrainConfig& t = recipe.train;
  EXPECT_EQ(t.steps, 25000);
  EXPECT_EQ(t.batch_sequences * t.sequence_length, 4194304);
  EXPECT_EQ(t.micro_batch, 4);
  EXPECT_EQ(t.optimizer.lr, 5e-4);
  EXPECT_EQ(t.optimizer.lr_schedule, LrSchedule::steps);
  EXPECT_EQ(t.optimizer.warmup_steps, 250);
  expect_adam(t, 0.95, 0.1, 1.0);
  EXPECT_EQ(number(recipe, "load-balance", "coefficient"), 0.02);
  EXPECT_EQ(number(recipe, "z-loss", "coefficient"), 0.001);
}

}  // namespace
}  // namespace penstock
