// "~" in the paths of recipes and of --set.
#include "penstock/base/home.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "penstock/base/fields.h"
#include "tests/base/home.h"

namespace penstock {
namespace {

using testing::Home;

struct Place {
  std::string path;
  std::vector<std::string> more;
  template <class V>
  void visit(V& v) {
    v("path", path);
    v("more", more);
  }
};

TEST(Home, StandsInPlaceOfATildeAtTheBeginningAlone) {
  const Home home("/home/weir");
  EXPECT_EQ(with_home("~/corpora/x"), "/home/weir/corpora/x");
  EXPECT_EQ(with_home("~"), "/home/weir");
  EXPECT_EQ(with_home("~gate/x"), "~gate/x");  // another user's home, which only the shell knows
  EXPECT_EQ(with_home("a/~/b"), "a/~/b");
  EXPECT_EQ(with_home(""), "");
}

TEST(Home, IsLeftOutWhereThereIsNone) {
  const Home home(nullptr);
  EXPECT_EQ(with_home("~/x"), "~/x");
}

TEST(Home, IsTakenInEveryStringOfAConfig) {
  const Home home("/home/weir");
  ConfigNode node;
  node.set("path", "~/corpus");
  node.set("more", ConfigNode::Array{ConfigNode(std::string("~/a"))});
  const auto place = read_config<Place>(node);
  EXPECT_EQ(place.path, "/home/weir/corpus");
  EXPECT_EQ(place.more, (std::vector<std::string>{"/home/weir/a"}));
}

}  // namespace
}  // namespace penstock
