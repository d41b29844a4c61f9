include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

install(TARGETS lamina EXPORT laminaTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(EXPORT laminaTargets NAMESPACE lamina:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/lamina)

# The headers that <lamina/lamina.h> reaches, and no others.
set(headers lamina.h)
set(left lamina.h)
while(left)
  list(POP_FRONT left header)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/framework/${header}")
  file(STRINGS "${PROJECT_SOURCE_DIR}/framework/${header}" includes REGEX "^#include \"lamina/")
  foreach(include IN LISTS includes)
    string(REGEX REPLACE "^#include \"lamina/([^\"]+)\".*" "\\1" include "${include}")
    if(NOT include IN_LIST headers)
      list(APPEND headers "${include}")
      list(APPEND left "${include}")
    endif()
  endforeach()
endwhile()
foreach(header IN LISTS headers)
  get_filename_component(folder "${header}" DIRECTORY)
  install(FILES "framework/${header}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/lamina/${folder}")
endforeach()

configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/laminaConfig.cmake.in"
                              "${PROJECT_BINARY_DIR}/laminaConfig.cmake"
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/lamina)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/laminaConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/laminaConfig.cmake" "${PROJECT_BINARY_DIR}/laminaConfigVersion.cmake"
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/lamina)

# For pkg-config: prefix is found from where lamina.pc lies, so that an installed tree can be moved.
file(RELATIVE_PATH LAMINA_PREFIX_FROM_PC "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
set(LAMINA_PC_LIBS "")
if(NOT BUILD_SHARED_LIBS)
  string(APPEND LAMINA_PC_LIBS " -pthread -ldl")
  if(LAMINA_WITH_LIBJPEG)
    string(APPEND LAMINA_PC_LIBS " -ljpeg")
  endif()
  if(LAMINA_WITH_WEBP)
    string(APPEND LAMINA_PC_LIBS " -lwebp")
  endif()
  if(LAMINA_WITH_HEIF)
    string(APPEND LAMINA_PC_LIBS " -lheif")
  endif()
  if(LAMINA_WITH_TIFF)
    string(APPEND LAMINA_PC_LIBS " -ltiff")
  endif()
  if(LAMINA_WITH_CUDA)
    string(APPEND LAMINA_PC_LIBS " -L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -lrt")
  endif()
endif()
configure_file("${CMAKE_CURRENT_LIST_DIR}/lamina.pc.in" "${PROJECT_BINARY_DIR}/lamina.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/lamina.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DATAROOTDIR}/doc/lamina")

if(LAMINA_APPS)
  install(FILES weights/alexnet-conv1.safetensors weights/digits.safetensors weights/imagenet_classes.txt
          DESTINATION ${CMAKE_INSTALL_DATADIR}/lamina)
  install(FILES apps/pictures/font/LICENSE DESTINATION "${CMAKE_INSTALL_DATAROOTDIR}/doc/lamina" RENAME LICENSE.letters)
  install(TARGETS lamina_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
