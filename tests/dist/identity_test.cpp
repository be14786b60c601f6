// The rank of a process, by the variables of each launcher.
#include "penstock/dist/identity.h"

#include <gtest/gtest.h>

#include <map>

#include "penstock/base/error.h"
#include "tests/base/error_of.h"

namespace penstock::dist {
namespace {

using Variables = std::map<std::string, std::string>;

Identity identity(const Variables& variables) {
  return identity_from([&](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

std::string refusal(const Variables& variables) {
  return testing::error_or("accepted", [&] { identity(variables); });
}

TEST(Identity, IsASingleProcessUnlessALauncherSaysMore) {
  for (const Variables& variables :
       {Variables{}, Variables{{"RANK", ""}},
        Variables{{"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}},
        // A batch script of Slurm, outside a step.
        Variables{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "7"}}}) {
    const Identity found = identity(variables);
    EXPECT_EQ(found.size, 1);
    EXPECT_EQ(found.rank, 0);
    EXPECT_FALSE(found.hosts_store);
  }
}

TEST(Identity, IsTheLaunchersOwnFirst) {
  const Identity found = identity({{"PENSTOCK_RANK", "0"},
                                   {"PENSTOCK_WORLD_SIZE", "2"},
                                   {"PENSTOCK_LOCAL_RANK", "0"},
                                   {"PENSTOCK_LOCAL_WORLD_SIZE", "2"},
                                   {"PENSTOCK_PORT", "4000"},
                                   {"RANK", "3"},
                                   {"WORLD_SIZE", "4"}});
  EXPECT_EQ(found.size, 2);
  EXPECT_EQ(found.local_size, 2);
  EXPECT_EQ(found.address, "127.0.0.1");
  EXPECT_EQ(found.port, 4000);
  EXPECT_FALSE(found.hosts_store);  // the launcher hosts the store
  EXPECT_TRUE(found.launched);
}

TEST(Identity, NamesTheVariableThatALauncherLeftOut) {
  for (const auto& [set, missing] : {std::pair{"RANK", "WORLD_SIZE"},
                                     {"WORLD_SIZE", "RANK"},
                                     {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                     {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                                     {"PMI_RANK", "PMI_SIZE"},
                                     {"PMI_SIZE", "PMI_RANK"},
                                     {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
                                     {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"}})
    EXPECT_EQ(refusal({{set, "1"}}),
              concat(missing, " is not set, but ", set, " is; set both, or neither"));
}

TEST(Identity, TakesTorchrunsVariablesButNotItsStore) {
  Variables variables = {{"RANK", "0"},
                         {"WORLD_SIZE", "4"},
                         {"LOCAL_RANK", "0"},
                         {"LOCAL_WORLD_SIZE", "2"},
                         {"MASTER_ADDR", "10.0.0.1"},
                         {"MASTER_PORT", "29500"},
                         {"SLURM_STEP_NUM_TASKS", "9"}};
  Identity found = identity(variables);
  EXPECT_EQ(found.size, 4);
  EXPECT_EQ(found.local_size, 2);
  EXPECT_EQ(found.port, 29500);
  EXPECT_TRUE(found.hosts_store);
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  variables["TORCHELASTIC_RESTART_COUNT"] = "2";
  variables["RANK"] = "3";
  found = identity(variables);
  EXPECT_EQ(found.port, 29503);
  EXPECT_FALSE(found.hosts_store);
}

TEST(Identity, MeetsOnThisMachineWhereMpiStartedAllRanksHere) {
  Variables variables = {{"OMPI_COMM_WORLD_RANK", "1"},
                         {"OMPI_COMM_WORLD_SIZE", "2"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                         {"PMIX_NAMESPACE", "prterun-a-1"}};
  const Identity found = identity(variables);
  EXPECT_EQ(found.rank, 1);
  EXPECT_EQ(found.address, "127.0.0.1");
  variables["OMPI_COMM_WORLD_RANK"] = "0";
  EXPECT_EQ(identity(variables).port, found.port);  // all ranks of a job have the same port
  variables["PMIX_NAMESPACE"] = "prterun-a-2";
  EXPECT_NE(identity(variables).port, found.port);
  variables["OMPI_COMM_WORLD_LOCAL_SIZE"] = "1";  // each rank is on its own machine
  variables["OMPI_COMM_WORLD_LOCAL_RANK"] = "0";
  testing::expect_says(refusal(variables), {"set MASTER_ADDR"});
  variables["SLURM_STEP_NODELIST"] = "n2";  // of the step in which mpirun's daemons run
  testing::expect_says(refusal(variables), {"set MASTER_ADDR"});
  for (const char* local : {"0", "5"})
    EXPECT_THROW(identity({{"RANK", "1"},
                           {"WORLD_SIZE", "4"},
                           {"LOCAL_RANK", "0"},
                           {"LOCAL_WORLD_SIZE", local},
                           {"MASTER_ADDR", "h"}}),
                 Error);
  const Identity pmi2 = identity({{"PMI_RANK", "3"},
                                  {"PMI_SIZE", "4"},
                                  {"SLURM_PROCID", "3"},
                                  {"SLURM_LOCALID", "1"},
                                  {"SLURM_NODEID", "1"},
                                  {"SLURM_STEP_NUM_TASKS", "4"},
                                  {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"},
                                  {"SLURM_STEP_NODELIST", "n[1-2]"}});
  EXPECT_EQ(pmi2.rank, 3);
  EXPECT_EQ(pmi2.local_size, 2);
  EXPECT_EQ(pmi2.address, "n1");
  const Identity mpich = identity({{"PMI_RANK", "2"}, {"PMI_SIZE", "3"}, {"MASTER_ADDR", "h"}});
  EXPECT_EQ(mpich.rank, 2);
  EXPECT_EQ(mpich.address, "h");
}

TEST(Identity, MeetsOnTheFirstHostOfASlurmStep) {
  const Identity found = identity({{"SLURM_PROCID", "5"},
                                   {"SLURM_STEP_NUM_TASKS", "7"},
                                   {"SLURM_LOCALID", "1"},
                                   {"SLURM_NODEID", "2"},
                                   {"SLURM_STEP_TASKS_PER_NODE", "2(x2),3"},
                                   {"SLURM_STEP_NODELIST", "n[08-09],m4"},
                                   {"SLURM_JOB_ID", "77"}});
  EXPECT_EQ(found.rank, 5);
  EXPECT_EQ(found.size, 7);
  EXPECT_EQ(found.local_size, 3);
  EXPECT_EQ(found.address, "n08");
  EXPECT_GE(found.port, 20000);
}

TEST(Identity, HasAPortOfItsSlurmStep) {
  const auto port = [](const char* rank, const char* step) {
    return identity({{"SLURM_PROCID", rank},
                     {"SLURM_STEP_NUM_TASKS", "2"},
                     {"SLURM_STEP_NODELIST", "n08"},
                     {"SLURM_JOB_ID", "77"},
                     {"SLURM_STEP_ID", step}})
        .port;
  };
  EXPECT_EQ(port("0", "4"), port("1", "4"));
  EXPECT_NE(port("0", "4"), port("0", "5"));  // both steps may begin on one machine
}

TEST(Identity, RanksOfOtherLaunchersMeetWhateverTheirSlurmSteps) {
  const auto port = [](const char* prefix, const char* rank, const char* step) {
    return identity({{concat(prefix, "RANK"), rank},
                     {concat(prefix, prefix[0] ? "SIZE" : "WORLD_SIZE"), "2"},
                     {"MASTER_ADDR", "n08"},
                     {"SLURM_JOB_ID", "77"},
                     {"SLURM_STEP_ID", step}})
        .port;
  };
  for (const char* prefix : {"", "OMPI_COMM_WORLD_"}) {
    EXPECT_EQ(port(prefix, "0", "4"), port(prefix, "1", "5")) << prefix;
    EXPECT_EQ(port(prefix, "0", ""), port(prefix, "1", "5")) << prefix;  // "": outside a step
  }
}

TEST(Identity, ReadsSlurmsLists) {
  EXPECT_EQ(first_host("alone"), "alone");
  EXPECT_EQ(first_host("a1,b[2-3]"), "a1");
  EXPECT_EQ(first_host("rack[2,4]-n[007-9].x"), "rack2-n007.x");
  EXPECT_THROW(first_host("n[1-2"), Error);
  EXPECT_EQ(tasks_of_node("4", 0), 4);
  EXPECT_EQ(tasks_of_node("2(x3),1", 2), 2);
  EXPECT_EQ(tasks_of_node("2(x3),1", 3), 1);
  EXPECT_EQ(tasks_of_node("2(x3),1", 9), 1);
  EXPECT_THROW(tasks_of_node("two", 0), Error);
}

TEST(Identity, NamesAVariableThatIsMissingOrWrong) {
  EXPECT_EQ(refusal({{"RANK", "1"}}), "WORLD_SIZE is not set, but RANK is; set both, or neither");
  EXPECT_EQ(refusal({{"RANK", "x"}, {"WORLD_SIZE", "2"}}),
            "RANK = 'x' is no number; set it to one");
  testing::expect_says(refusal({{"RANK", "2"}, {"WORLD_SIZE", "2"}}),
                       {"RANK = 2 and WORLD_SIZE = 2"});
  testing::expect_says(refusal({{"RANK", "0"},
                                {"WORLD_SIZE", "2"},
                                {"LOCAL_WORLD_SIZE", "2"},
                                {"MASTER_PORT", "70000"}}),
                       {"is no port"});
}

}  // namespace
}  // namespace penstock::dist
