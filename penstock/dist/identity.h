// Reads this process's rank and the number of ranks from the variables of the launcher: Penstock's
// own, torchrun, Open MPI, MPICH or Slurm, or variables set by hand. This file connects nothing.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace penstock::dist {

struct Identity {
  int rank = 0, size = 1;
  int local_rank = 0, local_size = 1;  ///< among the processes on this machine
  std::string address;                 ///< address of rank 0's machine, where the ranks meet
  int port = 0;
  bool hosts_store = false;  ///< whether this process listens at that address
  bool launched = false;     ///< by `--processes`, which reports what happens to its ranks
  std::string source;        ///< the variables that were read; "" for a single process
};

/// The value of an environment variable, if it is set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
Environment process_environment();

/// The identity by the first of these sources that is set: PENSTOCK_RANK and PENSTOCK_WORLD_SIZE
/// (Penstock's launcher), RANK and WORLD_SIZE (torchrun, Kubernetes, by hand), OMPI_COMM_WORLD_*,
/// PMI_*, SLURM_* inside a step; else a single process. Ranks meet at MASTER_ADDR and MASTER_PORT.
/// If these are not set, they meet on this machine if it has all ranks, under Slurm on the step's
/// first host. Under torchrun the port is MASTER_PORT, which torchrun's agent uses, plus 1, plus
/// the number of restarts. Throws Error with the variable's name if it is missing or is not a
/// number.
Identity identity_from(const Environment& environment);

/// This machine's name.
std::string host_name();

/// The first host of a Slurm list: "n[03-05,9],m1" -> "n03".
std::string first_host(const std::string& node_list);
/// The number of tasks of node `node` (from 0) in a list such as "2(x3),1"; 1 if the list is
/// shorter.
int tasks_of_node(const std::string& tasks_per_node, int node);

}  // namespace penstock::dist
