# The documentation site: cmake --build build --target docs (or make docs). What it needs is asked for when it is built.
add_custom_target(docs COMMAND ${CMAKE_SOURCE_DIR}/scripts/docs.sh --program $<TARGET_FILE:trireme> --out ${CMAKE_BINARY_DIR}/docs
                  DEPENDS trireme WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} USES_TERMINAL VERBATIM)
