// Tables in closed form as a study's file states them: their fields, and errors that name the line.
#include "penstock/study/config/closed_form.h"

#include <gtest/gtest.h>

#include "penstock/study/config/embedded_studies.h"
#include "penstock/study/config/study_config.h"
#include "tests/base/error_of.h"
#include "tests/study/fixture.h"

namespace penstock::study {
namespace {

using testing::TemporaryDirectory;
using testing::write_text;

constexpr const char* kAsked = "base = 'a.toml'\nreport = ['closed-forms']\n[variants.dense]\n";

struct ClosedFormFile : ::testing::Test {
  TemporaryDirectory folder;
  void SetUp() override { write_text(folder.path("a.toml"), "[train]\nsteps = 1\n"); }
  StudyConfig read(const std::string& text) {
    write_text(folder.path("s.toml"), text);
    return read_study(folder.path("s.toml"));
  }
  std::string error(const std::string& text) {
    return penstock::testing::error_or("", [&] { read(text); });
  }
  void expect_error(const std::string& text, const std::vector<std::string>& parts) {
    const std::string said = error(text);
    for (const std::string& part : parts)
      EXPECT_NE(said.find(part), std::string::npos) << part << "\n" << said;
  }
};

TEST_F(ClosedFormFile, IsReadInItsOrder) {
  const StudyConfig study =
      read(kAsked + std::string("[closed_form.Z]\ncells = [{}]\n"
                                "[closed_form.A]\nof = 'Paper, Table 1'\ntitle = 't'\n"
                                "count = 'parameters'\nunit = 'thousands'\ndivisor = 1000\n"
                                "digits = 3\ncells = [{variants = ['dense'], part = 'backbone', "
                                "published = 1.5, remark = 'r', label = 'l'}]\n"));
  EXPECT_FALSE(study.trains());
  ASSERT_EQ(study.closed_forms.size(), 2u);
  const ClosedForm &first = study.closed_forms[0], &second = study.closed_forms[1];
  EXPECT_EQ(first.name, "Z");
  EXPECT_EQ(first.title, "Z");
  EXPECT_EQ(first.unit, "FLOPs");
  EXPECT_FALSE(first.cells.at(0).k || first.cells[0].published);
  EXPECT_EQ(second.count, ClosedCount::parameters);
  EXPECT_EQ(second.divisor, 1000);
  EXPECT_EQ(second.cells.at(0).part, ClosedPart::backbone);
  EXPECT_EQ(second.cells[0].published, 1.5);
}

TEST_F(ClosedFormFile, SaysWhereItIsWrong) {
  const std::string flops = kAsked + std::string("[closed_form.T]\ncells = ["),
                    parameters =
                        kAsked + std::string("[closed_form.T]\ncount = 'parameters'\ncells = [");
  expect_error(flops + "{k = 1},\n{part = 'router'}]\n", {"s.toml:6: closed_form.T.cells.part"});
  expect_error(flops + "{k = 0}]\n", {"s.toml:5: closed_form.T.cells.k = 0", ">= 1"});
  expect_error(flops + "{publised = 1}]\n", {"closed_form.T.cells.publised", "'published'"});
  expect_error(flops + "{variants = ['dens']}]\n",
               {"s.toml:5: closed_form.T.cells.variants names 'dens'", "'dense'"});
  expect_error(flops + "]\n", {"s.toml:4: closed_form.T", "no cells"});
  expect_error(parameters + "{part = 'total', k = 1}]\n", {"s.toml:6: closed_form.T.cells.k"});
  expect_error(parameters + "{}]\n", {"s.toml:6: closed_form.T.cells: say as part"});
  expect_error(parameters + "{part = 'rooter'}]\n", {"closed_form.T.cells.part", "router_network"});
  expect_error(parameters + "{part = 'total'}]\nwork = {length = 2}\n",
               {"s.toml:7: closed_form.T.work"});
  expect_error(kAsked + std::string("[closed_form.T]\ncount = 'training-flops'\n"
                                    "work = {memory = 2}\ncells = [{}]\n"),
               {"s.toml:6: closed_form.T.work", "no memory"});
  expect_error(kAsked, {"s.toml: report names \"closed-forms\"", "[closed_form.NAME]"});
  expect_error("base = 'a.toml'\n[variants.dense]\n[closed_form.T]\ncells = [{k = 1}]\n",
               {"s.toml: closed_form has tables that are not shown", "report"});
  expect_error("report = ['closed-forms']\n[closed_form.T]\ncells = [{k = 1}]\n",
               {"s.toml:2: closed_form.T", "[variants.NAME]"});
}

TEST_F(ClosedFormFile, OfTheLibraryNeedsNoFile) {
  for (const std::string name : {"A3", "A4"}) {
    const std::string path = "recipes/hyperrouter/table" + name + ".toml";
    const StudyConfig inside = study_of_closed_form(name),
                      file = read_study(PENSTOCK_SOURCE_DIR "/" + path, {}, "paper");
    EXPECT_EQ(inside.path, path);
    EXPECT_EQ(inside.scale, "paper");
    EXPECT_EQ(inside.name, file.name);
    ASSERT_EQ(inside.variants.size(), file.variants.size());
    for (std::size_t i = 0; i < file.variants.size(); ++i)
      EXPECT_EQ(to_toml(inside.variants[i].recipe), to_toml(file.variants[i].recipe));
    EXPECT_EQ(inside.closed_forms.at(0).name, name);
    EXPECT_EQ(inside.closed_forms[0].cells.size(), file.closed_forms.at(0).cells.size());
  }
  EXPECT_EQ(penstock::testing::error_of([] { study_of_closed_form("A9"); }),
            "there is no table 'A9' in closed form; choose from: A3, A4, "
            "remoe-flops, remoe-parameters");
}

TEST(ClosedFormsOfTheLibrary, HaveDifferentNames) {
  const std::string study = kAsked + std::string("[closed_form.T]\ncells = [{}]\n");
  const std::vector<EmbeddedFile> files = {{"x/a.toml", "[train]\nsteps = 1\n"},
                                           {"x/one.toml", study}};
  EXPECT_EQ(study_of_closed_form("T", files).path, "recipes/x/one.toml");
  const std::vector<EmbeddedFile> twice = {files[0], files[1], {"y/two.toml", study}};
  EXPECT_TRUE(
      penstock::testing::error_of([&] { study_of_closed_form("T", twice); })
          .starts_with(
              "recipes/x/one.toml:4 and recipes/y/two.toml:4: both have a table [closed_form.T]"));
}

}  // namespace
}  // namespace penstock::study
