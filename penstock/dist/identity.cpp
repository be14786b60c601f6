#include "penstock/dist/identity.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "penstock/base/checksum.h"
#include "penstock/base/error.h"
#include "penstock/base/file_system.h"
#include "penstock/base/parse_number.h"

namespace penstock::dist {
namespace {

constexpr int kUsualPort = 29500;

/// Reads variables as numbers.
class Variables {
 public:
  explicit Variables(const Environment& environment) : environment_(environment) {}

  std::optional<std::string> text(const std::string& name) const {
    const auto value = environment_(name);
    return value && !value->empty() ? value : std::nullopt;
  }
  bool has(const std::string& name) const { return text(name).has_value(); }
  std::optional<int> number(const std::string& name) const {
    const auto value = text(name);
    if (!value) return std::nullopt;
    const auto found = parse_number<int>(*value);
    PENSTOCK_CHECK(found && *found >= 0, name, " = '", *value, "' is no number; set it to one");
    return found;
  }
  int needed(const std::string& name, const std::string& beside) const {
    const auto value = number(name);
    PENSTOCK_CHECK(value, name, " is not set, but ", beside, " is; set both, or neither");
    return *value;
  }

 private:
  const Environment& environment_;
};

/// The variables in which a launcher gives a process's rank.
struct Names {
  const char *rank, *size, *local_rank;
  const char* local_size = nullptr;  // null: it says that in another way
};

Identity from_names(const Variables& variables, const Names& names) {
  Identity out{.rank = variables.needed(names.rank, names.size),
               .size = variables.needed(names.size, names.rank),
               .source = concat(names.rank, " and ", names.size)};
  PENSTOCK_CHECK(out.size >= 1 && out.rank < out.size, names.rank, " = ", out.rank, " and ",
                 names.size, " = ", out.size, ": a rank is below the number of ranks");
  out.local_rank = variables.number(names.local_rank).value_or(0);
  if (names.local_size && variables.has(names.local_size)) {
    out.local_size = *variables.number(names.local_size);
    PENSTOCK_CHECK(
        out.local_size >= 1 && out.local_size <= out.size && out.local_rank < out.local_size,
        names.local_rank, " = ", out.local_rank, " and ", names.local_size, " = ", out.local_size,
        " of ", out.size,
        " ranks: the ranks of this machine are at "
        "least one and at most all, and count from 0");
  }
  return out;
}

/// A port that two jobs on one machine, or two steps of a Slurm job, are unlikely to share.
/// @param of_step  whether the ranks are the tasks of a Slurm step. Other launchers' ranks may be
/// in different steps.
int port_of_job(const Variables& variables, bool of_step) {
  std::string job = variables.text("PMIX_NAMESPACE").value_or("");
  if (const auto of_slurm = variables.text("SLURM_JOB_ID"); job.empty() && of_slurm) {
    job = *of_slurm;
    if (of_step) job += "." + variables.text("SLURM_STEP_ID").value_or("");
  }
  return job.empty() ? kUsualPort : 20000 + static_cast<int>(xxh64(bytes_of(job)) % 10000);
}

/// Sets the address and port from MASTER_ADDR and MASTER_PORT, or from the ranks' machines.
void find_meeting_place(const Variables& variables, Identity& identity) {
  if (const auto address = variables.text("MASTER_ADDR")) {
    identity.address = *address;
  } else if (const auto nodes = variables.text("SLURM_STEP_NODELIST");
             nodes && !variables.has("OMPI_COMM_WORLD_SIZE")) {
    // Open MPI's daemons on the other machines are a step of their own, without rank 0's machine.
    identity.address = first_host(*nodes);
  } else {
    PENSTOCK_CHECK(identity.local_size == identity.size, identity.source, ": ", identity.size,
                   " processes on several machines do not know where to meet; set MASTER_ADDR to "
                   "the address of rank 0's machine (mpirun -x MASTER_ADDR=...)");
    identity.address = "127.0.0.1";
  }
  const bool of_step = identity.source.starts_with("SLURM_");
  identity.port = variables.number("MASTER_PORT").value_or(port_of_job(variables, of_step));
  if (variables.has("TORCHELASTIC_USE_AGENT_STORE"))  // torchrun listens on MASTER_PORT itself
    identity.port += 1 + variables.number("TORCHELASTIC_RESTART_COUNT").value_or(0);
  PENSTOCK_CHECK(identity.port > 0 && identity.port < 65536, "MASTER_PORT = ", identity.port,
                 " is no port; choose one from 1024 to 65000");
  identity.hosts_store = identity.rank == 0;
}

Identity of_slurm_step(const Variables& variables) {
  Identity out = from_names(variables, {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"});
  if (const auto tasks = variables.text("SLURM_STEP_TASKS_PER_NODE"))
    out.local_size = tasks_of_node(*tasks, variables.number("SLURM_NODEID").value_or(0));
  return out;
}

}  // namespace

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value ? std::optional<std::string>(value) : std::nullopt;
  };
}

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

std::string first_host(const std::string& node_list) {
  std::string out;
  for (std::size_t i = 0; i < node_list.size() && node_list[i] != ','; ++i) {
    if (node_list[i] != '[') {
      out += node_list[i];
      continue;
    }
    const auto close = node_list.find(']', i);
    PENSTOCK_CHECK(close != std::string::npos, "SLURM_STEP_NODELIST = '", node_list,
                   "' has no closing bracket; set MASTER_ADDR");
    const std::string range = node_list.substr(i + 1, close - i - 1);
    out += range.substr(0, range.find_first_of(",-"));
    i = close;
  }
  return out;
}

int tasks_of_node(const std::string& tasks_per_node, int node) {
  std::size_t begin = 0;
  while (begin < tasks_per_node.size()) {
    const auto end = std::min(tasks_per_node.find(',', begin), tasks_per_node.size());
    const std::string entry = tasks_per_node.substr(begin, end - begin);
    const auto times = entry.find("(x");
    const auto tasks = parse_number<int>(entry.substr(0, times));
    const auto nodes = times == std::string::npos
                           ? std::optional(1)
                           : parse_number<int>(entry.substr(times + 2, entry.size() - times - 3));
    PENSTOCK_CHECK(tasks && nodes, "SLURM_STEP_TASKS_PER_NODE = '", tasks_per_node,
                   "' is not a list as 2(x3),1");
    if (node < *nodes) return *tasks;
    node -= *nodes;
    begin = end + 1;
  }
  return 1;
}

Identity identity_from(const Environment& environment) {
  const Variables variables(environment);
  Identity out;
  if (variables.has("PENSTOCK_RANK")) {
    out = from_names(variables, {"PENSTOCK_RANK", "PENSTOCK_WORLD_SIZE", "PENSTOCK_LOCAL_RANK",
                                 "PENSTOCK_LOCAL_WORLD_SIZE"});
    out.address = "127.0.0.1";
    out.port = variables.needed("PENSTOCK_PORT", "PENSTOCK_RANK");
    out.launched = true;
    return out;
  }
  if (variables.has("RANK") || variables.has("WORLD_SIZE"))
    out = from_names(variables, {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"});
  else if (variables.has("OMPI_COMM_WORLD_RANK") || variables.has("OMPI_COMM_WORLD_SIZE"))
    out = from_names(variables, {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                 "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"});
  // Slurm's own PMI does not give the ranks on a machine; Slurm's other variables do.
  else if ((variables.has("PMI_RANK") || variables.has("PMI_SIZE")) &&
           (variables.has("MPI_LOCALNRANKS") || !variables.has("SLURM_STEP_NUM_TASKS")))
    out = from_names(variables, {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"});
  // A batch script outside a step also has the other variables, with rank 0.
  else if (variables.has("SLURM_STEP_NUM_TASKS") ||
           variables.number("SLURM_PROCID").value_or(0) > 0)
    out = of_slurm_step(variables);
  if (out.size > 1) find_meeting_place(variables, out);
  return out;
}

}  // namespace penstock::dist
