#include "penstock/data/corpus/token_spool.h"

#include <cstring>

#include "tests/data/support.h"

namespace penstock {
namespace {

std::vector<std::byte> all_of(TokenSpool& spool) {
  std::vector<std::byte> out;
  spool.read([&](Bytes block) { out.insert(out.end(), block.begin(), block.end()); });
  return out;
}

TEST(TokenSpool, GivesBackWhatItGotHoweverMuch) {
  const testing::TemporaryFolder folder;
  for (const std::uint32_t vocab_size : {65536u, 65537u}) {
    TokenSpool spool(folder / "", vocab_size);
    EXPECT_TRUE(all_of(spool).empty());
    std::vector<std::uint32_t> expected;
    for (int piece = 0; piece < 1000; ++piece) {
      std::vector<TokenId> ids;
      for (int i = 0; i < piece; ++i) ids.push_back(static_cast<TokenId>((piece * i) % vocab_size));
      spool.add(ids);
      expected.insert(expected.end(), ids.begin(), ids.end());
    }
    EXPECT_EQ(spool.tokens(), expected.size());
    const std::size_t width = vocab_size == 65536 ? 2 : 4;
    for (int time = 0; time < 2; ++time) {
      const auto bytes = all_of(spool);
      ASSERT_EQ(bytes.size(), expected.size() * width);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        std::uint32_t id = 0;
        std::memcpy(&id, bytes.data() + i * width, width);
        ASSERT_EQ(id, expected[i]) << i;
      }
    }
    EXPECT_TRUE(std::filesystem::is_empty(folder / ""));  // the spool's file has no name
  }
}

TEST(TokenSpool, AFolderThatIsNotThereIsAnError) {
  const testing::TemporaryFolder folder;
  testing::expect_says(testing::error_of([&] { TokenSpool(folder / "missing", 256); }),
                       {"missing", "tokens"});
}

}  // namespace
}  // namespace penstock
