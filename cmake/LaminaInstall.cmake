include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

install(TARGETS lamina EXPORT laminaTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(EXPORT laminaTargets NAMESPACE lamina:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/lamina)

# The headers that <lamina/lamina.h> reaches, and no others.
install(FILES framework/lamina.h framework/version.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/lamina)
foreach(header IN ITEMS
    graph/graph.h graph/model.h graph/networks.h graph/plan.h
    layers/attributes.h layers/batch_norm2d.h layers/concat.h layers/conv2d.h layers/elementwise.h layers/linear.h
    layers/local_response_norm.h layers/module.h layers/operator.h layers/pool2d.h layers/relu.h layers/scores.h
    layers/softmax.h layers/views.h tensor/local_response.h tensor/pool_geometry.h tensor/conv_geometry.h tensor/device.h tensor/dtype.h tensor/error.h
    tensor/export.h tensor/format.h tensor/image.h
    tensor/mapped_file.h tensor/preprocess.h tensor/shape.h tensor/stored_tensor.h tensor/tensor.h tensor/weights.h)
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES framework/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/lamina/${folder})
endforeach()

configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/laminaConfig.cmake.in"
                              "${PROJECT_BINARY_DIR}/laminaConfig.cmake"
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/lamina)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/laminaConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/laminaConfig.cmake" "${PROJECT_BINARY_DIR}/laminaConfigVersion.cmake"
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/lamina)
if(LAMINA_APPS)
  install(FILES weights/alexnet-conv1.safetensors weights/digits.safetensors weights/imagenet_classes.txt
          DESTINATION ${CMAKE_INSTALL_DATADIR}/lamina)
  install(TARGETS lamina_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
