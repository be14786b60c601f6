#include "penstock/dist/job_name.h"

namespace penstock::dist {
namespace {

/// The variables that name the job of a launcher, by how Identity::source begins. Ranks that were
/// started by hand may be in several steps or jobs of Slurm, so Slurm's variables name only a step
/// whose tasks are the ranks.
struct Launcher {
  const char* source;
  const char* job;
  const char* step = nullptr;  // null: the job has no steps
};
constexpr Launcher kLaunchers[] = {{"RANK", "TORCHELASTIC_RUN_ID"},
                                   {"OMPI_", "PMIX_NAMESPACE"},
                                   {"SLURM_", "SLURM_JOB_ID", "SLURM_STEP_ID"}};

}  // namespace

std::string job_name(const Identity& identity, const Environment& environment) {
  if (identity.launched) return "";
  const auto text = [&](const char* name) { return environment(name).value_or(""); };
  if (const std::string given = text("PENSTOCK_JOB"); !given.empty()) return given;
  for (const Launcher& launcher : kLaunchers) {
    if (!identity.source.starts_with(launcher.source)) continue;
    const std::string job = text(launcher.job);
    return job.empty() || !launcher.step ? job : job + "." + text(launcher.step);
  }
  return "";
}

}  // namespace penstock::dist
