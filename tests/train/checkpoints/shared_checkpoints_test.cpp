// Checkpoints that the ranks of a layout write together: compared with what one rank gathers, and
// opened by other layouts.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <memory>
#include <string>
#include <vector>

#include "penstock/train/checkpoints/checkpoints.h"
#include "penstock/train/checkpoints/moment_names.h"
#include "penstock/train/layouts/parallel_settings.h"
#include "penstock/train/ranks/agreement.h"
#include "penstock/train/ranks/shared_files.h"
#include "penstock/train/read_recipe.h"
#include "penstock/train/trainer.h"
#include "tests/base/error_of.h"
#include "tests/base/forwarding_file_system.h"
#include "tests/dist/ranks.h"
#include "tests/train/small_run.h"
#include "tests/train/trainer_state.h"

namespace penstock {
namespace {

using testing::copies;
using testing::on_ranks;
using Settings = std::vector<std::pair<std::string, std::int64_t>>;

struct LayoutCase {
  int ranks = 1;
  Settings settings;
};

void expect_same(const TensorMap& found, const TensorMap& expected, const std::string& what) {
  SCOPED_TRACE(what);
  testing::expect_equal(found, expected);
}

class SharedCheckpoints : public testing::SmallCorpusTest<testing::RanksTest<>> {
 protected:
  ConfigNode node(const std::string& method) const {
    ConfigNode out = testing::small_recipe_node(method, 8, 16, "unused");
    out.set("model.layers", 4);
    // Large enough to divide a matrix's moments.
    out.set("model.d_model", 64);
    out.set("train.micro_batch", 1);
    out.set("train.gradient_sum", "tree");
    return out;
  }
  std::unique_ptr<Trainer> trainer(ConfigNode node, const Settings& settings,
                                   const dist::ProcessGroup& group = {}) {
    for (const auto& [key, value] : settings)
      key == "parallel.whole_experts" ? node.set(key, value != 0) : node.set(key, value);
    const Recipe recipe = read_recipe(node);
    const dist::Mesh mesh = dist::make_mesh(group, layout_of(recipe, group.size()));
    return std::make_unique<Trainer>(recipe, *corpus_, mesh);
  }
  CheckpointStore store() const { return {real_file_system(), directory_.path() / "run"}; }

