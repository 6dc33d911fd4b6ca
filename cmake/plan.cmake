# libtrireme_plan: what a run is and what it will take, on a machine that need not be there. It links neither MPI nor
# oneDNN, no kernel and no device; tests/floors looks at that.
file(GLOB TRIREME_PLAN_SOURCES CONFIGURE_DEPENDS
     src/base/*.c src/files/*.c src/gguf/*.c src/page/*.c src/config/*.c src/mesh/*.c src/model/*.c src/ops/*.c src/optimizers/*.c src/schedule/*.c src/timeline/*.c src/plan/*.c src/checkpoint/*.c)
# Of devices their words and descriptions; of corpora how lengths share sequences; of checkpoints what one process reads.
list(APPEND TRIREME_PLAN_SOURCES ${CMAKE_SOURCE_DIR}/src/data/packing.c ${CMAKE_SOURCE_DIR}/src/device/dtype.c ${CMAKE_SOURCE_DIR}/src/device/queue.c
     ${CMAKE_SOURCE_DIR}/src/device/description.c)
list(FILTER TRIREME_PLAN_SOURCES EXCLUDE REGEX "src/checkpoint/(save|stream|copy|copy_principal|copy_quantised|merged|principal|base_matrix|singular_vectors|collective_read|extra_texts|tensor_sums)\\.c$")

add_library(trireme_plan STATIC ${TRIREME_PLAN_SOURCES})
target_include_directories(trireme_plan PUBLIC src)
target_link_libraries(trireme_plan PUBLIC trireme_options trireme_plan_dependencies)
