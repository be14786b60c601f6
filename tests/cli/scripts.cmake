# Tests of the program from outside. Thirty kills at random moments take about half a minute.
add_test(NAME kill_resume
         COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/cli/kill_resume_test.py
                 $<TARGET_FILE:penstock_program> 30)
add_test(NAME commands
         COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/cli/commands_test.py
                 $<TARGET_FILE:penstock_program> ${PROJECT_SOURCE_DIR})
add_test(NAME foreign_models
         COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/cli/foreign_models_test.py
                 $<TARGET_FILE:penstock_program> ${PROJECT_SOURCE_DIR})
add_test(NAME damage
         COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/cli/damage_test.py
                 $<TARGET_FILE:penstock_program>)
add_test(NAME fetch
         COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/cli/fetch_test.py
                 $<TARGET_FILE:penstock_program>)
add_test(NAME fetch_names
         COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/cli/fetch_names_test.py
                 $<TARGET_FILE:penstock_program>)
add_test(NAME generate
         COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/cli/generate_test.py
                 $<TARGET_FILE:penstock_program> ${PROJECT_SOURCE_DIR})
add_test(NAME dead_ends
         COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/cli/dead_ends_test.py
                 $<TARGET_FILE:penstock_program> ${PROJECT_SOURCE_DIR})
add_test(NAME prepare_more
         COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/cli/prepare_more_test.py
                 $<TARGET_FILE:penstock_program>)
add_test(NAME update_results
         COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/cli/update_results_test.py
                 ${PROJECT_SOURCE_DIR})
set_tests_properties(kill_resume commands damage dead_ends fetch fetch_names foreign_models generate PROPERTIES TIMEOUT 900)
add_test(NAME processes
         COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/cli/processes_test.py
                 $<TARGET_FILE:penstock_program> ${PROJECT_SOURCE_DIR})
add_test(NAME processes_outcome
         COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/cli/processes_outcome_test.py
                 $<TARGET_FILE:penstock_program> ${PROJECT_SOURCE_DIR})
foreach(launcher open_mpi mpich slurm ssh two_hosts kubernetes)
  add_test(NAME launchers_${launcher}
           COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/cli/launchers_test.py
                   $<TARGET_FILE:penstock_program> ${PROJECT_SOURCE_DIR} ${launcher})
  set_tests_properties(launchers_${launcher} PROPERTIES TIMEOUT 300 SKIP_RETURN_CODE 77)
endforeach()
add_test(NAME layouts
         COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/cli/layouts_test.py
                 $<TARGET_FILE:penstock_program> ${PROJECT_SOURCE_DIR})
add_test(NAME faulty_network
         COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/cli/faulty_network_test.py
                 $<TARGET_FILE:penstock_program> ${PROJECT_SOURCE_DIR})
set_tests_properties(processes processes_outcome layouts faulty_network PROPERTIES TIMEOUT 900 SKIP_RETURN_CODE 77)
# One subcommand each: NAME_test.py is the test NAME_command.
foreach(command analyse bench compare_llama_cpp eval eval_tasks export finetune init manual openai_client page report serve study study_groups study_scales tokenize tutorials upcycle view)
  add_test(NAME ${command}_command
           COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/cli/${command}_test.py
                   $<TARGET_FILE:penstock_program> ${PROJECT_SOURCE_DIR})
  set_tests_properties(${command}_command PROPERTIES TIMEOUT 900 SKIP_RETURN_CODE 77)
endforeach()
