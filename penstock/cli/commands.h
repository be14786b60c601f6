// The program's commands: add_NAME_command() adds `penstock NAME` with its options. NAME.cpp of
// this folder has the command; completions/manual.cpp has `manual`, and routers.h declares
// `routers`.
#pragma once

#include <CLI/CLI.hpp>

namespace penstock {

void add_analyse_command(CLI::App& app);
void add_bench_command(CLI::App& app);
void add_data_command(CLI::App& app);
void add_data_fetch_command(CLI::App& data);  ///< `penstock data fetch`
void add_eval_command(CLI::App& app);
void add_export_command(CLI::App& app);
void add_handoff_command(CLI::App& app);
void add_info_command(CLI::App& app);
void add_init_command(CLI::App& app);
void add_report_command(CLI::App& app);
void add_tokenize_command(CLI::App& app);
void add_trace_command(CLI::App& app);
void add_upcycle_command(CLI::App& app);
/// Call it after all other commands are added, because the manual describes them.
void add_manual_command(CLI::App& app);

// These commands set `exit_code`: to 1 if the doctor finds a fault, to 130 if a signal interrupted
// a run, a study or a text, and otherwise to 0.
void add_doctor_command(CLI::App& app, int& exit_code);
void add_finetune_command(CLI::App& app, int& exit_code);
void add_generate_command(CLI::App& app, int& exit_code);
void add_serve_command(CLI::App& app, int& exit_code);
void add_study_command(CLI::App& app, int& exit_code);
void add_train_command(CLI::App& app, int& exit_code);
void add_view_command(CLI::App& app, int& exit_code);

}  // namespace penstock
