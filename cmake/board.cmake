# The pages of `trireme board` and `trireme serve`: their files go into the program as they are, and HTTP (src/http) comes from libmicrohttpd. Without that the
# command says so, and all else is as ever.
pkg_check_modules(MICROHTTPD IMPORTED_TARGET libmicrohttpd>=0.9.71)
if(MICROHTTPD_FOUND)
  target_link_libraries(trireme_core PUBLIC PkgConfig::MICROHTTPD)
  set_source_files_properties(${CMAKE_SOURCE_DIR}/src/http/access.c ${CMAKE_SOURCE_DIR}/src/http/absent.c ${CMAKE_SOURCE_DIR}/src/http/request.c
    ${CMAKE_SOURCE_DIR}/src/http/server.c PROPERTIES COMPILE_DEFINITIONS TRIREME_HAVE_MICROHTTPD=1)
else()
  message(WARNING "Without libmicrohttpd (on Debian libmicrohttpd-dev) `trireme board` and `trireme serve` do not work; scripts/install-deps.sh installs it")
endif()

foreach(name board serve)
  file(GLOB files CONFIGURE_DEPENDS src/${name}/page/*)
  trireme_embed(trireme_core ${name}_page ${CMAKE_SOURCE_DIR}/src/${name}/page http/page.h "const tri_page_file tri_${name}_page[]" TRUE ${files})
endforeach()
