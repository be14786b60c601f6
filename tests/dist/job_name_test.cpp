// The name of a rank's job, by the variables of each launcher.
#include "penstock/dist/job_name.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>

namespace penstock::dist {
namespace {

using Variables = std::map<std::string, std::string>;

std::string name_of(const Variables& variables) {
  const Environment environment = [&](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  return job_name(identity_from(environment), environment);
}

const Variables kByHand{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "10.0.0.1"}};

Variables by_hand_and(Variables more) {
  more.insert(kByHand.begin(), kByHand.end());
  return more;
}

TEST(JobName, IsTheOneThatTheUserGave) {
  EXPECT_EQ(name_of(by_hand_and({{"PENSTOCK_JOB", "blue"}})), "blue");
  EXPECT_EQ(name_of(by_hand_and({{"PENSTOCK_JOB", "blue"}, {"TORCHELASTIC_RUN_ID", "red"}})),
            "blue");
}

TEST(JobName, IsTheLaunchersElse) {
  EXPECT_EQ(name_of(by_hand_and({{"TORCHELASTIC_RUN_ID", "red"}})), "red");
  EXPECT_EQ(name_of({{"OMPI_COMM_WORLD_RANK", "1"},
                     {"OMPI_COMM_WORLD_SIZE", "2"},
                     {"MASTER_ADDR", "10.0.0.1"},
                     {"PMIX_NAMESPACE", "prterun-1"}}),
            "prterun-1");
  EXPECT_EQ(name_of({{"SLURM_PROCID", "1"},
                     {"SLURM_STEP_NUM_TASKS", "2"},
                     {"SLURM_STEP_NODELIST", "n1"},
                     {"SLURM_JOB_ID", "7"},
                     {"SLURM_STEP_ID", "3"}}),
            "7.3");
}

TEST(JobName, IsEmptyWhereNothingNamesAllRanks) {
  EXPECT_EQ(name_of(kByHand), "");
  // A rank may be in another step, or outside Slurm.
  EXPECT_EQ(name_of(by_hand_and({{"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "3"}})), "");
  EXPECT_EQ(name_of({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MASTER_ADDR", "10.0.0.1"}}), "");
  EXPECT_EQ(name_of({{"PENSTOCK_RANK", "1"},
                     {"PENSTOCK_WORLD_SIZE", "2"},
                     {"PENSTOCK_LOCAL_RANK", "1"},
                     {"PENSTOCK_LOCAL_WORLD_SIZE", "2"},
                     {"PENSTOCK_PORT", "4000"},
                     {"PENSTOCK_JOB", "blue"}}),
            "");
}

}  // namespace
}  // namespace penstock::dist
