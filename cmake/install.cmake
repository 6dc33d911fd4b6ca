# What `cmake --install` and `make install` put where. The tree can be moved: programs and libraries find their presets from
# where they lie, and pkg-config's and CMake's files their prefix.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Libraries of places that the system does not search (an MPI of one's own).
set_target_properties(trireme PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
install(TARGETS trireme RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY configs DESTINATION ${CMAKE_INSTALL_DATADIR}/trireme)
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs PATTERN site EXCLUDE)
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR})
foreach(scheduler slurm pbs flux)
  file(GLOB scripts CONFIGURE_DEPENDS scripts/${scheduler}/*)
  install(PROGRAMS ${scripts} DESTINATION ${CMAKE_INSTALL_DATADIR}/trireme/${scheduler})
endforeach()

# Manual pages, which the program writes of itself. There are none of a build for another machine, or for tests.
set(pages ${CMAKE_BINARY_DIR}/man)
if(NOT CMAKE_CROSSCOMPILING AND NOT TRIREME_SANITIZE)
  add_custom_command(OUTPUT ${pages}/stamp COMMAND ${CMAKE_COMMAND} -E rm -rf ${pages}
    COMMAND trireme help --man-pages ${pages} COMMAND ${CMAKE_COMMAND} -E touch ${pages}/stamp DEPENDS trireme VERBATIM)
  add_custom_target(trireme_man ALL DEPENDS ${pages}/stamp)
  foreach(section 1 5)
    install(DIRECTORY ${pages}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section} FILES_MATCHING PATTERN "*.${section}")
  endforeach()
endif()

install(FILES scripts/completion/trireme.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME trireme)
install(FILES scripts/completion/_trireme DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES scripts/completion/trireme.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)

foreach(ending "" .lua)
  configure_file(packaging/modulefile${ending}.in ${CMAKE_BINARY_DIR}/modulefile${ending} @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/modulefile${ending} DESTINATION ${CMAKE_INSTALL_DATADIR}/trireme/modulefiles/trireme
          RENAME ${PROJECT_VERSION}${ending})
endforeach()

if(TRIREME_HAS_LIBRARY)
  install(TARGETS trireme_shared EXPORT trireme LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library
          NAMELINK_COMPONENT development)
  install(TARGETS trireme_static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
  install(DIRECTORY include/trireme ${CMAKE_BINARY_DIR}/include/trireme DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
          FILES_MATCHING PATTERN "*.h")
  set_target_properties(trireme_shared PROPERTIES EXPORT_NAME trireme INSTALL_RPATH_USE_LINK_PATH ON)
  target_include_directories(trireme_shared INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

  # From the folder of a file of pkg-config's to the prefix.
  file(RELATIVE_PATH TRIREME_TO_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
  configure_file(cmake/trireme.pc.in ${CMAKE_BINARY_DIR}/trireme.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/trireme.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  install(EXPORT trireme NAMESPACE trireme:: FILE trireme-config.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/trireme)
  write_basic_package_version_file(${CMAKE_BINARY_DIR}/trireme-config-version.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${CMAKE_BINARY_DIR}/trireme-config-version.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/trireme)
endif()

install(CODE "file(WRITE \"${CMAKE_BINARY_DIR}/install_destdir.txt\" \"\$ENV{DESTDIR}\")") # for uninstall.cmake
add_custom_target(uninstall COMMAND ${CMAKE_COMMAND} -DMANIFEST=${CMAKE_BINARY_DIR}/install_manifest.txt
                  -P ${CMAKE_SOURCE_DIR}/cmake/uninstall.cmake VERBATIM)
