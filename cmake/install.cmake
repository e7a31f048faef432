# An install that `find_package(kiln)` finds: the libraries, the public headers, the programs.
include(CMakePackageConfigHelpers)

install(TARGETS kiln-cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS kiln kiln_tuner EXPORT kilnTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/src/include/kiln DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT kilnTargets NAMESPACE kiln:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kiln)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/kiln-config.cmake.in
                              ${PROJECT_BINARY_DIR}/kiln-config.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kiln)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/kiln-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/kiln-config.cmake ${PROJECT_BINARY_DIR}/kiln-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kiln)
