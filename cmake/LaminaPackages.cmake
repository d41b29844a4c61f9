# What `cpack -G DEB` makes of a build: liblamina-c1 (the library for C), liblamina-dev (headers, the library for C++) and
# lamina (the command). scripts/packages/build_deb.sh configures for it.
# Without these CPack would make packages that depend on nothing, or fail once all is compiled.
foreach(program IN ITEMS file dpkg-shlibdeps)
  find_program(LAMINA_FOUND_${program} ${program})
  if(NOT LAMINA_FOUND_${program})
    message(FATAL_ERROR "LAMINA_PACKAGES=ON needs ${program} (apt install file dpkg-dev)")
  endif()
endforeach()
set(documents "${PROJECT_BINARY_DIR}/documents")
file(MAKE_DIRECTORY "${documents}")
file(READ LICENSE licence)
file(READ apps/pictures/font/LICENSE letters)
string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC)
set(CPACK_PACKAGE_CONTACT "The Lamina authors <maintainers@lamina.invalid>")
file(WRITE "${documents}/changelog" "lamina (${PROJECT_VERSION}) unstable; urgency=medium\n\n  * See CHANGELOG.md of the sources.\n\n"
                                    " -- ${CPACK_PACKAGE_CONTACT}  ${now}\n")
execute_process(COMMAND gzip -9nf "${documents}/changelog" COMMAND_ERROR_IS_FATAL ANY)
file(GENERATE OUTPUT "${documents}/copyright" CONTENT "${licence}\n\nThe letters in pictures (DejaVu Sans):\n\n${letters}\n
Linked inside are, under the licences that /usr/share/doc/PACKAGE/copyright of these packages of Debian's says:
Eigen (libeigen3-dev), JSON for Modern C++ (nlohmann-json3-dev), stb (libstb-dev), Highway (libhwy-dev), protozero
(libprotozero-dev); in the command also CLI11 (libcli11-dev), fmt (libfmt-dev), Boost (libboost-dev).\n")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME lamina)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_COMPONENTS_ALL library dev command)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME liblamina-c1)
set(CPACK_DEBIAN_DEV_PACKAGE_NAME liblamina-dev)
set(CPACK_DEBIAN_COMMAND_PACKAGE_NAME lamina)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_COMMAND_PACKAGE_SECTION graphics)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "liblamina-c1 (= ${PROJECT_VERSION}), libjpeg-dev, libwebp-dev, libheif-dev, libtiff-dev")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "inference framework for image networks")
set(runs "Runs networks on images, ONNX files and Lamina's own model files,
by kernels of its own for any CPU.")
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "${runs}\n\nThis package has the shared library with the interface for C.")
set(CPACK_COMPONENT_DEV_DESCRIPTION "${runs}\n
This package has the headers for C and C++, and the library for C++,
which is linked statically.")
set(CPACK_COMPONENT_COMMAND_DESCRIPTION "${runs}\n
This package has the command: it says what is in photographs, colours
them by what a network sees, shows what its filters look for, runs and
times networks, and serves them over HTTP.")
file(WRITE "${documents}/triggers" "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA "${documents}/triggers")

set(packages liblamina-c1 liblamina-dev lamina)
foreach(component package IN ZIP_LISTS CPACK_COMPONENTS_ALL packages)
  install(FILES "${documents}/copyright" "${documents}/changelog.gz" DESTINATION share/doc/${package} COMPONENT ${component})
endforeach()
include(CPack)
