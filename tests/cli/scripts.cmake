# Tests of the program from outside. Thirty kills at random moments take about half a minute.
add_test(NAME kill_resume
         COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/cli/kill_resume_test.py
                 $<TARGET_FILE:penstock_program> 30)
add_test(NAME commands
         COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/cli/commands_test.py
                 $<TARGET_FILE:penstock_program> ${PROJECT_SOURCE_DIR})
add_test(NAME damage
         COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/cli/damage_test.py
                 $<TARGET_FILE:penstock_program>)
set_tests_properties(kill_resume commands damage PROPERTIES TIMEOUT 900)
