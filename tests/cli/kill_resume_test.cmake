# Thirty kills at random moments take about half a minute.
add_test(NAME kill_resume
         COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/cli/kill_resume_test.py
                 $<TARGET_FILE:penstock_program> 30)
set_tests_properties(kill_resume PROPERTIES TIMEOUT 900)