  /// A checkpoint after two steps that all ranks write.
  struct Written {
    TensorMap model, optimizer;  // as rank 0 gathers them
    std::filesystem::path directory;
  };
  Written written(const ConfigNode& node, const LayoutCase& layout) {
    Written out;
    std::shared_ptr<AtomicDirectory> begun = store().begin(2);
    on_ranks(layout.ranks, [&](const dist::ProcessGroup& group) {
      const auto mine = trainer(node, layout.settings, group);
      while (mine->step() < 2) EXPECT_EQ(mine->advance().failure, "");
      ASSERT_TRUE(mine->divides_checkpoints());
      const CheckpointShare share = mine->checkpoint_share();
      EXPECT_LE(share.received_bytes, mine->largest_share_bytes());
      std::int64_t bytes = 0;
      for (const auto* tensors : {&share.model, &share.optimizer})
        for (const auto& [name, tensor] : *tensors)
          bytes += static_cast<std::int64_t>(tensor.nbytes());
      EXPECT_LE(share.received_bytes, bytes);
      if (group.rank() > 0) {
        save_piece(real_file_system(), {begun->temporary(), group.rank(), group.size()}, 2,
                   share.model, share.optimizer);
      } else {
        const CheckpointContents contents{.model = share.model,
                                          .config_json = "{}",
                                          .optimizer = share.optimizer,
                                          .trainer = nlohmann::json::object()};
        store().save(2, contents, {}, Superseded::remove,
                     SharedCheckpoint{.directory = begun, .ranks = group.size()});
      }
      const TensorMap model = copies(mine->model_tensors()),
                      optimizer = copies(mine->optimizer_tensors());
      if (group.rank() == 0) out = {model, optimizer, store().directory(2)};
    });
    return out;
  }
};

const std::vector<LayoutCase> kDivided = {
    {2, {{"parallel.tensor", 2}}},
    {2, {{"parallel.pipeline", 2}}},
    {2, {{"parallel.expert", 2}}},
    {2, {{"parallel.zero", 1}}},
    {3, {{"parallel.zero", 2}}},
    {2, {{"parallel.zero", 3}}},
    {4, {{"parallel.tensor", 2}, {"parallel.expert", 2}, {"parallel.zero", 3}}},
    {4, {{"parallel.pipeline", 2}, {"parallel.zero", 1}, {"parallel.pipeline_chunks", 2}}},
    {4, {{"parallel.tensor", 2}, {"parallel.expert", 4}, {"parallel.whole_experts", 1}}}};

std::string name_of(const LayoutCase& layout) {
  std::string out;
  for (const auto& [key, value] : layout.settings) out += concat(key, "=", value, " ");
  return out;
}

/// The expected contents are those that rank 0 would write alone.
TEST_F(SharedCheckpoints, HoldWhatOneRankWouldGather) {
  for (const LayoutCase& layout : kDivided) {
    const Written expected = written(node("remoe"), layout);
    const CheckpointContents found = store().load(2);
    const ModelConfig config = trainer(node("remoe"), {})->model().config();
    expect_same(found.model, expected.model, name_of(layout));
    expect_same(moments_of_modules(config, found.optimizer), expected.optimizer, name_of(layout));
    const CheckpointContents mapped = open_checkpoint(real_file_system(), expected.directory);
    expect_same(mapped.model, found.model, "mapped");
    expect_same(mapped.optimizer, found.optimizer, "mapped");
    const TensorMap of_files = moments_of_files(config, expected.optimizer);
    expect_same(found.optimizer, of_files, name_of(layout));
  }
}

TEST_F(SharedCheckpoints, OpenInAnyOtherLayout) {
  const Written expected = written(node("topk"), kDivided[6]);
  const CheckpointContents found = open_checkpoint(real_file_system(), expected.directory);
  for (const LayoutCase& layout : kDivided)
    on_ranks(layout.ranks, [&](const dist::ProcessGroup& group) {
      const auto mine = trainer(node("topk"), layout.settings, group);
      for (const bool files : {true, false}) {  // from files, or from rank 0's tensors
        if (files)
          mine->restore_from_files(group.rank() == 0 ? 2 : 0, found.model, found.optimizer, "here");
        else if (group.rank() == 0)
          mine->restore(2, found.model, found.optimizer, "here");
        else
          mine->restore(0, {}, {}, "");
        EXPECT_EQ(mine->step(), 2);
        const TensorMap model = mine->model_tensors(), optimizer = mine->optimizer_tensors();
        if (group.rank() == 0) expect_same(model, expected.model, name_of(layout));
        if (group.rank() == 0) expect_same(optimizer, expected.optimizer, name_of(layout));
        mine->advance();  // the next restore has to change the state
      }
    });
  const auto alone = trainer(node("topk"), {});
  alone->restore(2, found.model, found.optimizer, "here");
  expect_same(alone->model_tensors(), expected.model, "alone");
  expect_same(alone->optimizer_tensors(), expected.optimizer, "alone");
}

/// Ranks that divide no layer continue with the same bits as one process.
TEST_F(SharedCheckpoints, GoOnToTheSameBits) {
  const auto straight = trainer(node("remoe"), {});
  while (straight->step() < 4) straight->advance();
  const Written middle = written(node("remoe"), kDivided[3]);
  const CheckpointContents found = open_checkpoint(real_file_system(), middle.directory);
  for (const std::int64_t zero : {0, 1, 2, 3})
    on_ranks(2, [&](const dist::ProcessGroup& group) {
      const auto mine = trainer(node("remoe"), {{"parallel.zero", zero}}, group);
      mine->restore_from_files(2, found.model, found.optimizer, "here");
      while (mine->step() < 4) mine->advance();
      const TensorMap model = mine->model_tensors(), optimizer = mine->optimizer_tensors();
      if (group.rank() > 0) return;
      expect_same(model, straight->model_tensors(), concat("zero ", zero));
      expect_same(optimizer, straight->optimizer_tensors(), concat("zero ", zero));
    });
}

TEST_F(SharedCheckpoints, KeepTheMemoryOfAllParts) {
  ConfigNode memory = node("topk");
  memory.set("model.architecture", "transformer-xl");
  const Written expected = written(memory, kDivided[3]);
  const CheckpointContents found = store().load(2);
  EXPECT_TRUE(found.optimizer.contains("memory.7.0"));
  const auto alone = trainer(memory, {});
  alone->restore(2, found.model, found.optimizer, "here");
  expect_same(alone->optimizer_tensors(), expected.optimizer, "memory");
}

TEST_F(SharedCheckpoints, AreRefusedWhereSomethingIsMissing) {
  const Written expected = written(node("topk"), kDivided[3]);
  const CheckpointContents whole = open_checkpoint(real_file_system(), expected.directory);
  const auto alone = trainer(node("topk"), {});
  const auto says = [&](const CheckpointContents& contents, const std::string& part) {
    testing::expect_error([&] { alone->restore(2, contents.model, contents.optimizer, "here"); },
                          {part});
  };
  CheckpointContents some = whole;
  some.model.erase("model.norm.weight");
  says(some, "model.norm.weight");
  some = whole;
  some.optimizer.erase("v.model.norm.weight");
  says(some, "v.model.norm.weight");
}

TEST_F(SharedCheckpoints, AreRefusedWhereWeightsDriftedApart) {
  on_ranks(2, [&](const dist::ProcessGroup& group) {
    const auto mine = trainer(node("topk"), {{"parallel.zero", 1}}, group);
    const torch::NoGradGuard no_grad;
    if (group.rank() == 1) mine->model().parameters()[0].add_(1e-3);
    EXPECT_THROW(mine->checkpoint_share(), Error);
  });
}

/// A rank's view of another machine's folder: the folder does not exist, or is read-only.
class OtherMachine : public testing::ForwardingFileSystem {
 public:
  explicit OtherMachine(bool reads)
      : ForwardingFileSystem([](const Path& path, Bytes bytes) {
          if (path.filename().string().starts_with("rank-")) fail("read-only");
          return bytes.size();
        }),
        reads_(reads) {}
  bool exists(const Path& path) override { return reads_ && ForwardingFileSystem::exists(path); }

