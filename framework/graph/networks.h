#pragma once

#include <span>
#include <string_view>

#include "lamina/graph/graph.h"

/// Ready-made networks, without weights; `Graph::load` loads these. The names of nodes are the keys of the published
/// state dicts.
namespace lamina {

/// torchvision's AlexNet ("One weird trick for parallelizing convolutional neural networks", Krizhevsky 2014):
/// input [N, 3, 224, 224], output "classifier.6" [N, classes]. 61,100,840 parameters for 1000 classes.
LAMINA_API Graph alexnet(int classes = 1000);

/// AlexNet as first published ("ImageNet Classification with Deep Convolutional Neural Networks", Krizhevsky,
/// Sutskever, Hinton 2012) in Caffe's rendering, bvlc_alexnet: 96 filters, two groups, ReLU, then local response norm,
/// then pooling. Input [N, 3, 227, 227], layers conv1 to fc8, output "fc8" [N, classes]. Caffe's norm divides alpha by
/// the window's size and has k = 1, where the paper's has k = 2. 60,965,224 parameters for 1000 classes.
LAMINA_API Graph alexnet_original(int classes = 1000);

/// Caffe's reference model, bvlc_reference_caffenet: the same parameters with pooling before the norm.
LAMINA_API Graph caffenet(int classes = 1000);

/// torchvision's VGG16, configuration D of "Very Deep Convolutional Networks for Large-Scale Image Recognition",
/// Simonyan and Zisserman 2014: input [N, 3, 224, 224], output "classifier.6" [N, classes]. 138,357,544 parameters.
LAMINA_API Graph vgg16(int classes = 1000);

/// torchvision's ResNet18 ("Deep Residual Learning for Image Recognition", He et al. 2015): input [N, 3, 224, 224],
/// output "fc" [N, classes]. 11,689,512 parameters for 1000 classes.
LAMINA_API Graph resnet18(int classes = 1000);

/// The names for `network`.
LAMINA_API std::span<const std::string_view> network_names();

/// The network with that name: "alexnet", "resnet18". For an unknown name it throws an Error that lists the choices.
LAMINA_API Graph network(std::string_view name, int classes = 1000);

/// The preprocessing with which the published weights of that network were trained.
LAMINA_API Preprocess network_preprocess(std::string_view name);

}  // namespace lamina
