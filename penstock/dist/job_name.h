// The name of the job that a rank belongs to, by which ranks of two jobs are told apart.
#pragma once

#include <string>

#include "penstock/dist/identity.h"

namespace penstock::dist {

/// A text that all ranks of a job have, and no other job: PENSTOCK_JOB if it is set, else what the
/// launcher that gave the rank sets (TORCHELASTIC_RUN_ID, PMIX_NAMESPACE of Open MPI, SLURM_JOB_ID
/// and SLURM_STEP_ID of srun). "" if there is none, and under `--processes`, whose table no other
/// job knows.
std::string job_name(const Identity& identity, const Environment& environment);

}  // namespace penstock::dist
