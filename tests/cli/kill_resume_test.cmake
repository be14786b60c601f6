# Ten kills, in a minute at most; more by hand: kill_resume_test.py PENSTOCK 30.
add_test(NAME kill_resume
         COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/cli/kill_resume_test.py
                 $<TARGET_FILE:penstock_program> 10)
set_tests_properties(kill_resume PROPERTIES TIMEOUT 900)
