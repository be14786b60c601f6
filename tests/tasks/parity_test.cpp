// The requests of the lm-eval and OpenCompass tasks equal, byte for byte, the requests that these
// harnesses' own code makes from the same rows. lm_eval_requests.py and opencompass_requests.py ran
// that code and wrote a checksum for each task and file.
#include <gtest/gtest.h>

#include "penstock/base/error.h"
#include "penstock/base/fields.h"
#include "penstock/base/file_system.h"
#include "penstock/data/sha.h"
#include "penstock/io/config_json.h"
#include "penstock/tasks/fewshot.h"
#include "tests/data/support.h"
#include "tests/tasks/support.h"

namespace penstock::tasks {
namespace {

/// All requests and answers, joined as the scripts join them. OpenCompass has whole texts only; a
/// sentence's rest is added to it.
std::string joined(const Task& task, const std::vector<Item>& items) {
  const std::string between = task.protocol == TaskProtocol::kLmEval ? "\x1f" : "";
  const bool has_rest =
      task.protocol == TaskProtocol::kOpenCompass && task.kind == Kind::kMultipleContext;
  std::string out;
  for (const Item& item : items) {
    for (const TextRequest& request : item.requests)
      out += request.context + between + request.continuation +
             (has_rest ? "\x1f" + request.continuation : "") + "\x1e";
    std::string answers;
    for (const std::string& answer : item.answers)
      answers += (answers.empty() ? "" : "\x1d") + answer;
    out += (task.kind == Kind::kGeneration ? answers : std::to_string(item.gold)) + "\n";
  }
  return out;
}

/// Compares the task's requests with the checksum of `known`. @param folder  holds the files that
/// `known` names
void expect_equal_requests(const nlohmann::json& known, TaskProtocol protocol,
                           const std::string& folder) {
  SCOPED_TRACE(concat(word(protocol), " ", known.dump()));
  Task task = find_task(known.at("task"), protocol);
  const auto items_of = [&](const std::string& file) {
    const std::string path = folder + file;
    return make_items(task, read_rows(path, labels_beside(task, path)));
  };
  Items items = items_of(known.at("file"));
  if (const Shots shots{.count = known.value("shots", 0u), .seed = known.value("seed", 0ull)};
      shots.count > 0) {
    task.fewshot->first = known.value("first", false);
    add_examples(task, items_of(known.value("pool", known.at("file"))).items, shots, items);
  }
  EXPECT_EQ(items.items.size(), known.at("items").get<std::size_t>());
  EXPECT_EQ(sha_of(bytes_of(joined(task, items.items)), ShaKind::kSha256),
            known.at("sha256").get<std::string>());
}

const std::string kHere = std::string(PENSTOCK_SOURCE_DIR) + "/tests/tasks/";

struct Fixture {
  TaskProtocol protocol;
  const char* file;
};
constexpr Fixture kFixtures[] = {{TaskProtocol::kLmEval, "lm_eval_requests.json"},
                                 {TaskProtocol::kOpenCompass, "opencompass_requests.json"}};

TEST(RequestParity, OfRowsInThePublishedForms) {
  for (const Fixture& fixture : kFixtures) {
    int compared = 0;
    for (const auto& known : read_json(kHere + fixture.file)) {
      const std::string file = known.at("file");
      if (!file.starts_with("rows/")) continue;
      expect_equal_requests(known, fixture.protocol, kHere);
      ++compared;
    }
    EXPECT_GE(compared, 6);
  }
}

TEST(RequestParity, OfPublicFilesOfHundredsOfItems) {
  for (const Fixture& fixture : kFixtures) {
    int compared = 0;
    for (const auto& known : read_json(kHere + fixture.file)) {
      const std::string file = known.at("file");
      if (file.starts_with("rows/")) continue;
      const std::string path = testing::shared_data("zero_shot/" + file);
      if (path.empty()) GTEST_SKIP() << "missing data: zero_shot/" << file;
      expect_equal_requests(known, fixture.protocol, path.substr(0, path.size() - file.size()));
      ++compared;
    }
    EXPECT_GE(compared, 8);
  }
}

// A second reference: requests that another harness published.
TEST(RequestParity, OfPublishedRequests) {
  const std::string path =
      testing::shared_data("zero_shot/requests/arc_easy_val_rc_0shot.jsonl.gz");
  if (path.empty()) GTEST_SKIP() << "missing data: zero_shot/requests";
  const auto rows = read_rows(path);
  const auto items = make_items(find_task("arc_easy", TaskProtocol::kLmEval), rows).items;
  ASSERT_EQ(items.size(), 570u);
  std::size_t at = 0;  // the first half of the lines has the requests, in the items' order
  for (const Item& item : items)
    for (const TextRequest& request : item.requests) {
      const Row& published = rows[at++].row.at("request");
      EXPECT_EQ(request.context, published.at("context").get<std::string>());
      EXPECT_EQ(request.continuation, published.at("continuation").get<std::string>());
    }
  EXPECT_EQ(at, 2281u);
}

}  // namespace
}  // namespace penstock::tasks
