# Tests of the program from outside. Thirty kills at random moments take about half a minute.
add_test(NAME kill_resume
         COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/cli/kill_resume_test.py
                 $<TARGET_FILE:penstock_program> 30)
set_tests_properties(kill_resume PROPERTIES TIMEOUT 900)
foreach(test commands damage dead_ends faulty_network fetch fetch_names foreign_models generate layouts prepare_more printed_commands processes processes_outcome update_results)
  add_test(NAME ${test}
           COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/cli/${test}_test.py
                   $<TARGET_FILE:penstock_program> ${PROJECT_SOURCE_DIR})
  set_tests_properties(${test} PROPERTIES TIMEOUT 900 SKIP_RETURN_CODE 77)
endforeach()
foreach(launcher open_mpi mpich slurm ssh two_hosts kubernetes)
  add_test(NAME launchers_${launcher}
           COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/cli/launchers_test.py
                   $<TARGET_FILE:penstock_program> ${PROJECT_SOURCE_DIR} ${launcher})
  set_tests_properties(launchers_${launcher} PROPERTIES TIMEOUT 300 SKIP_RETURN_CODE 77)
endforeach()
# One subcommand each: NAME_test.py is the test NAME_command.
foreach(command analyse bench compare_llama_cpp eval eval_tasks export finetune init manual openai_client page report serve study study_groups study_scales tokenize upcycle view)
  add_test(NAME ${command}_command
           COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/cli/${command}_test.py
                   $<TARGET_FILE:penstock_program> ${PROJECT_SOURCE_DIR})
  set_tests_properties(${command}_command PROPERTIES TIMEOUT 900 SKIP_RETURN_CODE 77)
endforeach()
