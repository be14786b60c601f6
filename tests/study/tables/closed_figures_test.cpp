// Figures in closed form, against the paper's cells and against sums by hand.
#include "penstock/study/tables/closed_figures.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "penstock/base/error.h"
#include "penstock/study/tables/closed_tables.h"
#include "penstock/train/read_recipe.h"
#include "tests/base/error_of.h"
#include "tests/study/fixture.h"

namespace penstock::study {
namespace {

using testing::TemporaryDirectory;
using testing::write_text;

/// The only table of a study in recipes/hyperrouter, with its figures.
struct PaperTable {
  StudyConfig study;
  std::vector<ClosedFigure> figures;

  explicit PaperTable(const std::string& name)
      : study(read_study(PENSTOCK_SOURCE_DIR "/recipes/hyperrouter/table" + name + ".toml")),
        figures(closed_figures(study.closed_forms.at(0), study.variants)) {}

  const ClosedFigure& at(const std::string& row, const std::string& column) const {
    for (const ClosedFigure& one : figures)
      if (one.row == row && one.column == column) return one;
    throw Error("no figure " + row + ", " + column);
  }
};

TEST(ClosedFigures, AreOfThePublishedModel) {
  for (const std::string name : {"A3", "A4"})
    for (const Variant& variant : PaperTable(name).study.variants) {
      const ModelConfig model = read_recipe(variant.recipe).model;
      EXPECT_TRUE(model.transformer_xl()) << variant.name;
      EXPECT_EQ(model.layers, 4) << variant.name;
      EXPECT_EQ(model.d_model, 256) << variant.name;
      EXPECT_EQ(model.heads, 8) << variant.name;
      EXPECT_EQ(model.head_dim, 64) << variant.name;
      EXPECT_EQ(model.vocab, 204) << variant.name;
      EXPECT_EQ(model.xl.memory, 512) << variant.name;
      EXPECT_EQ(model.moe_layers(), variant.name.starts_with("dense") ? 0 : 4) << variant.name;
      EXPECT_EQ(model.d_ffn, model.moe_layers() > 0 ? 512 : 8192) << variant.name;
      if (model.moe_layers() > 0) {
        EXPECT_EQ(model.total_experts(), 16) << variant.name;
      }
    }
}

TEST(ClosedFigures, A3AgreesWhereThePaperIsRight) {
  const PaperTable table("A3");
  EXPECT_EQ(table.figures.size(), 4 * 3 + 6u);
  for (const char* method : {"SMoE", "SMoE-Dropout", "HyperRouter"}) {
    for (const int k : {1, 2, 4, 8, 16}) {
      const ClosedFigure& one = table.at("k = " + std::to_string(k), method);
      EXPECT_NEAR(one.computed, 3.4670 + 0.26844 * k, 1e-4);
      EXPECT_EQ(one.agrees, k == 2 || k == 4 || k == 8);
      EXPECT_EQ(one.remark.empty(), one.agrees);
      // The useful FLOPs leave out the queries of 10 x 896 positions in four layers.
      EXPECT_NEAR(one.computed - one.useful, 2.0 * 4 * 10 * 896 * 256 * 512 / 1e10, 1e-9);
    }
    EXPECT_EQ(table.at("k = 1", method).published, 3.47);
    EXPECT_EQ(table.at("k = 2", method).published, 4.00);
    EXPECT_EQ(table.at("k = 4", method).published, 4.54);
    EXPECT_EQ(table.at("k = 8", method).published, 5.61);
    EXPECT_EQ(table.at("k = 16", method).published, 7.66);
    EXPECT_NEAR(table.at("k = 1", method).computed, 3.74, 0.005);
    EXPECT_NEAR(table.at("k = 16", method).computed, 7.76, 0.005);
  }
  for (const char* method : {"Dense", "Dense+Dropout"}) {
    EXPECT_TRUE(table.at("all", method).agrees);
    EXPECT_EQ(table.at("all", method).published, 7.76);
  }
  EXPECT_FALSE(table.at("k = 16", "THOR").agrees);
  EXPECT_THROW(table.at("k = 8", "THOR"), Error);
  EXPECT_EQ(table.figures[12].column, "Dense");  // the figures with all experts follow
}

TEST(ClosedFigures, A4CountsWhatTheAuthorsCodeBuilds) {
  const PaperTable table("A4");
  const auto count = [&](const char* row, const char* column) {
    return std::llround(1000 * table.at(row, column).computed);
  };
  EXPECT_EQ(count("HyperRouter", "Transformer"), 19505356);
  EXPECT_EQ(count("SMoE-Dropout", "Transformer"), 19505356);
  EXPECT_EQ(count("HyperRouter", "Router"), 16448);
  EXPECT_EQ(count("SMoE-Dropout", "Router"), 16448);
  EXPECT_EQ(count("HyperRouter", "Router Emb."), 1024);
  EXPECT_EQ(count("HyperRouter", "HyperNetwork"), 4 * 1122576);
  EXPECT_EQ(table.figures.size(), 6u);
  EXPECT_EQ(table.at("HyperRouter", "HyperNetwork").published, 1112.576);
  EXPECT_EQ(table.at("HyperRouter", "Transformer").published, 19505.350);
  EXPECT_EQ(std::ranges::count(table.figures, true, &ClosedFigure::agrees), 3);
}

TEST(ClosedFigures, ReMoEsTable1AgreesButForDecimalsLeftOut) {
  const StudyConfig study =
      read_study(PENSTOCK_SOURCE_DIR "/recipes/remoe/table1.toml", {}, "paper");
  const auto figures = [&](const std::string& name) {
    const auto form = std::ranges::find(study.closed_forms, name, &ClosedForm::name);
    return closed_figures(*form, study.variants);
  };
  const auto parameters = figures("remoe-parameters"), flops = figures("remoe-flops");
  ASSERT_EQ(parameters.size(), 3u);
  ASSERT_EQ(flops.size(), 3u);
  const double millions[] = {182.471424, 469.812224, 978.396672},
               printed[] = {182, 469, 978},  // 469.8 would be 470
      giga[] = {995.36, 2873.33, 5991.48}, printed_giga[] = {995, 2873, 5991};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(parameters[i].computed, millions[i], 1e-9);
    EXPECT_EQ(parameters[i].published, printed[i]);
    EXPECT_EQ(parameters[i].agrees, i != 1);
    EXPECT_EQ(parameters[i].remark.empty(), i != 1);
    EXPECT_NEAR(flops[i].computed, giga[i], 0.005);
    EXPECT_EQ(flops[i].published, printed_giga[i]);
    EXPECT_TRUE(flops[i].agrees);
  }
}

/// The keys and words that scripts depend on.
TEST(ClosedFigures, AsJsonHaveTheirNames) {
  const PaperTable table("A3");
  const auto json = to_json(table.study.closed_forms[0], table.figures);
  EXPECT_EQ(json["table"], "A3");
  EXPECT_EQ(json["title"], "FLOPs at inference on enwik8, one batch of 10 x 128 tokens");
  EXPECT_EQ(json["unit"], "1e10 FLOPs");
  const auto& first = json["cells"].at(0);
  EXPECT_EQ(first["row"], "k = 1");
  EXPECT_EQ(first["column"], "SMoE");
  EXPECT_EQ(first["published"], 3.47);
  EXPECT_EQ(first["agrees"], false);
  EXPECT_EQ(first["remark"], "the paper's cell is the closed form without any expert, k = 0");
  EXPECT_EQ(first.size(), 7u);
}

/// A study with a dense decoder and one with experts, small enough to count by hand.
struct SmallStudy : ::testing::Test {
  TemporaryDirectory folder;
  std::vector<ClosedFigure> figures(const std::string& form, int vocabulary = 32) {
    write_text(folder.path("a.toml"),
               "[model]\nd_model = 16\nlayers = 2\nheads = 4\nkv_heads = 2\nd_ffn = 24\nvocab = " +
                   std::to_string(vocabulary) + "\n[data]\ncorpus = 'none'\n[train]\nsteps = 1\n");
    write_text(folder.path("s.toml"),
               "base = 'a.toml'\nreport = ['closed-forms']\n[variants.dense]\n"
               "[variants.experts]\nset = {'model.router.method' = 'topk', 'model.router.k' = 3, "
               "'model.moe.experts' = 4, 'model.moe.granularity' = 2}\n"
               "[closed_form.T]\n" +
                   form);
    study = read_study(folder.path("s.toml"));
    return closed_figures(study.closed_forms.at(0), study.variants);
  }
  std::string error(const std::string& form, int vocabulary = 32) {
    return penstock::testing::error_or("", [&] { figures(form, vocabulary); });
  }
  StudyConfig study;
};

TEST_F(SmallStudy, FlopsFollowK) {
  const auto found = figures(
      "work = {sequences = 2, length = 3}\n"
      "cells = [{k = 2}, {label = 'own'}]\n");
  ASSERT_EQ(found.size(), 3u);  // k = 2 of "experts", then both variants
  // 6 tokens and 2 layers. Attention has 2·16·16 + 2·16·8; 4 of 8 experts have 3·16·12 each; the
  // router has 16·8.
  EXPECT_EQ(found[0].row, "k = 2");
  EXPECT_EQ(found[0].column, "experts");
  EXPECT_EQ(found[0].computed, 2.0 * 2 * 6 * (768 + 4 * 576 + 128));
  EXPECT_EQ(found[0].useful, found[0].computed);
  EXPECT_FALSE(found[0].published);
  EXPECT_EQ(found[1].column, "dense");
  EXPECT_EQ(found[1].row, "own");
  EXPECT_EQ(found[1].computed, 2.0 * 2 * 6 * (768 + 3 * 16 * 24));
  EXPECT_EQ(found[2].computed, 2.0 * 2 * 6 * (768 + 6 * 576 + 128));  // the recipe's k
  const auto json = to_json(study.closed_forms[0], found);
  EXPECT_TRUE(json["cells"][0]["published"].is_null());
  EXPECT_TRUE(json["cells"][0]["agrees"].is_null());
  const Table table = closed_form_table(study.closed_forms[0], found);
  EXPECT_EQ(table.title, "T (FLOPs)");
  ASSERT_EQ(table.columns.size(), 3u);  // no column of published or left-out figures
  EXPECT_EQ(table.rows.at(1).cells.at(2).text, "46080");
}

TEST_F(SmallStudy, TrainingFlopsAreThoseOfTheFormula) {
  const std::string form = "count = 'training-flops'\nwork = {sequences = 2, length = 3}\n";
  const auto found = figures(form + "cells = [{k = 2}, {}]\n");
  ASSERT_EQ(found.size(), 3u);  // k = 2 of "experts", then both variants
  // 2 sequences, 12·3·2·16² each, times 1 + 2/4 + 3/16 for attention, 1.5·(24/16)·k for
  // feed-forwards and 32/(2·2·16) for the head.
  const double unit = 2 * 12. * 3 * 2 * 16 * 16;
  EXPECT_EQ(found[0].row, "k = 2");
  EXPECT_EQ(found[0].column, "experts");
  EXPECT_DOUBLE_EQ(found[0].computed, unit * (1.6875 + 2.25 * 2 + 0.5));
  EXPECT_EQ(found[1].row, "all");
  EXPECT_DOUBLE_EQ(found[1].computed, unit * (1.6875 + 2.25 + 0.5));
  EXPECT_DOUBLE_EQ(found[2].computed, unit * (1.6875 + 2.25 * 3 + 0.5));
  EXPECT_EQ(found[2].useful, found[2].computed);
  EXPECT_NE(error(form + "cells = [{}]\n", 0).find("[set.model] vocab"), std::string::npos);
}

TEST_F(SmallStudy, ABlendOfExpertsIsOne) {
  const auto found = figures(
      "work = {sequences = 2, length = 4}\n"
      "cells = [{variants = ['blend'], k = 3}, {variants = ['blend']}]\n"
      "[variants.blend]\nset = {'model.router.method' = 'lory', 'model.moe.experts' = 4, "
      "'model.router.lory.segment_length' = 2}\n");
  ASSERT_EQ(found.size(), 2u);
  // 2 layers, 8 tokens in 4 segments. Per token: attention 768 and one expert 3·16·24. Per segment:
  // the router 16·4, and one product for each weight of 4 experts.
  const double by_hand = 2.0 * 2 * (8 * (768 + 1152) + 4 * (64 + 4 * 1152));
  EXPECT_EQ(found[0].computed, by_hand);
  EXPECT_EQ(found[1].computed, by_hand);
  EXPECT_EQ(by_hand, 136192);
}

TEST_F(SmallStudy, ParametersGoByPart) {
  const auto found = figures(
      "count = 'parameters'\ndigits = 1\ndivisor = 1000\n"
      "cells = [{part = 'total', variants = ['dense'], published = 4.9, remark = 'r'},\n"
      "{part = 'embedding', variants = ['dense'], published = 1.1},\n"
      "{part = 'router', variants = ['experts']}, {part = 'frozen', variants = ['experts']}]\n");
  ASSERT_EQ(found.size(), 4u);
  // Embedding and head 32·16 each; per layer attention 768, feed-forward 1152, norms 32; the last
  // norm 16.
  EXPECT_EQ(found[0].computed, (1024 + 2 * (768 + 1152 + 32) + 16) / 1000.0);
  EXPECT_EQ(found[0].row, "dense");
  EXPECT_EQ(found[0].column, "total");
  EXPECT_TRUE(found[0].agrees);
  EXPECT_EQ(found[0].remark, "");
  EXPECT_EQ(found[1].computed, 1.024);
  EXPECT_FALSE(found[1].agrees);
  EXPECT_EQ(found[2].computed, 2 * 16 * 8 / 1000.0);
  EXPECT_EQ(found[3].computed, 0);
  const Table table = closed_form_table(study.closed_forms[0], found);
  EXPECT_EQ(table.rows.at(0).cells.back().text, "agrees");
  EXPECT_EQ(table.rows.at(1).cells.back().text, "differs");
  EXPECT_EQ(table.rows.at(2).cells.at(2).text, "–");
  EXPECT_EQ(table.rows.at(2).cells.at(3).text, "0.3");
}

TEST_F(SmallStudy, RefusesWhatTheModelDoesNotHave) {
  penstock::testing::expect_says(
      error("cells = [\n{variants = ['dense'], k = 1}]\n"),
      {"s.toml:8: closed_form.T.cells.k: variant 'dense' has no experts"});
  penstock::testing::expect_says(error("cells = [{k = 5}]\n"), {"'experts' has 4 experts"});
  const std::string total = "count = 'parameters'\ncells = [{part = 'total'}]\n";
  EXPECT_EQ(error(total), "");
  penstock::testing::expect_says(error(total, 0),
                                 {"the vocabulary of variant 'dense' is its corpus's"});
  EXPECT_EQ(error("cells = [{}]\n", 0), "");  // the head is not counted
}

}  // namespace
}  // namespace penstock::study
