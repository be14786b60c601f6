// The notes on options that change nothing, or less than their names say.
#include "penstock/routers/option_notes.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/routers/parts.h"

namespace penstock {
namespace {

using testing::node;
using Names = std::vector<std::string>;

TEST(OptionNotes, AreOfWhatTheConfigItselfGives) {
  const RouterShape shape{.d_model = 8, .experts = 4, .k = 4};
  RouterConfig config{.method = "hyperrouter"};  // the method's own schedule starts at 2
  config.parts["topk"] = node({{"schedule.kind", std::string("constant")}});
  EXPECT_EQ(option_notes(config, shape, 100), Names());
  config.parts["topk"].set("schedule.start", 2);
  EXPECT_EQ(option_notes(config, shape, 100),
            Names{"model.router.topk.schedule.start = 2: nothing reads this, because "
                  "model.router.topk.schedule.kind = \"constant\"; \"linear\" and \"cosine\" read "
                  "it"});
  config.parts["hypernetwork"] =
      node({{"form", std::string("linear")}, {"hidden", std::int64_t{64}}});
  EXPECT_EQ(option_notes(config, shape, 100).front(),
            "model.router.hypernetwork.hidden = 64: nothing reads this, because form = \"linear\" "
            "has no hidden layer");
}

TEST(OptionNotes, SayWhereAScheduleGoesOnBeyondTheRun) {
  const RouterShape shape{.d_model = 8, .experts = 4, .k = 4};
  RouterConfig config{.method = "topk", .k = 4};
  ConfigNode& options = config.parts["topk"];
  options = node({{"schedule.kind", std::string("linear")}, {"schedule.over", std::int64_t{100}}});
  EXPECT_EQ(option_notes(config, shape, 100), Names());
  EXPECT_EQ(option_notes(config, shape, 51),
            Names{"model.router.topk.schedule.over = 100 is above train.steps = 51: k ends at 3, "
                  "on the way to model.router.k = 4"});
  options = node({{"schedule.kind", std::string("steps")},
                  {"schedule.values", ConfigNode::Array{ConfigNode(std::int64_t{2})}},
                  {"schedule.at", ConfigNode::Array{ConfigNode(std::int64_t{50})}}});
  EXPECT_EQ(option_notes(config, shape, 51), Names());
  EXPECT_EQ(option_notes(config, shape, 50),
            Names{"model.router.topk.schedule.at ends at step 50, which train.steps = 50 does not "
                  "come to: training never uses model.router.k = 4"});
}

}  // namespace
}  // namespace penstock
