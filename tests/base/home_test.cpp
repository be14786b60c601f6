// "~" in the paths of recipes and of --set.
#include "penstock/base/home.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

#include "penstock/base/fields.h"

namespace penstock {
namespace {

/// Sets HOME, or removes it for nullptr. Restores it on destruction.
class Home {
 public:
  explicit Home(const char* value) {
    if (const char* before = std::getenv("HOME")) before_ = before;
    set(value);
  }
  Home(const Home&) = delete;
  Home& operator=(const Home&) = delete;
  ~Home() { set(before_ ? before_->c_str() : nullptr); }

 private:
  static void set(const char* value) { value ? ::setenv("HOME", value, 1) : ::unsetenv("HOME"); }
  std::optional<std::string> before_;
};

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
