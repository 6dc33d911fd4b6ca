# Texts: tokenizers, corpora, and conversations on their way into them. Neither MPI nor oneDNN, as of trireme_plan.
file(GLOB TRIREME_TEXT_SOURCES CONFIGURE_DEPENDS src/tokenizer/*.c src/chat/*.c src/data/*.c)
list(REMOVE_ITEM TRIREME_TEXT_SOURCES ${TRIREME_PLAN_SOURCES})
add_library(trireme_text STATIC ${TRIREME_TEXT_SOURCES})
target_link_libraries(trireme_text PUBLIC trireme_plan PkgConfig::PCRE2 PkgConfig::UTF8PROC PkgConfig::ZSTD)