 private:
  bool reads_;
};

class FullDisk : public testing::ForwardingFileSystem {
 public:
  FullDisk() : ForwardingFileSystem([](const Path&, Bytes) -> std::size_t { fail("full"); }) {}
};

TEST_F(SharedCheckpoints, AreWrittenWhereAllRanksSeeTheDirectory) {
  OtherMachine blind(false), read_only(true);
  const auto asked = [&](FileSystem& files_of_rank_2) {
    std::vector<std::string> said(3);
    std::string name;
    on_ranks(3, [&](const dist::ProcessGroup& group) {
      const bool first = group.rank() == 0;
      FileSystem& files = group.rank() == 2 ? files_of_rank_2 : real_file_system();
      said[static_cast<std::size_t>(group.rank())] =
          first_rank_without(group, first ? directory_.path() : "", files);
      if (first) name = group.name(2);
    });
    EXPECT_EQ(said[0], said[1]);
    EXPECT_EQ(said[0], said[2]);
    EXPECT_TRUE(said[0].empty() || said[0] == name) << said[0];
    return !said[0].empty();
  };
  FullDisk full;
  on_ranks(2, [&](const dist::ProcessGroup& group) {
    // All ranks learn of the error. Otherwise rank 1 would wait.
    if (group.rank() == 0)
      EXPECT_THROW(first_rank_without(group, directory_.path(), full), Error);
    else
      EXPECT_THROW(first_rank_without(group, "", real_file_system()), ReportedByRankZero);
  });
  const auto before = real_file_system().list(directory_.path());
  EXPECT_FALSE(asked(real_file_system()));
  EXPECT_TRUE(asked(blind));
  EXPECT_TRUE(asked(read_only));
  EXPECT_EQ(real_file_system().list(directory_.path()), before);
}

}  // namespace
}  // namespace penstock
