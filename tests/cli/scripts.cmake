# Tests of the program from outside. Thirty kills at random moments take about half a minute.
add_test(NAME kill_resume
         COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/cli/kill_resume_test.py
                 $<TARGET_FILE:penstock_program> 30)
add_test(NAME commands
         COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/cli/commands_test.py
                 $<TARGET_FILE:penstock_program> ${PROJECT_SOURCE_DIR})
add_test(NAME finetune_command
         COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/cli/finetune_test.py
                 $<TARGET_FILE:penstock_program>)
add_test(NAME study_command
         COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/cli/study_test.py
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
add_test(NAME generate
         COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/cli/generate_test.py
                 $<TARGET_FILE:penstock_program> ${PROJECT_SOURCE_DIR})
add_test(NAME upcycle
         COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/cli/upcycle_test.py
                 $<TARGET_FILE:penstock_program>)
set_tests_properties(kill_resume commands finetune_command foreign_models study_command damage fetch generate upcycle PROPERTIES TIMEOUT 900)
