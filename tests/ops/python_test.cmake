# Debian's Python, whose torch is the libtorch that is linked here; skipped where it has none.
add_test(NAME ops_python
         COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/ops/python_ops_test.py
                 $<TARGET_FILE:penstock_operators>)
set_tests_properties(ops_python PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300)
